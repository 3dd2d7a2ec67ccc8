# SPDX-License-Identifier: MIT
"""`brig batch` for the tests of it: started, fed, and its results read."""
import json
import os
import subprocess

import pytest
from conftest import finish

RUNS = int(os.environ.get("BRIG_STRESS_RUNS", "300"))
KILLS = int(os.environ.get("BRIG_BATCH_KILLS", "10"))


class Batch:
    """`brig batch` for one test: jobs carry its token, so that what survives is seen."""

    def __init__(self, brig):
        self.brig, self.tmp = brig, brig.tmp
        self.path = brig.tmp / "jobs.ndjson"

    def job(self, *command, **keys):
        env = {"BRIG_TEST_TOKEN": self.brig.token, **keys.pop("env", {})}
        return json.dumps({"command": [str(word) for word in command], "env": env, **keys})

    def shell(self, text, **keys):
        return self.job("sh", "-c", text, **keys)

    def write(self, *lines):
        """Lines are text, or bytes that are no text."""
        with open(self.path, "wb") as file:
            for line in lines:
                file.write((line if isinstance(line, bytes) else line.encode()) + b"\n")
        return self.path

    def start(self, *options, input=None, **kw):
        return self.brig.start(*options, input or self.path, verb="batch", **kw)

    def run(self, *options, timeout=60, feed=None, **kw):
        if feed is not None:
            kw.update(stdin=subprocess.PIPE, input="-")
        return finish(self.start(*options, **kw), timeout, feed)


@pytest.fixture
def batch(brig):
    return Batch(brig)


def results_of(done):
    """The results in their order; each line is whole, and one object."""
    text = done if isinstance(done, bytes) else done.stdout
    assert text.endswith(b"\n") or not text
    return [json.loads(line) for line in text.splitlines()]


def by_line(done):
    found = {result["line"]: result for result in results_of(done)}
    assert len(found) == len(results_of(done)), "a job has two results"
    return found


def journal_of(path):
    with open(path, "rb") as file:
        header, *records = file.read().splitlines()
    assert json.loads(header)["schema"] == "brig.batch/1"
    return [json.loads(record) for record in records]
