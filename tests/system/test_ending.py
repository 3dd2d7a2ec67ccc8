# SPDX-License-Identifier: MIT
"""Cases 1 to 9: however a run ends, it ends in time, with the truth, and nothing survives."""
import array
import fcntl
import json
import os
import re
import resource
import shutil
import signal
import statistics
import subprocess
import termios
import time

import pytest
from conftest import (BRIG, PYTHON, PYTHON_TIME, SHELL_TIME, SLOW, STUBBORN, children_of,
                      finish, init_of, is_alive, message, state_of, wait_for_file,
                      wait_until)


def started(process):
    """The first line of a guest that passes its stdout on: what it says when it is ready."""
    line = process.stdout.readline()
    assert line, process.stderr.read()
    return line.strip().decode()


def timed(function):
    begin = time.monotonic()
    value = function()
    return value, time.monotonic() - begin


# ---- 1 ---------------------------------------------------------------------------------------

def test_case_01_child_holds_the_pipe(brig):
    """The main process exits, a child keeps the pipe: back at once, its output kept."""
    result, seconds = timed(lambda: brig.result("--", "sh", "-c", "sleep 60 & echo hi"))
    assert (result["status"], result["exit_code"], result["stdout"]) == ("exited", 0, "hi\n")
    assert result["notes"] is None
    assert seconds < 1 * SLOW
    assert not brig.survivors()


def test_case_01_child_holds_the_pipe_live(brig):
    """The same with the streams passed on: their reader sees the end of file."""
    done, seconds = timed(lambda: brig.run("--", "sh", "-c", "sleep 60 & echo hi; exit 7"))
    assert (done.returncode, done.stdout, done.stderr) == (7, b"hi\n", b"")
    assert seconds < 1 * SLOW
    assert not brig.survivors()


def test_case_01_child_goes_on_writing(brig):
    """A child that writes for ever is not waited for either."""
    result, seconds = timed(lambda: brig.result(
        "--output", "512M", "--", "sh", "-c", "yes & exit 0"))
    assert (result["status"], result["exit_code"]) == ("exited", 0)
    assert seconds < 2 * SLOW


@pytest.mark.parametrize("outside", ["sleep 60", "yes"])
def test_case_01_process_outside_holds_the_pipe(brig, outside):
    """The other end of the pipe is in a process that is not of the run, and that may even go on
    writing (and use up the budget): it is not waited for."""
    process = brig.start("--json", "--", "sh", "-c",
                         "touch up; while [ -e up ]; do :; done; exit 7", cwd=brig.tmp)
    wait_for_file(brig.tmp / "up")
    main, = children_of(init_of(process))
    with open(f"/proc/{main}/fd/1", "wb") as pipe:
        holder = subprocess.Popen(outside.split(), stdout=pipe)
    (brig.tmp / "up").unlink()
    result, seconds = timed(lambda: brig.result_of(process, 10))
    holder.kill()
    holder.wait()
    assert result["exit_code"] == 7 or result["status"] == "output_limit"
    assert seconds < 2 * SLOW


# ---- 2 ---------------------------------------------------------------------------------------

def result_in(path):
    return json.loads(path.read_text())


def test_case_02_stubborn_tree_after_normal_exit(brig, tmp_path):
    process, pid = brig.start_stubborn("--result", tmp_path / "r", rest="exit 3")
    finish(process)
    result = result_in(tmp_path / "r")
    assert (result["status"], result["exit_code"]) == ("exited", 3)
    assert not is_alive(pid)
    assert not brig.survivors()


def test_case_02_stubborn_tree_after_timeout(brig, tmp_path):
    process, pid = brig.start_stubborn("--result", tmp_path / "r", "--timeout", f"{SHELL_TIME}s",
                                       "-k", "200ms")
    finish(process)
    result = result_in(tmp_path / "r")
    assert (result["status"], result["signal"]) == ("timeout", signal.SIGKILL)
    assert not is_alive(pid)
    assert not brig.survivors()


def test_case_02_stubborn_tree_after_cancel(brig):
    process, pid = brig.start_stubborn("-k", "200ms")
    assert is_alive(pid)
    process.send_signal(signal.SIGTERM)
    assert finish(process).returncode == 128 + signal.SIGTERM
    assert not is_alive(pid)
    assert not brig.survivors()


