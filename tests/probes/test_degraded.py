# SPDX-License-Identifier: MIT
"""The tier without namespaces: what landlock and seccomp have to hold alone."""
import os
import platform
import socket
import subprocess

import pytest
from conftest import DEGRADED, NOBODY, NOBODY_GROUP, OLD_LANDLOCK, PYTHON, frame, suit_landlock
from faults import have_strace
from guest_code import PRELUDE

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64",
                                reason="the filter of confine.py is for x86-64")


def check(probe, code, *options, cwd=None, bare=True, outside=()):
    """Escapes without brig, held in the degraded tier."""
    if bare:
        said = probe.bare(code)
        assert "ESCAPED" in said and "HELD" not in said, f"the probe does not work: {said}"
    suit_landlock(probe)
    result = probe.brig.result(*options, "--", PYTHON, "-u", "-c", code, cwd=cwd or probe.work,
                               before=[*probe.prefix, *outside, *DEGRADED])
    said = (result["stdout"] or "") + (result["stderr"] or "")
    assert result["isolation"]["tier"] == "degraded", result["isolation"]
    assert "HELD" in said and "ESCAPED" not in said, said
    return result


def beside(probe, name, text=""):
    """A file of the caller's that is not in the work directory."""
    path = os.path.join(os.path.dirname(probe.work), name)
    with open(path, "w", encoding="ascii") as out:
        out.write(text)
    if probe.user == "user":
        os.chown(path, NOBODY, NOBODY_GROUP)
    return path


@pytest.mark.root("hides the checkout behind a mount")
def test_review_f1_no_file_of_the_checkout_is_needed(probe):
    """A checkout below /root (mode 0700) is out of an ordinary user's reach; here it is for everybody."""
    suit_landlock(probe)
    hide = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o mode=0700 none "$0" && exec "$@"', frame.ROOT]
    result = probe.brig.result("--", "echo", "started", cwd=probe.work, before=[*hide, *probe.prefix, *DEGRADED])
    assert (result["stdout"], result["isolation"]["tier"]) == ("started\n", "degraded"), result


@pytest.mark.parametrize("directory", ["/", "HOME"])
def test_directory_that_is_too_much_is_not_writable(probe, directory):
    """Started in the root or in a home, the guest starts in its scratch directory instead."""
    path = beside(probe, "victim", "kept")
    home = os.path.dirname(path)
    code = f"""
try: open({path!r}, 'a').write('x'); print('ESCAPED')
except OSError: print('HELD')
"""
    probe.bare(code)
    result = probe.brig.result("--", PYTHON, "-u", "-c", code, cwd="/" if directory == "/" else home,
                               before=[*probe.prefix, *DEGRADED], env={**os.environ, "HOME": home})
    assert result["stdout"] == "HELD\n", result


def test_limits_and_priorities_of_others(probe):
    """init has an ordinary pid here, and may have the guest's user."""
    check(probe, PRELUDE + """
reached = []
pid = os.fork()
if pid == 0:
    signal.pause()
limit = struct.pack('QQ', 1 << 20, 1 << 20)
for target in (os.getppid(), pid):
    if call_number(302, target, 7, limit, 0) == 0: reached.append(('prlimit64', target))
    if call_number(203, target, 8, struct.pack('Q', 1)) == 0: reached.append(('affinity', target))
    if call_number(141, 0, target, 19) == 0: reached.append(('setpriority', target))
    if call_number(251, 1, target, 3 << 13) == 0: reached.append(('ioprio', target))
    if call_number(101, 0x4206, target, 0, 0) == 0: reached.append(('ptrace', target))
os.kill(pid, 9)
verdict(reached)
""")


def test_what_listens_on_the_host(probe):
    """Landlock does not look at sockets that have a path."""
    path = os.path.join(probe.work, "listening")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        os.chmod(path, 0o777)
        server.listen(8)
        check(probe, f"""
import socket
try:
    socket.socket(socket.AF_UNIX).connect({path!r})
    print('ESCAPED')
except OSError as e: print('HELD', e)
""")


@pytest.mark.parametrize("network", ["none", "host"])
def test_review_f6_datagrams_to_the_host(probe, network):
    """One end of a pair of datagrams sends to any socket that has a path: a journal's, for instance. With the
    host's network there are no Unix sockets either, since landlock does not look at those with a path."""
    path = os.path.join(probe.work, "datagrams")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(path)
        os.chmod(path, 0o777)
        result = check(probe, f"""
import socket
reached = []
for make in (lambda: socket.socketpair(type=socket.SOCK_DGRAM)[0], lambda: socket.socketpair(type=socket.SOCK_RAW)[0],
             lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)):
    try: make().sendto(b'x', {path!r}); reached.append('sent')
    except OSError: pass
a, b = socket.socketpair(); a.send(b'x'); b.recv(1)
print('ESCAPED' if reached else 'HELD')
""", "--network", network)
    isolation = result["isolation"]
    assert "pairs" in (isolation["off"] if network == "host" else isolation["layers"])["net"], isolation


