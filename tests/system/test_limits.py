# SPDX-License-Identifier: MIT
"""Cases 17 to 20, 23 and 24: limits hold for the whole tree and are reported for what they are."""
import json
import os
import resource
import signal
import subprocess
import tempfile
import time

import pytest
from conftest import (BRIG, PYTHON, PYTHON_TIME, SLOW, finish, has_cgroup, message, wait_for_end_of_init,
                      wait_for_file)

MIB = 1 << 20

# Takes argv[1] MiB that are really used, says so, and exits.
EAT = "import sys\nheld = b'x' * (int(sys.argv[1]) << 20)\nprint('ate', flush=True)"


@pytest.fixture
def disk(tmp_path):
    """A directory that is not in memory."""
    for parent in (tmp_path, "/var/tmp", os.path.dirname(BRIG)):
        kind = subprocess.run(["stat", "-f", "-c", "%T", parent], capture_output=True, check=True)
        if kind.stdout.strip() not in (b"tmpfs", b"ramfs", b"overlayfs"):
            with tempfile.TemporaryDirectory(dir=parent) as directory:
                yield directory
            return
    pytest.skip("every directory we may write to is in memory")


# ---- 17, 18, 19 ------------------------------------------------------------------------------

THREE = """
import os, sys, time
for i in range(3):
    if os.fork() == 0:
        held = b"x" * (int(sys.argv[1]) << 20)
        time.sleep(300)
for i in range(3):
    os.wait()
"""


@pytest.mark.limits
@pytest.mark.cgroup("the peak stays below the limit")
def test_case_17_memory_of_the_whole_tree(brig):
    """Three processes of 300 MB under 512 MB: none of them alone is over the limit."""
    result = brig.result("-m", "512M", "--timeout", f"{60 * SLOW}s", "--", *PYTHON, THREE, 300)
    assert result["status"] == "memory_limit"
    assert result["usage"]["memory_peak_bytes"] <= 512 * MIB
    assert "512 MiB" in result["notes"] and "--memory" in result["notes"]
    assert not brig.survivors()


@pytest.mark.limits
def test_case_17_under_the_limit_is_a_pass(brig):
    result = brig.result("-m", "256M", "--", *PYTHON, EAT, 100)
    assert (result["status"], result["exit_code"], result["notes"]) == ("exited", 0, None)
    assert 100 * MIB <= result["usage"]["memory_peak_bytes"] <= 256 * MIB


@pytest.mark.limits
@pytest.mark.parametrize("guest", [
    ["sh", "-c", "kill -SEGV $$"],
    [*PYTHON, "import ctypes; ctypes.string_at(0)"],
], ids=["raised", "real"])
def test_case_18_crash_is_no_memory_verdict(brig, guest):
    result = brig.result("-m", "256M", "--", *guest)
    assert (result["status"], result["signal"]) == ("signaled", signal.SIGSEGV)
    assert "SIGSEGV" in result["notes"]


@pytest.mark.limits
def test_case_18_words_are_no_memory_verdict(brig):
    result = brig.result("--", "sh", "-c", "echo 'MemoryError: Killed. Out of memory' >&2; exit 1")
    assert (result["status"], result["exit_code"]) == ("exited", 1)


@pytest.mark.limits
@pytest.mark.parametrize("code", [137, 9])
def test_case_18_exit_code_is_no_memory_verdict(brig, code):
    result = brig.result("--", "sh", "-c", f"exit {code}")
    assert (result["status"], result["exit_code"]) == ("exited", code)


@pytest.mark.limits
def test_case_18_sigkill_is_no_memory_verdict(brig):
    result = brig.result("--", "sh", "-c", "kill -KILL $$")
    assert (result["status"], result["signal"]) == ("signaled", signal.SIGKILL)