@pytest.mark.limits
@pytest.mark.parametrize("status, options, hungry", [
    ("output_limit", ["--output", "100K"], "yes"),
    ("pids_limit", ["--pids", "40"], "for i in $(seq 100); do sleep 300 & done; wait"),
    ("cpu_limit", ["--cpu-time", f"{200 * SLOW:.0f}ms"], "while :; do :; done"),
    ("memory_limit", ["-m", "48M"], "head -c 200M /dev/zero | tail"),
])
def test_case_02_stubborn_tree_after_limit(brig, tmp_path, status, options, hungry):
    process, pid = brig.start_stubborn("--result", tmp_path / "r", *options, "-k", "200ms",
                                       rest=hungry)
    finish(process)
    assert result_in(tmp_path / "r")["status"] == status
    assert not is_alive(pid)
    assert not brig.survivors()


def test_case_02_stubborn_tree_after_supervisor_killed(brig):
    process, pid = brig.start_stubborn()
    init = init_of(process)
    assert is_alive(pid) and is_alive(init)
    process.kill()
    process.wait()
    assert wait_until(lambda: not brig.survivors(), 1), "survived a second"
    assert wait_until(lambda: not is_alive(pid), 1), "the stubborn one was left"  # its environment goes first
    assert wait_until(lambda: not is_alive(init), 1), "init was left"
    assert wait_until(lambda: not brig.left_groups(), 1), "a cgroup was left"
    finish(process)


# ---- 3, 4, 5 ---------------------------------------------------------------------------------

def test_case_03_setsid_child_holds_the_pipe_at_timeout(brig):
    """Back within timeout + kill-after + 1 s."""
    result, seconds = timed(lambda: brig.result(
        "--timeout", "300ms", "-k", "500ms", "--", "sh", "-c", STUBBORN + "sleep 300"))
    assert result["status"] == "timeout"
    assert 0.3 <= seconds < 0.3 + 0.5 + 1 * SLOW


def test_case_03_well_behaved_tree_does_not_wait_for_kill_after(brig):
    """SIGTERM reaches a child in another session too: kill-after is not used up."""
    _, seconds = timed(lambda: brig.result(
        "--timeout", "200ms", "-k", "30s", "--", "sh", "-c", "setsid sleep 300 & exec sleep 300"))
    assert seconds < 0.2 + 1 * SLOW


def test_case_04_guest_closes_its_streams(brig):
    """The timeout still counts when there is nothing left to read."""
    result, seconds = timed(lambda: brig.result(
        "--timeout", "300ms", "--", "sh", "-c", "exec >&- 2>&-; exec sleep 300"))
    assert result["status"] == "timeout"
    assert 0.3 <= seconds < 0.3 + 1 * SLOW


def test_case_04_guest_closes_its_streams_and_exits_later(brig, marker):
    """The end of the streams is not the end of the run."""
    result = brig.result("--", "sh", "-c", f"exec >&- 2>&-; sleep 0.2; touch {marker}; exit 5")
    assert (result["status"], result["exit_code"]) == ("exited", 5)
    assert marker.exists()


def test_case_05_guest_stops_itself(brig):
    result, seconds = timed(lambda: brig.result(
        "--timeout", "300ms", "-k", "5s", "--", "sh", "-c", "kill -STOP $$"))
    assert result["status"] == "timeout"
    assert seconds < 0.3 + 1 * SLOW, "a stopped process has to see SIGTERM"


def test_case_05_whole_tree_stopped_and_stubborn(brig):
    guest = STUBBORN + "sleep 300 & kill -STOP $! $$"
    result, seconds = timed(lambda: brig.result(
        "--timeout", "300ms", "-k", "200ms", "--", "sh", "-c", guest))
    assert result["status"] == "timeout"
    assert seconds < 0.5 + 1 * SLOW
    assert not brig.survivors()


TRACED = """
import ctypes, os, signal, time
ATTACH = 16
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(0x59616d61, ctypes.c_ulong(-1), 0, 0, 0)  # where yama wants it: anybody may trace
main = os.getpid()
if os.fork() == 0:
    if libc.ptrace(ATTACH, main, None, None) != 0:
        print("cannot trace", ctypes.get_errno(), flush=True)
    os.waitpid(main, 0x40000000)  # __WALL: it is stopped now, and stays so
    print("traced", flush=True)
    while True:
        time.sleep(60)
while True:
    time.sleep(60)
"""


