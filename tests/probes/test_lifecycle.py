# SPDX-License-Identifier: MIT
"""ATTACKS 21 to 31: living on, and ending."""
import contextlib
import fcntl
import json
import os
import random
import re
import signal
import subprocess
import time

import pytest
from conftest import PYTHON, SANITIZED, SLOW, frame

ROUNDS = int(os.environ.get("BRIG_PROBE_ROUNDS", "60"))


@contextlib.contextmanager
def lock_of(probe):
    """A file in the work directory, and a function that says whether anybody still holds its lock. What
    calls hold() keeps it in every process that it forks, whatever becomes of names and environment."""
    path = os.path.join(probe.work, "held")
    with open(path, "wb") as lock:
        os.chmod(path, 0o666)

        def free():
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return False
            fcntl.flock(lock, fcntl.LOCK_UN)
            return True
        yield free


HOLD = """
import fcntl, os, signal, sys, time
held = os.open("held", os.O_RDONLY)
fcntl.flock(held, fcntl.LOCK_SH)
"""

# Ways to live on after the main process; each ends by itself where nothing ends it.
SURVIVORS = {
    "setsid_and_double_fork": """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(LONG)
    os._exit(0)
os.wait()
""",
    "ignores_all_signals": """
if os.fork() == 0:
    os.setsid()
    for n in range(1, 65):
        try: signal.signal(n, signal.SIG_IGN)
        except (OSError, ValueError): pass
    ready()
    time.sleep(LONG)
    os._exit(0)
""",
    "closes_everything_else": """
if os.fork() == 0:
    os.setsid()
    for fd in range(0, 256):
        if fd not in (held, gate): 
            try: os.close(fd)
            except OSError: pass
    ready()
    time.sleep(LONG)
    os._exit(0)
""",
    "forks_on_and_on": """
if os.fork() == 0:
    os.setsid()
    ready()
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        if os.fork():
            os._exit(0)
    os._exit(0)
""",
    "stopped": """
child = os.fork()
if child == 0:
    os.setsid()
    ready()
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(LONG)
    os._exit(0)
""",
    "under_a_subreaper_of_its_own": """
import ctypes
if os.fork() == 0:
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    os.setsid()
    if os.fork() == 0:
        if os.fork() == 0:
            ready()
            time.sleep(LONG)
        os._exit(0)
    time.sleep(LONG)
    os._exit(0)
""",
    "another_program": """
if os.fork() == 0:
    os.setsid()
    os.set_inheritable(held, True)
    os.execve("/bin/sleep", ["-sleep", str(LONG)], {})
""",
}


def survivor_code(way, long, last="os._exit(7)"):
    return HOLD + f"LONG = {long}\ngate_read, gate = os.pipe()\ndef ready(): os.write(gate, b'x')\n" + \
        SURVIVORS[way] + ("os.read(gate_read, 1)\n" if "ready()" in SURVIVORS[way] else "") + last


# ---- 21, 26 ----------------------------------------------------------------------------------