@pytest.mark.limits
def test_case_18_main_process_killed_for_memory(brig):
    result = brig.result("-m", "48M", "--", *PYTHON, EAT, 200)
    assert (result["status"], result["signal"]) == ("memory_limit", signal.SIGKILL)
    assert "48 MiB" in result["notes"]


@pytest.mark.limits
def test_case_18_memory_limit_exits_with_137(brig):
    done = brig.run("-m", "48M", "--", *PYTHON, EAT, 200)
    assert done.returncode == 137
    assert "memory_limit" in message(done)


@pytest.mark.limits
@pytest.mark.parametrize("memory", ["1", "4096", "100K"])
@pytest.mark.cgroup("samples come too late for so short a run")
def test_case_18_too_little_memory_to_start(brig, memory):
    """Not even the exec fits: it is the limit that is named, not the command."""
    done = brig.run("-m", memory, "--", "true")
    assert done.returncode in (125, 137)
    assert "memory" in message(done) and "limit" in message(done)


GRANDCHILD = "head -c 200M /dev/zero | tail >/dev/null; exit 0"


@pytest.mark.limits
@pytest.mark.cgroup("brig takes no samples while it is stopped")
def test_case_18_grandchild_killed_for_memory(brig):
    """brig cannot react while it is stopped: on v1 the main process exits with 0 after its
    grandchild was killed. It is a memory verdict all the same, and the notes say how it was."""
    process = brig.start_stopped("--json", "-m", "48M", "--", "sh", "-c", GRANDCHILD)
    wait_for_end_of_init(process)
    process.send_signal(signal.SIGCONT)
    result = brig.result_of(process)
    assert result["status"] == "memory_limit"
    if result["isolation"]["layers"]["memory"] == "cgroup v1":
        assert result["exit_code"] == 0
        assert "exited with 0" in result["notes"]
    else:  # v2 kills the whole group
        assert result["signal"] == signal.SIGKILL


@pytest.mark.limits
def test_case_18_rest_of_the_tree_is_ended(brig):
    """After the kernel has killed one process, the main process does not go on as if nothing
    was."""
    result = brig.result("-m", "48M", "--timeout", f"{60 * SLOW}s", "--", "sh", "-c",
                         "head -c 200M /dev/zero | tail >/dev/null; sleep 300")
    assert result["status"] == "memory_limit"
    assert result["usage"]["wall_seconds"] < 30 * SLOW
    assert not brig.survivors()


@pytest.mark.limits
@pytest.mark.parametrize("status, options, hungry", [
    ("memory_limit", ["-m", "48M"], [*PYTHON, EAT, 200]),
    ("pids_limit", ["--pids", "30"], ["bash", "-c", "f() { f | f & }; f; sleep 300"]),
    ("cpu_limit", ["--cpu-time", "500ms"], ["sh", "-c", "while :; do :; done"]),
    ("output_limit", ["--output", "1M"], ["yes"]),
], ids=["memory", "pids", "cpu", "output"])
def test_case_19_two_runs_side_by_side(brig, tmp_path, marker, status, options, hungry):
    """A hungry run ends while a calm one goes on: verdict and usage of each are its own."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    calm = brig.start("--json", "-m", "256M", "--", "sh", "-c",
                      f"echo hi; : >{marker}; read x <{gate}")
    wait_for_file(marker)
    other = brig.result(*options, "--timeout", f"{60 * SLOW}s", "--", *hungry)
    gate.write_text("go\n")
    result = brig.result_of(calm)
    assert other["status"] == status
    assert (result["status"], result["exit_code"], result["notes"]) == ("exited", 0, None)
    usage = result["usage"]
    assert usage["memory_peak_bytes"] < 32 * MIB
    assert usage["pids_peak"] is None or usage["pids_peak"] <= 3
    assert usage["cpu_user_seconds"] + usage["cpu_system_seconds"] < 0.4 * SLOW
    assert result["stdout_bytes"] == 3
    assert result["id"] != other["id"]


# ---- 20 --------------------------------------------------------------------------------------

BLOCKS = "block = b'x' * (1 << 20)\n"

MEMORY_KINDS = {
    # Each of its own directories in memory is smaller than the limit, all of them together are not.
    "tmpfs": BLOCKS + """
