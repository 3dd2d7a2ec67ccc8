# SPDX-License-Identifier: MIT
"""brig.dropin.scidex: each test cites its row of the request."""
import importlib.util
import inspect
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from conftest import system

import brig
from brig.dropin import scidex
from brig.dropin.scidex import (
    RESOURCE_LIMITS,
    CgroupManager,
    analysis_limits,
    cgroups,
    cleanup_analysis_temp_dir,
    create_analysis_temp_dir,
    isolated_run,
    run_notebook_isolated,
    run_post_process_isolated,
    run_tool_isolated,
)


CPUS = 1 if system.has_cgroup() else None


@pytest.fixture
def env(guest):
    """The environment by which the processes of the test are known."""
    return guest["env"]


@pytest.fixture(autouse=True)
def priority(request, monkeypatch):
    """As high as that of the tests that run beside it: else an analysis gets a tenth of what each of them gets."""
    if "other_services" not in request.node.name:
        monkeypatch.setitem(scidex.SETTINGS, "cpu_priority", "normal")


# ---- isolated_run ----


def test_row_isolated_run_is_like_subprocess_run(env, tmp_path):
    """isolated_run(cmd, cwd=, env=, timeout_seconds=, limits=, analysis_id=), like subprocess.run"""
    names = list(inspect.signature(isolated_run).parameters)
    assert names[:6] == ["cmd", "cwd", "env", "timeout_seconds", "limits", "analysis_id"]
    result = isolated_run(["sh", "-c", "echo out; echo err >&2; pwd; echo $MODE; exit 3"], cwd=tmp_path,
                          env={**env, "MODE": "fast"})
    assert (result.returncode, result.stderr) == (3, "err\n")
    assert result.stdout == f"out\n{tmp_path}\nfast\n" and result.args[0] == "sh"
    with pytest.raises(subprocess.CalledProcessError):
        result.check_returncode()
    isolated_run(["true"], env=env).check_returncode()
    with pytest.raises(FileNotFoundError):
        isolated_run(["/no/such/tool"], env=env)


def test_row_resource_limits():
    """RESOURCE_LIMITS: default 2048 MB, 1 CPU, 100 PIDs, 1800 s; notebook_execution 2048 MB, 600 s"""
    default, notebook = RESOURCE_LIMITS["default"], RESOURCE_LIMITS["notebook_execution"]
    assert default == {"memory_mb": 2048, "cpus": 1, "pids": 100, "timeout_seconds": 1800}
    assert notebook["memory_mb"] == 2048 and notebook["timeout_seconds"] == 600


def test_row_default_limits_apply(env):
    """RESOURCE_LIMITS are what is enforced"""
    limits = isolated_run(["true"], env=env).details.limits
    assert (limits.memory_bytes, limits.cpus, limits.pids, limits.timeout_seconds) == (2 << 30, CPUS, 100, 1800)


# ---- RuntimeResult ----


def test_row_completion_notes_none_when_all_is_well(env):
    """RuntimeResult with completion_notes (None when all is well)"""
    result = isolated_run(["true"], env=env)
    assert result.completion_notes is None and result.returncode == 0 and not result.timed_out


def test_row_timeout_gives_minus_1_and_a_sentence(env, alive):
    """a timeout gives returncode -1; what was printed is kept (CASE 16)"""
    result = isolated_run("echo begun; setsid sleep 60 & sleep 60", env=env, timeout_seconds=0.3)
    assert result.returncode == -1 and result.timed_out and result.stdout == "begun\n"
    assert "timeout of 300ms" in result.completion_notes and alive() == 0


@pytest.mark.parametrize(("cmd", "limits", "word"), [
    (["python3", "-c", "bytearray(300 << 20)"], {"memory_mb": 64}, "memory"),
    ("for i in $(seq 50); do sleep 60 & done; wait", {"pids": 10}, "process"),
])
def test_row_limit_gives_a_clear_sentence(env, cmd, limits, word):
    """completion_notes: on a limit a clear sentence"""
    result = isolated_run(cmd, env=env, limits=limits)
    assert word in result.completion_notes and result.completion_notes.endswith(".") and result.returncode < 0


# ---- limits per analysis ----