def test_case_05_guest_is_ptraced(brig):
    """A tracer that never lets its victim go does not keep it alive."""
    result, seconds = timed(lambda: brig.result(
        "--timeout", f"{PYTHON_TIME}s", "-k", "200ms", "--", *PYTHON, TRACED))
    assert (result["status"], result["stdout"]) == ("timeout", "traced\n")
    assert seconds < PYTHON_TIME + 0.2 + 1 * SLOW
    assert not brig.survivors()


@pytest.mark.parametrize("name", ["STOP", "KILL", "TERM", "INT", "SEGV"])
def test_case_05_guest_signals_init(brig, aside, tier, name):
    """A guest that signals brig's own init gains nothing: init goes on, and so the result is exact,
    whether the guest ends by itself or is ended."""
    process = brig.start("--result", aside / "r", "--stdin", "-", "--", "sh", "-c",
                         f"kill -{name} $PPID; echo done; read x; exit 7", before=tier,
                         stdin=subprocess.PIPE)
    assert started(process) == "done"
    init = init_of(process)
    assert wait_until(lambda: state_of(init) == "S"), "init is not waiting as it should"
    assert finish(process, 5, b"go\n").returncode == 7
    result = result_in(aside / "r")
    assert (result["status"], result["exit_code"], result["notes"]) == ("exited", 7, None)
    assert not brig.survivors()


@pytest.mark.parametrize("name", ["STOP", "KILL"])
def test_case_05_guest_signals_init_and_stays(brig, aside, tier, name):
    """It ends at its timeout, with all of its stubborn tree."""
    process, pid = brig.start_stubborn("--result", aside / "r", "--timeout", f"{SHELL_TIME}s",
                                       "-k", "200ms", rest=f"kill -{name} $PPID; sleep 300",
                                       before=tier)
    assert finish(process, 5).returncode == 124
    result = result_in(aside / "r")
    assert (result["status"], result["signal"]) == ("timeout", signal.SIGKILL)
    assert result["usage"]["wall_seconds"] < SHELL_TIME + 0.2 + 1 * SLOW
    assert not is_alive(pid)
    assert not brig.survivors()


@pytest.mark.parametrize("name", ["STOP", "KILL"])
def test_case_05_guest_signals_init_first_thing(brig, tier, name):
    """Not even when that is the first thing it does, before brig has heard that it started."""
    for _ in range(5):
        result, seconds = timed(lambda: brig.result(
            "--timeout", f"{SHELL_TIME}s", "-k", "200ms", "--", "sh", "-c",
            f"kill -{name} $PPID; sleep 300", timeout=5, before=tier))
        assert result["status"] == "timeout"
        assert seconds < SHELL_TIME + 0.2 + 1 * SLOW
        assert not brig.survivors()


EVERYBODY = """
import os, signal
for pid in (1, -1, os.getppid()):
    for number in (signal.SIGSTOP, signal.SIGKILL):
        try:
            os.kill(pid, number)
        except OSError:
            pass
print("on", flush=True)
"""


def test_case_05_guest_signals_everybody(brig):
    """kill -1 is everybody in the cell but init and itself: a process outside of it lives on."""
    beside = subprocess.Popen(["sleep", "300"])
    result = brig.result("--", *PYTHON, EVERYBODY)
    alive = state_of(beside.pid)
    beside.kill()
    beside.wait()
    assert (result["status"], result["exit_code"], result["stdout"]) == ("exited", 0, "on\n")
    assert alive == "S"


def test_case_05_init_is_killed_from_outside(brig, tmp_path):
    """By the machine's administrator, or for want of memory: all of the tree dies, and the result
    does not claim to know more."""
    process, pid = brig.start_stubborn("--result", tmp_path / "r", "--timeout", "20s")
    init = init_of(process)
    os.kill(init, signal.SIGKILL)
    assert finish(process, 5).returncode == 125
    result = result_in(tmp_path / "r")
    assert result["status"] == "error" and "init" in result["notes"]
    assert not is_alive(pid)
    assert not brig.survivors()