import os
for directory in ("/tmp", "/dev/shm", os.environ["HOME"]):
    with open(directory + "/file", "wb", buffering=0) as file:
        try:
            for i in range(200):
                file.write(block)
        except OSError as error:
            assert error.errno == 28, error  # No space left
""",
    "tmpfs that was deleted": BLOCKS + """
import os
for directory in ("/tmp", "/dev/shm", os.environ["HOME"]):
    fd = os.open(directory + "/file", os.O_RDWR | os.O_CREAT)
    os.unlink(directory + "/file")
    try:
        for i in range(200):
            os.write(fd, block)
    except OSError as error:
        assert error.errno == 28, error
""",
    "memfd": BLOCKS + """
import os
fd = os.memfd_create("x")
for i in range(200):
    os.write(fd, block)
""",
    "shared mapping": BLOCKS + """
import mmap
shared = mmap.mmap(-1, 200 << 20)
for i in range(200):
    shared[i << 20:(i + 1) << 20] = block
""",
    "System V": """
import ctypes
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
segment = libc.shmget(0, ctypes.c_size_t(200 << 20), 0o1600)
at = libc.shmat(segment, None, 0)
libc.shmctl(segment, 0, None)  # removed when nobody is attached
ctypes.memset(at, 1, 200 << 20)
""",
    "pipes": BLOCKS + """
import fcntl, os
held = []
for i in range(60):
    ends = os.pipe()
    fcntl.fcntl(ends[1], 1031, 1 << 20)  # F_SETPIPE_SZ
    os.write(ends[1], block)
    held.append(ends)
""",
}


@pytest.mark.limits
@pytest.mark.parametrize("kind", [
    kind if kind in ("shared mapping", "System V") else pytest.param(kind, marks=pytest.mark.cgroup("samples count the memory of processes only"))
    for kind in MEMORY_KINDS])
def test_case_20_memory_of_every_kind_counts(brig, kind):
    result = brig.result("-m", "40M", "--", *PYTHON, MEMORY_KINDS[kind] + "\nprint('got it all')")
    assert result["stdout"] == ""
    assert result["status"] == "memory_limit"


@pytest.mark.limits
@pytest.mark.cgroup("samples do not count files in memory")
def test_case_20_memory_of_a_directory_that_was_asked_for_counts(brig):
    """However large the caller made it."""
    result = brig.result("-m", "40M", "--tmpfs", "/scratch:200M", "--", "sh", "-c",
                         "head -c 100M /dev/zero >/scratch/file && echo got it all")
    assert result["stdout"] == ""
    assert result["status"] == "memory_limit"


@pytest.mark.limits
@pytest.mark.parametrize("directory", ["/tmp", "/dev/shm", "~"])
def test_case_20_own_directories_are_bounded(brig, directory):
    """A full one is an error of the guest's, which it can handle; not the end of the run."""
    result = brig.result("-m", "64M", "--", "sh", "-c",
                         f"cp /dev/zero {directory}/file; rm {directory}/file; echo on; exit 4")
    assert (result["status"], result["exit_code"], result["stdout"]) == ("exited", 4, "on\n")
    assert "No space" in result["stderr"]


@pytest.mark.cgroup("samples do not count the page cache")
def test_case_20_page_cache_counts_and_is_given_back(brig, disk):
    """The cache of a file that a guest writes is charged to it; being reclaimable, it is no reason
    to end the run."""
    result = brig.result("-m", "64M", "-w", disk, "--", "dd", "if=/dev/zero", "of=file", "bs=1M",
                         "count=200", "status=none")
    assert (result["status"], result["exit_code"]) == ("exited", 0)
    assert 32 * MIB <= result["usage"]["memory_peak_bytes"] <= 64 * MIB


