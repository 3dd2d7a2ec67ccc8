# SPDX-License-Identifier: MIT
"""ATTACKS 53 to 57: brig itself runs out of something, or fails at any step."""
import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
import uuid

import pytest
from conftest import PYTHON, SANITIZED, SLOW, frame
from faults import HANG, contradictions, have_strace, judge, run_with, strace

needs_strace = pytest.mark.skipif(not have_strace(), reason="strace cannot inject faults here")


# ---- 53 --------------------------------------------------------------------------------------

def test_attack_53_result_on_a_full_disk(probe):
    done = probe.brig.run("-w", probe.work, "--result", "/dev/full", "--", "sh", "-c", "echo x; exit 3",
                          before=probe.prefix)
    assert done.returncode == 125
    assert done.stdout == b"x\n"
    assert b"--result" in done.stderr and b"No space left" in done.stderr


def test_attack_53_json_on_a_full_disk(probe):
    with open("/dev/full", "wb") as full:
        done = probe.brig.run("--json", "-w", probe.work, "--", "true", before=probe.prefix, stdout=full)
    assert done.returncode == 125
    assert b"No space left" in done.stderr


def test_attack_53_events_on_a_full_disk(probe):
    """The log is lost, and that is said; the run and its status are not."""
    done = probe.brig.run("-w", probe.work, "--events", "/dev/full", "--", "sh", "-c", "echo x; exit 3",
                          before=probe.prefix)
    assert done.returncode == 3
    assert done.stdout == b"x\n"
    assert b"--events" in done.stderr


def test_attack_53_output_on_a_full_disk(probe):
    """Nothing of the output is lost silently: status or message say that it was not written."""
    with open("/dev/full", "wb") as full:
        done = probe.brig.run("-w", probe.work, "-k", "100ms", "--", "sh", "-c", "echo x; sleep 30",
                              before=probe.prefix, stdout=full)
    assert done.returncode != 0
    assert b"No space left" in done.stderr


@pytest.mark.root_only("an ordinary user cannot mount the small file system")
def test_attack_53_result_on_a_small_file_system(probe):
    """A result that does not fit leaves a message and 125; never half a result and 0."""
    place = os.path.join(probe.work, "small")
    os.mkdir(place)
    script = f'mount -t tmpfs -o size=4k none "{place}" && exec "$@"'
    done = probe.brig.run("-w", probe.work, "--result", os.path.join(place, "result"), "--", "head", "-c",
                          "100", "/dev/zero", before=["unshare", "-m", "sh", "-c", script, "sh"])
    assert done.returncode == 0, "a small result fits"
    done = probe.brig.run("-w", probe.work, "--json", "--result", os.path.join(place, "result"), "--", "sh",
                          "-c", "head -c 100000 /dev/zero | tr '\\0' x",
                          before=["unshare", "-m", "sh", "-c", script, "sh"])
    assert done.returncode == 125
    assert b"No space left" in done.stderr


def test_attack_53_scratch_of_the_cell_is_full(probe):
    """The guest's own disk is full: only the guest notices."""
    result = probe.cell("""
import os
try:
    with open("/tmp/full", "wb") as f:
        for i in range(64):
            f.write(bytes(1 << 20))
    print("ESCAPED")
except OSError as e:
    print("HELD", e.errno)
""", "-m", "64M")
    assert "HELD" in (result["stdout"] or "") or result["status"] == "memory_limit", result
    assert result["error"] is None


# ---- 54 --------------------------------------------------------------------------------------