def test_case_05_init_is_stopped_from_outside(brig, tmp_path):
    """The run still ends at its timeout."""
    process, pid = brig.start_stubborn("--result", tmp_path / "r", "--timeout", f"{SHELL_TIME}s",
                                       "-k", "200ms")
    init = init_of(process)
    os.kill(init, signal.SIGSTOP)
    assert finish(process, 5).returncode == 124
    assert result_in(tmp_path / "r")["usage"]["wall_seconds"] < SHELL_TIME + 0.2 + 1 * SLOW
    assert not is_alive(pid)
    assert not brig.survivors()


# ---- 6, 7, 8 ---------------------------------------------------------------------------------

BOMB = "bomb() { bomb | bomb & }; bomb; sleep 300"


@pytest.mark.limits
def test_case_06_fork_bomb_ends_at_once(brig):
    result = brig.result("--timeout", "60s", "--", "bash", "-c", BOMB)
    assert result["status"] == "pids_limit"
    assert result["usage"]["wall_seconds"] < 2 * SLOW
    assert "--pids" in result["notes"]
    assert not brig.survivors()


@pytest.mark.limits
@pytest.mark.cgroup("without one, forks cannot be made to fail")
def test_case_06_other_work_goes_on(brig, marker):
    """With forks failing instead of ending the run, the bomb goes on; so does all other work."""
    process = brig.start("--json", "--on-pids-limit", "fail", "--timeout", "3s",
                         "--", "bash", "-c", f"touch {marker}; " + BOMB)
    wait_for_file(marker)
    slowest = 0
    while process.poll() is None:
        slowest = max(slowest, timed(lambda: subprocess.run(["true"], check=True))[1])
    assert slowest < 1.5 * SLOW
    result = brig.result_of(process)
    assert result["status"] == "timeout"
    assert result["usage"]["pids_peak"] is None or result["usage"]["pids_peak"] <= 100


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_case_07_cancel_within_a_second(brig, number):
    process = brig.start("-k", "30s", "--", "sh", "-c", "sleep 300 & echo ready; wait")
    started(process)
    process.send_signal(number)
    done, seconds = timed(lambda: finish(process))
    assert done.returncode == 128 + number
    assert number.name in message(done)
    assert seconds < 1 * SLOW
    assert not brig.survivors()


def test_case_07_cancel_waits_kill_after_for_the_stubborn(brig):
    process = brig.start("-k", "500ms", "--", "sh", "-c", STUBBORN + "sleep 300")
    started(process)
    process.send_signal(signal.SIGTERM)
    _, seconds = timed(lambda: finish(process))
    assert 0.4 <= seconds < 0.5 + 1 * SLOW
    assert not brig.survivors()


def test_case_07_cancelled_guest_may_say_goodbye(brig, tmp_path):
    """What a guest does on SIGTERM is kept: its last words and its exit code."""
    process = brig.start("--result", tmp_path / "r", "-k", "30s", "--", "sh", "-c",
                         "trap 'echo bye; exit 9' TERM; echo ready; while :; do sleep 0.01; done")
    started(process)
    process.send_signal(signal.SIGTERM)
    done = finish(process)
    result = json.loads((tmp_path / "r").read_text())
    assert done.stdout == b"bye\n"
    assert (result["status"], result["exit_code"]) == ("cancelled", 9)


@pytest.mark.parametrize("guest", ["seq 400000; exit 0", "yes"], ids=["ended", "writing"])
def test_case_07_cancel_with_a_stuck_reader(brig, guest):
    """Nobody reads what the guest wrote, and it does not matter whether the guest still runs."""
    process = brig.start("-k", "300ms", "--timeout", "15s", "--", "sh", "-c", guest)
    wait_until(lambda: pipe_is_full(process.stdout))
    process.terminate()
    _, seconds = timed(lambda: process.wait(20 * SLOW))
    finish(process)
    assert seconds < 0.3 + 1 * SLOW


