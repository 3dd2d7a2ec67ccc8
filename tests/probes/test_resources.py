# SPDX-License-Identifier: MIT
"""ATTACKS 32 to 41: using up what others need.

Trying these without a cell would harm the machine, so most are not; each says what it must come to.
"""
import contextlib
import os
import statistics
import subprocess
import time

import pytest
from conftest import PYTHON, SLOW, alone, frame

FULL = "the machine would run full"


# ---- 32 --------------------------------------------------------------------------------------

TOUCH = """
def touch(m):
    for i in range(0, len(m), 4096): m[i] = 1
"""
MEMORY = {
    "heap": "x = bytearray(SIZE)\ntouch(x)",
    "shared_mapping": "import mmap\nx = mmap.mmap(-1, SIZE)\ntouch(x)",
    "memfd_written": "import os\nf = os.memfd_create('x')\nfor i in range(SIZE >> 20): os.write(f, bytes(1 << 20))",
    "memfd_not_mapped_by_many": """
import os
fds = [os.memfd_create(str(i)) for i in range(8)]
for f in fds:
    for i in range(SIZE >> 23): os.write(f, bytes(1 << 20))""",
    "tmpfs": "f = open('/tmp/x', 'wb')\nfor i in range(SIZE >> 20): f.write(bytes(1 << 20))",
    "every_tmpfs": """
import os
for place in ("/tmp", os.environ["HOME"], "/dev/shm"):
    f = open(place + "/x", "wb")
    for i in range(SIZE >> 20):
        try: f.write(bytes(1 << 20)); f.flush()
        except OSError: break
    used.append(os.stat(place + "/x").st_size)
if sum(used) < SIZE * 3 // 4: print("HELD", sum(used)); os._exit(0)""",
    "system_v": """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
n = libc.shmget(0, SIZE, 0o1600)
ctypes.memset(libc.shmat(n, None, 0), 1, SIZE)""",
    "children": """
import os, time
kids = []
for i in range(8):
    pid = os.fork()
    if pid == 0:
        x = bytearray(SIZE // 8); touch(x); time.sleep(60); os._exit(0)
time.sleep(2)""",
    "pipes": """
import fcntl, os
n = 0
try:
    while n < SIZE:
        r, w = os.pipe()
        fcntl.fcntl(w, 1031, 1 << 20)
        os.set_blocking(w, False)
        n += os.write(w, bytes(1 << 20))
except OSError: print("HELD", n); os._exit(0)""",
    "sockets": """
import socket
n, all = 0, []
try:
    while n < SIZE:
        a, b = socket.socketpair()
        all.append((a, b))
        a.setblocking(False)
        try:
            while True: n += a.send(bytes(65536))
        except BlockingIOError: pass
except OSError: print("HELD", n); import os; os._exit(0)""",
}


# What a look at the processes of a run cannot see, where there is no cgroup.
UNSEEN = ("pipes", "sockets", "memfd_written", "memfd_not_mapped_by_many")


@pytest.mark.parametrize("kind", MEMORY)
def test_attack_32_twice_the_memory(probe, kind):
    """128 MiB where 64 are allowed: ended, and called by its name; or the kernel refuses it before."""
    code = "SIZE = 128 << 20\nused = []\n" + TOUCH + MEMORY[kind] + "\nimport time; time.sleep(1)\nprint('ESCAPED')"
    with alone("pipe-pages") if kind == "pipes" else contextlib.nullcontext():
        result = probe.cell(code, "-m", "64M", "--timeout", f"{20 * SLOW}s")
    said = (result["stdout"] or "") + (result["stderr"] or "")
    how = result["isolation"]["layers"]["memory"]
    if how.startswith("sampling") and kind in UNSEEN:
        assert "not what the kernel holds for it" in how, how
        return
    assert "ESCAPED" not in said, f"128 MiB of {kind} were had; memory is said to be held by {how}"
    held = "HELD" in said or "No space left" in said or "Cannot allocate" in said or "MemoryError" in said
    assert result["status"] == "memory_limit" or held, result


