# SPDX-License-Identifier: MIT
"""brig itself stopped, told to end, orphaned, or with nobody who reads what it says: the run's promises
hold, and brig ends."""
import contextlib
import fcntl
import json
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest
from conftest import (DEGRADED, MOUNTS, SLOW, children_of, finish, is_alive, needs_confine, state_of, wait_for_file,
                      wait_until)

# ---- D7: stopped -----------------------------------------------------------------------------

# What a shell with job control does: a session with a terminal, brig in the foreground as a job of its
# own. Says how the job's state changes; a line on stdin continues it, as `fg` does.
JOB_CONTROL = """
import fcntl, os, signal, sys, termios
terminal = os.open(sys.argv[1], os.O_RDWR)
os.setsid()
fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
pid = os.fork()
if pid == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(terminal, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.dup2(terminal, 0)
    os.execv(sys.argv[2], sys.argv[2:])
while True:
    _, status = os.waitpid(pid, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        print("ended", os.waitstatus_to_exitcode(status), flush=True)
        break
    os.tcsetpgrp(terminal, os.getpid())
    print("stopped", os.WSTOPSIG(status), flush=True)
    sys.stdin.readline()
    os.tcsetpgrp(terminal, pid)
    os.kill(pid, signal.SIGCONT)
"""

# Two processes that count, in a file each.
COUNTING = """
count() { n=0; while :; do n=$((n+1)); echo $n >$1.new; mv $1.new $1; done; }
count a & count b"""


class Job:
    """A command as the foreground job of a terminal."""

    def __init__(self, command, cwd):
        self.master, slave = os.openpty()
        self.shell = subprocess.Popen([sys.executable, "-I", "-S", "-c", JOB_CONTROL, os.ttyname(slave), *command],
                                      cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        os.close(slave)

    def press(self, key):
        os.write(self.master, key)

    def go_on(self):
        self.shell.stdin.write(b"fg\n")
        self.shell.stdin.flush()

    def state(self, seconds=20):
        assert select.select([self.shell.stdout], [], [], seconds * SLOW)[0], "the job does not change its state"
        return self.shell.stdout.readline().decode().split()

    def close(self):
        with contextlib.suppress(OSError):
            os.close(self.master)  # hangs up
        finish(self.shell, 20)


@pytest.fixture
def job(brig, tmp_path):
    jobs = []

    def start(*args, verb="run"):
        jobs.append(Job(brig.command(*args, verb=verb), tmp_path))
        return jobs[-1]
    yield start
    for one in jobs:
        one.close()


def guests(brig):
    """The processes of the guest; brig itself has the token in its command line, and init is not stopped."""
    found = []
    for pid in brig.survivors():
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as environ, \
                open(f"/proc/{pid}/comm", encoding="utf-8") as comm:
            if brig.token.encode() in environ.read() and comm.read() != "brig-init\n":
                found.append(pid)
    return found


def is_stopped(pid):
    """D: waits in vfork() for a child that is stopped; without a child, it is writing, and stops after that."""
    state = state_of(pid)
    with contextlib.suppress(OSError):  # it is gone
        return state in "TZX" or (state == "D" and bool(children_of(pid)))
    return True


def all_stopped(brig):
    return all(is_stopped(pid) for pid in guests(brig))


def number_in(path):
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_text())
    return 0


def count_goes_on(path):
    before = number_in(path)
    return wait_until(lambda: number_in(path) > before + 1, 10)


def test_review_d7_ctrl_z_stops_guest_and_brig(brig, job, tmp_path):
    """Both stop, and both go on: what the guest counts stands still meanwhile."""
    a, b = tmp_path / "a", tmp_path / "b"
    terminal = job("--timeout", "60s", "--", "sh", "-c", COUNTING)
    assert wait_until(lambda: number_in(a) and number_in(b), 20)
    for _ in range(2):
        terminal.press(b"\x1a")
        assert terminal.state() == ["stopped", str(int(signal.SIGTSTP))]
        assert guests(brig)
        assert wait_until(lambda: all_stopped(brig), 5)
        stood = number_in(a), number_in(b)
        wait_until(lambda: (number_in(a), number_in(b)) != stood, 0.2 / SLOW)
        assert (number_in(a), number_in(b)) == stood, "the guest goes on while brig is stopped"
        terminal.go_on()
        assert count_goes_on(a) and count_goes_on(b), "the guest does not go on with brig"
    terminal.press(b"\x03")
    assert terminal.state() == ["ended", str(128 + signal.SIGINT)]


def test_review_d7_timeout_holds_while_both_are_stopped(brig, job, tmp_path):
    """The clock is real time. Init keeps it, a second later than brig would have."""
    result = tmp_path / "result"
    terminal = job("--timeout", "1s", "-k", "500ms", "--result", result, "--", "sh", "-c", COUNTING)
    begin = time.monotonic()
    wait_for_file(tmp_path / "a")
    terminal.press(b"\x1a")
    assert terminal.state()[0] == "stopped"
    assert wait_until(lambda: not guests(brig), 20)
    assert time.monotonic() - begin < 2.5 + 1.5 * SLOW
    terminal.go_on()
    assert terminal.state() == ["ended", "124"]
    assert json.loads(result.read_text())["status"] == "timeout"


