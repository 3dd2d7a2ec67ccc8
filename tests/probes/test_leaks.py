# SPDX-License-Identifier: MIT
"""ATTACKS 42 to 46: what a guest learns of the machine, its people and its other guests."""
import contextlib
import fcntl
import os
import pty
import select
import shutil
import socket
import struct
import subprocess
import tempfile
import termios
import uuid

import pytest
from conftest import NOBODY, NOBODY_GROUP, SLOW, frame
from guest_code import PRELUDE

ALL_OF_PROC = PRELUDE + """
def search(needle):
    # Everything of /proc that can be read and may hold text of another process. Without brig not what
    # others have open: to read a pipe is to take from it, and the tests themselves talk by pipes.
    in_a_cell = 'BRIG_TEST_TOKEN' in os.environ
    found = []
    for root, directories, files in os.walk('/proc', followlinks=False):
        if root.count('/') > 4 or root.startswith(('/proc/sys', '/proc/irq', '/proc/fs')): directories[:] = []
        if not in_a_cell and root.endswith(('/fd', '/map_files')): continue
        for name in files:
            if name in ('kmsg', 'kcore', 'pagemap', 'kpagecount', 'kpageflags', 'kpagecgroup', 'mem', 'trace_pipe'): continue
            path = os.path.join(root, name)
            if path.startswith((f'/proc/{os.getpid()}/', '/proc/self/', '/proc/thread-self/')) and name in ('cmdline', 'auxv', 'maps'): continue
            try:
                with open(path, 'rb', buffering=0, opener=lambda p, f: os.open(p, f | os.O_NONBLOCK)) as f:
                    if needle in (f.read(200000) or b''): found.append(path)
            except OSError: pass
    return found
"""


# ---- 42: secrets of brig itself -------------------------------------------------------------------

def test_attack_42_environment_of_the_caller(probe):
    """The needle is made up of two halves, so that the code itself does not hold it."""
    one, two = uuid.uuid4().hex, uuid.uuid4().hex
    code = ALL_OF_PROC + f"""
needle = b'{one}' + b'{two}'
verdict(search(needle) + [k for k, v in os.environb.items() if needle in v])
"""
    env = {**os.environ, "AWS_SECRET_ACCESS_KEY": one + two, "SSH_AUTH_SOCK": one + two, "OPENAI_API_KEY": one + two}
    holder = subprocess.Popen([*probe.prefix, "/bin/sleep", str(60 * SLOW)], env=env)
    try:
        said = subprocess.run([*probe.prefix, "/usr/bin/python3", "-c", code], capture_output=True, text=True, env=env,
                              check=False, timeout=60 * SLOW)
        assert "ESCAPED" in said.stdout, said
        result = probe.cell(code, env=env)
        assert result["stdout"] == "HELD\n", result["stdout"] + result["stderr"]
    finally:
        holder.kill()
        holder.wait(20 * SLOW)


def test_attack_42_arguments_of_brig(probe):
    one, two = uuid.uuid4().hex, uuid.uuid4().hex
    code = ALL_OF_PROC + f"""
verdict(search(b'{one}' + b'{two}'))
"""
    holder = subprocess.Popen([*probe.prefix, "/bin/sh", "-c", "read x", one + two], stdin=subprocess.PIPE)
    try:
        said = probe.bare(code)
        assert "ESCAPED" in said, said
        result = probe.cell(code, "--label", f"token={one}{two}")
    finally:
        holder.kill()
        holder.communicate(timeout=20 * SLOW)
    assert result["stdout"] == "HELD\n", result["stdout"] + result["stderr"]