@pytest.mark.parametrize("way", SURVIVORS)
def test_attack_21_survivor_dies_with_the_cell(probe, way):
    with lock_of(probe) as free:
        if way != "stopped":  # that one would never end by itself
            done = subprocess.run([*probe.prefix, PYTHON, "-c", survivor_code(way, 1.0)], cwd=probe.work,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
            assert done.returncode == 7
            assert not free(), "the probe does not work: nothing lives on without brig"
            assert frame.wait_until(free, 20)
        begin = time.monotonic()
        result = probe.cell(survivor_code(way, 300), "--pids", "2000")
        assert result["exit_code"] == 7 and result["isolation"]["tier"] == "cell", result
        assert free(), "something lives on"
        assert time.monotonic() - begin < 3 * SLOW


@pytest.mark.parametrize("way", SURVIVORS)
def test_attack_26_children_end_at_the_timeout(probe, way):
    """The main process stays as well: all end at the limit and kill-after."""
    with lock_of(probe) as free:
        # What has ended counts until init gets to reap it, which on a busy machine may be late.
        result = probe.cell(survivor_code(way, 300, "time.sleep(300)"), "--timeout", f"{0.7 * SLOW}s",
                            "-k", "100ms", "--pids", "2000")
        assert result["status"] == "timeout", result
        assert free(), "something lives on"


def test_attack_26_children_in_hundreds(probe):
    with lock_of(probe) as free:
        code = HOLD + """
for i in range(80):
    if os.fork() == 0:
        os.setsid()
        time.sleep(300)
os._exit(5)
"""
        result = probe.cell(code)
        assert result["exit_code"] == 5, result
        assert free()


def test_attack_26_thread_leader_exits(probe):
    """The first thread ends, another runs on: that is still the main process, and then the end."""
    result = probe.cell("""
import ctypes, os, threading, time
def rest():
    time.sleep(0.2)
    os._exit(9)
threading.Thread(target=rest).start()
ctypes.CDLL(None).syscall(60, 0)
""")
    assert result["exit_code"] == 9, result


# ---- 22 --------------------------------------------------------------------------------------

def test_attack_22_every_signal_to_init(probe):
    """Unsafe to try without a cell: pid 1 is the machine's."""
    result = probe.cell("""
import os
for n in range(1, 65):
    try:
        os.kill(1, n)
    except OSError:
        pass
# Hidden, where the guest has the user of init.
hidden = not os.path.exists("/proc/1")
(hidden or open("/proc/1/stat").read().split()[2] in "SR") and print("HELD", flush=True)
os._exit(7)
""")
    assert result["exit_code"] == 7 and "HELD" in result["stdout"], result


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGTSTP, signal.SIGKILL, signal.SIGABRT])
def test_attack_22_stopped_init_still_ends_at_the_timeout(probe, number):
    begin = time.monotonic()
    result = probe.cell(f"""
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    try:
        os.kill(1, {int(number)})
    except PermissionError:
        pass
    time.sleep(0.01)
""", "--timeout", f"{0.5 * SLOW}s", "-k", "100ms")
    assert result["status"] == "timeout", result
    assert time.monotonic() - begin < 3 * SLOW


def test_attack_22_stop_by_every_way(probe):
    """By group, by queue, by pidfd, by thread, and by ptrace."""
    result = probe.cell("""
import ctypes, os, signal, time
libc = ctypes.CDLL(None, use_errno=True)
for call in (lambda: os.kill(-1, signal.SIGSTOP) if os.fork() == 0 else 0, lambda: libc.syscall(234, 1, 1, 19),
             lambda: libc.syscall(200, 1, 19), lambda: libc.syscall(424, libc.syscall(434, 1, 0), 19, 0, 0),
             lambda: libc.ptrace(16, 1, 0, 0), lambda: libc.ptrace(0x4206, 1, 0, 0), lambda: os.killpg(os.getpgid(1), 19)):
    try:
        if os.fork() == 0:
            call()
            os._exit(0)
    except OSError:
        pass
time.sleep(0.3)
if os.path.exists("/proc/1"): print("state", open("/proc/1/stat").read().rsplit(")", 1)[1].split()[0])
""", "--timeout", f"{3 * SLOW}s", "-k", "100ms")
    assert result["status"] in ("exited", "timeout"), result
    assert "state T" not in result["stdout"] and "state t" not in result["stdout"], result


# ---- 23 --------------------------------------------------------------------------------------

