"""Cases 17 to 24: limits hold for the whole tree, come from where they should, and are reported
for what they are."""
import json
import os
import resource
import signal
import stat
import subprocess
import time

import pytest
from conftest import PYTHON, SLOW, finish, message, wait_for_end_of_init, wait_for_file

MIB = 1 << 20

DEFAULTS = {
    "memory_bytes": 2 << 30, "cpus": 1, "pids": 100, "timeout_seconds": 1800,
    "kill_after_seconds": 3, "cpu_time_seconds": None, "output_bytes": 10 << 20,
    "open_files": None, "file_size_bytes": None,
}

# Takes argv[1] MiB that are really used, says so, and exits.
EAT = "import sys\nheld = b'x' * (int(sys.argv[1]) << 20)\nprint('ate', flush=True)"


def is_memory_file_system(path):
    done = subprocess.run(["stat", "-f", "-c", "%T", path], capture_output=True, check=True)
    return done.stdout.strip() in (b"tmpfs", b"ramfs", b"overlayfs")


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


GRANDCHILD = "head -c 200M /dev/zero | tail >/dev/null; exit 0"


@pytest.mark.limits
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
    "tmpfs": BLOCKS + """
import os, tempfile
fd, path = tempfile.mkstemp(dir="/dev/shm")
os.unlink(path)
for i in range(200):
    os.write(fd, block)
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
@pytest.mark.parametrize("kind", MEMORY_KINDS)
def test_case_20_memory_of_every_kind_counts(brig, kind):
    result = brig.result("-m", "40M", "--", *PYTHON, MEMORY_KINDS[kind] + "\nprint('got it all')")
    assert result["stdout"] == ""
    assert result["status"] == "memory_limit"


@pytest.mark.limits
def test_case_20_page_cache_counts_and_is_given_back(brig, tmp_path):
    """The cache of a file that a guest writes is charged to it; being reclaimable, it is no reason
    to end the run."""
    if is_memory_file_system(tmp_path):
        pytest.skip("the temporary folder is in memory, its pages cannot be given back")
    result = brig.result("-m", "64M", "--", "dd", "if=/dev/zero", f"of={tmp_path}/file", "bs=1M",
                         "count=200", "status=none")
    assert (result["status"], result["exit_code"]) == ("exited", 0)
    assert 32 * MIB <= result["usage"]["memory_peak_bytes"] <= 64 * MIB


# ---- 21, 22 ----------------------------------------------------------------------------------

def write_json(path, value):
    path.write_text(json.dumps(value))
    return path


@pytest.mark.parametrize("key, value, field, expected", [
    ("memory", "64M", "memory_bytes", 64 * MIB),
    ("cpus", "0.5", "cpus", 0.5),
    ("pids", "17", "pids", 17),
    ("timeout", "1m30s", "timeout_seconds", 90),
    ("kill_after", "250ms", "kill_after_seconds", 0.25),
    ("cpu_time", "2m", "cpu_time_seconds", 120),
    ("output", "1K", "output_bytes", 1024),
    ("open_files", "50", "open_files", 50),
    ("file_size", "1G", "file_size_bytes", 1 << 30),
])
def test_case_21_setting_one_limit_keeps_the_others(brig, tmp_path, key, value, field, expected):
    """By option, by variable, by spec and by metadata: that one changes, no other does."""
    spec = write_json(tmp_path / "spec", {key: value})
    metadata = write_json(tmp_path / "metadata", {"limits": {key: value}})
    ways = [
        (["--" + key.replace("_", "-"), value], {}),
        ([], {"BRIG_" + key.upper(): value}),
        (["--spec", spec], {}),
        (["--metadata", metadata], {}),
    ]
    for options, variables in ways:
        result = brig.result(*options, "--", "true", env={**os.environ, **variables})
        assert result["limits"] == {**DEFAULTS, field: expected}


def test_case_21_no_setting_is_the_default(brig):
    assert brig.result("--", "true")["limits"] == DEFAULTS


def test_case_21_unlimited_lifts_only_that_one(brig):
    result = brig.result("--memory", "unlimited", "--", "true")
    assert result["limits"] == {**DEFAULTS, "memory_bytes": None}
    assert "memory" in result["isolation"]["off"]


def with_operator(path):
    """A command that executes another one where the file is /etc/brig/limits.json: in a mount
    namespace of its own, so that nobody else sees it."""
    setup = ("mount -t tmpfs -o mode=755 tmpfs /etc && mkdir /etc/brig && "
             'cp -a "$0" /etc/brig/limits.json && exec "$@"')
    return ["unshare", "-m", "sh", "-c", setup, str(path)]


@pytest.fixture
def operator(tmp_path):
    """Make an operator's file: operator({"memory": "64M"}) gives what to put before brig."""

    def make(maximum):
        path = write_json(tmp_path / "limits.json", {"maximum": maximum})
        path.chmod(0o644)
        return with_operator(path)

    return make