def test_usage_of_the_disk(brig, disk):
    usage = brig.result("-w", disk, "--", "dd", "if=/dev/zero", "of=file", "bs=1M", "count=8",
                        "conv=fsync", "status=none")["usage"]
    assert usage["write_bytes"] >= 8 * MIB


# ---- 23, 24 ----------------------------------------------------------------------------------

BUSY = "for i in 1 2 3 4 5 6 7 8; do (while :; do :; done) & done; wait"


@pytest.mark.limits
@pytest.mark.parametrize("cpus", [1, 0.25])
@pytest.mark.cgroup("it keeps this limit")
def test_case_23_busy_loops_share_one_core(brig, cpus):
    """Eight of them get the given number of processors' worth together, measured."""
    result = brig.result("--cpus", cpus, "--timeout", "3s", "--", "sh", "-c", BUSY)
    usage = result["usage"]
    used = usage["cpu_user_seconds"] + usage["cpu_system_seconds"]
    assert result["status"] == "timeout"
    assert used <= cpus * usage["wall_seconds"] * 1.1 + 0.1
    assert used >= 0.1


@pytest.mark.limits
@pytest.mark.cgroup("it has the priority")
def test_low_priority_gives_way_to_others(brig):
    """On one processor, a run of low priority gets a tenth of what another gets beside it."""
    one = str(min(os.sched_getaffinity(0)))
    busy = ["--cpus", "unlimited", "--timeout", "2s", "--", "taskset", "-c", one, "sh", "-c", "while :; do :; done"]
    both = [brig.start("--json", "--cpu-priority", priority, *busy) for priority in ("low", "normal")]
    low, normal = (json.loads(finish(process).stdout)["usage"]["cpu_user_seconds"] for process in both)
    assert normal > 4 * low, (normal, low)


def test_case_24_waiting_before_the_start_does_not_count(brig):
    """brig waits for its spec for longer than the timeout: the run still has all of its time."""
    process = brig.start("--json", "--spec", "-", stdin=subprocess.PIPE)
    begin = time.monotonic()
    while time.monotonic() - begin < 2.1:  # the wait is what is tested
        assert process.poll() is None
        time.sleep(0.05)
    spec = {"command": ["sh", "-c", "sleep 0.1; echo done"], "timeout": "2s"}
    done = finish(process, input=json.dumps(spec).encode())
    result = json.loads(done.stdout)
    assert (result["status"], result["stdout"]) == ("exited", "done\n")
    assert 0.1 <= result["usage"]["wall_seconds"] < 2


def test_case_24_runs_in_a_row_each_have_their_own_clock(brig):
    for _ in range(2):
        result = brig.result("--timeout", "300ms", "--", "sleep", "300")
        assert result["status"] == "timeout"
        assert 0.3 <= result["usage"]["wall_seconds"] < 0.3 + 0.5 * SLOW


# ---- beyond the cases ------------------------------------------------------------------------

@pytest.mark.limits
def test_cpu_time_is_of_the_whole_tree(brig):
    """Four loops that take turns: each stays under the limit, together they reach it."""
    result = brig.result("--cpu-time", "800ms", "--cpus", "unlimited", "--timeout",
                         f"{60 * SLOW}s", "--", "sh", "-c", BUSY)
    used = result["usage"]["cpu_user_seconds"] + result["usage"]["cpu_system_seconds"]
    assert result["status"] == "cpu_limit"
    assert 0.8 <= used < 1.2 * SLOW
    assert "--cpu-time" in result["notes"]


@pytest.mark.limits
def test_cpu_time_of_children_that_ended_counts(brig):
    """Many short processes, one after the other."""
    result = brig.result("--cpu-time", "500ms", "--timeout", f"{60 * SLOW}s", "--", "sh", "-c",
                         "while :; do sh -c 'i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done';"
                         " done")
    assert result["status"] == "cpu_limit"