def test_row_limits_from_metadata_field_by_field():
    """Limits per analysis from its metadata, field by field"""
    default = RESOURCE_LIMITS["default"]
    assert analysis_limits(None) == analysis_limits({}) == analysis_limits({"limits": {}}) == default
    assert analysis_limits({"resource_limits": {"memory_mb": 64}}) == {**default, "memory_mb": 64}
    text = json.dumps({"analysis": "a-17", "limits": {"timeout_seconds": 5, "pids": None}})
    assert analysis_limits(text) == {**default, "timeout_seconds": 5}
    assert analysis_limits({"limits": {"pids": 7}}, "notebook_execution")["timeout_seconds"] == 600
    with pytest.raises(ValueError, match="memroy"):
        analysis_limits({"limits": {"memroy": 1}})


def test_row_limits_of_an_analysis_are_enforced(env, monkeypatch):
    """Limits per analysis from its metadata; then those of the call, field by field"""
    metadata = {"a-17": {"limits": {"memory": "64M", "timeout": "10m", "pids": 20}}}
    monkeypatch.setattr(scidex, "load_metadata", metadata.get)
    limits = isolated_run(["true"], env=env, analysis_id="a-17", limits={"pids": 30}, timeout_seconds=9).details.limits
    assert (limits.memory_bytes, limits.cpus, limits.pids, limits.timeout_seconds) == (64 << 20, CPUS, 30, 9)
    assert isolated_run(["true"], env=env, analysis_id="other").details.limits.memory_bytes == 2 << 30
    with pytest.raises(brig.UsageError):
        isolated_run(["true"], env=env, limits={"memory_mb": "much"})


# ---- the three kinds ----

NOTEBOOK = {"cells": [{"cell_type": "markdown", "source": ["# x"]},
                      {"cell_type": "code", "source": ["import os\n", "print('cell', os.getpid())"], "outputs": []}]}
# nbconvert is not on every machine: what is shown here is what surrounds it.
EXECUTE = ("import contextlib, io, json, sys; b = json.load(open(sys.argv[1])); o = io.StringIO()\n"
           "with contextlib.redirect_stdout(o): [exec(''.join(c['source'])) for c in b['cells'] if 'outputs' in c]\n"
           "b['cells'][1]['outputs'] = [o.getvalue()]; json.dump(b, open(sys.argv[1], 'w'))")


def test_row_run_notebook_isolated(env, tmp_path, monkeypatch):
    """run_notebook_isolated: in place, with the limits of notebook_execution"""
    monkeypatch.setattr(scidex, "NOTEBOOK_COMMAND", (sys.executable, "-c", EXECUTE))
    book = tmp_path / "book.ipynb"
    book.write_text(json.dumps(NOTEBOOK))
    result = run_notebook_isolated(book, env=env, analysis_id="n-1")
    assert result.returncode == 0 and result.completion_notes is None, result.stderr
    assert json.loads(book.read_text())["cells"][1]["outputs"][0].startswith("cell ")
    assert result.details.limits.timeout_seconds == 600 and result.details.limits.memory_bytes == 2 << 30
    other = tmp_path / "other"
    other.mkdir()
    assert run_notebook_isolated(book, cwd=other, env=env, timeout_seconds=20).returncode == 0
    with pytest.raises(FileNotFoundError):
        run_notebook_isolated(tmp_path / "none.ipynb")


needs_nbconvert = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("nbconvert", "ipykernel")),
    reason="optional: nbconvert and ipykernel are not installed")


def run_real_notebook(tmp_path, cells, **keys):
    book = tmp_path / "real.ipynb"
    book.write_text(json.dumps({
        "cells": [{"cell_type": "code", "id": f"c{i}", "metadata": {}, "execution_count": None, "outputs": [],
                   "source": cell} for i, cell in enumerate(cells)],
        "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
        "nbformat": 4, "nbformat_minor": 5}))
    result = run_notebook_isolated(book, **keys)
    return result, [cell["outputs"] for cell in json.loads(book.read_text())["cells"]]


@needs_nbconvert
@pytest.mark.timeout(180)
@pytest.mark.parametrize("network", ["host", "none"])
def test_row_run_notebook_isolated_by_nbconvert(env, tmp_path, network):
    """run_notebook_isolated: the real nbconvert, whose kernel is a process of its own that it talks to by sockets"""
    cells = ["import os; print('cell', 6 * 7)", "open('made', 'w').write(os.getcwd())"]
    result, outputs = run_real_notebook(tmp_path, cells, env=env, network=network)
    assert result.returncode == 0 and result.completion_notes is None, result.stderr
    assert "".join(outputs[0][0]["text"]) == "cell 42\n" and (tmp_path / "made").read_text() == str(tmp_path)