# Send until nothing is taken any more, or far too much was; then count what is really there.
BUFFERS = {
    "tcp": """
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen(300)
while n < SIZE and len(kept) < 240:
    c = socket.create_connection(listener.getsockname())
    kept += [c, listener.accept()[0]]
    c.setblocking(False)
    try:
        while n < SIZE: n += c.send(bytes(65536))
    except BlockingIOError: pass
""",
    "udp": """
sender = socket.socket(type=socket.SOCK_DGRAM)
while len(kept) < 100:
    c = socket.socket(type=socket.SOCK_DGRAM)
    c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    c.bind(("127.0.0.1", 0))
    c.setblocking(False)
    kept.append(c)
    for i in range(130): sender.sendto(bytes(60000), c.getsockname())
for c in kept:
    try:
        while True: n += len(c.recv(65536))
    except BlockingIOError: pass
""",
}


@pytest.mark.root_only("no group for an ordinary user here: sampling does not see what the kernel holds")
@pytest.mark.parametrize("kind", BUFFERS)
def test_review_d2_attack_32_buffers_of_sockets(probe, kind):
    """More than the memory limit cannot be held in them; what held them is removed at once."""
    begin = time.monotonic()
    result = probe.cell("import socket\nSIZE, n, kept = 256 << 20, 0, []\n" + BUFFERS[kind] + "print(n)",
                        "-m", "64M", "--timeout", f"{40 * SLOW}s")
    if result["status"] != "memory_limit":
        assert (result["status"], result["stderr"]) == ("exited", ""), result
        assert int(result["stdout"]) < 48 << 20, f"{int(result['stdout']) >> 20} MiB held under --memory 64M"
    assert time.monotonic() - begin < 35 * SLOW
    assert not probe.brig.left_groups()


@pytest.mark.root_only("no group for an ordinary user here")
def test_review_d2_connections_still_work(probe):
    """With little memory, and so the least room for sockets, what is sent arrives."""
    result = probe.cell("""
import socket, threading
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
got = []
def serve():
    c, n = listener.accept()[0], 0
    while part := c.recv(65536): n += len(part)
    got.append(n)
threads = [threading.Thread(target=serve) for i in range(8)]
for t in threads: t.start()
for c in [socket.create_connection(listener.getsockname()) for i in range(8)]:
    c.sendall(bytes(8 << 20))
    c.close()
for t in threads: t.join()
print(sum(got))
""", "-m", "24M", "--timeout", f"{60 * SLOW}s")
    assert result["stdout"] == f"{64 << 20}\n", result


def test_attack_32_exit_code_and_words(probe):
    done = probe.brig.run("-w", probe.work, "-m", "32M", "--", PYTHON, "-c", "x = b'x' * (1 << 28)\nimport time\ntime.sleep(5)",
                          before=probe.prefix)
    assert done.returncode == 137 and b"memory" in done.stderr, done


def test_attack_32_neighbour_lives(probe):
    """A run next to it is not the one that is killed."""
    other = probe.brig.start("--json", "-w", probe.work, "-m", "64M", "--", PYTHON, "-c",
                             "x = bytearray(20 << 20)\nprint('up', flush=True)\nimport time\ntime.sleep(2)",
                             before=probe.prefix)
    result = probe.cell("x = bytearray(128 << 20)\nimport time\ntime.sleep(5)", "-m", "64M")
    assert result["status"] == "memory_limit", result
    assert probe.brig.result_of(other)["status"] == "exited"


# ---- 33 --------------------------------------------------------------------------------------

BOMBS = {
    "fork": "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass",
    "threads": """
import threading, time
while True:
    try: threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    except RuntimeError: pass
""",
    "exec": "import os\nwhile True:\n  try:\n    if os.fork() == 0: os.execv('/bin/sleep', ['sleep', '60'])\n  except OSError: pass",
    "sessions": "import os\nwhile True:\n  try:\n    if os.fork() == 0: os.setsid()\n  except OSError: pass",
}


@pytest.mark.parametrize("kind", BOMBS)
def test_attack_33_bomb(probe, kind):
    """Ended at the limit; nothing of it is there two seconds later."""
    begin = time.monotonic()
    result = probe.cell(BOMBS[kind], "--timeout", f"{20 * SLOW}s")
    assert result["status"] == "pids_limit", result
    assert time.monotonic() - begin < 5 * SLOW
    if probe.user == "root":
        assert result["usage"]["pids_peak"] <= 101, result["usage"]
    assert frame.wait_until(lambda: not probe.brig.survivors(), 2)


@pytest.mark.root_only("no group for an ordinary user here: sampling cannot cap, only end")
def test_attack_33_bomb_is_capped_while_it_runs(probe):
    """on-pids-limit fail: it stays, at the limit."""
    result = probe.cell("""
import os, time
n = 0
while n < 500:
    try:
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
        n += 1
    except OSError:
        break
print("HELD" if n <= 100 else "ESCAPED", n)
os._exit(0)
""", "--on-pids-limit", "fail", "--pids", "50")
    assert "HELD" in result["stdout"], result