@pytest.mark.parametrize("how", ["cell", "warm", pytest.param("degraded", marks=needs_confine)])
def test_review_d7_timeout_holds_while_brig_alone_is_stopped(brig, aside, how):
    """SIGSTOP cannot be caught: the guest runs on, but not past its timeout; and the verdict is kept."""
    kept = aside / "result"
    warm = ["--warm"] if how == "warm" else []
    process = brig.start("--result", kept, "--timeout", "1s", "-k", "500ms", *warm, "--", "sh", "-c",
                         "trap '' TERM; echo up; while :; do sleep 1; done",
                         before=DEGRADED if how == "degraded" else ())
    begin = time.monotonic()
    assert process.stdout.readline() == b"up\n"
    process.send_signal(signal.SIGSTOP)
    assert wait_until(lambda: not guests(brig), 20), "the guest outlives its timeout"
    took = time.monotonic() - begin
    process.send_signal(signal.SIGCONT)
    finish(process)
    result = json.loads(kept.read_text())
    assert took < 2.5 + 1.5 * SLOW
    assert result["status"] == "timeout" and "its timeout of 1s" in result["notes"], result


def test_review_d7_background_job_stops_at_the_terminal(brig, job):
    """A job that may not read the terminal is stopped there, and goes on in the foreground."""
    terminal = job("--stdin", "-", "--", "head", "-n", "1")
    wait_until(lambda: guests(brig), 10)
    terminal.press(b"\x1a")
    assert terminal.state() == ["stopped", str(int(signal.SIGTSTP))]
    terminal.go_on()
    terminal.press(b"hello\n")
    assert terminal.state() == ["hello"]
    assert terminal.state() == ["ended", "0"]


def test_review_d7_ctrl_z_stops_all_of_a_batch(brig, job, tmp_path):
    jobs = [{"command": ["sh", "-c", f"n=0; while :; do n=$((n+1)); echo $n >{name}.new; mv {name}.new {name}; done"],
             "env": {"BRIG_TEST_TOKEN": brig.token}, "timeout": "60s"} for name in "ab"]
    (tmp_path / "jobs").write_text("".join(json.dumps(one) + "\n" for one in jobs))
    a, b = tmp_path / "a", tmp_path / "b"
    terminal = job("-q", "jobs", verb="batch")
    assert wait_until(lambda: number_in(a) and number_in(b), 20)
    terminal.press(b"\x1a")
    assert terminal.state() == ["stopped", str(int(signal.SIGTSTP))]
    assert wait_until(lambda: guests(brig) and all_stopped(brig), 5)
    stood = number_in(a), number_in(b)
    wait_until(lambda: (number_in(a), number_in(b)) != stood, 0.2 / SLOW)
    assert (number_in(a), number_in(b)) == stood, "the jobs go on while the batch is stopped"
    terminal.go_on()
    assert count_goes_on(a) and count_goes_on(b)
    terminal.press(b"\x03")
    results = [terminal.state()[0], terminal.state()[0]]
    assert all(one.startswith('{"line"') for one in results)
    assert terminal.state() == ["ended", str(128 + signal.SIGINT)]


# ---- D8: nobody reads ------------------------------------------------------------------------

@pytest.fixture
def full_pipe():
    """The write end of a pipe that takes no byte more, and that nobody reads."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    for size in (4096, 1):
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(write_end, bytes(size))
    os.set_blocking(write_end, True)
    yield write_end
    os.close(read_end)
    os.close(write_end)


SLEEPER = ["--", "sh", "-c", "touch up; exec sleep 60"]


@pytest.mark.parametrize("stuck", ["stderr", "--result", "--json", "--events"])
def test_review_d8_sigterm_with_nobody_who_reads(brig, tmp_path, full_pipe, stuck):
    """The guest is ended, and so is brig, whatever it still had to say."""
    options = {"--result": ["--result", f"fd:{full_pipe}"], "--events": ["--events", f"fd:{full_pipe}"],
               "--json": ["--json"]}.get(stuck, [])
    streams = {"stderr": {"stderr": full_pipe}, "--json": {"stdout": full_pipe}}.get(stuck, {})
    process = brig.start("-k", "1s", *options, *SLEEPER, pass_fds=[full_pipe], **streams)
    wait_for_file(tmp_path / "up")
    begin = time.monotonic()
    process.terminate()
    finish(process, 20)
    assert time.monotonic() - begin < 5 * SLOW
    assert process.returncode == (125 if stuck in ("--result", "--json") else 128 + signal.SIGTERM)


def test_review_d8_end_of_the_guest_with_nobody_who_reads_messages(brig, full_pipe):
    """Nobody tells brig to end: its messages wait for a while, and the exit code is the guest's end."""
    begin = time.monotonic()
    process = brig.start("--timeout", "200ms", "--", "sleep", "60", stderr=full_pipe)
    finish(process, 60)
    assert process.returncode == 124
    assert time.monotonic() - begin < 20 * SLOW