@needs_nbconvert
@pytest.mark.timeout(180)
@pytest.mark.parametrize(("cell", "keys", "word"), [
    ("1 / 0", {}, "ZeroDivisionError"),
    ("while True: pass", {"timeout_seconds": 5}, "timeout"),
    ("x = bytearray(b'x') * (600 << 20)", {"limits": {"memory_mb": 300}}, "memory"),
], ids=["error", "endless", "greedy"])
def test_row_run_notebook_isolated_by_nbconvert_ends(env, tmp_path, alive, cell, keys, word):
    """run_notebook_isolated: nbconvert and its kernel end together, and the reason is named"""
    result, _ = run_real_notebook(tmp_path, [cell], env=env, **keys)
    assert result.returncode != 0 and word in (result.completion_notes or result.stderr) and alive() == 0


def test_row_run_post_process_isolated(env, tmp_path):
    """run_post_process_isolated: a script of the analysis, in its directory"""
    script = tmp_path / "post.py"
    script.write_text("import sys; open('made', 'w').write(sys.argv[1]); print('done')")
    result = run_post_process_isolated(script, ["x"], env=env)
    assert (result.returncode, result.stdout, result.completion_notes) == (0, "done\n", None), result.stderr
    assert (tmp_path / "made").read_text() == "x" and result.details.limits.timeout_seconds == 1800


def test_row_run_tool_isolated(env):
    """run_tool_isolated: isolated_run with the default limits"""
    result = run_tool_isolated(["echo", "hi"], env=env, timeout_seconds=5)
    assert result.stdout == "hi\n" and result.details.limits.timeout_seconds == 5


# ---- CgroupManager ----


def test_row_cgroup_manager_create_and_limits():
    """CgroupManager (create, limits)"""
    manager = CgroupManager()
    assert manager.create("a", {"memory_mb": 64}) == "a" and "a" in manager
    assert manager.limits("a") == {**RESOURCE_LIMITS["default"], "memory_mb": 64}
    assert manager.limits("a", pids=9)["pids"] == manager.limits("a")["pids"] == 9
    assert manager.limits("a")["memory_mb"] == 64, "setting one never resets another (CASE 21)"
    with pytest.raises(ValueError, match="exists"):
        manager.create("a")
    manager.remove("a")
    manager.remove("a")
    assert "a" not in manager
    with pytest.raises(KeyError):
        manager.limits("a")


def test_row_cgroup_manager_stats_and_kill(env, alive):
    """CgroupManager (stats, kill): what an analysis uses, and its end from another thread"""
    results = []
    work = "x = bytearray(50 << 20); import time\nwhile True: time.sleep(0.01)"
    thread = threading.Thread(target=lambda: results.append(
        isolated_run(["python3", "-c", work], env=env, analysis_id="a-1")))
    thread.start()
    assert system.wait_until(lambda: "a-1" in cgroups and cgroups.stats("a-1")["memory_bytes"] > 50 << 20, 10)
    stats = cgroups.stats("a-1")
    assert stats["running"] == 1 and stats["pids"] >= 1 and stats["memory_peak_bytes"] > 50 << 20
    assert cgroups.kill("a-1") == 1 and alive() == 0
    thread.join(10)
    assert results[0].returncode < 0 and "a-1 was killed" in results[0].completion_notes
    assert "a-1" not in cgroups and cgroups.kill("a-1") == 0


def test_row_cgroup_manager_remove_kills(env, alive):
    """CgroupManager (remove): nothing of it is left; its runs add up until then"""
    manager = CgroupManager()
    manager.create("g", {"pids": 40})
    for _ in range(2):
        assert manager.run("g", "true", env=env).limits.pids == 40
    assert manager.stats("g")["finished"] == 2 and manager.stats("g")["running"] == 0
    thread = threading.Thread(target=lambda: manager.run("g", "setsid sleep 60 & sleep 60", env=env))
    thread.start()
    assert system.wait_until(lambda: alive() > 2, 10)
    manager.remove("g")
    assert alive() == 0
    thread.join(10)


def test_row_two_runs_of_an_analysis_side_by_side(env):
    """isolated_run(analysis_id=): the end of one run does not touch the other (CASE 19)"""
    results = []
    thread = threading.Thread(target=lambda: results.append(
        isolated_run("sleep 0.6; echo long > $TMPDIR/x && cat $TMPDIR/x", env=env, analysis_id="both")))
    create_analysis_temp_dir("both")
    thread.start()
    assert system.wait_until(lambda: "both" in cgroups, 5)
    assert isolated_run(["true"], env=env, analysis_id="both").returncode == 0
    thread.join(10)
    assert results[0].stdout == "long\n" and "both" not in cgroups


# ---- other services ----