@pytest.mark.limits
def test_cpu_time_asleep_does_not_count(brig):
    result = brig.result("--cpu-time", f"{200 * SLOW:.0f}ms", "--", "sleep", str(0.5 * SLOW))
    assert (result["status"], result["exit_code"]) == ("exited", 0)


@pytest.mark.limits
@pytest.mark.parametrize("children, status", [
    (9, "exited"), pytest.param(10, "pids_limit", marks=pytest.mark.cgroup("samples come too late for so short a run"))])
def test_pids_limit_is_exact(brig, children, status):
    """A shell and nine children are ten processes; one more is one too many."""
    guest = f"for i in $(seq {children}); do sleep 300 & done; exit 0"
    # $(seq) is a child as well, but gone before the first of the others
    result = brig.result("--pids", "10", "--timeout", f"{30 * SLOW}s", "--", "sh", "-c", guest)
    assert result["status"] == status


@pytest.mark.limits
def test_pids_limit_does_not_depend_on_who_is_quicker(brig):
    """A guest that gives up when fork is refused, before brig can react: the kernel has counted it,
    so it is the same verdict. brig is stopped meanwhile."""
    process = brig.start_stopped("--json", "--pids", "5", "--", "sh", "-c",
                                 "for i in $(seq 20); do sleep 300 & done; exit 0")
    wait_for_end_of_init(process)
    process.send_signal(signal.SIGCONT)
    result = brig.result_of(process)
    assert result["status"] == "pids_limit"


@pytest.mark.limits
@pytest.mark.cgroup("samples come too late for so short a run")
def test_pids_limit_counts_threads(brig):
    code = ("import threading\nstop = threading.Event()\n"
            "for i in range(50): threading.Thread(target=stop.wait, daemon=True).start()")
    result = brig.result("--pids", "20", "--timeout", f"{30 * SLOW}s", "--", *PYTHON, code)
    assert result["status"] == "pids_limit"


FORK_UNTIL_REFUSED = """
import os, signal, sys
made = 0
try:
    while True:
        if os.fork() == 0:
            signal.pause()
        made += 1
except BlockingIOError:
    print(made)
    sys.exit(8)
"""


@pytest.mark.limits
@pytest.mark.cgroup("without one, forks cannot be made to fail")
def test_pids_limit_fail_lets_the_guest_decide(brig):
    """--on-pids-limit fail: fork fails, the run goes on, the notes say so."""
    result = brig.result("--pids", "10", "--on-pids-limit", "fail", "--", *PYTHON,
                         FORK_UNTIL_REFUSED)
    assert (result["status"], result["exit_code"], result["stdout"]) == ("exited", 8, "9\n")
    assert "refused" in result["notes"]


@pytest.mark.limits
def test_timeout_shorter_than_any_start(brig):
    result = brig.result("--timeout", "1ns", "--", "sleep", "300")
    assert result["status"] == "timeout"
    assert result["usage"]["wall_seconds"] < 2 * SLOW


def test_timeout_comes_with_sigterm_then_sigkill(brig):
    """The guest has kill-after to react to SIGTERM, no more and no less."""
    code = ("import signal, time\nsignal.signal(15, lambda *a: print('term', flush=True))\n"
            "print('ready', flush=True)\nwhile True: time.sleep(60)")
    result = brig.result("--timeout", f"{PYTHON_TIME}s", "-k", "600ms", "--", *PYTHON, code)
    assert (result["status"], result["signal"]) == ("timeout", signal.SIGKILL)
    assert result["stdout"] == "ready\nterm\n"
    assert 0.6 <= result["usage"]["wall_seconds"] - PYTHON_TIME < 0.6 + 1 * SLOW


def test_open_files(brig):
    result = brig.result("--open-files", "37", "--", "sh", "-c", "ulimit -Sn; ulimit -Hn")
    assert result["stdout"] == "37\n37\n"