def test_attack_42_memory_of_init(probe):
    """Init is told what to run and nothing else: its own arguments are the guest's."""
    token = uuid.uuid4().hex
    result = probe.cell("import os; os.path.exists('/proc/1') and "
                        "print(open('/proc/1/cmdline').read().replace(chr(0), ' ')[:100]); "
                        "print(sorted(os.environ))", "--label", f"secret={token}",
                        env={**os.environ, "MY_SECRET": token})
    assert token not in result["stdout"]
    allowed = {"PATH", "HOME", "USER", "LANG", "TERM", "SHELL", "TZ", "TMPDIR", "BRIG_TEST_TOKEN"}
    names = set(eval(result["stdout"].splitlines()[-1]))
    assert not {n for n in names - allowed if not n.startswith("LC_")}, names


@pytest.mark.xfail(strict=True, reason="the kernel tells the source of a bind mount in mountinfo")
def test_attack_42_paths_of_binds(probe):
    """Where a directory shown under another name lies on the host is the host's matter."""
    needle = "brig-hidden-" + uuid.uuid4().hex
    directory = os.path.join(os.path.dirname(probe.work), needle)
    os.mkdir(directory)
    os.chmod(directory, 0o755)
    result = probe.cell("""
for name in ('mountinfo', 'mounts', 'mountstats', 'cgroup', 'maps'):
    print(open('/proc/self/' + name).read())
""", "--ro", f"{directory}:/data")
    assert needle not in result["stdout"], [x for x in result["stdout"].splitlines() if needle in x]


# ---- 43: secrets of people ------------------------------------------------------------------------

NAMES = [".ssh/id_ed25519", ".aws/credentials", ".gnupg/secring.gpg", ".config/gcloud/credentials.db", ".netrc",
         ".docker/config.json", ".kube/config", ".git-credentials", ".bash_history", ".pypirc", ".npmrc"]


@pytest.fixture
def home(probe):
    """A home directory with secrets, and sockets of agents, of the probe's user."""
    top = tempfile.mkdtemp(prefix="brig-probe-", dir="/var/tmp")  # /tmp is hidden in every view
    os.chmod(top, 0o755)
    directory = os.path.join(top, "home")
    for name in NAMES:
        path = os.path.join(directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as secret:
            secret.write("SECRET")
    agent = socket.socket(socket.AF_UNIX)
    agent.bind(os.path.join(directory, "agent.sock"))
    agent.listen()
    if probe.user == "user":
        subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY_GROUP}", directory], check=True)
    with agent:
        yield directory
    shutil.rmtree(top)


FIND = PRELUDE + f"""
reached = []
def look(home):
    for name in {NAMES}:
        try:
            with open(os.path.join(home, name)) as f: reached.append(name)
        except OSError: pass
    try:
        s = socket.socket(socket.AF_UNIX); s.connect(home + '/agent.sock'); reached.append('agent')
    except OSError: pass
"""


@pytest.mark.parametrize("view", ["minimal", "host"])
def test_attack_43_home(probe, home, view):
    env = {**os.environ, "HOME": home, "SSH_AUTH_SOCK": home + "/agent.sock"}
    code = FIND + f"look({home!r}); look(os.environ['HOME']); look('/root')\nverdict(reached)"
    assert "ESCAPED" in probe.bare(code)
    result = probe.cell(code, "--view", view, env=env)
    assert result["stdout"] == "HELD\n", result["stdout"] + result["stderr"]


@pytest.mark.parametrize("view", ["minimal", "host"])
def test_attack_43_home_that_is_not_in_the_environment(probe, home, view):
    """HOME is unset, wrong, or a link: the person's home in the password file is the one to hide."""
    link = os.path.join(os.path.dirname(probe.work), "link")
    os.symlink(home, link)
    code = FIND + f"look({home!r}); look({link!r})\nverdict(reached)"
    result = probe.cell(code, "--view", view, env={**os.environ, "HOME": link})
    assert result["stdout"] == "HELD\n", result["stdout"] + result["stderr"]