BOMB = """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""


def test_attack_23_timeout_in_a_fork_bomb(probe):
    """Unsafe without a cell. Where there is a group, the bomb goes on at its limit until the timeout;
    without one, sampling may end it before."""
    options = ["--on-pids-limit", "fail"] if probe.user == "root" else []
    begin = time.monotonic()
    result = probe.cell(BOMB, "--timeout", "1s", "-k", "200ms", *options)
    took = time.monotonic() - begin
    assert result["status"] in ("timeout", "pids_limit"), result
    if options:
        assert result["status"] == "timeout", result
    assert took < 1 + 0.2 + 1 * SLOW, f"{took:.1f} s"


def test_attack_23_timeout_in_a_bomb_that_ignores_signals(probe):
    code = "import signal\nfor n in range(1, 65):\n  try: signal.signal(n, signal.SIG_IGN)\n  except: pass\n" + BOMB
    options = ["--on-pids-limit", "fail"] if probe.user == "root" else []
    begin = time.monotonic()
    result = probe.cell(code, "--timeout", "1s", "-k", "200ms", *options)
    assert result["status"] in ("timeout", "pids_limit"), result
    assert time.monotonic() - begin < 1 + 0.2 + 1 * SLOW


# ---- 24 --------------------------------------------------------------------------------------

CANARY = """
import os, signal, sys, time
got = []
for n in range(1, 65):
    if n not in (9, 19, 17, 32, 33):
        try: signal.signal(n, lambda s, f: got.append(s))
        except (OSError, ValueError): pass
print("up", flush=True)
sys.stdin.read()
print("got", got, flush=True)
"""


def test_attack_24_pid_churn_signals_only_its_own(probe):
    """Processes of the same user next to cells that churn pids and are ended by the clock."""
    canaries = [subprocess.Popen([*probe.prefix, PYTHON, "-I", "-S", "-c", CANARY], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE) for _ in range(4)]
    try:
        for canary in canaries:
            assert canary.stdout.readline() == b"up\n"
        churn = "import os\nwhile True:\n  if os.fork(): os.wait()\n  else:\n    os.fork(); os._exit(0)"
        for _ in range(4):
            result = probe.cell(churn, "--timeout", "150ms", "-k", "20ms")
            assert result["status"] in ("timeout", "pids_limit"), result
        for canary in canaries:
            out, _ = canary.communicate(b"", timeout=10 * SLOW)
            assert out == b"got []\n", out
    finally:
        for canary in canaries:
            if canary.poll() is None:
                canary.kill()
                canary.communicate(timeout=20 * SLOW)


def test_attack_24_pids_of_the_host_cannot_be_named(probe):
    """kill, pidfd_open and sched_setaffinity of a process of the same user outside."""
    with subprocess.Popen([*probe.prefix, "sleep", "60"]) as canary:
        try:
            probe.check(f"""
import os
reached = []
for name, call in dict(kill=lambda: os.kill({canary.pid}, 0), pidfd=lambda: os.pidfd_open({canary.pid}),
                       affinity=lambda: os.sched_getaffinity({canary.pid}), pgid=lambda: os.getpgid({canary.pid}),
                       proc=lambda: os.stat("/proc/{canary.pid}")).items():
    try:
        call()
        reached.append(name)
    except OSError:
        pass
print("ESCAPED" if reached else "HELD", reached)
""")
        finally:
            canary.kill()


# ---- 25 --------------------------------------------------------------------------------------

# The target is pid 1 in a cell; without one a child of our own, which is there to be reached.
TARGET = """
import ctypes, os, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long] * 4
target = 1
if os.getppid() != 1:
    target = os.fork()
    if target == 0:
        time.sleep(20)
        os._exit(0)
def verdict(reached):
    if target != 1:
        os.kill(target, 9)
    print("ESCAPED" if reached else "HELD", flush=True)
    os._exit(0)
"""


REACH = {
    "ptrace_attach": "verdict(libc.ptrace(16, target, 0, 0) == 0)",
    "ptrace_seize": "verdict(libc.ptrace(0x4206, target, 0, 0) == 0)",
    "mem": """
try: verdict(os.open(f"/proc/{target}/mem", os.O_RDWR) >= 0)
except OSError: verdict(False)
""",
    "environ": """
try: verdict(bool(open(f"/proc/{target}/environ", "rb").read()))
except OSError: verdict(False)
""",
    "fd": """
try: verdict(bool([os.readlink(f"/proc/{target}/fd/{n}") for n in os.listdir(f"/proc/{target}/fd")]))
except OSError: verdict(False)
""",
    "root": """
try: verdict(bool(os.listdir(f"/proc/{target}/root/")))
except OSError: verdict(False)
""",
    "exe": """