def test_attack_54_little_address_space(probe):
    """From the least with which brig can be loaded on: refused with a message, or run as claimed."""
    def version(kib):
        return subprocess.run([*probe.prefix, "prlimit", f"--as={kib * 1024}", probe.brig.binary, "--version"],
                              check=False, capture_output=True).returncode
    low, high = 256, 65536
    while high - low > 64:
        middle = (low + high) // 2
        low, high = (low, middle) if version(middle) == 0 else (middle, high)
    wrong, refused, ran = [], 0, 0
    for kib in range(high, high + 2048, 128):
        done, seconds = run_with(probe, ["prlimit", f"--as={kib * 1024}"], guest=["/bin/true"])
        if done.returncode < 0 or seconds > HANG * SLOW:
            wrong.append((kib, done.returncode, seconds))
        elif not done.stdout or json.loads(done.stdout)["status"] == "error":
            refused += 1
            if done.returncode not in (125, 127) or not done.stderr:
                wrong.append((kib, "refused without a message", done.returncode))
        else:  # whether the guest had enough for itself is another matter
            isolation = json.loads(done.stdout)["isolation"]
            ran += 1
            if isolation["tier"] != "cell":
                wrong.append((kib, isolation))
    assert not wrong, wrong
    assert ran, f"never ran; refused {refused} times"


@pytest.mark.parametrize("option", ["--nofile=", "--stack=", "--data=", "--fsize=", "--nproc=", "--memlock="])
def test_attack_54_little_of_everything(probe, option):
    """Other limits of the caller: never less isolation, never a crash."""
    if SANITIZED:
        pytest.skip("does not apply: an instrumented brig needs more of everything")
    wrong = []
    values = {"--nofile=": range(4, 40, 3), "--stack=": (65536, 131072, 262144, 1 << 20),
              "--data=": (65536, 262144, 1 << 20, 4 << 20), "--fsize=": (0, 1, 4096, 65536),
              "--nproc=": (1, 2, 3), "--memlock=": (0, 1)}[option]
    for value in values:
        limit = ["prlimit", f"{option}{value}"]
        if subprocess.run([*probe.prefix, *limit, probe.brig.binary, "--version"], check=False, capture_output=True).returncode:
            continue  # too little for any program
        done, seconds = run_with(probe, limit, guest=["/bin/true"])
        name = f"{option}{value}"
        if seconds > HANG * SLOW:
            wrong.append((name, seconds))
        elif done.returncode < 0:
            wrong.append((name, "signal", -done.returncode))
        elif done.returncode == 0:
            isolation = json.loads(done.stdout)["isolation"]
            if isolation["tier"] != "cell" and not isolation["degraded"]:
                wrong.append((name, isolation))
        elif not done.stderr:
            wrong.append((name, done.returncode, "no message"))
    assert not wrong, wrong


# ---- 55 --------------------------------------------------------------------------------------

CALLS = """
clone3 mount fsopen fsconfig fsmount move_mount open_tree mount_setattr pivot_root umount2 mkdirat
symlinkat openat2 statx setns unshare prctl capset setgroups setresuid setresgid landlock_create_ruleset
landlock_add_rule landlock_restrict_self seccomp socketpair pipe2 epoll_create1 epoll_ctl timerfd_create
timerfd_settime memfd_create signalfd4 pidfd_open execveat close_range dup3 fcntl sethostname socket
ioctl chdir fchdir setsid prlimit64 sendto recvfrom waitid ppoll poll epoll_wait pidfd_send_signal
unlinkat readlink statfs faccessat2 getrandom rt_sigprocmask
""".split()
ERRORS = ("EPERM", "ENOMEM", "EMFILE", "EINTR")


@needs_strace
@pytest.mark.timeout(300 * SLOW)
@pytest.mark.parametrize("call", CALLS)
def test_attack_55_call_of_the_set_up_fails(probe, call):
    wrong = []
    for when in (1, 2, 3):
        for error in ERRORS:
            done, seconds = run_with(probe, strace(call, error, when))
            wrong.append(judge(done, seconds, f"{call} {error} at {when}"))
            if probe.brig.survivors():
                wrong.append(f"{call} {error} at {when}: processes stay")
                frame.clean_up(probe.brig.survivors(), [])
    wrong = [w for w in wrong if w]
    assert not wrong, "\n".join(wrong)


HUNGRY = "x = bytearray(200 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\nprint('ESCAPED')"