def test_attack_33_supervisor_is_idle(probe):
    """brig itself waits for events; what it watches a run with uses no processor."""
    before = os.times()
    done = probe.brig.run("-w", probe.work, "--", "sleep", "1.5", before=probe.prefix)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    assert done.returncode == 0
    assert used < 0.15 * SLOW, f"{used:.2f} s of processor in 1.5 s of sleep"


# ---- 34, 35 ----------------------------------------------------------------------------------

@pytest.mark.parametrize("call", ["write", "fallocate", "sparse_then_mapped"])
@pytest.mark.parametrize("place", ["/tmp", "HOME", "/dev/shm", "/var/tmp", "/run", "/"])
def test_attack_34_disk_filled(probe, place, call):
    """Every place that can be written to, but the work directory, is bounded."""
    fill = {
        "write": "for i in range(1024): f.write(bytes(1 << 20)); f.flush()",
        "fallocate": "os.posix_fallocate(f.fileno(), 0, 1 << 30)",
        "sparse_then_mapped": "f.truncate(1 << 30); m = mmap.mmap(f.fileno(), 1 << 30)\n"
                              "    for i in range(0, 1 << 30, 4096): m[i] = 1",
    }[call]
    result = probe.cell(f"""
import mmap, os, sys
place = {place!r}
place = os.environ["HOME"] if place == "HOME" else place
try:
    f = open(place + "/fill", "w+b")
    {fill}
    print("ESCAPED")
except OSError as e:
    print("HELD", e)
""", "-m", "100M", "--timeout", f"{30 * SLOW}s")
    # A page of a full file system that is touched in a mapping is SIGBUS.
    assert "HELD" in result["stdout"] or result["status"] == "memory_limit" or result["signal"] == 7, result
    assert "ESCAPED" not in result["stdout"]


def test_attack_34_file_size_in_the_work_directory(probe):
    """The caller's own disk: --file-size bounds each file."""
    result = probe.cell("""
import os
try:
    os.posix_fallocate(os.open("big", os.O_RDWR | os.O_CREAT), 0, 1 << 30)
    print("ESCAPED")
except OSError as e:
    print("HELD", e)
""", "--file-size", "1M")
    assert "HELD" in result["stdout"] or result["signal"] == 25, result
    with contextlib.suppress(FileNotFoundError):
        assert os.stat(os.path.join(probe.work, "big")).st_size <= 1 << 20


@pytest.mark.parametrize("place", ["/tmp", "HOME", "/dev/shm"])
def test_attack_35_inode_flood(probe, place):
    """Empty files use no space: their number is bounded. The kernel's memory for them counts."""
    result = probe.cell(f"""
import os
place = {place!r}
os.chdir(os.environ["HOME"] if place == "HOME" else place)
n = 0
try:
    while n < 150000:
        os.symlink("x", str(n))
        n += 1
    print("ESCAPED", n)
except OSError as e:
    print("HELD", n, e)
""", "--timeout", f"{10 * SLOW}s")
    held = "HELD" in (result["stdout"] or "") or result["status"] in ("memory_limit", "timeout")
    assert held and "ESCAPED" not in (result["stdout"] or ""), result


def test_attack_35_deep_and_long_names(probe):
    """Directories count like files, whatever their depth."""
    result = probe.cell("""
import os
os.chdir("/tmp")
n = 0
try:
    while n < 110000:
        os.mkdir("d" * 250)
        os.chdir("d" * 250)
        n += 1
    print("ESCAPED", n)
except OSError as e:
    print("HELD", n, e)
""", "--timeout", f"{10 * SLOW}s")
    held = "HELD" in (result["stdout"] or "") or result["status"] in ("memory_limit", "timeout")
    assert held and "ESCAPED" not in (result["stdout"] or ""), result


# ---- 36 --------------------------------------------------------------------------------------

