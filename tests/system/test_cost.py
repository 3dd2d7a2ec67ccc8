"""What a run costs, counted and not timed: the same number on every machine of a kind. A limit is a
little over what was counted when it was set; who has to raise it says why in docs/BENCHMARKS.md."""
import os
import re
import shutil
import subprocess
import uuid

import pytest
from conftest import BRIG, wait_until

pytestmark = [pytest.mark.measured, pytest.mark.timeout(120)]

PLAN = os.path.join(os.path.dirname(BRIG), "bench", "bench_plan")
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}


@pytest.fixture(name="own_group")
def make_own_group():
    """A group for brig to be in, and so without the groups of other runs, which it would look at."""
    with open("/proc/self/cgroup", encoding="ascii") as own:
        rows = [line.strip().split(":", 2) for line in own]
    v1 = [path for _, names, path in rows if "memory" in names.split(",")]
    folder = f"/sys/fs/cgroup/memory{v1[0].rstrip('/')}" if v1 else "/sys/fs/cgroup"
    folder += f"/cost-{uuid.uuid4().hex}"
    os.mkdir(folder)
    yield f"{folder}/{'tasks' if v1 else 'cgroup.procs'}"
    assert wait_until(lambda: is_removed(folder), 10)


def is_removed(folder):
    try:
        os.rmdir(folder)
        return True
    except OSError:
        return False


def system_calls(tmp_path, own_group, *command):
    counts = tmp_path / "counts"
    subprocess.run(["sh", "-c", f'echo 0 > {own_group} && exec "$@"', "sh", "strace", "-c", "-o", counts, *command],
                   check=True, env=ENVIRONMENT, cwd=tmp_path)
    total = counts.read_text(encoding="ascii").splitlines()[-1]
    return int(total.split()[3])


def instructions(tmp_path, times):
    done = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={tmp_path}/out", PLAN, str(times)],
                          check=True, capture_output=True, text=True, env=ENVIRONMENT, cwd=tmp_path)
    return int(re.search(r"I +refs: +([\d,]+)", done.stderr)[1].replace(",", ""))


def test_cost_system_calls_of_the_supervisor(tmp_path, own_group):
    """Of brig itself; what the cell's own processes do is not in it. The least of a few: how often it
    wakes up depends on the moment."""
    assert min(system_calls(tmp_path, own_group, BRIG, "run", "--", "/bin/true") for _ in range(5)) <= 344


@pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")
def test_cost_instructions_of_a_plan(tmp_path):
    """The difference of eleven plans and one, so that the start of the process is not in it."""
    each = (instructions(tmp_path, 11) - instructions(tmp_path, 1)) / 10
    assert each <= 150_000