def test_limits_of_a_process_are_told_as_they_were_set(brig):
    """None is above the caller's own."""
    result = brig.result("--open-files", "300", "--file-size", "2M", "--", "sh", "-c", "ulimit -Hn; ulimit -Hf",
                         before=["prlimit", "--nofile=200:200", f"--fsize={1 << 20}:{1 << 20}"])
    assert result["stdout"] == "200\n2048\n"  # blocks of 512 bytes
    assert (result["limits"]["open_files"], result["limits"]["file_size_bytes"]) == (200, 1 << 20)


@pytest.mark.parametrize("limit", [4, 8, 16, 32])
def test_open_files_are_the_guests_alone(brig, limit):
    """Few of them are enough for a guest that needs few: what brig opens for it does not count."""
    done = brig.run("--open-files", limit, "--", "true")
    assert (done.returncode, done.stderr) == (0, b"")


def test_file_size(brig, tmp_path):
    result = brig.result("--file-size", "100K", "-w", tmp_path, "--", "sh", "-c",
                         "exec head -c 1M /dev/zero >file")
    assert (result["status"], result["signal"]) == ("signaled", signal.SIGXFSZ)
    assert "--file-size" in result["notes"]
    assert (tmp_path / "file").stat().st_size == 100 * 1024


def test_file_size_is_not_of_pipes(brig):
    result = brig.result("--file-size", "100K", "--", "head", "-c", "1M", "/dev/zero")
    assert (result["status"], result["stdout_bytes"]) == ("exited", MIB)


def test_no_core_files(brig, tmp_path):
    """Whatever the caller allows: a crash leaves no file."""
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    result = brig.result("-w", tmp_path, "--", "sh", "-c", "kill -QUIT $$", preexec_fn=lambda:
                         resource.setrlimit(resource.RLIMIT_CORE, (hard, hard)))
    assert result["signal"] == signal.SIGQUIT
    assert not list(tmp_path.glob("*core*"))


BUSY_AND_LARGE = """
import os, time
held = b"x" * (60 << 20)
while time.process_time() < 0.3:
    pass
for i in range(4):
    if os.fork() == 0:
        time.sleep(300)
"""


def test_usage_is_measured(brig):
    result = brig.result("--", *PYTHON, BUSY_AND_LARGE)
    usage = result["usage"]
    assert result["status"] == "exited"
    assert usage["cpu_user_seconds"] + usage["cpu_system_seconds"] >= 0.3
    assert usage["wall_seconds"] >= 0.3
    assert usage["memory_peak_bytes"] >= 60 * MIB
    if has_cgroup():
        assert usage["pids_peak"] in (None, 5)
    else:  # the largest of the samples
        assert 1 <= usage["pids_peak"] <= 5


BUSY_ORPHAN = """
import os, time
read_end, write_end = os.pipe()
if os.fork() == 0:
    if os.fork() == 0:
        while time.process_time() < 0.5:
            pass
        os.write(write_end, b"x")
        time.sleep(300)
    os._exit(0)
os.read(read_end, 1)
"""


@pytest.mark.limits
def test_usage_of_descendants_nobody_waited_for_counts(brig):
    """Processor time of an orphan that is killed at the end is the run's all the same."""
    usage = brig.result("--", *PYTHON, BUSY_ORPHAN)["usage"]
    assert usage["cpu_user_seconds"] + usage["cpu_system_seconds"] >= 0.5


@pytest.mark.limits
@pytest.mark.measured
@pytest.mark.parametrize("options", [[], ["--events", "/dev/null"], ["--cpu-time", "10s"]],
                         ids=["plain", "events", "cpu time"])
def test_idle_supervisor_uses_no_processor(brig, options):
    """While the guest sleeps, so does brig."""
    process = brig.start(*options, "--", "sleep", "2")
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    assert used.ru_utime + used.ru_stime < min(0.2 * SLOW, 1)
    finish(process)
