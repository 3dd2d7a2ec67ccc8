"""What every system test uses: brig as a real process, and a check that nothing survives.

The binary is $BRIG (default: build/brig). Each test gets a token that is put into the guest's
environment; when the test ends, no process on the machine may carry it, and no cgroup of the brig
processes that the test started may be left.
"""
import json
import os
import signal
import subprocess
import time
import uuid

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BRIG = os.environ.get("BRIG", os.path.join(ROOT, "build", "brig"))

# Emulated machines are slow: every limit on time in a test is multiplied by this.
SLOW = float(os.environ.get("BRIG_TEST_SLOW", "1"))


def processes_with(token):
    """Pids of live processes whose environment or command line holds the token."""
    found = []
    needle = token.encode()
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as environ:
                text = environ.read()
            with open(f"/proc/{entry}/cmdline", "rb") as cmdline:
                text += cmdline.read()
            with open(f"/proc/{entry}/stat", "rb") as stat:
                state = stat.read().rsplit(b")", 1)[1].split()[0]
        except OSError:
            continue
        if needle in text and state not in (b"Z", b"X"):
            found.append(int(entry))
    return found


def groups_of(pid):
    """Folders of cgroups that the supervisor with this pid made."""
    found = []
    for root, folders, _ in os.walk("/sys/fs/cgroup"):
        for name in folders:
            parts = name.split(".")
            if parts[0] == "brig" and len(parts) >= 4 and parts[2] == str(pid):
                found.append(os.path.join(root, name))
    return found


def wait_until(condition, seconds=5.0):
    """Wait for a condition, looking often; returns its last value."""
    end = time.monotonic() + seconds * SLOW
    while True:
        value = condition()
        if value or time.monotonic() > end:
            return value
        time.sleep(0.005)


class Brig:
    """Starts brig processes for one test and remembers them."""

    def __init__(self, tmp_path):
        self.token = "brigtest-" + uuid.uuid4().hex
        self.tmp = tmp_path
        self.pids = []

    def command(self, *args, verb="run"):
        options = ["-e", f"BRIG_TEST_TOKEN={self.token}"] if verb == "run" else []
        return [BRIG, verb, *options, *[str(a) for a in args]]

    def start(self, *args, verb="run", **kw):
        """A Popen of `brig VERB ARGS`; stdout and stderr are pipes unless said otherwise."""
        kw.setdefault("stdout", subprocess.PIPE)
        kw.setdefault("stderr", subprocess.PIPE)
        kw.setdefault("stdin", subprocess.DEVNULL)
        process = subprocess.Popen(self.command(*args, verb=verb), **kw)
        self.pids.append(process.pid)
        return process

    def run(self, *args, verb="run", timeout=60, input=None, **kw):
        """CompletedProcess of `brig VERB ARGS`, bytes in and out."""
        if input is not None:
            kw["stdin"] = subprocess.PIPE
        process = self.start(*args, verb=verb, **kw)
        try:
            out, err = process.communicate(input=input, timeout=timeout * SLOW)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def result(self, *args, **kw):
        """The result object of `brig run --json ARGS`."""
        done = self.run("--json", *args, **kw)
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def survivors(self):
        return processes_with(self.token)

    def left_groups(self):
        return [group for pid in self.pids for group in groups_of(pid)]


@pytest.fixture
def brig(tmp_path):
    """brig for one test; when the test ends, nothing of its runs may be left."""
    brig = Brig(tmp_path)
    yield brig
    survivors = brig.survivors()
    groups = brig.left_groups()
    for pid in survivors:  # of a failed test: do not let it disturb the others
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    assert not survivors, "processes survived the run"
    assert not groups, "cgroups survived the run"


@pytest.fixture
def script(tmp_path):
    """Write an executable file and return its path: script("name", "#!/bin/sh\\n...")"""

    def write(name, text, mode=0o755):
        path = tmp_path / name
        path.write_text(text)
        path.chmod(mode)
        return str(path)

    return write