HUNGRY = "for i in 1 2 3 4 5 6 7 8; do while :; do :; done & done; wait"


class Service:
    """What is measured beside an analysis: requests that compute for a while, with a pause before each."""

    def __init__(self, size, pause):
        self.size, self.pause = size, pause

    def p99(self, seconds=0.8):
        """The 99th percentile of what a request takes."""
        took = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(self.pause)
            began = time.monotonic()
            sum(range(self.size))
            took.append(time.monotonic() - began)
        return sorted(took)[int(len(took) * 0.99)]

    def p99_beside_isolated(self, env):
        thread = threading.Thread(target=isolated_run, args=(HUNGRY,), kwargs={"env": env, "analysis_id": "hungry"})
        thread.start()
        try:
            assert system.wait_until(lambda: "hungry" in cgroups and cgroups.stats("hungry")["running"], 5)
            return self.p99()
        finally:
            cgroups.kill("hungry")
            thread.join(10)

    def p99_beside_bare(self):
        with subprocess.Popen(["sh", "-c", HUNGRY], process_group=0) as bare:
            try:
                return self.p99()
            finally:
                os.killpg(bare.pid, signal.SIGKILL)


@pytest.mark.alone
@pytest.mark.measured
@pytest.mark.parametrize("service", [Service(1_000_000, 0), Service(150_000, 0.003)], ids=["busy", "with pauses"])
def test_row_other_services_are_unaffected(env, service):
    """Other services unaffected: shown by a loop beside it whose p99 stays within 2x

    Other work on the machine only ever adds, so the least of some rounds is compared, alone too. The
    same work without brig is the control: if it did no harm, nothing would have been shown.
    """
    alone, beside, bare = [], [], []
    for _ in range(5):
        alone.append(service.p99())
        beside.append(service.p99_beside_isolated(env))
        bare.append(service.p99_beside_bare())
        if min(beside) <= 2 * min(alone) < min(bare):
            return
    pytest.fail(f"p99 alone {alone}, beside {beside}, without brig {bare}")


@pytest.mark.cgroup("it has the priority")
def test_row_other_services_come_first(env):
    """Other services unaffected: an analysis has the lower priority, and may have the same as others"""
    assert scidex.SETTINGS["cpu_priority"] == "low"
    assert isolated_run(["true"], env=env).returncode == 0
    assert isolated_run(["true"], env=env, cpu_priority="normal").returncode == 0


# ---- temporary directories ----


def test_row_temp_dir_is_for_the_analysis(env):
    """create_analysis_temp_dir(id)"""
    directory = create_analysis_temp_dir("t-1")
    assert directory.is_dir() and directory.stat().st_mode & 0o777 == 0o700
    assert create_analysis_temp_dir("t-1") == directory != create_analysis_temp_dir("t-2")
    cleanup_analysis_temp_dir("t-1")
    cleanup_analysis_temp_dir("t-2")
    cleanup_analysis_temp_dir("t-2")
    assert not directory.exists()


@pytest.mark.parametrize(("cmd", "keys"), [
    ("true", {}), ("exit 3", {}), ("kill -9 $$", {}), ("sleep 60", {"timeout_seconds": 0.2}),
    ("yes", {"output": 1000}), (["/no/such"], {}), ("true", {"cwd": "/no/such"}),
])
def test_row_temp_dir_is_cleaned_up_on_every_end(env, cmd, keys):
    """clean-up on every end"""
    directory = create_analysis_temp_dir("t-3")
    (directory / "in").write_text("x")
    if isinstance(cmd, str):
        cmd = "cat $TMPDIR/in > $TMPDIR/out || exit 9; " + cmd
    try:
        assert isolated_run(cmd, env=env, analysis_id="t-3", **keys).returncode != 9
    except brig.Error:
        pass
    assert not directory.exists()


def test_row_temp_dir_of_a_process_that_ended_or_was_killed(script):
    """clean-up on every end: that of the caller, too"""
    make = "from brig.dropin.scidex import *; print(create_analysis_temp_dir('x'), flush=True); "
    done = script(make)
    assert done.returncode == 0 and not Path(done.stdout.strip()).exists(), done.stderr
    killed = Path(script(make + "import os; os.kill(os.getpid(), 9)").stdout.strip())
    assert killed.parent == Path(tempfile.gettempdir())
    mine = create_analysis_temp_dir("t-4")  # sweeps
    assert not killed.exists() and mine.is_dir()
    script(make)
    assert mine.is_dir(), "one that is in use is not swept"
    cleanup_analysis_temp_dir("t-4")
    assert not os.path.exists(mine)
