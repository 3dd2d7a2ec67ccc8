# SPDX-License-Identifier: MIT
"""tests/stalls.py: a test is run again if the machine stood still meanwhile, and only then."""
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

CONFTEST = f"""
import sys
sys.path.append({os.path.join(ROOT, "tests")!r})
from stalls import pytest_runtest_protocol
"""

# The machine stands still as far as the meter is concerned.
TESTS = """
import os, signal, time
import pytest, stalls
runs = []

@pytest.fixture
def fresh():
    made = []
    yield made
    runs.append(len(made))

def stall(seconds):
    while not stalls._meter.pid():
        time.sleep(0.01)
    before = stalls._meter.lost()
    os.kill(stalls._meter.pid(), signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(stalls._meter.pid(), signal.SIGCONT)
    while seconds > 0.2 and stalls._meter.lost() == before:
        time.sleep(0.01)

def test_stalled_once(fresh):
    fresh.append(1)
    if not runs:
        stall(0.8)
        assert False, "too slow"

def test_set_up_and_torn_down_twice():
    assert runs == [1, 1]

def test_stalled_always():
    stall(0.8)
    assert False, "too slow again"

def test_failed_on_time():
    stall(0.05)
    assert False, "wrong"
"""


def test_only_a_stalled_test_is_run_again(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (tmp_path / "test_it.py").write_text(TESTS, encoding="utf-8")
    report = tmp_path / "report.xml"
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist",
                           "--junitxml", str(report), str(tmp_path)],
                          cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert "2 failed, 2 passed" in done.stdout, done.stdout
    assert "FAILED test_it.py::test_stalled_always" in done.stdout
    assert "FAILED test_it.py::test_failed_on_time" in done.stdout
    assert report.read_text(encoding="utf-8").count('name="run again"') == 2