@pytest.mark.stress
def test_attack_36_spinning_threads_and_a_neighbour(probe):
    """What a neighbour waits for the processor: a generous bound, this machine is shared."""
    measure = ("import statistics, time\nall = []\n"
               "for i in range(200):\n    t = time.monotonic(); time.sleep(0.002); all.append(time.monotonic() - t)\n"
               "print(statistics.median(all))")

    def latency():
        return statistics.median(float(subprocess.run([PYTHON, "-I", "-S", "-c", measure], check=True,
                                                      capture_output=True).stdout) for _ in range(3))
    quiet = latency()
    spin = probe.brig.start("-w", probe.work, "--timeout", f"{60 * SLOW}s", "--", "sh", "-c",
                            "i=0; while [ $i -lt 64 ]; do (while :; do :; done) & i=$((i+1)); done; echo up; wait",
                            before=probe.prefix)
    assert spin.stdout.readline() == b"up\n"
    try:
        loaded = latency()
    finally:
        spin.terminate()
        frame.finish(spin, 20)
    # A fifth is what ATTACKS.md asks for where cpus are enforced; twice that on a shared machine.
    allowed = 1.4 if probe.user == "root" else 5
    assert loaded < quiet * allowed + 0.0005, (quiet, loaded)


# ---- 37 --------------------------------------------------------------------------------------

def test_attack_37_descriptors_used_up(probe):
    """Inside only: the status is kept, and others can open files."""
    process = probe.brig.start("--json", "-w", probe.work, "--", PYTHON, "-c", """
import os, sys, time
n = 0
try:
    while n < 200000:
        os.dup(0)
        n += 1
except OSError as e:
    pass
open_files = n
try: os.write(1, b"full\\n")
except OSError: pass
open_ = os.path.exists("go")
while not os.path.exists("go"): time.sleep(0.01)
os._exit(7)
""", before=probe.prefix)
    time.sleep(0.3 * SLOW)
    other = probe.cell("import os\nfor i in range(100): os.dup(0)\nprint('ok')")
    with open(os.path.join(probe.work, "go"), "wb"):
        pass
    result = probe.brig.result_of(process)
    assert result["exit_code"] == 7, result
    assert other["stdout"] == "ok\n", other


def open_files_each(probe, *options):
    return int(probe.cell("import resource\nprint(resource.getrlimit(resource.RLIMIT_NOFILE)[1])", *options)["stdout"])


@pytest.mark.parametrize("pids", [100, 20])
def test_review_d1_attack_37_open_files_of_the_host(probe, pids):
    """All processes of 16 runs cannot take the machine's open files, unless that has very few."""
    with open("/proc/sys/fs/file-max", encoding="ascii") as most:
        maximum = int(most.read())
    each = open_files_each(probe, "--pids", str(pids))
    assert each * pids * 16 < maximum or each == 256, \
        f"{pids} processes of 16 runs may open {each} files each, the machine has {maximum}"


def test_review_d1_open_files_that_were_asked_for(probe):
    assert open_files_each(probe, "--open-files", "1234") == 1234


SEND_FILES = """
import array, socket
n, kept = 0, []
try:
    while n < 100000:
        a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 250))])
        n += 250
        kept.append(b)  # what was sent is on its way as long as there is somebody to take it
except OSError as error:
    print(n, error.strerror, flush=True)
else:
    print(n, "no end", flush=True)
input()
"""


def test_review_d1_files_on_their_way_of_the_caller(probe):
    """They are counted per user: a guest of the caller's own id has sent all that it can, and a program of the
    caller's, with the limit that brig was started with, can still send one."""
    with alone("files-on-their-way"):
        first = probe.brig.start("-w", probe.work, "--stdin", "-", "--", PYTHON, "-u", "-c", SEND_FILES,
                                 before=["prlimit", "--nofile=1024:20000", *probe.prefix], stdin=subprocess.PIPE)
        taken, why = first.stdout.readline().decode().split(" ", 1)
        try:
            assert "many" in why, f"{taken} files are on their way: {why}"
            said = subprocess.run(["prlimit", "--nofile=1024:20000", *probe.prefix, PYTHON, "-c",
                                   "import array, socket\na, b = socket.socketpair()\n"
                                   "print(a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, "
                                   "array.array('i', [0] * 2))]))"], capture_output=True, check=False)
            assert said.stdout == b"1\n", (taken, said)
        finally:
            frame.finish(first, 20, b"\n")


# ---- 38, 41 ----------------------------------------------------------------------------------

