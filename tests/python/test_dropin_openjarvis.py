# SPDX-License-Identifier: MIT
"""brig.dropin.openjarvis: each test cites its row of the request."""
import asyncio
import inspect
import os
import subprocess
import sys
import time
import venv as venv_module

import pytest
from conftest import PACKAGE, system

from brig.dropin import openjarvis
from brig.dropin._path import toolchains_of
from brig.dropin.openjarvis import SandboxResult, build_safe_env, kill_process_tree, run_sandboxed


@pytest.fixture
def extra(guest):
    """Keywords by which the processes of the test are known."""
    return {"env_extra": guest["env"]}


def test_row_result_has_these_fields_and_defaults():
    """SandboxResult(stdout='', stderr='', returncode=-1, timed_out=False, killed=False)"""
    assert SandboxResult() == SandboxResult(stdout="", stderr="", returncode=-1, timed_out=False, killed=False)
    assert list(inspect.signature(SandboxResult).parameters) == ["stdout", "stderr", "returncode", "timed_out", "killed"]


def test_review_n1_an_installed_original_s_class_is_used(script, tmp_path):
    package = tmp_path / "openjarvis" / "security"
    package.mkdir(parents=True)
    (package / "subprocess_sandbox.py").write_text(
        "from dataclasses import dataclass\n@dataclass\nclass SandboxResult:\n    stdout: str = ''\n    stderr: str = ''\n"
        "    returncode: int = -1\n    timed_out: bool = False\n    killed: bool = False\n")
    done = script("from openjarvis.security.subprocess_sandbox import SandboxResult\n"
                  "from brig.dropin.openjarvis import run_sandboxed\n"
                  "assert run_sandboxed('exit 3') == SandboxResult(returncode=3)\n",
                  more={"PYTHONPATH": f"{PACKAGE}:{tmp_path}"}.items())
    assert done.returncode == 0, done.stderr


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


def test_row_files_of_the_caller_are_not_there(extra, tmp_path):
    """run_sandboxed: the work directory and the system's directories are all there is"""
    (tmp_path / "note").write_text("of the caller")
    (tmp_path / "work").mkdir()
    result = run_sandboxed(f"cat {tmp_path}/note; touch /usr/x; ls -A ~", working_dir=str(tmp_path / "work"), **extra)
    assert result.stdout == "" and "No such file" in result.stderr and "Read-only file system" in result.stderr


def test_row_timeout(extra, alive):
    """timeout: timed_out and killed true, returncode -1, stdout "(timed out)", stderr "" """
    began = time.monotonic()
    result = run_sandboxed("echo begun; echo x >&2; setsid sleep 60 & sleep 60", timeout=0.3, **extra)
    assert result == SandboxResult("(timed out)", "", -1, True, True)
    assert time.monotonic() - began < 3 * system.SLOW and alive() == 0


def test_row_oserror():
    """OSError: stderr "Execution error: …", -1"""
    result = run_sandboxed("true", env_extra={"A": "x\0y"})
    assert result.returncode == -1 and result.stdout == "" and not result.killed
    assert result.stderr.startswith("Execution error: ") and "NUL" in result.stderr


@pytest.mark.parametrize("directory", ["/no/such/directory", "/etc/passwd", ""])
def test_review_n6_missing_working_dir_is_the_current_one(extra, tmp_path, directory):
    assert run_sandboxed("pwd", working_dir=directory, **extra).stdout == f"{tmp_path}\n"


def test_review_n6_line_ends_are_those_of_text_mode(extra):
    result = run_sandboxed(r"printf 'a\r\nb\rc\n'; printf 'd\r\n' >&2", **extra)
    assert (result.stdout, result.stderr) == ("a\nb\nc\n", "d\n")


@pytest.mark.parametrize("timeout", [0, -1, 0.0])
def test_review_n6_timeout_0_times_out(timeout):
    assert run_sandboxed("true", timeout=timeout) == SandboxResult("(timed out)", "", -1, True, True)


def test_row_no_timeout(extra):
    """run_sandboxed: timeout=None is none, as for subprocess"""
    assert run_sandboxed("echo there", timeout=None, **extra).stdout == "there\n"


def test_row_current_directory_that_is_gone(tmp_path, monkeypatch):
    """run_sandboxed never raises for a failure to start"""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert run_sandboxed("true").stderr.startswith("Execution error: ")


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


# ---- the caller's interpreter (N2) ----

INTERPRETER = """
import subprocess, sys
from brig.dropin.openjarvis import run_sandboxed
command = subprocess.list2cmdline([sys.executable, "-c", "import sys, json; print(sys.prefix)"])
result = run_sandboxed(command)
assert (result.returncode, result.stdout) == (0, sys.prefix + "\\n"), result
assert run_sandboxed("python3 -c 'import sys; print(sys.prefix)'").stdout == sys.prefix + "\\n"
assert run_sandboxed(f"touch {sys.prefix}/lib/x").returncode != 0
print("well")
"""


