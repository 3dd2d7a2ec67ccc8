# SPDX-License-Identifier: MIT
"""ATTACKS 11 to 20: what a guest does with files, and what is done to brig with them."""
import contextlib
import ctypes
import json
import os
import shutil
import socket
import stat
import subprocess
import threading
import time

import pytest
from conftest import NOBODY, NOBODY_GROUP, SLOW
from guest_code import PRELUDE

# How often a start is tried while somebody swaps what it is to show.
STARTS = int(os.environ.get("BRIG_PROBE_STARTS", "300"))
libc = ctypes.CDLL(None, use_errno=True)


def allow(probe, *paths):
    """Make paths belong to the user of the probe."""
    if probe.user == "user":
        for path in paths:
            os.chown(path, NOBODY, NOBODY_GROUP, follow_symlinks=False)


@pytest.fixture
def outside(probe):
    """A directory beside the work directory, with a file in it that the user may read and write."""
    directory = os.path.join(os.path.dirname(probe.work), "outside")
    os.mkdir(directory)
    path = os.path.join(directory, "secret")
    with open(path, "w", encoding="ascii") as secret:
        secret.write("SECRET")
    allow(probe, directory, path)
    return directory


READ = PRELUDE + """
reached = []
def attempt(path):
    try:
        with open(path) as f:
            if 'SECRET' in f.read(100): reached.append(path)
    except OSError: pass
    try: os.close(os.open(path, os.O_WRONLY)); reached.append(path)
    except OSError: pass
"""


# ---- holding up those who share a file ----------------------------------------------------------

@pytest.mark.parametrize("high", [0, 1 << 32], ids=hex)
def test_review_e5_lease_on_a_file_that_is_shown(probe, outside, high):
    """Whoever opens a file that has a lease waits until it is given up."""
    probe.check(PRELUDE + f"""
reached = []
signal.signal(signal.SIGIO, signal.SIG_IGN)
for path in ({outside!r} + '/secret', 'own'):
    if path == 'own': os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
    fd = os.open(path, os.O_RDONLY)
    for command, value in ((1024, 0), (1024, 1), (1026, 1), (1040, 0)):
        ret = call('fcntl', fd, command | {high}, value)
        if ret >= 0: reached.append((path, command))
        else: assert ret in (-errno.EINVAL, -errno.EAGAIN, -errno.ENOTDIR, -errno.EFAULT), ret
    call('fcntl', fd, 1024, 2)
    assert call('fcntl', fd, 1025) == 2 and call('fcntl', fd, 1030, 10) >= 10  # F_GETLEASE, F_DUPFD_CLOEXEC
verdict(reached)
""", "--ro", outside)


# ---- 11: ways outward -------------------------------------------------------------------------

def test_attack_11_dots(probe, outside):
    probe.check(READ + f"""
for n in range(1, 12):
    attempt('../' * n + {outside[1:]!r} + '/secret')
attempt('../outside/secret')
attempt({outside!r} + '/secret')
verdict(reached)
""")


def test_attack_11_symlink(probe, outside):
    probe.check(READ + f"""
for i, target in enumerate(({outside!r}, '../outside', '/proc/self/cwd/../outside')):
    os.symlink(target, f'link{{i}}'); os.symlink(target + '/secret', f'file{{i}}')
    attempt(f'link{{i}}/secret'); attempt(f'file{{i}}')
    os.unlink(f'link{{i}}'); os.unlink(f'file{{i}}')
verdict(reached)
""")


def test_attack_11_hard_link(probe, outside):
    probe.check(READ + f"""
for path in ({outside!r} + '/secret', '/usr/bin/env'):
    for flags in (0, 0x400, 0x1000):
        if libc.linkat(-100, path.encode(), -100, b'hard', flags) == 0:
            reached.append(path); os.unlink('hard')
verdict(reached)
""")


def test_attack_11_magic_links(probe, outside):
    probe.check(READ + f"""
for pid in ('self', 'thread-self', '1', str(os.getppid())):
    for name in ('root', 'cwd', 'cwd/..', 'root/..', *(f'fd/{{n}}' for n in range(20)), *(f'fd/{{n}}/..' for n in range(20))):
        attempt(f'/proc/{{pid}}/{{name}}' + {outside!r} + '/secret')
        attempt(f'/proc/{{pid}}/{{name}}/../outside/secret')
verdict(reached)
""")