# Use all that there is of something, and say how much that was.
COUNTERS = {
    "inotify_instances": """
def take(): return libc.inotify_init1(0)
""",
    "inotify_watches": """
instance = libc.inotify_init1(0)
os.makedirs("/tmp/w", exist_ok=True)
def take():
    global n
    os.mkdir(f"/tmp/w/{n}")
    return libc.inotify_add_watch(instance, f"/tmp/w/{n}".encode(), 0x100)
MOST = 20000
""",
    "posix_timers": """
libc.timer_create = lambda *a: libc.syscall(222, *a)
out = ctypes.create_string_buffer(8)
def take(): return libc.timer_create(1, None, out)
""",
    "message_queues": """
def take():
    attr = struct.pack("qqqqqqqq", 0, 10, 8192, 0, 0, 0, 0, 0)
    return libc.syscall(240, f"q{n}".encode(), os.O_CREAT | os.O_RDWR, 0o600, attr)
""",
    "queued_signals": """
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
info = ctypes.create_string_buffer(128)
struct.pack_into("iii", info, 0, int(signal.SIGRTMIN), 0, -1)
def take(): return libc.syscall(129, os.getpid(), int(signal.SIGRTMIN), info)
""",
    "pipe_pages": """
def take():
    r, w = os.pipe()
    return fcntl.fcntl(w, 1031, 1 << 20) - (1 << 20)
MOST = 400
""",
    "locked_memory": """
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mlock.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
def take(): return libc.mlock(libc.mmap(None, 65536, 3, 0x22, -1, 0), 65536)
""",
    "huge_pages": """
libc.mmap.restype = ctypes.c_long
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
def take(): return 0 if libc.mmap(None, 2 << 20, 3, 0x40022, -1, 0) > 0 else -1
""",
    "epoll_watches": """
ep = select.epoll()
def take():
    ep.register(os.dup(pipe[0]), 1)
    return 0
pipe = os.pipe()
""",
    "system_v_segments": """
def take(): return libc.shmget(0, 4096, 0o1600)
""",
    "semaphores": """
def take(): return libc.semget(0, 100, 0o1600)
""",
    "terminals": """
def take(): return os.open("/dev/ptmx", os.O_RDWR)
""",
    "old_aio": """
out = ctypes.create_string_buffer(8)
def take():
    ctypes.memset(out, 0, 8)
    return libc.syscall(206, 1000, out)
""",
    "file_locks": """
f = os.open("/tmp/locks", os.O_RDWR | os.O_CREAT)
def take():
    os.lockf(f, os.F_TLOCK, 1) ; os.lseek(f, 2, os.SEEK_CUR)
    return 0
MOST = 3000  # the kernel walks all of them for each
""",
}
REFUSED = ("message_queues", "huge_pages", "old_aio")  # no guest gets one of these at all
SHARED = ("pipe_pages",)  # counted per user of the host, whom the runs of an ordinary user have in common
COUNT = """
import ctypes, fcntl, os, select, signal, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
n, MOST = 0, 50000
{take}
try:
    while n < MOST and take() >= 0: n += 1
except OSError:
    pass
"""


def counter(name):
    return COUNT.format(take=COUNTERS[name])


@pytest.mark.parametrize("name", COUNTERS)
def test_attack_38_bounded(probe, name):
    """Taken until it is refused, or the run is ended for it: the kernel's memory for it is the run's."""
    with alone("pipe-pages") if name in SHARED else contextlib.nullcontext():
        result = probe.cell(counter(name) + "os.write(1, f'taken {n} of {MOST}'.encode())\nos._exit(0)", "-m", "256M",
                            "--timeout", f"{60 * SLOW}s")
    assert result["status"] in ("exited", "memory_limit"), result
    if result["status"] == "exited":
        assert result["stdout"].startswith("taken"), result
    if probe.user == "root":
        assert (result["usage"]["memory_peak_bytes"] or 0) <= 256 << 20


def test_attack_38_locked_memory_counts(probe):
    result = probe.cell("""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.mlockall(3)
x = bytearray(128 << 20)
for i in range(0, len(x), 4096): x[i] = 1
import time
time.sleep(1)
print("ESCAPED")
""", "-m", "64M")
    assert result["status"] == "memory_limit" or "MemoryError" in result["stderr"], result
    assert "ESCAPED" not in result["stdout"]


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.root_only("the runs of a user share these")) if name in SHARED else name
    for name in COUNTERS])