def test_review_f6_old_landlock_and_files_cut_off(probe):
    """Before its version 3 landlock does not look at truncate(2), and so would let any file of the user be
    emptied. The guest can still cut off what it may write, by descriptor."""
    path = beside(probe, "kept", "kept")
    if probe.user == "root":  # what belongs to root is refused there: review row C4
        os.chown(probe.work, NOBODY, NOBODY_GROUP)
        os.chown(path, NOBODY, NOBODY_GROUP)
    result = check(probe, f"""
import os
with open(os.environ['TMPDIR'] + '/own', 'w+b') as own:
    own.write(b'x' * 10); own.flush(); own.truncate(5)
    assert os.fstat(own.fileno()).st_size == 5
try: os.truncate({path!r}, 0); print('ESCAPED')
except OSError: print('HELD')
""", outside=OLD_LANDLOCK, bare=False)
    with open(path, encoding="ascii") as file:
        assert file.read() == "kept"
    assert "not cut off by path" in result["isolation"]["layers"]["landlock"], result["isolation"]


def test_nothing_of_system_v_stays_behind(probe):
    check(probe, PRELUDE + """
reached = []
for name, number, args, remove in (('shm', 29, (0, 4096, 0o1600), 31), ('msg', 68, (0, 0o1600), 71),
                                   ('sem', 64, (0, 1, 0o1600), 66)):
    made = call_number(number, *args)
    if made >= 0:
        reached.append(name)
        call_number(remove, made, 0, 0) if name != 'sem' else call_number(remove, made, 0, 0, 0)
verdict(reached)
""")


def test_scratch_is_private_and_gone(probe):
    """However deep, whatever its modes; the host's /tmp is not the guest's."""
    result = probe.brig.result("--", "sh", "-c", """
set -e
test "$HOME" = "$TMPDIR"; echo "$HOME"; cd "$HOME"
i=0; while [ $i -lt 300 ]; do mkdir d; cd d; i=$((i+1)); done
: > f; cd "$HOME"
[ $(id -u) = 0 ] || { chmod 0 d/d; chmod 0 d; }
ls /tmp >/dev/null 2>&1 && echo ESCAPED; touch /tmp/x 2>/dev/null && echo ESCAPED; true
""", cwd=probe.work, before=[*probe.prefix, *DEGRADED])
    assert result["exit_code"] == 0 and "ESCAPED" not in result["stdout"], result
    scratch = result["stdout"].strip()
    assert scratch.startswith("/tmp/brig.") and not os.path.exists(scratch)


# ---- review row C2: the work directory that was opened is the one that the guest gets ----------------------

RACES = int(os.environ.get("BRIG_RACES", "40"))  # the full form: 600
EXCHANGE = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
a, b = (os.fsencode(p) for p in sys.argv[1:])
print("up", flush=True)
while True: libc.renameat2(-100, a, -100, b, 2)
"""


def no_openat2(probe):
    return [*probe.prefix, "strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=openat2",
            "-e", "inject=openat2:error=ENOSYS", *DEGRADED]


@pytest.mark.parametrize("how", ["openat2", "by parts"])
@pytest.mark.parametrize("below", [False, True])
def test_review_c2_planted_symlink_is_not_followed(probe, how, below):
    if how == "by parts" and not have_strace():
        pytest.skip("strace cannot inject faults here")
    beside(probe, "kept", "kept")
    target = os.path.dirname(probe.work)
    os.mkdir(os.path.join(target, "sub"))
    os.symlink(target, os.path.join(probe.work, "planted"))
    path = os.path.join(probe.work, "planted", *(["sub"] if below else []))
    before = no_openat2(probe) if how == "by parts" else [*probe.prefix, *DEGRADED]
    done = probe.brig.run("-w", path, "--", "sh", "-c", "cat kept; echo x > written", before=before)
    assert (done.returncode, done.stdout) == (125, b""), done
    assert b"link" in done.stderr
    assert not os.path.exists(os.path.join(target, "written"))


@pytest.mark.timeout(600)
def test_review_c2_directory_that_is_exchanged_for_a_symlink(probe):
    """While brig starts, somebody exchanges the directory and a link to another one, over and over."""
    base = os.path.dirname(probe.work)
    outside, real, link = (os.path.join(base, name) for name in ("outside", "real", "link"))
    for path in (outside, real):
        os.mkdir(path)
        os.chmod(path, 0o777)
        if probe.user == "user":
            os.chown(path, NOBODY, NOBODY_GROUP)
    os.symlink(outside, link)
    ran = 0
    with subprocess.Popen([PYTHON, "-c", EXCHANGE, real, link], stdout=subprocess.PIPE) as swapper:
        try:
            swapper.stdout.readline()
            for _ in range(RACES):
                done = probe.brig.run("-q", "-w", real, "--", "sh", "-c", "echo x > written", cwd=base,
                                      before=[*probe.prefix, *DEGRADED])
                ran += done.returncode == 0
                assert not os.listdir(outside), f"after {ran} that ran"
        finally:
            swapper.kill()
    assert ran, "it never was the directory"


# ---- review row C3: what listens on this host ----------------------------------------------------------------

REACH = """
import os, socket
reached = []
def connect(name, make):
    try:
        sock = make(); sock.connect(TARGET); reached.append(name)
    except OSError: pass
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET, socket.SOCK_RAW):
    for flags in (0, socket.SOCK_CLOEXEC, socket.SOCK_NONBLOCK):
        connect(("socket", int(kind), flags), lambda: socket.socket(socket.AF_UNIX, kind | flags))
        connect(("pair", int(kind), flags), lambda: socket.socketpair(socket.AF_UNIX, kind | flags)[0])