def test_attack_11_descriptors(probe, outside):
    """Nothing of brig's, or of its caller's, is open in the guest."""
    with open(os.path.join(outside, "secret"), encoding="ascii") as secret:
        fd = os.open(outside, os.O_RDONLY | os.O_DIRECTORY)
        os.set_inheritable(fd, True)
        code = PRELUDE + """
names = {n: os.readlink('/proc/self/fd/' + n) for n in os.listdir('/proc/self/fd') if os.path.lexists('/proc/self/fd/' + n)}
extra = {n: t for n, t in names.items() if int(n) > 2 and not t.startswith('/proc/')}
verdict(extra)
"""
        try:
            said = subprocess.run([*probe.prefix, "/usr/bin/python3", "-c", code], pass_fds=[fd, secret.fileno()],
                                  capture_output=True, check=False).stdout
            assert b"ESCAPED" in said
            result = probe.cell(code, pass_fds=[fd, secret.fileno()])
        finally:
            os.close(fd)
    assert result["stdout"] == "HELD\n", result["stdout"]


def test_attack_11_directory_moved_out_of_the_work_directory(probe, outside):
    """While the guest is in a directory, the host moves it elsewhere: '..' must not lead on from there."""
    inner = os.path.join(probe.work, "a", "b")
    os.makedirs(inner)
    allow(probe, os.path.dirname(inner), inner)
    process = probe.brig.start("--json", "-w", probe.work, "--", "/usr/bin/python3", "-c", READ + """
import time
os.chdir('a/b')
fd = os.open('.', os.O_RDONLY)
open('ready', 'w').close()
for _ in range(2000):
    if os.path.exists('moved'): break
    time.sleep(0.005)
for n in range(1, 12):
    attempt('../' * n + 'secret'); attempt('../' * n + 'outside/secret')
    for where in ('..', '../..', '../../..'):
        try: reached += [e for e in os.listdir(where) if e in ('secret', 'outside')]
        except OSError: pass
print('moved', os.path.exists('moved'))
verdict(reached)
""", before=probe.prefix)
    end = time.monotonic() + 20
    while not os.path.exists(os.path.join(inner, "ready")) and time.monotonic() < end:
        time.sleep(0.005)
    os.rename(inner, os.path.join(outside, "b"))
    open(os.path.join(outside, "b", "moved"), "w", encoding="ascii").close()
    result = probe.brig.result_of(process)
    assert result["stdout"] == "moved True\nHELD\n", result["stdout"] + result["stderr"]


def test_attack_11_nothing_else_exists(probe):
    """The roots of the view, name by name."""
    result = probe.cell("import os; print(sorted(os.listdir('/'))); print(sorted(os.listdir('/home')), "
                        "os.listdir('/run'), sorted(os.listdir('/var')), os.listdir('/var/tmp'))")
    first, second = result["stdout"].splitlines()
    assert not set(eval(first)) - {"bin", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "proc",
                                   "run", "sbin", "tmp", "usr", "var"}, first
    assert second == "['brig'] [] ['tmp'] []"


# ---- 12: what is to be shown is swapped -------------------------------------------------------

class Swapper:
    """Exchanges two names again and again until it is told to stop."""

    def __init__(self, one, other):
        self.names = one.encode(), other.encode()
        self.count = 0
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        while not self.stop.is_set():
            # AT_FDCWD, RENAME_EXCHANGE
            assert libc.renameat2(-100, self.names[0], -100, self.names[1], 2) == 0
            self.count += 1
            time.sleep(0.0003)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join(20 * SLOW)