def test_case_22_metadata_overrides_field_by_field(brig, tmp_path):
    job = {"name": "x", "owner": {"limits": 3}, "limits": {"memory": "64M", "timeout": 5}}
    result = brig.result("--metadata", write_json(tmp_path / "job", job), "--", "true")
    assert result["limits"] == {**DEFAULTS, "memory_bytes": 64 * MIB, "timeout_seconds": 5}


def test_case_22_metadata_without_limits_changes_nothing(brig, tmp_path):
    job = write_json(tmp_path / "job", {"memory": "1M", "command": ["false"]})
    result = brig.result("--metadata", job, "--", "true")
    assert (result["limits"], result["exit_code"]) == (DEFAULTS, 0)


def test_case_22_metadata_up_to_the_maximum(brig, operator, tmp_path):
    job = write_json(tmp_path / "job", {"limits": {"memory": "256M", "pids": 50}})
    result = brig.result("--metadata", job, "--", "true",
                         before=operator({"memory": "256M", "pids": 50}))
    assert (result["limits"]["memory_bytes"], result["limits"]["pids"]) == (256 * MIB, 50)


@pytest.mark.parametrize("way", ["option", "variable", "spec", "metadata"])
def test_case_22_over_the_maximum_is_refused_with_both_numbers(brig, operator, tmp_path, marker,
                                                              way):
    spec = write_json(tmp_path / "spec", {"memory": "512M"})
    metadata = write_json(tmp_path / "metadata", {"limits": {"memory": "512M"}})
    options = {"option": ["-m", "512M"], "spec": ["--spec", spec],
               "metadata": ["--metadata", metadata], "variable": []}[way]
    variables = {"BRIG_MEMORY": "512M"} if way == "variable" else {}
    done = brig.run(*options, "--", "touch", marker, before=operator({"memory": "256M"}),
                    env={**os.environ, **variables})
    assert done.returncode == 125
    assert "memory" in message(done)
    assert "512 MiB" in message(done) and "256 MiB" in message(done)
    assert not marker.exists()


@pytest.mark.parametrize("key, maximum, value", [
    ("timeout", "1h", "2h"), ("cpus", 1.5, "2"), ("pids", 200, "201"), ("output", "1M", "2M"),
    ("kill_after", "5s", "6s"), ("cpu_time", "10s", "11s"), ("open_files", 100, "101"),
    ("file_size", "1G", "2G"), ("memory", "1G", "unlimited"),
])
def test_case_22_every_limit_has_a_maximum(brig, operator, marker, key, maximum, value):
    done = brig.run("--" + key.replace("_", "-"), value, "--", "touch", marker,
                    before=operator({key: maximum}))
    assert done.returncode == 125
    assert key in message(done) and "maximum" in message(done)
    assert not marker.exists()


def test_case_22_default_over_the_maximum_is_lowered(brig, operator):
    """Nobody asked for the default, so nobody is refused; no limit at all counts as over."""
    result = brig.result("--", "true", before=operator({"memory": "256M", "cpu_time": "1m"}))
    assert result["limits"] == {**DEFAULTS, "memory_bytes": 256 * MIB, "cpu_time_seconds": 60}


@pytest.mark.parametrize("text, named", [
    ("not json", "line 1"),
    ('{"maximum": {"memory": "lots"}}', "memory"),
    ('{"maximum": {"memory": [1]}}', "memory"),
    ('{"maximum": {"memori": "1G"}}', "memori"),
    ('{"maximum": {"workdir": "/"}}', "workdir"),
    ('{"maximums": {}}', "maximums"),
    ('{"maximum": 3}', "maximum"),
    ('[]', "object"),
    ("", "line 1"),
])
def test_case_22_broken_operator_file_stops_every_run(brig, tmp_path, marker, text, named):
    """A file that cannot be understood does not count as no file."""
    path = tmp_path / "limits.json"
    path.write_text(text)
    path.chmod(0o644)
    done = brig.run("--", "touch", marker, before=with_operator(path))
    assert done.returncode == 125
    assert "/etc/brig/limits.json" in message(done) and named in message(done)
    assert not marker.exists()


