# SPDX-License-Identifier: MIT
"""Many runs: nothing leaks, in the command or in a process that embeds the library."""
import json
import os
import subprocess
import sys

import pytest
from conftest import BRIG, SLOW, wait_until

SECONDS = float(os.environ.get("BRIG_STRESS_SECONDS", "20"))
RUNS = int(os.environ.get("BRIG_STRESS_RUNS", "300"))
LIBRARY = os.environ.get("BRIG_LIB", os.path.join(os.path.dirname(BRIG), "libbrig.so"))
HOST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "library_host.py")

pytestmark = [pytest.mark.stress, pytest.mark.timeout((SECONDS + RUNS + 120) * SLOW)]


def host(brig, mode, amount, timeout):
    """Run the embedding process in an empty directory: what it reports, and that no file is left."""
    directory = brig.tmp / "empty"
    directory.mkdir()
    process = subprocess.Popen([sys.executable, HOST, LIBRARY, brig.token, mode, str(amount)],
                               stdout=subprocess.PIPE, cwd=directory,
                               env={**os.environ, "TMPDIR": str(directory)})
    brig.remember(process)
    out, _ = process.communicate(timeout=timeout * SLOW)
    assert process.returncode == 0
    assert os.listdir(directory) == []
    return json.loads(out)


def assert_flat(report):
    """No run ended otherwise than it should have; nothing is more than it was."""
    before, after = report["before"], report["after"]
    assert report["wrong"] == []
    assert after["descriptors"] == before["descriptors"]
    assert after["mounts"] == before["mounts"]
    assert after["children"] == []
    assert after["resident_kib"] - before["resident_kib"] < 512


def test_stress_library_in_a_row(brig):
    report = host(brig, "row", RUNS, RUNS + 60)
    assert report["runs"] >= RUNS
    assert_flat(report)
    assert not brig.survivors() and not brig.left_groups()


def test_stress_library_eight_at_once(brig):
    report = host(brig, "beside", SECONDS, SECONDS + 60)
    assert report["runs"] > 8
    assert_flat(report)
    assert not brig.survivors() and not brig.left_groups()


def killed_host(brig, mode, runs):
    """Run the embedding process until it has cells parked, and kill it: what it reported."""
    with subprocess.Popen([sys.executable, HOST, LIBRARY, brig.token, mode, str(runs)],
                          stdout=subprocess.PIPE, cwd=brig.tmp) as process:
        try:
            brig.remember(process)
            report = json.loads(process.stdout.readline())
        finally:
            process.kill()
    return report


def test_stress_library_from_warm_cells(brig):
    """As many runs from the pool, nothing grows; then its owner is killed with cells parked."""
    report = killed_host(brig, "warm", RUNS)
    assert report["runs"] >= RUNS and report["warm"] > RUNS // 4
    assert_flat(report)
    assert wait_until(lambda: not brig.survivors() and not brig.left_groups(), 10)
    assert os.listdir(brig.tmp) == []


def test_stress_library_killed_while_cells_are_built(brig):
    """Processes end by themselves; a group that nobody was in yet is swept by the next start."""
    for _ in range(5):
        killed_host(brig, "kill", 5)
        assert wait_until(lambda: not brig.survivors(), 10)
    assert brig.run("--", "true").returncode == 0
    assert wait_until(lambda: not brig.left_groups(), 10)


def test_stress_command_in_a_row(brig):
    """The same exit code every time, in no more time at the end than at the beginning."""
    for number in range(RUNS):
        done = brig.run("--", "sh", "-c", f"sleep 300 & echo {number}; exit {number % 100}")
        assert (done.returncode, done.stdout) == (number % 100, b"%d\n" % number)
    assert not brig.survivors() and not brig.left_groups()


def test_stress_commands_beside_each_other(brig):
    """Waves of eight: each has its own output, whatever the others do."""
    for wave in range(max(1, RUNS // 20)):
        processes = [
            brig.start("--json", "--", "sh", "-c", f"echo {wave}.{i}; sleep 300 & exit {i}")
            for i in range(8)]
        for i, process in enumerate(processes):
            result = brig.result_of(process)
            assert (result["exit_code"], result["stdout"]) == (i, f"{wave}.{i}\n")
    assert not brig.survivors() and not brig.left_groups()