try: verdict(bool(os.readlink(f"/proc/{target}/exe")))
except OSError: verdict(False)
""",
    "maps": """
try: verdict(bool(open(f"/proc/{target}/maps", "rb").read()))
except OSError: verdict(False)
""",
    "pidfd_getfd": "p = libc.syscall(434, target, 0); verdict(libc.syscall(438, p, 0, 0) >= 0 or libc.syscall(438, p, 3, 0) >= 0)",
    "prlimit": "old = ctypes.create_string_buffer(16); verdict(libc.syscall(302, target, 7, None, old) == 0)",
    "prlimit_set": "verdict(libc.syscall(302, target, 7, struct.pack('QQ', 0, 0), None) == 0)",
    "affinity": """
try: os.sched_setaffinity(target, {min(os.sched_getaffinity(0))}); verdict(True)
except OSError: verdict(False)
""",
    "scheduler": """
try: os.sched_setscheduler(target, os.SCHED_IDLE, os.sched_param(0)); verdict(True)
except OSError: verdict(False)
""",
    "priority": """
try: os.setpriority(os.PRIO_PROCESS, target, 19); verdict(True)
except OSError: verdict(False)
""",
    "oom_score": """
try: open(f"/proc/{target}/oom_score_adj", "w").write("1000"); verdict(True)
except OSError: verdict(False)
""",
    "kcmp": "verdict(libc.syscall(312, os.getpid(), target, 2, 0, 0) >= 0)",
}


@pytest.mark.parametrize("way", REACH)
def test_attack_25_reach_into_init(probe, way):
    probe.check(TARGET + REACH[way])


@pytest.mark.parametrize("call", ["process_vm_readv", "process_vm_writev"])
def test_attack_25_memory_of_init(probe, call):
    """An address of the right kind is not even looked at: EPERM (or ESRCH), not EFAULT."""
    number = {"process_vm_readv": 310, "process_vm_writev": 311}[call]
    probe.check(TARGET + f"""
data = ctypes.create_string_buffer(8)
here = struct.pack("QQ", ctypes.addressof(data), 8)
libc.syscall({number}, target, here, 1, here, 1, ctypes.c_long(0))  # the last one is on the stack, as a long
n = ctypes.get_errno()
verdict(n in (0, 14))
""")


def test_attack_25_socket_of_init_is_not_inherited(probe):
    """The guest's only descriptors are 0, 1, 2: nothing with which to forge its own exit status."""
    result = probe.cell("import os\nprint(sorted(os.listdir('/proc/self/fd')))")
    assert result["stdout"] == "['0', '1', '2', '3']\n", result["stdout"]  # 3 is the listing itself


# ---- 27 --------------------------------------------------------------------------------------

def test_attack_27_every_exit_code(probe):
    """Live, so that both the result and brig's own exit code are seen."""
    path = os.path.join(probe.work, "result")
    for code in range(256):
        done = probe.brig.run("-q", "-w", probe.work, "--result", path, "--", "sh", "-c", f"exit {code}",
                              before=probe.prefix)
        with open(path, encoding="utf-8") as out:
            result = json.load(out)
        os.unlink(path)
        assert (done.returncode, result["status"], result["exit_code"], result["signal"]) == \
            (code, "exited", code, None)


def test_attack_27_every_signal(probe):
    """Each that ends a process by default, real-time ones too."""
    for number in range(1, 65):
        if number in (17, 18, 19, 20, 21, 22, 23, 28):
            continue  # by default these are ignored, or stop
        code = ("import ctypes, os\n"
                "libc = ctypes.CDLL(None)\n"
                # Python ignores SIGPIPE and SIGXFSZ; libc guards 32 and 33: the kernel does not.
                f"libc.syscall(13, {number}, ctypes.create_string_buffer(32), 0, 8)\n"
                f"libc.syscall(62, os.getpid(), {number})\n")
        result = probe.brig.result("-w", probe.work, "--", PYTHON, "-I", "-S", "-c", code, before=probe.prefix)
        assert (result["status"], result["exit_code"], result["signal"]) == ("signaled", None, number), result