@pytest.mark.parametrize("view", ["minimal", "host"])
def test_attack_43_home_below_tmp(probe, view):
    """A home that the private /tmp hides is hidden, and no reason to fail."""
    home = os.path.join(os.path.dirname(probe.work), "home")
    os.makedirs(os.path.join(home, ".ssh"))
    result = probe.cell(FIND + f"look({home!r}); print(os.path.exists({home + '/.ssh'!r}))\nverdict(reached)",
                        "--view", view, env={**os.environ, "HOME": home})
    assert result.get("stdout") == "False\nHELD\n", result


def test_attack_43_home_as_the_current_directory(probe, home):
    """In a home directory without --workdir, the home is not shown."""
    result = probe.brig.result("--", "/usr/bin/python3", "-c",
                               FIND + f"look({home!r}); look('.')\nverdict(reached)", before=probe.prefix, cwd=home,
                               env={**os.environ, "HOME": home})
    assert result["stdout"] == "HELD\n", result["stdout"] + result["stderr"]


@pytest.mark.parametrize("view", ["minimal", "host"])
def test_attack_43_sockets_of_services(probe, view):
    """docker, containerd, systemd, D-Bus, the X server, podman: none can be connected to."""
    probe.check(PRELUDE + """
import stat
reached = []
for top in ('/run', '/var/run', '/tmp', '/var/lib', '/dev', '/etc'):
    for root, directories, files in os.walk(top):
        if root.count('/') > 5 or os.getcwd().startswith(root + '/brig-probe'): directories[:] = []
        for name in files:
            path = os.path.join(root, name)
            try:
                if not stat.S_ISSOCK(os.lstat(path).st_mode): continue
                for kind in (1, 2, 5):
                    s = socket.socket(socket.AF_UNIX, kind); s.settimeout(1)
                    try: s.connect(path); reached.append(path)
                    except OSError: pass
                    s.close()
            except OSError: pass
verdict(reached)
""", "--view", view, unsafe="connects to every service of the machine")


def test_attack_43_secrets_of_the_system(probe):
    probe.check(PRELUDE + """
reached = []
for path in ('/etc/shadow', '/etc/gshadow', '/etc/sudoers', '/etc/ssh/ssh_host_ed25519_key', '/root/.bashrc',
             '/var/log/syslog', '/var/lib/dpkg/status', '/boot/vmlinuz', '/root', '/var/log', '/var/lib', '/opt', '/srv',
             '/mnt', '/etc/ssl/private', '/etc/fstab', '/etc/resolv.conf', '/etc/environment', '/etc/crontab'):
    try:
        if os.path.isdir(path) and os.listdir(path): reached.append(path)
        elif os.path.isfile(path) and open(path, 'rb').read(1): reached.append(path)
    except OSError: pass
with open('/etc/passwd') as f:
    reached += [l for l in f if l.split(':')[0] not in ('root', 'brig', 'nobody')]
verdict(reached)
""")


# ---- 44: the name of the machine --------------------------------------------------------------------

def identity():
    """What tells this machine from another."""
    found = {"host name": os.uname().nodename}
    for path in ("/etc/machine-id", "/proc/sys/kernel/random/boot_id", "/var/lib/dbus/machine-id",
                 "/sys/class/dmi/id/product_uuid", "/etc/hostid"):
        try:
            with open(path, encoding="ascii") as f:
                found[path] = f.read().strip()
        except OSError:
            pass
    for _, name in socket.if_nameindex():
        try:
            with open(f"/sys/class/net/{name}/address", encoding="ascii") as f:
                found["address of " + name] = f.read().strip()
        except OSError:
            pass
    return {k: v for k, v in found.items() if len(v) > 1 and v != "00:00:00:00:00:00"}