@pytest.fixture
def venv(tmp_path):
    """A virtual environment in a place that no guest sees, with brig in it."""
    directory = tmp_path / "own" / "venv"
    venv_module.create(directory, symlinks=True)
    packages = next(directory.glob("lib/python*/site-packages"))
    (packages / "brig.pth").write_text(PACKAGE)
    return directory


def in_venv(venv, code, cwd, **env):
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    path = f"{venv}/bin:{os.environ['PATH']}"
    return subprocess.run([venv / "bin" / "python3", "-W", "error", "-c", code], env={**clean, "PATH": path, **env},
                          cwd=cwd, text=True, capture_output=True, timeout=50, check=False)


@pytest.mark.parametrize("linked", [False, True], ids=["plain", "behind a symlink"])
def test_review_n2_the_caller_s_interpreter_is_shown(venv, tmp_path, linked):
    (tmp_path / "work").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "own")
    venv = tmp_path / "link" / "venv" if linked else venv
    done = in_venv(venv, INTERPRETER, tmp_path / "work")
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr


def test_review_n2_a_virtual_environment_in_the_work_directory_stays_writable(venv, tmp_path):
    code = INTERPRETER.replace("lib/x\").returncode != 0", "lib/x\").returncode == 0")
    done = in_venv(venv, code, tmp_path / "own")
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr


def test_review_n2_the_path_entry_of_a_command_is_shown(extra, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/nonexistent")
    prefix = tmp_path / "tools"
    for name in ("bin", "lib", "etc"):
        (prefix / name).mkdir(parents=True)
        (prefix / name / "data").write_text(f"of {name}\n")
    (prefix / "bin" / "mytool").write_text('#!/bin/sh\ncat "${0%/bin/*}/lib/data" "${0%/bin/*}/etc/data"\n')
    (prefix / "bin" / "mytool").chmod(0o755)
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("PATH", f"{prefix}/bin:{os.environ['PATH']}")
    result = run_sandboxed("cd / && mytool", working_dir=str(tmp_path / "work"), **extra)
    assert result.stdout == "of lib\n" and "etc/data" in result.stderr, "etc may hold passwords"
    assert run_sandboxed(f"ls {prefix}", working_dir=str(tmp_path / "work"), **extra).returncode != 0


def test_review_n2_no_data_of_a_home_is_shown(tmp_path, monkeypatch):
    """~/.local/share has the data of all programs, and a project in a home may have a bin as well"""
    monkeypatch.setenv("HOME", str(tmp_path))

    def shown(prefix):
        for name in ("bin", "lib", "share"):
            (tmp_path / prefix / name).mkdir(parents=True, exist_ok=True)
        tool = tmp_path / prefix / "bin" / "mytool"
        tool.touch()
        tool.chmod(0o755)
        entries, _ = toolchains_of("mytool x", {"PATH": f"{tmp_path / prefix / 'bin'}:/usr/bin"})
        return [os.path.relpath(path, tmp_path / prefix) for path, _ in entries]
    assert shown(".local") == ["bin", "lib"]
    assert shown("project") == shown(".cargo") == shown(".") == ["bin"]
    assert shown(".nvm/versions/node/v18") == ["bin", "lib", "share"]
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv" / "pyvenv.cfg").touch()
    assert shown("venv") == ["bin", "lib", "share", "pyvenv.cfg"]
    (tmp_path / "linked").symlink_to(tmp_path / "venv")
    assert shown("linked") == [], "a guest may have made the symlink"
    (tmp_path / "project" / "bin").chmod(0o777)
    assert shown("project") == [], "everybody can write there"


def test_review_n2_pyenv_s_shim_is_the_selected_version(monkeypatch, tmp_path):
    root = tmp_path / "pyenv"
    bins = [root / f"versions/{version}/bin" for version in ("3.98", "3.99")]
    for directory in (root / "shims", *bins):
        directory.mkdir(parents=True)
        (directory / "python3").write_text("#!/bin/sh\n")
        (directory / "python3").chmod(0o755)
    path = {"PATH": f"{root}/shims:/usr/bin"}

    def selected():
        entries, more = toolchains_of("python3 x.py", path)
        return more["PATH"].split(":")[0], entries
    (root / "version").write_text("3.98\n")
    monkeypatch.delenv("PYENV_VERSION", raising=False)
    assert selected() == (str(bins[0]), [(str(bins[0]), str(bins[0]))])
    monkeypatch.setattr(sys, "executable", str(bins[1] / "python3"))
    assert selected()[0] == str(bins[1]), "that of the caller comes first"
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")
    for name in ("system", "../../../bin"):
        monkeypatch.setenv("PYENV_VERSION", name)
        assert selected() == ("/usr/bin", [])