@pytest.mark.timeout(max(90, STARTS))
@pytest.mark.parametrize("option", ["--ro", "--rw", "-w"])
@pytest.mark.parametrize("place", ["last", "middle"])
def test_attack_12_source_swapped_for_a_link(probe, outside, option, place):
    """A directory, or one above it, and a link to the outside change places during the start."""
    base = os.path.join(probe.work, "base")
    source = os.path.join(base, "s")
    real = source if place == "last" else os.path.join(source, "deep")
    os.makedirs(real)
    with open(os.path.join(real, "good"), "w", encoding="ascii") as good:
        good.write("good")
    if place == "middle":
        os.mkdir(os.path.join(outside, "deep"))
        shutil.copy(os.path.join(outside, "secret"), os.path.join(outside, "deep", "secret"))
    link = os.path.join(base, "l")
    os.symlink(outside, link)
    for path in (base, source, real, link, os.path.join(real, "good")):
        allow(probe, path)
    named = [option, f"{real}:/shown"] if option != "-w" else ["-w", real]
    if option != "-w":
        named += ["-w", os.path.join(probe.work)]
    guest = "cat /shown/* 2>&1" if option != "-w" else "cat * 2>&1"
    seen = {"good": 0, "refused": 0, "outside": 0}
    with Swapper(source, link) as swapper:
        for _ in range(max(10, STARTS // 10)):
            done = probe.brig.run(*named, "--", "/bin/sh", "-c", guest, before=probe.prefix)
            if b"SECRET" in done.stdout:
                seen["outside"] += 1
            elif done.stdout == b"good":
                seen["good"] += 1
            else:
                assert done.returncode in (125, 2), done
                seen["refused"] += 1
    assert swapper.count > 10
    assert seen["outside"] == 0, seen


@pytest.mark.timeout(max(90, STARTS))
def test_attack_12_source_swapped_for_another_directory(probe, outside):
    """What is mounted is one of the two that had the name, whole, or nothing is."""
    base = os.path.join(probe.work, "base")
    for name in ("s", "t"):
        os.makedirs(os.path.join(base, name, "deep"))
        with open(os.path.join(base, name, "deep", "which"), "w", encoding="ascii") as which:
            which.write(name)
    with Swapper(os.path.join(base, "s"), os.path.join(base, "t")):
        for _ in range(max(10, STARTS // 10)):
            done = probe.brig.run("-w", probe.work, "--ro", f"{base}/s/deep:/shown", "--", "/bin/cat", "/shown/which",
                                  before=probe.prefix)
            assert done.stdout in (b"s", b"t") or done.returncode == 125, done


def test_attack_12_target_is_a_link(probe, outside):
    """A place for a mount in the work directory that is a link: never followed."""
    os.symlink(outside, os.path.join(probe.work, "link"))
    os.makedirs(os.path.join(probe.work, "real"))
    allow(probe, os.path.join(probe.work, "real"))
    for options in (["--tmpfs", f"{probe.work}/link"], ["--ro", f"{probe.work}/real:{probe.work}/link"],
                    ["--rw", f"{probe.work}/real:{probe.work}/link/inner"],
                    ["--tmpfs", f"{probe.work}/link/inner"]):
        done = probe.brig.run("-w", probe.work, *options, "--", "/bin/true", before=probe.prefix)
        assert done.returncode in (125, 2), (options, done)
    assert os.listdir(outside) == ["secret"]


@pytest.mark.parametrize("target", ["/proc/../etc", "/a/../..", "/..", "/a/..", "relative", "/", "//", "/a//b", "/./a",
                                    "/a/.", ""])
def test_attack_12_target_that_is_not_plain(probe, target):
    for option in ("--ro", "--rw", "--tmpfs"):
        value = target if option == "--tmpfs" else f"{probe.work}:{target}"
        done = probe.brig.run("-w", probe.work, option, value, "--", "/bin/true", before=probe.prefix)
        assert done.returncode in (125, 2), (option, done)


# ---- 13: the work directory gives what the system should -----------------------------------------

@pytest.mark.parametrize("what", ["dev", "proc", "both"])
def test_attack_13_work_directory_with_links(probe, outside, what):
    """As the place of /dev or /proc, a directory full of links: refused, or the links lead nowhere."""
    for name in ("dev", "proc"):
        os.mkdir(os.path.join(probe.work, name))
    for name in ("dev/null", "dev/console", "dev/tty", "dev/ptmx", "proc/kcore", "proc/sys", "proc/self", "proc/keys"):
        os.symlink(outside + "/secret", os.path.join(probe.work, name))
    options = []
    for name in ("dev", "proc") if what == "both" else (what,):
        options += ["--rw", f"{probe.work}/{name}:/{name}"]
    done = probe.brig.run("-w", probe.work, *options, "--", "/bin/sh", "-c",
                          "echo overwritten > /dev/null; cat /dev/console /proc/kcore; exit 0", before=probe.prefix)
    assert b"SECRET" not in done.stdout
    with open(os.path.join(outside, "secret"), encoding="ascii") as secret:
        assert secret.read() == "SECRET"
    assert done.returncode in (0, 2, 125), done


@pytest.mark.parametrize("directory", ["/proc", "/dev", "/sys", "/proc/self", "/proc/1/root", "/proc/self/root", "/proc/sys"])
def test_attack_13_work_directory_of_the_kernel(probe, directory):
    """The kernel's own directories as the work directory: refused, or the view's fresh ones."""
    done = probe.brig.run("-w", directory, "--", "/bin/sh", "-c",
                          "cat kcore /proc/kcore keys /proc/sys/kernel/random/boot_id 1/environ; ls; :",
                          before=probe.prefix)
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as boot:
        assert boot.read().strip().encode() not in done.stdout
    if done.returncode == 0:
        assert b"kmsg" not in done.stdout.split() and b"vda" not in done.stdout.split(), done
    else:
        assert done.returncode in (125, 2), done


@pytest.mark.parametrize("option", ["--ro", "--rw"])
@pytest.mark.parametrize("covered", ["/proc", "/dev", "/proc/sys", "/proc/self", "/proc:/proc2"])
def test_attack_13_mask_is_not_uncovered(probe, covered, option):
    """The host's own /proc or /dev over the fresh one is refused: it would undo every mask."""
    done = probe.brig.run("-w", probe.work, option, covered, "--", "/bin/sh", "-c",
                          "cat /proc/sys/kernel/random/boot_id /proc2/sys/kernel/random/boot_id; ls /proc | grep -c '^[0-9]'; ls /dev; :",
                          before=probe.prefix)
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as boot:
        assert boot.read().strip().encode() not in done.stdout, "the host's /proc is shown"
    assert b"kmsg" not in done.stdout.split(), "the host's /dev is shown"


# ---- 14: what the kernel tells ----------------------------------------------------------------

MASKED = ["/proc/kcore", "/proc/keys", "/proc/key-users", "/proc/kallsyms", "/proc/kmsg", "/proc/timer_list",
          "/proc/sched_debug", "/proc/sysrq-trigger", "/proc/kpagecount", "/proc/kpageflags", "/proc/kpagecgroup",
          "/proc/slabinfo", "/proc/vmallocinfo", "/proc/pagetypeinfo", "/sys/firmware/acpi/tables/DSDT",
          "/sys/kernel/vmcoreinfo", "/sys/kernel/notes", "/sys/kernel/debug", "/sys/kernel/tracing/trace",
          "/sys/kernel/security/lockdown", "/sys/power/state", "/proc/config.gz/x", "/proc/mtrr", "/proc/latency_stats"]


@pytest.mark.parametrize("view", ["minimal", "host"])
def test_attack_14_kernel_files(probe, view):
    probe.check(PRELUDE + f"""
reached = []
for path in {MASKED}:
    for flags in (os.O_RDONLY, os.O_WRONLY):
        try:
            fd = os.open(path, flags | os.O_NONBLOCK)
            if flags == os.O_WRONLY or os.read(fd, 10): reached.append(path)
        except OSError: pass
verdict(reached)
""", "--view", view)


@pytest.mark.parametrize("view", ["minimal", "host"])
def test_attack_14_other_ways_to_masked_files(probe, view):
    probe.check(PRELUDE + f"""
reached = []
for way in ('/proc/self/root/proc', '/proc/1/root/proc', '/proc/thread-self/root/proc', '/proc/self/task/../../../proc', '//proc/./'):
    for name in ('kallsyms', 'timer_list', 'keys'):
        try:
            with open(way + '/' + name) as f:
                if f.read(10): reached.append(way)
        except OSError: pass
verdict(reached)
""", "--view", view)


def test_attack_14_firmware_in_the_hosts_view(probe):
    probe.check(PRELUDE + """
reached = []
for directory in ('/sys/firmware', '/sys/kernel/debug', '/sys/kernel/tracing', '/sys/fs/bpf', '/sys/fs/pstore',
               '/sys/class/dmi/id', '/sys/devices/virtual/powercap', '/boot'):
    try: reached += [directory + '/' + e for e in os.listdir(directory)]
    except OSError: pass
verdict(reached)
""", "--view", "host", unsafe=None if os.listdir("/sys/firmware") else "nothing there on this machine")


# ---- 15: a setuid file stays behind -------------------------------------------------------------

WAYS_TO_SETUID = {
    "chmod": "open('left', 'w').close(); os.chmod('left', MODE)",
    "fchmod": "os.fchmod(os.open('left', os.O_CREAT | os.O_RDWR), MODE)",
    "fchmodat2": "open('left', 'w').close(); call_number(452, -100, b'left', MODE, 0)",
    "open": "os.umask(0); os.open('left', os.O_CREAT | os.O_RDWR, MODE)",
    "creat": "os.umask(0); libc.creat(b'left', MODE)",
    "openat2": "os.umask(0); call_number(437, -100, b'left', struct.pack('3Q', os.O_CREAT | os.O_RDWR, MODE, 0), 24)",
    "mknod": "os.umask(0); os.mknod('left', 0o100000 | MODE)",
    "high bits": "open('left', 'w').close(); call_number(452, -100, b'left', MODE | 1 << 32, 0)",
    "rename": "open('x', 'w').close(); os.chmod('x', MODE); os.rename('x', 'left')",
    "tmp then move": "open('/tmp/x', 'w').close(); os.chmod('/tmp/x', MODE); import shutil; shutil.move('/tmp/x', 'left')",
    "setxattr": "open('left', 'w').close(); os.setxattr('left', 'security.capability', struct.pack('5I', 0x2000001, 0xff, 0, 0, 0))",
}


@pytest.mark.parametrize("way", WAYS_TO_SETUID)
@pytest.mark.parametrize("mode", [0o4755, 0o2755], ids=oct)
def test_attack_15_setuid_file_left_behind(probe, way, mode):
    """A program of the guest's that everybody on the host could run as the person who started it."""
    probe.cell(PRELUDE + f"MODE = {mode}\ntry:\n    " + WAYS_TO_SETUID[way] + "\nexcept OSError as e: print(e)\n")
    path = os.path.join(probe.work, "left")
    if os.path.lexists(path):
        mode = os.lstat(path).st_mode
        assert not mode & (stat.S_ISUID | stat.S_ISGID), f"{oct(mode)} of uid {os.lstat(path).st_uid} is left on the host"
        assert "security.capability" not in os.listxattr(path, follow_symlinks=False)


def test_attack_15_files_belong_to_the_caller(probe):
    probe.cell("import os; open('f', 'w').close(); os.mkdir('d'); os.symlink('x', 'l'); os.mkfifo('p')")
    owner = 0 if probe.user == "root" else NOBODY
    for name in "fdlp":
        info = os.lstat(os.path.join(probe.work, name))
        assert (info.st_uid, info.st_gid) == (owner, owner), name


# ---- 16: what brig reads or writes by name is not what it seems -----------------------------------

def plant(path, what):
    """Something that blocks or never ends, where brig looks for a file."""
    if what == "fifo":
        os.mkfifo(path)
        os.chmod(path, 0o666)
    elif what == "device":
        os.symlink("/dev/zero", path)
    elif what == "directory":
        os.mkdir(path)
    elif what == "socket":
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as listener:
            listener.bind(path)
    else:
        with open(path, "w", encoding="ascii") as sparse:
            for size in (8 << 60, 15 << 40, 1 << 40):
                with contextlib.suppress(OSError, OverflowError):
                    os.ftruncate(sparse.fileno(), min(size, (1 << 63) - 1))
                    break


@pytest.mark.parametrize("what", ["fifo", "device", "sparse", "directory", "socket"])
@pytest.mark.parametrize("option", ["--spec", "--metadata", "--env-file", "--stdin"])
def test_attack_16_odd_file_to_read(probe, option, what):
    path = os.path.join(probe.work, "in")
    plant(path, what)
    begin = time.monotonic()
    done = probe.brig.run("-w", probe.work, option, path, "--timeout", "60s", "--", "/bin/true",
                          before=probe.prefix)
    assert time.monotonic() - begin < 10 * SLOW
    if not (option == "--stdin" and what in ("sparse", "device")):
        assert done.returncode in (2, 125), done
        assert b"in" in done.stderr


@pytest.mark.parametrize("what", ["fifo", "directory", "socket"])
@pytest.mark.parametrize("option", ["--result", "--events"])
def test_attack_16_odd_file_to_write(probe, option, what):
    path = os.path.join(probe.work, "out")
    plant(path, what)
    done = probe.brig.run("-w", probe.work, option, path, "--", "/bin/true", before=probe.prefix, timeout=20)
    assert done.returncode in (2, 125), done


@pytest.mark.parametrize("option", ["--result", "--events"])
def test_attack_16_link_where_brig_writes(probe, outside, option):
    """A guest of an earlier run left a link in the work directory, at the name of the result."""
    probe.cell(f"import os; os.symlink({outside + '/secret'!r}, 'out')")
    probe.brig.run("-w", probe.work, option, os.path.join(probe.work, "out"), "--", "/bin/true", before=probe.prefix)
    with open(os.path.join(outside, "secret"), encoding="ascii") as secret:
        assert secret.read() == "SECRET", "brig wrote through a link that the guest had made"


@pytest.mark.parametrize("option", ["--result", "--events"])
def test_attack_16_result_replaced_while_it_runs(probe, outside, option):
    """The guest cannot put a symlink, a FIFO or a directory where the result goes; brig writes to what it opened."""
    path = os.path.join(probe.work, "out")
    for action in (f"os.symlink({outside + '/secret'!r}, 'out')", "os.mkfifo('out')", "os.mkdir('out')"):
        done = probe.brig.run("-w", probe.work, option, path, "--", "/usr/bin/python3", "-c",
                              f"import os\ntry: os.unlink('out')\nexcept OSError: print('HELD')\n{action}", before=probe.prefix,
                              timeout=20)
        assert done.stdout == b"HELD\n" and done.returncode == 1, done
        with open(path, encoding="ascii") as out:
            assert json.loads(out.readline())
        with open(os.path.join(outside, "secret"), encoding="ascii") as secret:
            assert secret.read() == "SECRET"


# ---- 17: trees --------------------------------------------------------------------------------

DEEP = """
import os, sys
os.chdir(sys.argv[1])
top = os.getcwd()
for i in range(5000):
    os.mkdir('d')
    os.chdir('d')
for i in range(5000):
    os.chdir('..')
    os.chmod('d', 0)
"""


@pytest.mark.parametrize("where", ["/tmp", "/home/brig", "/dev/shm", "."])
def test_attack_17_deep_tree(probe, where):
    begin = time.monotonic()
    result = probe.brig.result("-w", probe.work, "--", "/usr/bin/python3", "-c", DEEP, where, before=probe.prefix,
                               timeout=100)
    took = time.monotonic() - begin
    assert result["status"] == "exited" and result["exit_code"] == 0, result["stderr"]
    assert took - result["usage"]["wall_seconds"] < 2 * SLOW  # what the guest needs itself is its own matter
    if where == ".":
        subprocess.run(["chmod", "-R", "u+rwx", os.path.join(probe.work, "d")], check=False)
        subprocess.run(["rm", "-rf", os.path.join(probe.work, "d")], check=True)
    assert os.listdir(probe.work) == []


# ---- 18: names --------------------------------------------------------------------------------

EVIL = [b"new\nline", b"-rf", b"bad\xff\xfeutf8", b"\x1b[31mred\x1b]52;c;eA==\x07", b"tab\tcr\rbs\x08", b"c1\xc2\x9b31m",
        b"fmt%s%n%n", "bidi\u202etxt".encode(), b"a:b"]


def said_safely(done):
    """What brig said has no control characters but for the ends of its lines, and is UTF-8."""
    text = done.stderr.decode()
    assert not [c for c in text if (ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0], text
    for line in text.splitlines():
        assert line.startswith(("brig: ", " ", "usage")) or not line, text


@pytest.mark.parametrize("name", EVIL, ids=repr)
def test_attack_18_names_in_messages(probe, name):
    directory = os.path.join(probe.work.encode(), name)
    os.mkdir(directory)
    missing = os.path.join(directory, b"missing" + name)
    text = os.path.join(directory, b"text" + name)
    with open(text, "wb") as f:
        f.write(b"no json " + name)
    binary = probe.brig.binary
    for args in (["-w", missing, "--", "true"], ["--ro", missing, "--", "true"], ["--rw", missing, "--", "true"],
                 ["--tmpfs", b"x" + name, "--", "true"], ["--spec", missing, "--", "true"],
                 ["--spec", text], ["--metadata", text, "--", "true"], ["--env-file", missing, "--", "true"],
                 ["--env-file", text, "--", "true"], ["--stdin", missing, "--", "true"],
                 ["--result", missing + b"/x", "--", "true"], ["--events", missing + b"/x", "--", "true"],
                 ["--", missing], ["--", text], ["--" + os.fsdecode(name)], ["--require", name, "--", "true"],
                 ["-e", name, "--", "true"], ["--label", name, "--", "true"], ["--memory", name, "--", "true"],
                 ["--view", name, "--", "true"], ["-w", directory, "-v", "--", "/bin/false"],
                 ["-w", directory, "--dry-run", "--", "/bin/false" + os.fsdecode(name)]):
        done = subprocess.run([*probe.prefix, binary, "run", *args], capture_output=True, check=False, timeout=20 * SLOW,
                              cwd=probe.work)
        said_safely(done)


@pytest.mark.parametrize("name", EVIL, ids=repr)
def test_attack_18_work_directory_with_such_a_name(probe, name):
    directory = os.path.join(probe.work.encode(), name)
    os.mkdir(directory)
    allow(probe, directory)
    done = subprocess.run([*probe.prefix, probe.brig.binary, "run", "--json", "-w", directory, "--", "/bin/sh", "-c",
                           "echo here > f; kill -9 $$"], capture_output=True, check=False, timeout=20 * SLOW)
    result = json.loads(done.stdout)
    assert result["signal"] in (9, "SIGKILL", "KILL"), result
    with open(os.path.join(directory, b"f"), "rb") as f:
        assert f.read() == b"here\n"


def test_attack_18_name_of_a_process(probe):
    """The main process chooses its own name, which brig repeats."""
    for name in EVIL:
        done = probe.brig.run("-v", "-w", probe.work, "--", "/usr/bin/python3", "-c",
                              f"import ctypes, os; ctypes.CDLL(None).prctl(15, {name!r}); os.kill(os.getpid(), 9)",
                              before=probe.prefix)
        said_safely(done)


# ---- 19: the work directory is not there -------------------------------------------------------------

def test_attack_19_work_directory_deleted_while_it_runs(probe):
    inner = os.path.join(probe.work, "inner")
    os.mkdir(inner)
    allow(probe, inner)
    process = probe.brig.start("--json", "-w", inner, "--", "/bin/sh", "-c",
                               "echo ready > ready; while test -e ready; do :; done; echo x > y; pwd; ls ..; exit 7",
                               before=probe.prefix)
    end = time.monotonic() + 20
    while not os.path.exists(os.path.join(inner, "ready")) and time.monotonic() < end:
        time.sleep(0.005)
    while os.path.exists(inner):  # the guest may be making a file in it
        shutil.rmtree(inner, ignore_errors=True)
    assert probe.brig.result_of(process)["exit_code"] == 7


def test_attack_19_work_directory_is_gone(probe):
    gone = os.path.join(probe.work, "gone")
    for before in ([], ["-w", gone], ["-w", "."]):
        os.mkdir(gone)
        allow(probe, gone)
        done = subprocess.run(["/bin/sh", "-c", 'cd "$0" && rmdir "$0" && exec "$@"', gone, *probe.prefix,
                               probe.brig.binary, "run", *before, "--", "/bin/true"],
                              capture_output=True, check=False, timeout=20 * SLOW)
        assert done.returncode == 125 and b"workdir" in done.stderr, done


@pytest.mark.parametrize("way", ["/proc/self/fd/{}", "/dev/fd/{}", "/proc/{pid}/fd/{}", "/proc/thread-self/fd/{}"])
@pytest.mark.parametrize("deleted", [False, True])
def test_attack_19_work_directory_by_descriptor(probe, outside, way, deleted):
    """Works as the directory itself, at its own name, or says clearly why not."""
    directory = os.path.join(probe.work, "by-fd")
    os.mkdir(directory)
    allow(probe, directory)
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    if deleted:
        os.rmdir(directory)
    try:
        done = probe.brig.run("-w", way.format(fd, pid=os.getpid()), "--", "/bin/sh", "-c", "pwd; ls -a ..; : > made",
                              before=probe.prefix, pass_fds=[fd])
    finally:
        os.close(fd)
    if done.returncode == 0:
        assert not deleted and os.listdir(directory) == ["made"]
        assert done.stdout.startswith(directory.encode()), done
    else:
        assert done.returncode == 125 and b"workdir" in done.stderr, done


@pytest.mark.parametrize("directory", ["/", "/nonexistent", "/etc/passwd", "/proc/self/ns/mnt", "/dev/null", ""])
def test_attack_19_not_a_work_directory(probe, directory):
    done = probe.brig.run("-w", directory, "--", "/bin/true", before=probe.prefix)
    assert done.returncode in (2, 125) and done.stderr.startswith(b"brig: "), done


# ---- 20: the guest writes no settings ---------------------------------------------------------------

CONFIGURE = """
import json, os
spec = json.dumps({"network": "host", "view": "host", "memory": "unlimited", "command": ["/bin/false"], "maximum": {}})
names = ('brig.json', '.brig', '.brig.json', 'brig.toml', '.brigrc', 'brig.conf', '.env', 'limits.json', 'spec.json',
         'brig/limits.json', '.config/brig/limits.json', '.config/brig/config.json', '.local/share/brig/x', '.cache/brig/x',
         'etc/brig/limits.json', 'metadata.json', '.brig/config.json', '.git/config', 'ld.so.preload', 'libbrig.so.0',
         'libjansson.so.4')
for root in (os.getcwd(), os.environ['HOME'], '/tmp', '/etc', '/etc/brig'):
    for name in names:
        try:
            os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
            with open(os.path.join(root, name), 'w') as f: f.write(spec)
        except OSError: pass
"""


def test_attack_20_files_of_the_guest_are_not_settings(probe):
    """All files brig opens in its second run are counted: none of the work directory's is read."""
    plain = probe.cell("print(1)")
    probe.cell(CONFIGURE)
    assert len(os.listdir(probe.work)) > 10
    result = probe.brig.result("--", "/usr/bin/python3", "-c", "print(1)", before=probe.prefix, cwd=probe.work)
    for key in ("limits", "isolation", "status", "stdout"):
        assert result[key] == plain[key], key


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
def test_attack_20_nothing_in_the_work_directory_is_opened(probe):
    probe.cell(CONFIGURE)
    trace = os.path.join(os.path.dirname(probe.work), "trace")
    done = subprocess.run(["strace", "-o", trace, "-e", "trace=open,openat,openat2,readlink,execve", probe.brig.binary,
                           "run", "--", "/bin/true"], cwd=probe.work, capture_output=True, check=False, timeout=60 * SLOW,
                          env={**os.environ, "HOME": probe.work})
    assert done.returncode == 0, done
    with open(trace, encoding="utf-8", errors="replace") as lines:
        opened = [line for line in lines if probe.work + "/" in line or '"." ' in line]
    relative = [line for line in opened if "O_PATH" not in line]
    assert not relative, relative


def test_attack_20_environment_of_the_guest_stays_there(probe):
    """A file of settings is only what the caller names as one: BRIG_* of a guest reach nobody."""
    probe.cell("import os; open('env', 'w').write('BRIG_NETWORK=host'); os.environ['BRIG_VIEW'] = 'host'")
    result = probe.brig.result("-w", probe.work, "--env-file", os.path.join(probe.work, "env"), "--",
                               "/usr/bin/python3", "-c", "import socket; print(socket.if_nameindex())",
                               before=probe.prefix)
    assert result["stdout"] == "[(1, 'lo')]\n", result["stdout"]


def test_attack_16_stdin_is_not_the_file(probe):
    """What is given with --stdin FILE is read for the guest: it cannot be changed through it."""
    path = os.path.join(os.path.dirname(probe.work), "given")
    with open(path, "w", encoding="ascii") as out:
        out.write("text")
    os.chmod(path, 0o644)
    if probe.user == "user":
        os.chown(path, NOBODY, NOBODY_GROUP)
    result = probe.cell("""
import os, sys
for action in (lambda: os.chmod("/proc/self/fd/0", 0o666), lambda: os.fchmod(0, 0o666),
               lambda: os.utime("/proc/self/fd/0", (1, 1)), lambda: open("/proc/self/fd/0", "a").write("x")):
    try: action()
    except OSError: pass
print(sys.stdin.read())
""", "--stdin", path)
    assert result["stdout"].strip("x").startswith("text"), result
    assert os.stat(path).st_mode & 0o777 == 0o644 and os.stat(path).st_mtime > 1000
    with open(path, encoding="ascii") as kept:
        assert kept.read() == "text"
