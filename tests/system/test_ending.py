"""Cases 1 to 9: however a run ends, it ends in time, with the truth, and nothing survives."""
import array
import fcntl
import json
import os
import re
import resource
import signal
import subprocess
import termios
import time

import pytest
from conftest import (PYTHON, PYTHON_TIME, SHELL_TIME, SLOW, STUBBORN, children_of, finish,
                      is_alive, message, wait_for_file, wait_until)


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
    main, = children_of(children_of(process.pid)[0])
    with open(f"/proc/{main}/fd/1", "wb") as pipe:
        holder = subprocess.Popen(outside.split(), stdout=pipe)
    (brig.tmp / "up").unlink()
    result, seconds = timed(lambda: brig.result_of(process, 10))
    holder.kill()
    holder.wait()
    assert result["exit_code"] == 7 or result["status"] == "output_limit"
    assert seconds < 2 * SLOW


# ---- 2 ---------------------------------------------------------------------------------------

def test_case_02_stubborn_tree_after_normal_exit(brig):
    result = brig.result("--", "sh", "-c", STUBBORN + "exit 3")
    assert (result["status"], result["exit_code"]) == ("exited", 3)
    assert not is_alive(int(result["stdout"]))
    assert not brig.survivors()


def test_case_02_stubborn_tree_after_timeout(brig):
    result = brig.result("--timeout", "300ms", "-k", "200ms", "--",
                         "sh", "-c", STUBBORN + "sleep 300")
    assert (result["status"], result["signal"]) == ("timeout", signal.SIGKILL)
    assert not is_alive(int(result["stdout"]))
    assert not brig.survivors()


def test_case_02_stubborn_tree_after_cancel(brig):
    process = brig.start("-k", "200ms", "--", "sh", "-c", STUBBORN + "sleep 300")
    pid = int(started(process))
    assert is_alive(pid)
    process.send_signal(signal.SIGTERM)
    assert finish(process).returncode == 128 + signal.SIGTERM
    assert not is_alive(pid)
    assert not brig.survivors()


@pytest.mark.limits
@pytest.mark.parametrize("status, options, hungry", [
    ("output_limit", ["--output", "100K"], "yes"),
    ("pids_limit", ["--pids", "40"], "for i in $(seq 100); do sleep 300 & done; wait"),
    ("cpu_limit", ["--cpu-time", "200ms"], "while :; do :; done"),
    ("memory_limit", ["-m", "48M"], "head -c 200M /dev/zero | tail"),
])
def test_case_02_stubborn_tree_after_limit(brig, status, options, hungry):
    result = brig.result(*options, "-k", "200ms", "--", "sh", "-c", STUBBORN + hungry)
    assert result["status"] == status
    assert not is_alive(int(result["stdout"].split()[0]))
    assert not brig.survivors()


def test_case_02_stubborn_tree_after_supervisor_killed(brig):
    process = brig.start("--", "sh", "-c", STUBBORN + "sleep 300")
    pid = int(started(process))
    assert is_alive(pid)
    process.kill()
    process.wait()
    assert wait_until(lambda: not brig.survivors(), 1), "survived a second"
    assert not is_alive(pid)
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