@pytest.mark.parametrize("view", ["minimal", "host"])
@pytest.mark.parametrize("which", identity())
def test_attack_44_identity(probe, which, view):
    probe.check(PRELUDE + f"""
import glob, platform
secret = {identity()[which]!r}
said = [('uname', os.uname().nodename), ('gethostname', socket.gethostname())]
for path in ['/etc/hostname', '/etc/machine-id', '/var/lib/dbus/machine-id', '/etc/hostid', '/proc/sys/kernel/hostname',
             '/proc/sys/kernel/random/boot_id', '/sys/class/dmi/id/product_uuid', '/run/machine-id',
             *glob.glob('/sys/class/net/*/address'), '/proc/sys/kernel/domainname']:
    try:
        with open(path) as f: said.append((path, f.read().strip()))
    except OSError: pass
verdict([path for path, text in said if text == secret])
""", "--view", view)


@pytest.mark.root("names the domain of a namespace around brig")
@pytest.mark.parametrize("view", ["minimal", "host"])
def test_review_e6_name_of_the_nis_domain(probe, view):
    """Names it in a namespace around brig, so that the machine's own stays as it is."""
    probe.prefix = ["unshare", "--uts", "sh", "-c", 'echo nis.example >/proc/sys/kernel/domainname; exec "$@"', "sh",
                    *probe.prefix]
    probe.check(PRELUDE + """
name = ctypes.create_string_buffer(65)
libc.getdomainname(name, 65)
with open('/proc/sys/kernel/domainname') as f: said = f.read()
verdict([text for text in (said, name.value.decode()) if 'nis.example' in text])
""", "--view", view)


def test_attack_44_kernel_command_line(probe):
    """It holds the ids of disks, and what the operator's tools put there."""
    probe.check(PRELUDE + """
try:
    with open('/proc/cmdline') as f: text = f.read()
except OSError: text = ''
verdict([text] if text.strip() else [])
""")


def test_attack_44_groups_of_the_host(probe):
    """The names of cgroups name services, containers and runs."""
    probe.check(PRELUDE + """
reached = []
for pid in ('self', '1'):
    with open(f'/proc/{pid}/cgroup') as f:
        # Init is in the group above, which has no name from here.
        reached += [line for line in f.read().split() if not line.endswith((':/', ':/..'))]
    if not os.path.exists('/proc/1'): break
verdict(reached)
""", unsafe="the tests may run in the root group")


# ---- what others do with files that are shown ---------------------------------------------------------

WATCH = PRELUDE + """
import fcntl, select
seen = libc.inotify_init1(0o4000)
paths = {}
for path in (b'/usr/bin', b'/usr/bin/true', b'/etc', b'/etc/passwd'):
    for bit in range(12):
        for high in (0, 1 << 32):
            mark = call('inotify_add_watch', seen, path, 1 << bit | 0x20000000 | high)
            if mark > 0: paths[mark] = path
signals = []
signal.signal(signal.SIGRTMIN, lambda *_: signals.append('F_NOTIFY'))
for path in ('/usr/bin', '/etc'):
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.fcntl(fd, 10, signal.SIGRTMIN)  # F_SETSIG
        fcntl.fcntl(fd, fcntl.F_NOTIFY, fcntl.DN_ACCESS | fcntl.DN_MULTISHOT)
    except OSError: pass
print('READY', flush=True)
sys.stdin.readline()
try: events = os.read(seen, 1 << 20)
except BlockingIOError: events = b''
reached = set(signals)
while events:
    mark, mask, _, size = struct.unpack('iIII', events[:16])
    reached.add((paths[mark], hex(mask), events[16:16 + size].rstrip(bytes(1))))
    events = events[16 + size:]
verdict([r for r in reached if r == 'F_NOTIFY' or b'true' in r[0] + r[2] or b'passwd' in r[0] + r[2]])
"""


def watched(process):
    """What a guest saw of a program that is started, and of a file that is read, beside it."""
    line = process.stdout.readline()
    assert line == b"READY\n", line + process.stderr.read()
    subprocess.run(["/usr/bin/true"], check=True)
    with open("/etc/passwd", "rb") as users:
        users.read()
    out, err = process.communicate(b"go\n", timeout=60 * SLOW)
    return (out + err).decode()