def test_case_07_cancel_at_the_end_with_a_stuck_reader(brig):
    """The same while the tree is being ended: a cancel is not lost between the end of the main
    process and that of the last one. A lost one would wait for the timeout."""
    taken = []
    for _ in range(20):
        process = brig.start("-k", "300ms", "--timeout", "60s", "--", "sh", "-c", "seq 400000")
        wait_until(lambda: pipe_is_full(process.stdout))
        process.terminate()
        taken.append(timed(lambda: process.wait(20 * SLOW))[1])
        finish(process)
    assert statistics.median(taken) < 0.3 + 1 * SLOW


F_GETPIPE_SZ = 1032


def pipe_is_full(pipe):
    """What fits into a pipe is in it, whatever size brig has given it. Parts of a page may be empty."""
    waiting = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, waiting)
    return waiting[0] >= fcntl.fcntl(pipe, F_GETPIPE_SZ) * 15 // 16


ZOMBIES = """
import os, sys
for i in range(1000):
    if os.fork() == 0:
        os._exit(0)
print("made", flush=True)
"""


def test_case_08_thousand_zombies(brig):
    """A main process that never waited for 1,000 children: all are reaped, and quickly."""
    result, seconds = timed(lambda: brig.result("--pids", "1100", "--", *PYTHON, ZOMBIES))
    assert (result["status"], result["exit_code"], result["stdout"]) == ("exited", 0, "made\n")
    assert seconds < 10 * SLOW


def test_case_08_thousand_zombies_of_a_living_parent(brig):
    """Zombies of a process that is still there when everything has to end."""
    process = brig.start("--pids", "1100", "--", *PYTHON,
                         ZOMBIES + "import time\nwhile True: time.sleep(60)")
    assert started(process) == "made"
    process.terminate()
    assert finish(process, 10).returncode == 128 + signal.SIGTERM
    assert not brig.survivors()


def test_case_08_orphans_are_adopted_and_reaped(brig):
    """Two hundred daemons, one after the other, below a limit of ten: brig's init reaps each."""
    guest = ("for i in $(seq 200); do pid=$(sh -c 'true & echo $!');"
             " while [ -e /proc/$pid ]; do :; done; done; echo done")
    result = brig.result("--pids", "10", "--timeout", f"{30 * SLOW}s", "--", "sh", "-c", guest)
    assert (result["status"], result["stdout"]) == ("exited", "done\n")


ORPHAN = """
import os, time
print(os.getppid(), flush=True)
if os.fork() == 0:
    parent = os.getpid()
    if os.fork() == 0:
        while os.getppid() == parent:
            time.sleep(0.001)
        print(os.getppid(), flush=True)
        print(os.getpid(), flush=True)
        time.sleep(60)
    os._exit(0)
time.sleep(60)
"""


def test_case_08_orphan_gets_the_parent_of_the_main_process(brig):
    """A daemon is adopted by brig's init, pid 1 of the cell, not by the machine's."""
    process = brig.start("--", *PYTHON, ORPHAN)
    assert (started(process), started(process)) == ("1", "1")
    init = init_of(process)
    orphan = brig.host_pid(int(started(process)))
    assert len(children_of(init)) == 2 and orphan in children_of(init)
    process.terminate()
    finish(process)


# ---- trees that are more than processes ------------------------------------------------------

def test_main_thread_ends_before_the_others(brig):
    """A process whose main thread is gone looks dead, and is not: the timeout still ends it."""
    code = ("import ctypes, threading, time\n"
            "threading.Thread(target=time.sleep, args=[300]).start()\n"
            "print('ready', flush=True)\nctypes.CDLL(None).pthread_exit(None)")
    result = brig.result("--timeout", f"{PYTHON_TIME}s", "-k", "200ms", "--", *PYTHON, code)
    assert (result["status"], result["stdout"]) == ("timeout", "ready\n")
    assert result["usage"]["wall_seconds"] < PYTHON_TIME + 0.2 + 1 * SLOW


def test_guest_is_a_reaper_itself(brig):
    """Orphans go to the guest, not to brig's init: they are found all the same."""
    code = ("import ctypes, os, subprocess, sys\nctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\n"
            f"subprocess.run(['sh', '-c', {STUBBORN!r}])\nsys.stdin.read()\nsys.exit(4)")
    process = brig.start("--stdin", "-", "--", *PYTHON, code, stdin=subprocess.PIPE)
    pid = brig.host_pid(int(started(process)))
    assert finish(process).returncode == 4
    assert not is_alive(pid)
    assert not brig.survivors()


