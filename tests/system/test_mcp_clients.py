# SPDX-License-Identifier: MIT
"""brig mcp with the real clients of npm, in both eras; they check what they get by the schemas they have.

tools/npm-setup installs them (make test does so); without them these tests fail.
"""
import os
import subprocess

import pytest
from conftest import ROOT, SLOW, WARM, finish, wait_for_file, wait_until

CLIENTS = os.environ.get("MCP_CLIENTS", os.path.join(ROOT, "build", "mcp-clients"))
SCENARIOS = os.path.join(ROOT, "tests", "mcp", "scenarios.mjs")
EXAMPLES = os.path.join(ROOT, "examples", "tools")
KINDS = ["sdk", "legacy", "auto", "modern"]
pytestmark = pytest.mark.skipif(bool(WARM), reason="brig mcp has no --warm")


@pytest.fixture
def start(brig):
    assert os.path.exists(os.path.join(CLIENTS, "installed")), "no clients: run tools/npm-setup"

    def run(kind, scenario, *options, **kw):
        server = [brig.binary, "mcp", "-v", "-e", f"BRIG_TEST_TOKEN={brig.token}", *options]
        return subprocess.Popen(["node", SCENARIOS, kind, scenario, *server], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env={**os.environ, "MCP_CLIENTS": CLIENTS}, **{"cwd": brig.tmp, **kw})
    return run


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scenario", ["list", "call", "poll", "progress", "cancel"])
def test_client(start, kind, scenario):
    done = finish(start(kind, scenario), 60)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == b""


@pytest.mark.parametrize("kind", KINDS)
def test_tools_of_a_file(start, kind):
    done = finish(start(kind, "tools", "--tools", "tools.json", cwd=EXAMPLES), 60)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("kind", ["sdk", "modern"])
def test_session_of_200_calls_50_cancelled(start, kind):
    done = finish(start(kind, "session"), 80)
    assert done.returncode == 0, done.stderr.decode()
    warm = int(done.stderr.decode().rsplit("200 runs, ", 1)[1].split()[0])
    assert warm > 20, done.stderr


def test_auto_mode_starts_a_process_that_costs_nothing(start):
    """It is asked who it is, and ended: no run, no cell."""
    done = finish(start("auto", "call"), 60)
    said = [line for line in done.stderr.decode().splitlines() if "runs" in line]
    assert said[-1].startswith("brig: mcp: 2 runs"), said
    assert all(line.startswith("brig: mcp: 0 runs") for line in said[:-1]), said


@pytest.mark.parametrize("kind", ["sdk", "modern"])
def test_client_that_is_killed_leaves_nothing(start, brig, kind):
    process = start(kind, "die")
    for i in range(3):
        wait_for_file(brig.tmp / f"up{i}")
    process.kill()
    process.communicate(timeout=20 * SLOW)
    assert wait_until(lambda: not brig.survivors(), 10)