@pytest.mark.parametrize("mode, owner", [(0o666, 0), (0o664, 0), (0o644, 65534)])
def test_case_22_operator_file_of_somebody_else(brig, tmp_path, marker, mode, owner):
    path = write_json(tmp_path / "limits.json", {"maximum": {}})
    os.chown(path, owner, owner)
    path.chmod(mode)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    done = brig.run("--", "touch", marker, before=with_operator(path))
    assert done.returncode == 125
    assert "/etc/brig/limits.json" in message(done) and "root" in message(done)
    assert not marker.exists()


def test_case_22_operator_file_is_a_link(brig, tmp_path, marker):
    target = write_json(tmp_path / "target", {"maximum": {}})
    link = tmp_path / "link"
    link.symlink_to(target)
    done = brig.run("--", "touch", marker, before=with_operator(link))
    assert done.returncode == 125
    assert "/etc/brig/limits.json" in message(done)
    assert not marker.exists()


# ---- 23, 24 ----------------------------------------------------------------------------------

BUSY = "for i in 1 2 3 4 5 6 7 8; do (while :; do :; done) & done; wait"


@pytest.mark.limits
@pytest.mark.parametrize("cpus", [1, 0.25])
def test_case_23_busy_loops_share_one_core(brig, cpus):
    """Eight of them get the given number of processors' worth together, measured."""
    result = brig.result("--cpus", cpus, "--timeout", "3s", "--", "sh", "-c", BUSY)
    usage = result["usage"]
    used = usage["cpu_user_seconds"] + usage["cpu_system_seconds"]
    assert result["status"] == "timeout"
    assert used <= cpus * usage["wall_seconds"] * 1.1 + 0.1
    assert used >= 0.1


def test_case_24_waiting_before_the_start_does_not_count(brig):
    """brig waits for its spec for longer than the timeout: the run still has all of its time."""
    process = brig.start("--json", "--spec", "-", stdin=subprocess.PIPE)
    begin = time.monotonic()
    while time.monotonic() - begin < 0.6:  # the wait is what is tested
        assert process.poll() is None
        time.sleep(0.05)
    spec = {"command": ["sh", "-c", "sleep 0.1; echo done"], "timeout": "500ms"}
    done = finish(process, input=json.dumps(spec).encode())
    result = json.loads(done.stdout)
    assert (result["status"], result["stdout"]) == ("exited", "done\n")
    assert 0.1 <= result["usage"]["wall_seconds"] < 0.5


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
                         "while :; do sh -c 'i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done'; done")
    assert result["status"] == "cpu_limit"


@pytest.mark.limits
def test_cpu_time_asleep_does_not_count(brig):
    result = brig.result("--cpu-time", "200ms", "--", "sleep", "0.5")
    assert (result["status"], result["exit_code"]) == ("exited", 0)


@pytest.mark.limits
@pytest.mark.parametrize("children, status", [(9, "exited"), (10, "pids_limit")])
def test_pids_limit_is_exact(brig, children, status):
    """A shell and nine children are ten processes; one more is one too many."""
    guest = f"for i in $(seq {children}); do sleep 300 & done; exit 0"
    # $(seq) is a child as well, but gone before the first of the others
    result = brig.result("--pids", "10", "--timeout", f"{30 * SLOW}s", "--", "sh", "-c", guest)
    assert result["status"] == status


@pytest.mark.limits
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
    result = brig.result("--timeout", f"{0.5 * SLOW}s", "-k", "600ms", "--", *PYTHON, code)
    assert (result["status"], result["signal"]) == ("timeout", signal.SIGKILL)
    assert result["stdout"] == "ready\nterm\n"
    assert 0.6 <= result["usage"]["wall_seconds"] - 0.5 * SLOW < 0.6 + 1 * SLOW


def test_open_files(brig):
    result = brig.result("--open-files", "37", "--", "sh", "-c", "ulimit -Sn; ulimit -Hn")
    assert result["stdout"] == "37\n37\n"


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
    assert usage["pids_peak"] is None or usage["pids_peak"] == 5


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
@pytest.mark.parametrize("options", [[], ["--events", "/dev/null"], ["--cpu-time", "10s"]],
                         ids=["plain", "events", "cpu time"])
def test_idle_supervisor_uses_no_processor(brig, options):
    """While the guest sleeps, so does brig."""
    process = brig.start(*options, "--", "sleep", "1")
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    assert used.ru_utime + used.ru_stime < 0.2 * SLOW
    finish(process)