def test_review_d8_a_reader_that_comes_late_gets_all(brig, full_pipe, tmp_path):
    """As long as nobody tells brig to end, a result waits for its reader."""
    read_end, write_end = os.pipe()
    fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 4096)
    process = brig.start("--json", "--", "sh", "-c", "touch up; head -c 100000 /dev/zero | tr '\\0' x", stdout=write_end)
    os.close(write_end)
    wait_for_file(tmp_path / "up")
    assert wait_until(lambda: struct.unpack("i", fcntl.ioctl(read_end, termios.FIONREAD, b"\0" * 4))[0] >= 4096, 20)
    with os.fdopen(read_end, "rb") as reader:
        result = json.loads(reader.read())
    finish(process)
    assert result["stdout"] == "x" * 100000 and process.returncode == 0


def test_review_d8_sigterm_to_a_batch_with_nobody_who_reads(brig, tmp_path, full_pipe):
    jobs = [{"command": ["sh", "-c", "touch up; exec sleep 60"], "kill_after": "1s"}]
    (tmp_path / "jobs").write_text("".join(json.dumps(one) + "\n" for one in jobs))
    process = brig.start("jobs", verb="batch", stdout=full_pipe, stderr=full_pipe)
    wait_for_file(tmp_path / "up")
    process.terminate()
    finish(process, 30)
    assert process.returncode == 128 + signal.SIGTERM


# ---- D9: orphaned ----------------------------------------------------------------------------

# Starts brig from a thread that ends, and stays; then from a process that does not.
PARENT = """
import subprocess, sys, threading
def start():
    global process
    process = subprocess.Popen(sys.argv[1:])
thread = threading.Thread(target=start)
thread.start()
thread.join()
print(process.pid, flush=True)
sys.exit(process.wait())
"""


def start_by_parent(brig, *command, **kw):
    parent = subprocess.Popen([sys.executable, "-I", "-S", "-c", PARENT, *command], cwd=brig.tmp,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **kw)
    return parent, int(parent.stdout.readline())


@pytest.mark.parametrize("verb", ["run", "call", "batch"])
def test_review_d9_die_with_parent(brig, tmp_path, verb):
    """The end of the thread that started brig is nothing; that of its process is the end."""
    (tmp_path / "jobs").write_text(json.dumps({"command": SLEEPER[1:]}) + "\n")
    (tmp_path / "tools").write_text(json.dumps({"tools": [{
        "name": "wait", "description": "waits", "command": SLEEPER[1:]}]}))
    rest = {"run": SLEEPER, "call": ["wait", "--tools", "tools"], "batch": ["jobs"]}[verb]
    parent, pid = start_by_parent(brig, *brig.command("--die-with-parent", *rest, verb=verb))
    wait_for_file(tmp_path / "up")
    assert is_alive(pid)
    parent.kill()
    finish(parent)
    assert wait_until(lambda: not is_alive(pid), 10), "brig goes on without its parent"
    assert not guests(brig)


def test_review_d9_result_says_why(brig, tmp_path):
    parent, pid = start_by_parent(brig, *brig.command("--die-with-parent", "--result", "result", *SLEEPER))
    wait_for_file(tmp_path / "up")
    parent.kill()
    finish(parent)
    assert wait_until(lambda: not is_alive(pid), 10)
    result = json.loads((tmp_path / "result").read_text())
    assert result["status"] == "cancelled" and "--die-with-parent" in result["notes"], result


def test_review_d9_is_off_by_default(brig, tmp_path):
    """Who starts a run in the background and goes away has meant it."""
    parent, pid = start_by_parent(brig, *brig.command("--timeout", "60s", "--", "sh", "-c",
                                                      "touch up; while [ ! -e go ]; do sleep 0.01; done; touch done"))
    wait_for_file(tmp_path / "up")
    parent.kill()
    parent.wait(20 * SLOW)
    parent.stdout.close()
    (tmp_path / "go").touch()
    wait_for_file(tmp_path / "done")
    assert wait_until(lambda: not is_alive(pid), 10)


def test_review_d9_parent_that_cannot_be_seen_is_refused(brig, tmp_path):
    """The first process of a pid namespace has a parent outside of it."""
    done = brig.run("--die-with-parent", "--", "touch", "made", before=[*MOUNTS, "--pid", "--fork", "--mount-proc"])
    assert done.returncode == 125, done
    assert b"outside of this PID namespace" in done.stderr
    assert not (tmp_path / "made").exists()