@pytest.mark.parametrize("view", ["minimal", "host"])
def test_review_e4_programs_that_the_host_starts(probe, view):
    bare = subprocess.Popen([*probe.prefix, "/usr/bin/python3", "-c", WATCH], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    said = watched(bare)
    assert "ESCAPED" in said and "F_NOTIFY" in said, said
    process = probe.brig.start("-w", probe.work, "--view", view, "--stdin", "-", "--", "/usr/bin/python3", "-c", WATCH,
                               before=probe.prefix, stdin=subprocess.PIPE)
    said = watched(process)
    assert said == "HELD\n", said


def test_review_e4_what_of_a_file_is_in_memory(probe):
    """What others have read is in the page cache; a read that does not wait would tell."""
    probe.check(PRELUDE + """
reached = []
with open('/usr/bin/true', 'rb') as f:
    f.read(1)
    try: reached.append(os.preadv(f.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT))
    except OSError as e: assert e.errno == errno.EOPNOTSUPP, e
    span, stat = struct.pack('QQ', 0, 4096), ctypes.create_string_buffer(64)
    if call_number(451, f.fileno(), span, stat, 0) == 0: reached.append('cachestat')
    assert os.preadv(f.fileno(), [bytearray(4)], 0, 0) == 4
verdict(reached)
""")


# ---- 45: siblings -----------------------------------------------------------------------------------

SIBLING = PRELUDE + """
import mmap, time, fcntl
token = sys.argv[1]
libc.shmget.restype = ctypes.c_int
paths = ['/tmp/' + token, '/dev/shm/' + token, '/var/tmp/' + token, os.environ['HOME'] + '/' + token]
for path in paths:
    try:
        with open(path, 'w') as f: f.write(token)
    except OSError: pass
key = int(token[:7], 16)
segment = libc.shmget(key, 4096, 0o1666)
queue = libc.msgget(key, 0o1666)
semaphore = libc.semget(key, 1, 0o1666)
mq = call_number(240 if os.uname().machine == 'x86_64' else 180, token.encode(), os.O_CREAT | os.O_RDWR, 0o666, 0)
try: abstract = socket.socket(socket.AF_UNIX); abstract.bind(chr(0) + token); abstract.listen()
except OSError: pass  # refused with the host's network and an old landlock
tcp = socket.socket(); tcp.bind(('127.0.0.1', 0)); tcp.listen()
print('READY', os.getpid(), tcp.getsockname()[1], flush=True)
time.sleep(100)
"""

SEEKER = ALL_OF_PROC + """
token, port = sys.argv[1] + sys.argv[2], int(sys.argv[3])
reached = []
for path in ('/tmp/', '/dev/shm/', '/var/tmp/', os.environ.get('HOME', '/') + '/'):
    if os.path.exists(path + token): reached.append(path)
key = int(token[:7], 16)
for name in ('shmget', 'msgget', 'semget'):
    args = {'shmget': (key, 0, 0), 'msgget': (key, 0), 'semget': (key, 0, 0)}[name]
    if getattr(libc, name)(*args) >= 0: reached.append(name)
if call_number(240 if os.uname().machine == 'x86_64' else 180, token.encode(), os.O_RDWR, 0, 0) >= 0: reached.append('mq')
try: socket.socket(socket.AF_UNIX).connect(chr(0) + token); reached.append('abstract')
except OSError: pass
try: socket.create_connection(('127.0.0.1', port), 1); reached.append('tcp')
except OSError: pass
reached += search(token.encode())
verdict(reached)
"""


def start_sibling(probe, token, cell, *options):
    command = ["/usr/bin/python3", "-c", SIBLING, token]
    if cell:
        process = probe.brig.start("-w", probe.work, *options, "--", *command, before=probe.prefix)
    else:
        process = subprocess.Popen([*probe.prefix, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   cwd=probe.work, env={**os.environ, "HOME": probe.work})
    line = process.stdout.readline()
    assert line.startswith(b"READY"), (line, process.stderr.read() if process.poll() else "")
    return process, line.split()[2].decode()


def end(process):
    process.terminate()
    frame.finish(process, 20)


def clean_up_bare(token):
    key = int(token[:7], 16)
    for kind in ("-M", "-Q", "-S"):
        subprocess.run(["ipcrm", kind, str(key)], check=False, capture_output=True)
    for path in ("/tmp/", "/dev/shm/", "/var/tmp/"):
        try:
            os.unlink(path + token)
        except OSError:
            pass
    import ctypes
    ctypes.CDLL(None).mq_unlink(b"/" + token.encode())


def test_attack_45_the_search_finds_a_sibling_without_brig(probe):
    """What the next test relies on."""
    token = uuid.uuid4().hex
    process, port = start_sibling(probe, token, False)
    try:
        said = subprocess.run([*probe.prefix, "/usr/bin/python3", "-c", SEEKER, token[:16], token[16:], port],
                              capture_output=True, text=True, check=False, env={**os.environ, "HOME": probe.work},
                              timeout=60 * SLOW)
    finally:
        end(process)
        clean_up_bare(token)
    for way in ("/tmp/", "/dev/shm/", "shmget", "msgget", "semget", "mq", "abstract", "tcp", "cmdline"):
        assert way in said.stdout, said


@pytest.mark.parametrize("seeker", ["cell", "host network"])
def test_attack_45_siblings(probe, seeker):
    """One run looks for what another has: by process, file, socket, shared memory."""
    token = uuid.uuid4().hex
    options = ["--network", "host"] if seeker == "host network" else []
    process, port = start_sibling(probe, token, True, *options)
    if options:
        port = "1"  # that network is shared, as was asked, and with it the list of its sockets' names
    inner = os.path.join(probe.work, "other")
    os.mkdir(inner)
    if probe.user == "user":
        os.chown(inner, NOBODY, NOBODY_GROUP)
    try:
        result = probe.brig.result("-w", inner, *options, "--", "/usr/bin/python3", "-c", SEEKER, token[:16], token[16:],
                                   port, before=probe.prefix)
    finally:
        end(process)
    if options:
        assert "abstract" not in result["stdout"] and "cmdline" not in result["stdout"], result["stdout"]
        assert not [w for w in result["stdout"].split("'")[1::2] if not w.endswith("/net/unix")], result["stdout"]
        return
    assert result["stdout"] == "HELD\n", result["stdout"] + result["stderr"]


def test_attack_45_signals_to_others(probe):
    """Every pid but its own: nobody is there."""
    victim = subprocess.Popen([*probe.prefix, "/bin/sleep", str(100 * SLOW)])
    try:
        probe.check(PRELUDE + f"""
reached = []
for pid in ({victim.pid}, {os.getpid()}, os.getppid() if os.getppid() != 1 else {victim.pid}):
    try: os.kill(pid, 0); reached.append(pid)
    except OSError: pass
    try: os.pidfd_open(pid); reached.append(pid)
    except OSError: pass
pids = [p for p in os.listdir('/proc') if p.isdigit() and int(p) not in (1, os.getpid())]
verdict(reached + pids)
""")
    finally:
        victim.kill()
        victim.wait(20 * SLOW)


# ---- 46: the terminal ---------------------------------------------------------------------------------

@contextlib.contextmanager
def terminal():
    """(main, side) of a terminal that is everybody's."""
    main, side = pty.openpty()
    with open(main, "r+b", buffering=0) as main, open(side, "r+b", buffering=0) as side:
        os.fchmod(side.fileno(), 0o666)
        yield main.fileno(), side.fileno()


def own_terminal():
    """Before a program is executed: its stdin is its controlling terminal."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def on_terminal(probe, code, *options):
    """Run brig with a terminal as its stdin, stdout and stderr and as its controlling one. Returns what the
    terminal showed, and its size and settings before and after."""
    with terminal() as (main, side):
        def settings():
            return fcntl.ioctl(side, termios.TIOCGWINSZ, bytes(8)), termios.tcgetattr(side)

        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
        before = settings()
        command = probe.brig.command("-w", probe.work, *options, "--", "/usr/bin/python3", "-c", code)
        process = subprocess.Popen([*probe.prefix, *[c.replace("TERMINAL", os.ttyname(side)) for c in command]],
                                   stdin=side, stdout=side, stderr=side, preexec_fn=own_terminal)
        probe.brig.remember(process)
        os.write(main, b"typed by the person\n")
        shown = bytearray()

        def ended():
            """Takes what is shown, so that nobody has to wait to show more; nothing follows the end."""
            over = process.poll() is not None
            while select.select([main], [], [], 0)[0]:
                shown.extend(os.read(main, 4096))
            return over
        try:
            assert frame.wait_until(ended, 60), f"brig has not ended: {shown}"
        finally:
            process.kill()
            process.wait(20 * SLOW)
        return shown.decode(errors="replace"), before, settings()


TTY = PRELUDE + """
import fcntl, termios, glob
reached = []
fds = [0, 1, 2]
paths = ['/dev/tty', '/dev/console', '/proc/self/fd/0', '/proc/self/fd/1', *glob.glob('/dev/pts/[0-9]*'), '/dev/tty0', '/dev/ttyS0']
if 'BRIG_TEST_TOKEN' not in os.environ:
    paths = ['/dev/tty', '/proc/self/fd/0', os.ttyname(0)]  # without brig it changes what it finds: its own only
for path in paths:
    for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):
        try: fds.append(os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY))
        except OSError: pass
