# SPDX-License-Identifier: MIT
"""brig.dropin.openjarvis: each test cites its row of the request."""
import asyncio
import inspect
import os
import subprocess
import sys
import time

import pytest
from conftest import system

from brig.dropin import openjarvis
from brig.dropin.openjarvis import SandboxResult, build_safe_env, kill_process_tree, run_sandboxed


@pytest.fixture
def extra(guest):
    """Keywords by which the processes of the test are known."""
    return {"env_extra": guest["env"]}


def test_row_result_has_these_fields_and_defaults():
    """SandboxResult(stdout='', stderr='', returncode=-1, timed_out=False, killed=False)"""
    assert SandboxResult() == SandboxResult(stdout="", stderr="", returncode=-1, timed_out=False, killed=False)
    assert list(inspect.signature(SandboxResult).parameters) == ["stdout", "stderr", "returncode", "timed_out", "killed"]


def test_row_safe_env(monkeypatch):
    """build_safe_env(passthrough=None, extra=None): the harmless where set, then passthrough, then extra"""
    for name in list(os.environ):
        monkeypatch.delenv(name)
    names = "PATH HOME USER LANG TERM SHELL LC_ALL LC_CTYPE TMPDIR TZ".split()
    for name in [*names, "OPENAI_API_KEY", "MINE"]:
        monkeypatch.setenv(name, "of the caller")
    assert set(build_safe_env()) == set(names)
    monkeypatch.delenv("TZ")
    assert set(build_safe_env()) == set(names) - {"TZ"}
    assert build_safe_env(["MINE", "NOT_SET"])["MINE"] == "of the caller"
    assert "NOT_SET" not in build_safe_env(["NOT_SET"])
    assert build_safe_env(["MINE"], {"MINE": "extra", "PATH": "/bin"})["MINE"] == "extra"
    assert list(inspect.signature(build_safe_env).parameters) == ["passthrough", "extra"]


def test_row_signature_of_run():
    """run_sandboxed(command, *, timeout=30.0, working_dir=None, ..., max_output_bytes=102400)"""
    parameters = inspect.signature(run_sandboxed).parameters
    assert {name: one.default for name, one in parameters.items() if name != "command"} == {
        "timeout": 30.0, "working_dir": None, "env_passthrough": None, "env_extra": None, "max_output_bytes": 102400}
    assert all(one.kind is one.KEYWORD_ONLY for name, one in parameters.items() if name != "command")


def test_row_by_the_shell_in_its_own_session(extra, tmp_path):
    """run_sandboxed: by the shell, in its own session"""
    result = run_sandboxed("echo a | tr a b; echo c >&2; exit 3", **extra)
    assert result == SandboxResult("b\n", "c\n", 3)
    session = run_sandboxed("cut -d' ' -f1,6 /proc/$$/stat; echo $$", **extra).stdout.split()
    assert session[0] == session[1] == session[2]
    (tmp_path / "sub").mkdir()
    assert run_sandboxed("pwd; touch made", working_dir=str(tmp_path / "sub"), **extra).stdout == f"{tmp_path}/sub\n"
    assert (tmp_path / "sub" / "made").exists()


def test_row_environment_is_the_safe_one(extra, monkeypatch):
    """run_sandboxed: env_passthrough and env_extra; nothing else of the caller is inside"""
    monkeypatch.setenv("SECRET", "hidden")
    monkeypatch.setenv("TZ", "Mars/North")
    assert run_sandboxed("echo [$SECRET] $TZ", **extra).stdout == "[] Mars/North\n"
    assert run_sandboxed("echo $SECRET", env_passthrough=["SECRET"], **extra).stdout == "hidden\n"
    assert run_sandboxed("cd && touch here && touch $(mktemp)", **extra).returncode == 0