@pytest.fixture
def inner(brig):
    """Options that show brig itself in the cell, and the command that runs it there."""
    return ["--ro", f"{brig.binary}:/tool/brig", "--"], ["/tool/brig", "run", "--isolation", "auto"]


def test_run_in_a_run_is_honest(brig, inner):
    """A guest cannot make namespaces, so brig in brig has no cell to offer: it says that it is
    degraded, or refuses with the reason; never as if it was what it is not."""
    options, command = inner
    done = brig.run(*options, *command, "--json", "--", "sh", "-c", "echo hi; exit 5")
    result = json.loads(done.stdout)
    if result["status"] == "error":
        assert done.returncode == 125
        assert "namespace" in result["notes"] or "cell" in result["notes"]
    else:
        assert (done.returncode, result["exit_code"], result["stdout"]) == (5, 5, "hi\n")
        assert result["isolation"]["tier"] == "degraded"
        assert {"user", "mount", "pid", "view"} <= set(result["isolation"]["degraded"])


def test_review_c1_run_in_a_run_is_refused_by_default(brig):
    done = brig.run("--ro", f"{brig.binary}:/tool/brig", "--", "/tool/brig", "run", "--", "echo", "hi")
    assert (done.returncode, done.stdout) == (125, b"")
    assert "no cell can be built here" in message(done) and "--isolation auto" in message(done)


@pytest.mark.parametrize("layer", ["user", "mount", "pid", "view"])
def test_run_in_a_run_refuses_what_it_cannot(brig, inner, layer):
    options, command = inner
    done = brig.run(*options, *command, "--require", layer, "--", "echo", "hi")
    assert (done.returncode, done.stdout) == (125, b"")
    assert layer in message(done)


@pytest.mark.limits
def test_run_in_a_run_after_timeout(brig, inner):
    """Whatever the inner brig is in the middle of, it is killed with its run, and what it leaves
    goes with the outer run's group. Nothing of it makes the next run slow."""
    options, command = inner
    again = " ".join([*command, "-k", "60s", "--", "sh", "-c", "'trap \"\" TERM; sleep 300'"])
    result = brig.result("--timeout", f"{SHELL_TIME}s", "-k", "100ms", *options, "sh", "-c",
                         f"trap '' TERM; {again}; sleep 300")
    assert result["status"] == "timeout"
    assert "stuck" not in result["notes"]
    assert not brig.survivors() and not brig.left_groups()
    _, seconds = timed(lambda: brig.run("--", "true"))
    assert seconds < 1 * SLOW


# ---- 9 ---------------------------------------------------------------------------------------

def refused(brig, *args, **kw):
    """Run what cannot be executed: (exit code, message), the same in the result object."""
    done = brig.run("--json", *args, **kw)
    text = message(done)
    result = json.loads(done.stdout)
    assert result["status"] == "error"
    assert (result["exit_code"], result["signal"]) == (None, None)
    assert result["error"]["stage"] == "exec"
    assert result["error"]["text"] in text
    return done.returncode, text


def test_case_09_missing_file(brig, tmp_path):
    code, text = refused(brig, "--", tmp_path / "absent")
    assert code == 127
    assert str(tmp_path / "absent") in text and "no such file" in text


def test_case_09_missing_in_path(brig):
    code, text = refused(brig, "--", "no-such-command-here")
    assert code == 127
    assert "no-such-command-here" in text and "PATH" in text


@pytest.fixture
def elsewhere(tmp_path_factory):
    """A script in a directory that is not in the cell's view."""
    path = tmp_path_factory.mktemp("elsewhere") / "command"
    path.write_text("#!/bin/sh\necho found\n")
    path.chmod(0o755)
    return path


def test_case_09_not_in_the_view(brig, elsewhere):
    """It exists, but not in the cell: the message has the option that shows it."""
    code, text = refused(brig, "--", elsewhere)
    assert code == 127
    assert str(elsewhere) in text and "view" in text
    option = re.search(r"--ro \S+", text).group().split()
    assert brig.run(*option, "--", elsewhere).stdout == b"found\n"