print('ESCAPED' if reached else 'HELD', reached)
a, b = socket.socketpair(); a.send(b"x"); assert b.recv(1) == b"x"
"""


@pytest.mark.parametrize("network", ["none", "host"])
@pytest.mark.parametrize("place", ["path", "abstract"])
@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_review_c3_sockets_of_the_user_are_out_of_reach(probe, network, place, kind):
    path = os.path.join(probe.work, "listening") if place == "path" else f"\0brig-{probe.brig.token}"
    with socket.socket(socket.AF_UNIX, kind) as server:
        server.bind(path)
        if place == "path":
            os.chmod(path, 0o777)
        if kind == socket.SOCK_STREAM:
            server.listen(64)
        check(probe, REACH.replace("TARGET", repr(path)), "--network", network)


def test_review_c3_the_network_is_there(probe):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        result = probe.brig.result("--network", "host", "--", PYTHON, "-c",
                                   f"import socket; socket.create_connection(('127.0.0.1', {port})); print('in')",
                                   cwd=probe.work, before=[*probe.prefix, *DEGRADED])
    assert result["stdout"] == "in\n", result


# ---- review row E4 without a cell -------------------------------------------------------------------------------

def test_review_e4_no_watch_where_nothing_can_be_read(probe):
    """Landlock does not look at watches: the names of files that the host makes there would be told."""
    check(probe, "import ctypes, os\nlibc = ctypes.CDLL(None)\n"
                 "watch = libc.inotify_add_watch(libc.inotify_init1(0), b'/var/tmp', 0x100)\n"
                 "print('ESCAPED' if watch >= 0 else 'HELD')")


# ---- review row C4: root without a cell -------------------------------------------------------------------------

@pytest.mark.root_only("an ordinary user has its own id")
@pytest.mark.parametrize("owner", [0, 4242])
def test_review_c4_root_writes_to_the_work_directory(probe, owner):
    os.chown(probe.work, owner, owner)
    os.chmod(probe.work, 0o700)
    result = probe.brig.result("--", "sh", "-c", "echo x > made; id -u; grep -c 'Cap.*:.0000000000000000$' /proc/self/status",
                               cwd=probe.work, before=DEGRADED)
    assert result["stdout"] == f"{owner}\n5\n", result
    assert os.stat(os.path.join(probe.work, "made")).st_uid == owner
    assert ("root's own id" if owner == 0 else "owner of the work directory") in result["isolation"]["layers"]["capabilities"]


@pytest.mark.root_only("an ordinary user has its own id")
@pytest.mark.parametrize("code", [
    "os.chmod(path, 0o777)", "os.chmod(os.open(path, os.O_RDONLY), 0o777)", "os.chown(path, 0, 1)", "os.utime(path)",
    "os.setxattr(path, 'user.x', b'x')", "open(path, 'a')", "os.truncate(path, 0)", "os.rename(path, path + 'x')",
    "open('/etc/shadow').read()", "open('/proc/sys/kernel/hostname', 'w').write('x')", "open('/proc/sysrq-trigger', 'w')",
    "os.kill(1, 0)", "os.kill(os.getppid(), 0)", "open('/proc/1/environ').read(1)", "os.readlink('/proc/1/exe')",
    "open('/proc/%d/mem' % os.getppid(), 'rb')", "os.listdir('/root')", "os.setgroups([4])", "os.mknod('null', 0o20666, 259)",
    "fcntl.ioctl(os.open(path, os.O_RDONLY), 0x40086602, b'\\0' * 8)", "os.setpriority(0, os.getppid(), 5)",
])
def test_review_c4_roots_id_without_a_capability(probe, code):
    """Root owns nearly everything on the host; a guest with its id has none of that."""
    path = os.path.join("/usr/share", f"brig-{probe.brig.token}")  # what landlock lets it read
    with open(path, "w", encoding="ascii") as out:
        out.write("kept")
    try:
        check(probe, f"import fcntl, os\npath = {path!r}\ntry:\n    {code}\n    print('ESCAPED')\n"
                     "except OSError as e: print('HELD', e)", bare=False)
        assert os.stat(path).st_mode & 0o777 == 0o644
    finally:
        os.unlink(path)


@pytest.mark.root_only("an ordinary user has its own id")
def test_review_c4_roots_id_needs_a_landlock_that_knows_signals(probe):
    done = probe.brig.run("--", "echo", "ran", cwd=probe.work, before=[*OLD_LANDLOCK, *DEGRADED])
    assert (done.returncode, done.stdout) == (125, b""), done
    assert b"belongs to root" in done.stderr and b"chown" in done.stderr