size = struct.pack('4H', 11, 22, 0, 0)
for fd in fds:
    for name, number, arg in (('type', 0x5412, b'x'), ('resize', termios.TIOCSWINSZ, size), ('own', termios.TIOCSCTTY, 1),
                              ('console', 0x541d, 0), ('linux', 0x541c, b'\\x02'), ('size', termios.TIOCGWINSZ, ctypes.create_string_buffer(8)),
                              ('group', termios.TIOCSPGRP, struct.pack('i', os.getpid())), ('exclusive', termios.TIOCEXCL, 0)):
        if call('ioctl', fd, number, arg) == 0: reached.append((fd, name))
    try:
        settings = termios.tcgetattr(fd); settings[3] &= ~termios.ECHO; termios.tcsetattr(fd, 0, settings)
        reached.append((fd, 'settings'))
    except termios.error: pass
    if os.isatty(fd): reached.append((fd, 'is a terminal'))
verdict(reached)
"""


@pytest.mark.parametrize("options", [[], ["--stdin", "-"], ["--stdin", "/dev/tty"], ["--stdin", "TERMINAL"],
                                     ["--view", "host"], ["--rw", "TERMINAL"]], ids=" ".join)
def test_attack_46_terminal_of_the_caller(probe, options):
    shown, before, after = on_terminal(probe, TTY, *options)
    assert before[0] == after[0], "the terminal was resized"
    assert before[1] == after[1], "the terminal's settings were changed"
    if options and "HELD" not in shown:
        assert "brig:" in shown and "ESCAPED" not in shown  # refused
        return
    assert "HELD" in shown and "ESCAPED" not in shown, shown


def test_attack_46_the_probe_finds_a_terminal_without_brig(probe):
    with terminal() as (_, side):
        said = subprocess.run([*probe.prefix, "/usr/bin/python3", "-c", TTY], stdin=side, capture_output=True,
                              text=True, check=False, preexec_fn=own_terminal, timeout=60 * SLOW)
    assert "ESCAPED" in said.stdout and "resize" in said.stdout and "settings" in said.stdout, said


def test_attack_46_what_is_typed_is_not_read(probe):
    shown, _, _ = on_terminal(probe, "import os, time; time.sleep(0.2); print(b'READ', os.read(0, 100))")
    assert "READ" in shown and "typed by" not in shown.split("READ")[1], shown