def test_row_timeout(extra, alive):
    """timeout: timed_out and killed true, returncode -1, stdout "(timed out)", stderr "" """
    began = time.monotonic()
    result = run_sandboxed("echo begun; echo x >&2; setsid sleep 60 & sleep 60", timeout=0.3, **extra)
    assert result == SandboxResult("(timed out)", "", -1, True, True)
    assert time.monotonic() - began < 3 * system.SLOW and alive() == 0


@pytest.mark.parametrize("directory", ["/no/such/directory", "/etc/passwd"])
def test_row_oserror(directory):
    """OSError: stderr "Execution error: …", -1"""
    result = run_sandboxed("true", working_dir=directory)
    assert result.returncode == -1 and result.stdout == "" and not result.killed
    assert result.stderr.startswith("Execution error: ") and directory in result.stderr


def test_row_cap_is_per_stream_in_bytes(extra):
    """the cap is per stream, in bytes"""
    both = "head -c 5000 /dev/zero | tr '\\0' o; head -c 3000 /dev/zero | tr '\\0' e >&2; exit 4"
    assert run_sandboxed(both, max_output_bytes=1000, **extra) == SandboxResult("o" * 1000, "e" * 1000, 4)
    late = "head -c 30000000 /dev/zero; echo late >&2"
    result = run_sandboxed(late, max_output_bytes=1000, **extra)
    assert result.stderr == "late\n" and len(result.stdout) == 1000
    assert run_sandboxed("printf 'aééé'", max_output_bytes=4, **extra).stdout == "aé"
    assert run_sandboxed("printf 'ab\\377c'", **extra).stdout == "ab\\xffc"


@pytest.mark.measured
def test_row_memory_of_the_caller_stays_flat(script):
    """memory of the caller stays flat however much is printed"""
    done = script("""
import resource
from brig.dropin.openjarvis import run_sandboxed
run_sandboxed("echo")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
result = run_sandboxed("head -c 300000000 /dev/zero & head -c 100000000 /dev/zero >&2; wait")
assert len(result.stdout) == len(result.stderr) == 102400, result.returncode
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
""")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 8 * 1024


def test_row_signal_and_limit_are_said(extra):
    """killed: the command did not end by itself (CASE 18: a crash is no limit)"""
    assert run_sandboxed("kill -SEGV $$", **extra) == SandboxResult("", "", -11)
    openjarvis.SETTINGS["memory"] = "32M"
    try:
        result = run_sandboxed("python3 -c 'bytearray(200 << 20)'", **extra)
    finally:
        del openjarvis.SETTINGS["memory"]
    assert result.killed and not result.timed_out and "memory" in result.stderr and result.returncode < 0


def test_row_works_inside_a_running_loop(extra):
    """run_sandboxed is a plain function: it may be called by a coroutine (CASE 37)"""
    async def main():
        return run_sandboxed("echo hi", **extra)
    assert asyncio.run(main()).stdout == "hi\n"


TREE = """
import os, sys, time
for depth in range(3):
    if os.fork() == 0:
        os.setsid() if depth == 1 else os.setpgid(0, 0)
        if depth == 2 and os.fork():
            os._exit(0)          # its child has no parent any more, and is in its group
        for _ in range(3):
            os.fork()
        time.sleep(300)
time.sleep(300)
"""


def test_row_kill_process_tree_leaves_nothing(alive, guest):
    """kill_process_tree(pid) leaves nothing of the tree alive"""
    env = dict(os.environ, **guest["env"])
    with subprocess.Popen([sys.executable, "-c", TREE], env=env, start_new_session=True) as root:
        assert system.wait_until(lambda: alive() > 20, 10)
        kill_process_tree(root.pid)
        assert alive() == 0
        assert root.wait() == -9


def test_row_kill_process_tree_never_raises():
    """kill_process_tree(pid) never raises"""
    gone = subprocess.Popen(["true"])
    gone.wait()
    for pid in (gone.pid, 0, 1, -1, os.getpid(), 1 << 40, None, "x"):
        assert kill_process_tree(pid) is None