@needs_strace
@pytest.mark.timeout(300 * SLOW)
@pytest.mark.parametrize("call", ["write", "mkdirat", "openat"])
def test_attack_55_limits_hold_when_the_group_cannot_be_made(probe, call):
    """Whichever write to a group fails: the memory limit holds, or it is not claimed, or refused."""
    wrong = []
    for when in range(1, 40, 1 if call == "write" else 2):
        done, seconds = run_with(probe, strace(call, "EPERM", when), "-m", "64M",
                                 guest=[PYTHON, "-I", "-S", "-c", HUNGRY])
        what = f"{call} {when}"
        if seconds > HANG * SLOW:
            wrong.append(f"{what}: {seconds:.1f} s")
        if done.returncode == 127 and b"loading shared" in done.stderr or not done.stdout:
            if done.returncode not in (2, 125, 126, 127):
                wrong.append(f"{what}: exit {done.returncode} without a result: {done.stderr[-200:]}")
            continue
        result = json.loads(done.stdout)
        if result["status"] not in ("memory_limit", "error") and "ESCAPED" in (result["stdout"] or ""):
            # Too short to be seen while it ran: then that is said.
            unseen = "between two samples" in (result["notes"] or "")
            if "memory" in result["isolation"]["layers"] and not unseen:
                wrong.append(f"{what}: memory is claimed ({result['isolation']['layers']['memory']}), "
                             f"200 MiB were used: {result['status']}")
    assert not wrong, "\n".join(wrong)


@needs_strace
@pytest.mark.parametrize("call", ["capset", "setns", "setresuid", "setresgid", "setgroups", "seccomp",
                                  "landlock_restrict_self", "prctl"])
def test_attack_55_success_that_did_nothing_is_not_believed_by_doctor(probe, call):
    """A kernel that says yes and does nothing (as some emulators do): doctor does not say ok."""
    before = [shutil.which("strace"), "-D", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}",
              "-e", f"inject={call}:retval=0"]
    done = probe.brig.run("--json", verb="doctor", before=[*probe.prefix, *before], cwd=probe.work)
    layer = {"capset": "capabilities", "setns": "net", "seccomp": "seccomp", "prctl": "no_new_privs",
             "landlock_restrict_self": "landlock", "setresuid": "user", "setresgid": "user",
             "setgroups": "user"}[call]
    if done.returncode == 125:
        return
    said = {row["name"]: row["state"] for row in json.loads(done.stdout)["layers"]}
    if call in ("setresuid", "setresgid", "setgroups", "setns") and probe.user == "user":
        assert said[layer] == "ok", said  # not called for this user
        return
    result, _ = run_with(probe, before)
    if result.returncode == 125:  # a run is refused, and doctor tells of what is left without a cell
        assert said["user"] != "ok" and done.returncode == 1, said
        return
    outcome = json.loads(result.stdout)
    seen = json.loads(outcome["stdout"])
    if not contradictions(outcome["isolation"], seen):
        return  # another step did the same
    assert said[layer] != "ok" and done.returncode == 1, said


# ---- 56 --------------------------------------------------------------------------------------