def test_case_05_guest_stops_init(brig, tmp_path):
    """A guest that may signal brig's own init gains nothing by stopping it."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    process = brig.start("--result", tmp_path / "r", "--timeout", "300ms", "-k", "200ms", "--",
                         "sh", "-c", f"echo ready; read x <{gate}; kill -STOP $PPID; sleep 300")
    started(process)
    gate.write_text("go\n")
    assert finish(process, 5).returncode == 124
    assert json.loads((tmp_path / "r").read_text())["usage"]["wall_seconds"] < 0.5 + 1 * SLOW
    assert not brig.survivors()


def test_case_05_guest_stops_init_first_thing(brig):
    """Not even when that is the first thing it does, before brig has heard that it started."""
    for _ in range(5):
        result, seconds = timed(lambda: brig.result(
            "--timeout", "300ms", "-k", "200ms", "--", "sh", "-c",
            "kill -STOP $PPID; sleep 300", timeout=5))
        assert result["status"] == "timeout"
        assert seconds < 0.5 + 1 * SLOW


def test_case_05_guest_kills_init(brig, tmp_path):
    """Nor by killing it: all of the tree dies, and the result does not claim to know more."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    process = brig.start("--result", tmp_path / "r", "--timeout", "20s", "--", "sh", "-c",
                         STUBBORN + f"read x <{gate}; kill -KILL $PPID; sleep 300")
    pid = int(started(process))
    gate.write_text("go\n")
    assert finish(process, 5).returncode == 125
    result = json.loads((tmp_path / "r").read_text())
    assert result["status"] == "error" and "init" in result["notes"]
    assert not is_alive(pid)
    assert not brig.survivors()


def test_case_05_guest_kills_init_first_thing(brig):
    for _ in range(5):
        result = brig.result("--timeout", "20s", "--", "sh", "-c",
                             "kill -KILL $PPID; sleep 300", timeout=5)
        assert result["status"] == "error" and "init" in result["notes"]
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


@pytest.mark.parametrize("guest", ["seq 20000; exit 0", "yes"], ids=["ended", "writing"])
def test_case_07_cancel_with_a_stuck_reader(brig, guest):
    """Nobody reads what the guest wrote, and it does not matter whether the guest still runs."""
    process = brig.start("-k", "300ms", "--timeout", "15s", "--", "sh", "-c", guest)
    wait_until(lambda: pipe_is_full(process.stdout))
    process.terminate()
    _, seconds = timed(lambda: process.wait(20 * SLOW))
    finish(process)
    assert seconds < 0.3 + 1 * SLOW


def pipe_is_full(pipe):
    """What fits into a pipe is in it."""
    waiting = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, waiting)
    return waiting[0] >= 65536 - 4096


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


def test_case_08_thousand_zombies_at_timeout(brig):
    """Zombies of a process that is still alive, when it has to end."""
    result = brig.result("--pids", "1100", "--timeout", f"{2 * SLOW}s", "--", *PYTHON,
                         ZOMBIES + "import time\nwhile True: time.sleep(60)")
    assert (result["status"], result["stdout"]) == ("timeout", "made\n")
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
    os._exit(0)
time.sleep(60)
"""


def test_case_08_orphan_gets_the_parent_of_the_main_process(brig):
    """A daemon is adopted by brig's init, not by the machine's."""
    process = brig.start("--", *PYTHON, ORPHAN)
    assert started(process) == started(process)
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
            f"subprocess.run(['sh', '-c', {STUBBORN!r}])\nsys.stdout.flush()")
    result = brig.result("--", *PYTHON, code)
    assert result["status"] == "exited"
    assert not is_alive(int(result["stdout"]))
    assert not brig.survivors()


def test_run_in_a_run(brig):
    done = brig.run("--", brig.binary, "run", "--", "sh", "-c", "echo hi; exit 5")
    assert (done.returncode, done.stdout) == (5, b"hi\n")


@pytest.mark.limits
def test_run_in_a_run_after_timeout(brig):
    """The inner brig is killed with its run; what it leaves is below the outer run's group, and
    goes with it. Nothing of it makes the next run slow."""
    inner = f"{brig.binary} run -k 60s -- sh -c 'trap \"\" TERM; sleep 300'"
    result = brig.result("--timeout", f"{SHELL_TIME}s", "-k", "100ms", "--", "sh", "-c",
                         "trap '' TERM; " + inner)
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


def test_case_09_part_of_the_path_is_a_file(brig, script):
    path = script("file", "") + "/command"
    code, text = refused(brig, "--", path)
    assert code == 127
    assert path in text and "not a folder" in text


def test_case_09_folder(brig, tmp_path):
    code, text = refused(brig, "--", tmp_path)
    assert code == 126
    assert str(tmp_path) in text and "is a folder" in text


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