def test_case_09_not_in_the_view_in_path(brig, elsewhere):
    code, text = refused(brig, "-e", f"PATH={elsewhere.parent}", "--", "command")
    assert code == 127
    assert str(elsewhere.parent) in text and "--ro" in text


def test_case_09_interpreter_not_in_the_view(brig, elsewhere, script):
    path = script("script", f"#!{elsewhere}\n")
    code, text = refused(brig, "--", path)
    assert code == 126
    assert path in text and f"--ro {elsewhere}" in text


def test_case_09_part_of_the_path_is_a_file(brig, script):
    path = script("file", "") + "/command"
    code, text = refused(brig, "--", path)
    assert code == 127
    assert path in text and "not a directory" in text


def test_case_09_directory(brig, tmp_path):
    code, text = refused(brig, "--", tmp_path)
    assert code == 126
    assert str(tmp_path) in text and "is a directory" in text


def test_case_09_not_executable(brig, script):
    path = script("plain", "#!/bin/sh\n", 0o644)
    code, text = refused(brig, "--", path)
    assert code == 126
    assert path in text and "not executable" in text


def test_case_09_not_executable_in_path(brig, script, tmp_path):
    path = script("plain", "#!/bin/sh\n", 0o644)
    code, text = refused(brig, "-e", f"PATH={tmp_path}", "--", "plain")
    assert code == 126
    assert path in text and "not executable" in text


def test_case_09_missing_interpreter(brig, script):
    path = script("script", "#!/no/such/interpreter -x\n")
    code, text = refused(brig, "--", path)
    assert code == 126
    assert path in text and "/no/such/interpreter" in text and "interpreter" in text


def test_case_09_missing_loader(brig, tmp_path):
    """A program whose dynamic loader does not exist: not "no such file" of the program."""
    path = tmp_path / "program"
    with open("/bin/true", "rb") as source:
        image = source.read()
    broken = re.sub(rb"/lib(64)?/ld-linux[^\0]*(?=\0)",
                    lambda found: found.group()[:-1] + b"X", image, count=1)
    assert broken != image
    path.write_bytes(broken)
    path.chmod(0o755)
    code, text = refused(brig, "--", path)
    assert code == 126
    assert str(path) in text and "loader" in text


def test_case_09_neither_program_nor_script(brig, script):
    path = script("text", "hello\n")
    code, text = refused(brig, "--", path)
    assert code == 126
    assert path in text and "#!" in text


def test_case_09_one_argument_too_long(brig, tmp_path):
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({"command": ["/bin/true", "x" * 200_000]}))
    code, text = refused(brig, "--spec", spec)
    assert code == 126
    assert "/bin/true" in text and "too long" in text


def test_case_09_argument_list_too_long(brig, tmp_path):
    """Many arguments that are each short enough; a small stack makes for a small maximum."""
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({"command": ["/bin/true"] + ["x" * 1000] * 500}))
    small = 256 * 1024
    code, text = refused(brig, "--spec", spec, preexec_fn=lambda: resource.setrlimit(
        resource.RLIMIT_STACK, (small, small)))
    assert code == 126
    assert "/bin/true" in text and "too long" in text


def test_case_09_guest_may_itself_exit_with_those_codes(brig):
    """126 and 127 of a guest are its own, and the result can tell."""
    for code in (124, 125, 126, 127):
        result = brig.result("--", "sh", "-c", f"exit {code}")
        assert (result["status"], result["exit_code"]) == ("exited", code)


def test_run_in_a_run_follows_no_link(brig, tmp_path):
    """The filter of the outer one hides openat2: the path is gone through part by part."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").write_text("deep\n")
    (tmp_path / "dl").symlink_to("d")
    (tmp_path / "l").symlink_to("d/f")
    inner = shutil.copy(BRIG, tmp_path / "brig")
    for path, text in (("d/f", "deep"), (f"{tmp_path}//d/./f", "deep"), ("l", "is a symlink"), ("dl/f", "is a symlink"), ("missing", "No such")):
        done = brig.run("--", inner, "run", "-q", "--isolation", "auto", "--stdin", path, "--", "cat", cwd=tmp_path)
        assert text in done.stdout.decode() + done.stderr.decode(), (path, done)