def test_attack_41_counters_of_a_user(probe, name):
    """One run has used up all it can get and stays; the next one can have some."""
    keep = counter(name) + "open('full', 'w').write(str(n))\nwhile not os.path.exists('go'): time.sleep(0.01)\nos._exit(0)"
    if name in ("epoll_watches",):  # no descriptor is left for the two files
        keep = keep.replace("open('full'", "os.closerange(40, 60)\nopen('full'")
    first = probe.brig.start("-w", probe.work, "--on-pids-limit", "kill", "--", PYTHON, "-c", keep, before=probe.prefix)
    try:
        full = os.path.join(probe.work, "full")
        frame.wait_until(lambda: (os.path.exists(full) and os.path.getsize(full)) or first.poll() is not None, 60)
        assert os.path.exists(full), first.communicate() if first.poll() is not None else "it goes on and on"
        with open(full, encoding="ascii") as said:
            taken = int(said.read())
        assert (taken == 0) == (name in REFUSED), taken
        second = probe.cell(counter(name).replace("{", "{").replace("while n < MOST", "while n < 3") +
                            "os.write(1, f'{n}'.encode())\nos._exit(0)")
        assert second["stdout"] == str(min(3, taken)), \
            f"one run took {taken}, and another run of the same user can have {second['stdout']} {second['stderr']}"
    finally:
        with open(os.path.join(probe.work, "go"), "wb"):
            pass
        frame.finish(first, 30)


def test_attack_41_start_of_another_run(probe):
    """Processes and namespaces too: many runs at once, each at its limit, and one more starts."""
    first = probe.brig.start("-w", probe.work, "--on-pids-limit", "kill", "--", "sh", "-c",
                             "i=0; while [ $i -lt 90 ]; do sleep 60 & i=$((i+1)); done; echo up; wait",
                             before=probe.prefix)
    assert first.stdout.readline() == b"up\n"
    try:
        result = probe.brig.result("-w", probe.work, "--", "sh", "-c",
                                   "i=0; while [ $i -lt 90 ]; do sleep 60 & i=$((i+1)); done; echo up",
                                   before=probe.prefix)
        assert (result["status"], result["stdout"]) == ("exited", "up\n"), result
    finally:
        first.terminate()
        frame.finish(first, 20)


# ---- 39 --------------------------------------------------------------------------------------

@pytest.mark.not_emulated("the work directory of the emulated machine is in memory")
def test_attack_39_page_cache_is_the_runs(probe):
    """A file four times the memory is written and read: the cache is given back, nobody is killed."""
    result = probe.cell("""
import os
with open("big", "wb") as f:
    for i in range(256): f.write(bytes(1 << 20))
with open("big", "rb") as f:
    while f.read(1 << 20): pass
os.unlink("big")
print("ok")
""", "-m", "64M", "--timeout", f"{60 * SLOW}s")
    assert result["stdout"] == "ok\n", result
    if probe.user == "root":
        assert result["usage"]["memory_peak_bytes"] <= 64 << 20, result["usage"]


# ---- 40 --------------------------------------------------------------------------------------

CRASH = """
import ctypes, os, resource
try: resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)
except (OSError, ValueError): pass
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
x = bytearray({size})
for i in range(0, len(x), 4096): x[i] = 1
open('aborting', 'w').close()
os.abort()
"""


def cores(work):
    return [name for name in os.listdir(work) if "core" in name]


def test_attack_40_no_core_file(probe):
    with open("/proc/sys/kernel/core_pattern", encoding="utf-8") as pattern:
        here = not pattern.read().startswith(("|", "/"))
    hard = subprocess.run([*probe.prefix, "sh", "-c", "ulimit -Hc"], check=True, capture_output=True).stdout
    if here and hard.strip() == b"unlimited":
        probe.bare(CRASH.format(size=1 << 20))
        assert cores(probe.work), "the probe does not work: no core without brig"
        for name in cores(probe.work):
            os.unlink(os.path.join(probe.work, name))
    aborting = os.path.join(probe.work, "aborting")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(aborting)  # of the one without brig, perhaps somebody else's
    result = probe.cell(CRASH.format(size=1 << 30))
    took = time.time() - os.stat(aborting).st_mtime
    assert result["status"] == "signaled" and result["signal"] == 6, result
    assert not cores(probe.work)
    assert took < 5 * SLOW, f"{took:.1f} s from abort() to the end: a core was written somewhere"


def test_attack_40_limit_cannot_be_raised(probe):
    """1 and not 0: neither files nor a pipe of core_pattern get one."""
    for limit in (0, 2):  # 0 is let through to a pipe by the kernel
        result = probe.cell(f"import resource\ntry: resource.setrlimit(4, ({limit}, {limit}))\nexcept ValueError: pass\n"
                            "print(resource.getrlimit(4))")
        assert result["stdout"] == "(1, 1)\n", result