def test_attack_27_exit_code_of_brig_after_a_signal(probe):
    for number in (1, 6, 9, 11, 15, 34, 64):
        done = probe.brig.run("-q", "-w", probe.work, "--", "sh", "-c", f"kill -{number} $$", before=probe.prefix)
        assert done.returncode == 128 + number


# ---- 28, 31 ----------------------------------------------------------------------------------

def mounts():
    with open("/proc/self/mountinfo", encoding="utf-8") as info:
        return info.read().count("\n")


def at_random_moments(probe, number):
    """Send a signal to brig within its first 15 ms, many times over. Returns the ends it came to."""
    ends = {}
    mark = f"sleep-{probe.brig.token}"
    before = mounts()
    chance = random.Random()
    with lock_of(probe) as free:
        for _ in range(ROUNDS):
            # The name of the guest marks it, and so does the lock.
            process = probe.brig.start("-w", probe.work, "--", "sh", "-c",
                                       f"exec 9<held; flock -s 9; (setsid sleep 300 & ) ; exec sleep 300 # {mark}",
                                       before=probe.prefix)
            time.sleep(chance.uniform(0, 0.015) * SLOW)
            process.send_signal(number)
            out, err = process.communicate(timeout=20 * SLOW)
            ends[process.returncode] = ends.get(process.returncode, 0) + 1
            if number == signal.SIGKILL:  # brig cannot wait for the end any more: it comes at once
                assert frame.wait_until(lambda: free() and not probe.brig.survivors(), 2), "something stays"
            else:
                assert not probe.brig.survivors(), "something stays"
            assert free(), "something lives on"
            assert process.returncode in (-number, 128 + number), (process.returncode, out, err)
    assert mounts() == before, "a mount stays"
    return ends


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_attack_28_signal_during_the_set_up(probe, number):
    """Nothing stays, not even a group."""
    at_random_moments(probe, number)
    assert not probe.brig.left_groups()


def test_attack_31_killed_during_the_set_up(probe):
    """Nothing runs on; the next start sweeps the groups."""
    at_random_moments(probe, signal.SIGKILL)
    assert probe.brig.run("-w", probe.work, "--", "true", before=probe.prefix).returncode == 0
    assert frame.wait_until(lambda: not probe.brig.left_groups(), 2), probe.brig.left_groups()


# ---- 29 --------------------------------------------------------------------------------------

@pytest.mark.parametrize("signals", [(2, 2), (15, 15), (2, 15, 1), (15,) * 20], ids=str)
def test_attack_29_many_cancels(probe, signals):
    process = probe.brig.start("-w", probe.work, "-k", "200ms", "--", "sh", "-c",
                               "trap '' TERM; echo up; sleep 300", before=probe.prefix)
    assert process.stdout.readline() == b"up\n"
    begin = time.monotonic()
    for number in signals:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
    frame.finish(process, 20)
    # The second one ends the run at once: a third may find brig with nothing left but its own end.
    assert process.returncode in {128 + n for n in signals} | {-n for n in signals[2:]}
    assert time.monotonic() - begin < 3 * SLOW


def test_attack_29_late_cancel(probe):
    """A signal around the very end: the guest's own status or the cancel, never anything else."""
    for step in range(30):
        process = probe.brig.start("-w", probe.work, "--", "sh", "-c", "exit 7", before=probe.prefix)
        time.sleep((0.008 + step * 0.0005) * SLOW)
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        done = frame.finish(process, 20)
        assert done.returncode in (7, 143, -15), (step, done.returncode, done.stderr)
        assert not probe.brig.survivors()


# ---- 30 --------------------------------------------------------------------------------------

