# SPDX-License-Identifier: MIT
"""What a run costs, counted and not timed: the same number on every machine of a kind. A limit is a
little over what was counted when it was set; who has to raise it says why in docs/BENCHMARKS.md."""
import os
import re
import shutil
import subprocess
import uuid

import pytest
from conftest import BRIG, has_cgroup, wait_until

pytestmark = [pytest.mark.measured, pytest.mark.timeout(120)]

PLAN = os.path.join(os.path.dirname(BRIG), "bench", "bench_plan")
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}


@pytest.fixture(name="own_groups")
def make_own_groups():
    """A group in each hierarchy for brig to be in, and so without the groups of other runs, which it
    would look at. Gives the files that a process joins them by; none where brig has no groups."""
    if not has_cgroup():
        yield []
        return
    with open("/proc/self/cgroup", encoding="ascii") as own:
        rows = [line.strip().split(":", 2) for line in own]
    v1 = {name: path.rstrip("/") for _, names, path in rows for name in names.split(",")
          if name in ("memory", "pids", "cpu", "cpuacct")}
    parents = [f"/sys/fs/cgroup/{name}{path}" for name, path in v1.items()] or ["/sys/fs/cgroup"]
    directories = [f"{parent}/cost-{uuid.uuid4().hex}" for parent in parents]
    for directory in directories:
        os.mkdir(directory)
    yield [f"{directory}/{'tasks' if v1 else 'cgroup.procs'}" for directory in directories]
    assert wait_until(lambda: all([is_removed(directory) for directory in directories]), 10)


def is_removed(directory):
    try:
        os.rmdir(directory)
        return True
    except OSError:
        return not os.path.exists(directory)


def system_calls(tmp_path, own_groups, *command):
    counts = tmp_path / "counts"
    join = "".join(f"echo 0 > {file} && " for file in own_groups)
    subprocess.run(["sh", "-c", f'{join} exec "$@"', "sh", "strace", "-c", "-o", counts, *command],
                   check=True, env=ENVIRONMENT, cwd=tmp_path)
    total = counts.read_text(encoding="ascii").splitlines()[-1]
    return int(total.split()[3])


def instructions(tmp_path, times):
    done = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={tmp_path}/out", PLAN, str(times)],
                          check=True, capture_output=True, text=True, env=ENVIRONMENT, cwd=tmp_path)
    return int(re.search(r"I +refs: +([\d,]+)", done.stderr)[1].replace(",", ""))


def test_cost_system_calls_of_the_supervisor(tmp_path, own_groups):
    """Of brig itself; what the cell's own processes do is not in it. The least of a few: how often it
    wakes up depends on the moment."""
    assert min(system_calls(tmp_path, own_groups, BRIG, "run", "--", "/bin/true") for _ in range(5)) <= 420


@pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")
def test_cost_instructions_of_a_plan(tmp_path):
    """The difference of eleven plans and one, so that the start of the process is not in it. Each file of /etc that is
    shown costs some: this one is not on every machine."""
    most = 155_000 + 5_000 * os.path.exists("/etc/matplotlibrc")
    each = (instructions(tmp_path, 11) - instructions(tmp_path, 1)) / 10
    assert each <= most