JUMP = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
#include <sys/time.h>
static long jump(void) { static int n; return n++ %% 2 ? %(jump)s : 0; }
int clock_gettime(clockid_t id, struct timespec *ts)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int ret = real(id, ts);
    if (id == CLOCK_REALTIME || id == 5) ts->tv_sec += jump();
    return ret;
}
time_t time(time_t *t) { struct timespec ts; clock_gettime(CLOCK_REALTIME, &ts); if (t) *t = ts.tv_sec; return ts.tv_sec; }
int gettimeofday(struct timeval *tv, void *tz) { (void)tz; struct timespec ts; clock_gettime(CLOCK_REALTIME, &ts); tv->tv_sec = ts.tv_sec; tv->tv_usec = ts.tv_nsec / 1000; return 0; }
"""


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc for a clock that jumps")
@pytest.mark.parametrize("jump", ["-31536000L", "31536000L"])
def test_attack_56_clock_jumps(probe, jump):
    """The calendar clock goes back and forth by a year: the timeout comes when it should."""
    if SANITIZED:
        pytest.skip("does not apply: LD_PRELOAD and a sanitizer do not go together")
    source, library = (os.path.join(os.path.dirname(probe.work), name) for name in ("jump.c", "jump.so"))
    with open(source, "w", encoding="ascii") as out:
        out.write(JUMP % {"jump": jump})
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    os.chmod(library, 0o755)
    begin = time.monotonic()
    result = probe.brig.result("-w", probe.work, "--timeout", "500ms", "-k", "100ms", "--", "sleep", "30",
                               before=[*probe.prefix, "env", f"LD_PRELOAD={library}"])
    assert result["status"] == "timeout"
    assert 0.5 <= time.monotonic() - begin < 15 * SLOW  # `sleep` would take 30 s
    assert 0.4 <= result["usage"]["wall_seconds"] < 15 * SLOW


# ---- 57 --------------------------------------------------------------------------------------

@contextlib.contextmanager
def memory_group(size):
    """A cgroup of our own, v1 or v2, for brig and all that it starts: the file to join it by."""
    name = f"probe-{uuid.uuid4().hex}"
    with open("/proc/self/cgroup", encoding="ascii") as own:
        rows = [line.strip().split(":", 2) for line in own]
    v1 = [path for _, names, path in rows if "memory" in names.split(",")]
    directory = f"/sys/fs/cgroup/memory{v1[0].rstrip('/')}/{name}" if v1 else f"/sys/fs/cgroup/{name}"
    os.mkdir(directory)
    try:
        limit_file = "memory.limit_in_bytes" if v1 else "memory.max"
        with open(f"{directory}/{limit_file}", "w", encoding="ascii") as limit:
            limit.write(str(size))
        yield directory + ("/tasks" if v1 else "/cgroup.procs")
    finally:
        def removed():
            for root, directories, _ in os.walk(directory, topdown=False):
                for entry in directories:
                    with contextlib.suppress(OSError):
                        os.rmdir(os.path.join(root, entry))
            with contextlib.suppress(OSError):
                os.rmdir(directory)
            return not os.path.exists(directory)
        frame.wait_until(removed, 10)


@pytest.mark.root("makes a cgroup")
def test_attack_57_supervisor_killed_for_memory(probe):
    """brig keeps more output than its own group has memory for: it is killed, and the cell with it."""
    held = os.path.join(probe.work, "held")
    with open(held, "wb") as lock:
        os.chmod(held, 0o666)
        with memory_group(24 << 20) as group:
            script = f'echo 0 > {group} && exec "$@"'
            # exec 9<: a lock that every process of the cell holds, and nobody else.
            guest = ('exec 9<held; flock -s 9; (setsid sleep 300 &) ; '
                     'head -c 200000000 /dev/zero; echo done >survived; sleep 300')
            process = probe.brig.start("--json", "-w", probe.work, "--output", "1G", "--timeout", "60s", "--",
                                       "sh", "-c", guest, before=["sh", "-c", script, "sh", *probe.prefix])
            frame.finish(process, 60)
            assert process.returncode == -signal.SIGKILL, "the supervisor was not the one that was killed"

            def free():
                with contextlib.suppress(OSError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return True
                return False
            assert frame.wait_until(free, 2), "the cell outlived its supervisor"
            assert frame.wait_until(lambda: not probe.brig.survivors(), 2)
            # The next start sweeps what is left.
            probe.brig.run("-w", probe.work, "--", "true", before=["sh", "-c", script, "sh", *probe.prefix])
            assert not probe.brig.left_groups()


def test_attack_57_supervisor_killed_at_any_time(probe):
    """SIGKILL while the guest is at work: all of the cell is gone at once."""
    held = os.path.join(probe.work, "held")
    with open(held, "wb") as lock:
        os.chmod(held, 0o666)
        process = probe.brig.start("-w", probe.work, "--", "sh", "-c",
                                   "exec 9<held; flock -s 9; trap '' TERM HUP INT; (setsid sleep 300 &); "
                                   "echo up; sleep 300", before=probe.prefix)
        assert process.stdout.readline() == b"up\n"
        process.kill()
        frame.finish(process, 20)

        def free():
            with contextlib.suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            return False
        assert frame.wait_until(free, 2), "the cell outlived its supervisor"
    probe.brig.run("-w", probe.work, "--", "true", before=probe.prefix)