@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)], ids=str)
def test_attack_30_closed_streams(probe, closed):
    """The status is kept, and the guest gets no descriptor that is not its own."""
    path = os.path.join(probe.work, "result")
    script = 'exec "$@"' + "".join(f" {n}{'<' if n == 0 else '>'}&-" for n in closed)
    done = probe.brig.run("-w", probe.work, "--result", path, "--", PYTHON, "-c",
                          "import os, sys; sys.exit(7 if len(os.listdir('/proc/self/fd')) == 4 else 8)",
                          before=["sh", "-c", script, "sh", *probe.prefix])
    assert done.returncode == 7, done.stderr
    with open(path, encoding="utf-8") as out:
        result = json.load(out)
    assert result["exit_code"] == 7 and result["isolation"]["tier"] == "cell"


@pytest.mark.parametrize("how", ["SIG_BLOCK", "SIG_IGN"])
def test_attack_30_signals_blocked_or_ignored(probe, how):
    prepare = ("import os, signal, sys\n"
               "for n in range(1, 65):\n"
               "    if n in (9, 19, 32, 33): continue\n" +
               ("    signal.pthread_sigmask(signal.SIG_BLOCK, [n])\n" if how == "SIG_BLOCK" else
                "    signal.signal(n, signal.SIG_IGN)\n") +
               "os.execvp(sys.argv[1], sys.argv[1:])")
    result = probe.brig.result(
        "-w", probe.work, "--", PYTHON, "-c",
        "import sys\n"
        "status = dict(l.split(':\\t', 1) for l in open('/proc/self/status').read().splitlines() if ':\\t' in l)\n"
        "print(int(status['SigBlk'], 16), int(status['SigIgn'], 16) & ~((1 << 12) | (1 << 24)))\n"
        "sys.exit(7)", before=[*probe.prefix, PYTHON, "-c", prepare])
    assert (result["exit_code"], result["stdout"]) == (7, "0 0\n"), result


def test_attack_30_full_descriptor_table(probe):
    """Every number of free descriptors: it works, or says so."""
    if SANITIZED:
        pytest.skip("does not apply: an instrumented brig needs more descriptors")
    prepare = ("import os, resource, sys\n"
               "free = int(sys.argv[1])\n"
               "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
               "while len(os.listdir('/proc/self/fd')) - 1 < 64 - free: os.set_inheritable(os.dup(0), True)\n"
               "os.execvp(sys.argv[2], sys.argv[2:])")
    worked = 0
    for free in range(1, 60, 2):
        done = probe.brig.run("-w", probe.work, "--", "sh", "-c", "exit 7",
                              before=[*probe.prefix, PYTHON, "-I", "-S", "-c", prepare, str(free)])
        assert done.returncode in (7, 125, 127), (free, done.returncode, done.stderr)
        assert done.returncode == 7 or done.stderr, free
        worked += done.returncode == 7
    assert worked, "never worked"


def test_attack_30_deleted_directory(probe):
    gone = os.path.join(probe.work, "gone")
    script = f'mkdir "{gone}" && cd "{gone}" && rmdir "{gone}" && exec "$@"'
    done = subprocess.run([*probe.prefix, "sh", "-c", script, "sh", probe.brig.binary, "run", "--", "sh", "-c", "exit 7"],
                          check=False, capture_output=True)
    assert done.returncode == 125 and re.search(b"deleted|No such file|does not exist", done.stderr), done
    done = probe.brig.run("-w", probe.work, "--", "sh", "-c", "exit 7",
                          before=[*probe.prefix, "sh", "-c", script, "sh"])
    assert done.returncode == 7, done.stderr


def test_attack_30_no_environment_and_no_arguments(probe):
    done = subprocess.run([*probe.prefix, "env", "-i", probe.brig.binary, "run", "-w", probe.work, "--",
                           "/bin/sh", "-c", "exit 7"], check=False, capture_output=True)
    assert done.returncode == 7, done.stderr
    done = subprocess.run([PYTHON, "-c", "import ctypes, os, sys\n"
                           "libc = ctypes.CDLL(None)\n"
                           "libc.execve(sys.argv[1].encode(), (ctypes.c_char_p * 1)(None), (ctypes.c_char_p * 1)(None))",
                           probe.brig.binary], check=False, capture_output=True, timeout=20 * SLOW)
    assert done.returncode == 2, done
