# SPDX-License-Identifier: MIT
"""ATTACKS 1 to 6: what a guest asks of the kernel: namespaces, mounts, the network, the machine, devices, rights."""
import json
import os
import shutil
import socket
import subprocess
import threading

import pytest
from conftest import NOBODY, NOBODY_GROUP, OLD_LANDLOCK, unless_root
from guest_code import CLONES, PRELUDE, X86


# ---- 1: namespaces ----------------------------------------------------------------------------

WAYS_TO_A_NAMESPACE = {
    "unshare": "call('unshare', flags) == 0",
    "clone": "clone(flags)",
    "clone3": "clone3(flags)",
}


@pytest.mark.parametrize("way", WAYS_TO_A_NAMESPACE)
def test_attack_01_new_user_namespace(probe, way):
    probe.check(PRELUDE + CLONES + f"""
flags = NEWUSER
verdict(in_child(lambda: {WAYS_TO_A_NAMESPACE[way]}))
""")


@pytest.mark.parametrize("way", WAYS_TO_A_NAMESPACE)
def test_attack_01_new_namespace_of_any_kind(probe, way):
    probe.check(PRELUDE + CLONES + f"""
reached = []
for name, kind in SPACES.items():
    if name == 'time' and {way!r} == 'clone':
        continue  # its flag is part of the signal there
    for flags in (kind, kind | NEWUSER):
        if in_child(lambda: {WAYS_TO_A_NAMESPACE[way]}):
            reached.append(name)
verdict(reached)
""")


def test_attack_01_entering_a_namespace(probe):
    probe.check(PRELUDE + """
reached = []
for space in ('mnt', 'uts', 'ipc', 'net', 'cgroup'):
    for pid in ('self', '1'):
        try:
            fd = os.open(f'/proc/{pid}/ns/{space}', os.O_RDONLY)
        except OSError:
            continue
        if in_child(lambda: call('setns', fd, 0) == 0):
            reached.append((pid, space))
pidfd = os.pidfd_open(os.getpid())
if in_child(lambda: call('setns', pidfd, SPACES['uts']) == 0):
    reached.append('pidfd')
verdict(reached)
""", unsafe=unless_root(probe))


def test_attack_01_the_namespaces_belong_to_somebody_else(probe):
    """A guest has no rights over the namespaces that hold it, whatever it is called inside."""
    probe.check(PRELUDE + """
reached = []
if call('sethostname', b'brig', 4) == 0: reached.append('sethostname')
if call('setdomainname', b'(none)', 6) == 0: reached.append('setdomainname')
with open('/proc/self/status') as status:
    for line in status:
        if line.startswith('Cap') and int(line.split()[1], 16):
            reached.append(line.split())
for capability in range(41):
    data = struct.pack('6I', *([1 << capability] * 2 + [0] * 4 if capability < 32 else
                               [0] * 3 + [1 << (capability - 32)] * 2 + [0]))
    if in_child(lambda: call('capset', struct.pack('Ii', 0x20080522, 0), data) == 0):
        reached.append(capability)
verdict(reached)
""", unsafe="would name the machine")


# ---- 2: mounts --------------------------------------------------------------------------------

# Without brig these run in a mount namespace of their own; in a cell that step fails, and is not
# what holds the rest.
OWN_MOUNTS = PRELUDE + """
uid, gid = os.getuid(), os.getgid()
if call('unshare', SPACES['mnt'] | (0 if uid == 0 else NEWUSER)) == 0 or uid == 0 and call('unshare', SPACES['mnt']) == 0:
    if uid:
        open('/proc/self/setgroups', 'w').write('deny')
        open('/proc/self/uid_map', 'w').write(f'0 {uid} 1')
        open('/proc/self/gid_map', 'w').write(f'0 {gid} 1')
    assert call('mount', 0, b'/', 0, 0x44000, 0) == 0
here = os.getcwd().encode()
os.makedirs(b'place/old', exist_ok=True)
"""


@pytest.mark.parametrize("what", ["tmpfs", "bind", "remount", "proc", "propagation", "overlay"])
def test_attack_02_mount(probe, what):
    calls = {
        "tmpfs": "call('mount', b'x', here + b'/place', b'tmpfs', 0, 0)",
        "bind": "call('mount', b'/', here + b'/place', 0, 0x1000 | 0x4000, 0)",
        "remount": "call('mount', 0, b'/', 0, 0x20 | 0x1000 | 1, 0)",
        "proc": "call('mount', b'proc', here + b'/place', b'tmpfs', 6, 0)",
        "propagation": "call('mount', 0, b'/', 0, 0x84000, 0)",
        "overlay": "min(0, call('fsopen', b'overlay', 0))",
    }
    probe.check(OWN_MOUNTS + f"""
verdict({calls[what]} == 0)
""")


def test_attack_02_remount_writable(probe):
    """The read-only system directories stay so."""
    probe.check(OWN_MOUNTS + """
attr = struct.pack('4Q', 0, 1, 0, 0)
reached = []
for place in (b'/', b'/usr', b'/etc'):
    if call('mount', 0, place, 0, 0x20 | 0x1000, 0) == 0: reached.append(place)
    if call('mount_setattr', -100 & (1 << 64) - 1, place, 0, attr, len(attr)) == 0: reached.append(place)
for place in ('/', '/usr', '/usr/bin', '/etc', '/bin', '/lib'):
    if os.access(place, os.W_OK): reached.append(place)
    try:
        with open(place + '/brig-was-here', 'x'): reached.append(place)
        os.unlink(place + '/brig-was-here')
    except OSError: pass
verdict(reached)
""", unsafe="would write into the system's directories")


def test_attack_02_unmount(probe):
    probe.check(OWN_MOUNTS + """
reached = []
call('mount', b'x', here + b'/place', b'tmpfs', 0, 0)  # something to unmount without brig
for place in (here + b'/place', b'/proc/kallsyms', b'/proc/sys/kernel/random/boot_id', b'/proc', b'/tmp', here, b'/'):
    for flags in (0, 1, 2, 4, 8):
        if call('umount2', place, flags) == 0: reached.append(place)
    if reached: break
verdict(reached)
""")


def test_attack_02_new_root(probe):
    probe.check(OWN_MOUNTS + """
reached = []
call('mount', b'x', here + b'/place', b'tmpfs', 0, 0)
os.makedirs(b'place/old', exist_ok=True)
if in_child(lambda: call('chroot', here + b'/place') == 0): reached.append('chroot')
if in_child(lambda: call('pivot_root', here + b'/place', here + b'/place/old') == 0): reached.append('pivot_root')
verdict(reached)
""")


def test_attack_02_new_mount_calls(probe):
    probe.check(OWN_MOUNTS + """
AT = -100
reached = []
def tried(name, *args):
    ret = call(name, *args)
    if ret >= 0: reached.append(name)
    elif ret not in REFUSED: reached.append((name, ret))
    return ret
fs = tried('fsopen', b'tmpfs', 0)
tried('fsconfig', fs, 6, 0, 0, 0)
tried('fsmount', fs, 0, 0)
tried('fspick', AT, b'/', 0)
tree = tried('open_tree', AT, here, 1)
tried('move_mount', tree, b'', AT, here + b'/place', 4)
attr = struct.pack('4Q', 1, 0, 0, 0)
tried('mount_setattr', AT, here + b'/place', 0, attr, len(attr))
tried('open_tree_attr', AT, here, 1, attr, len(attr))
verdict(reached)
""")


def test_attack_02_mounts_of_the_host_are_not_listed(probe):
    probe.check(PRELUDE + """
reached = []
request = struct.pack('IIQQQ', 32, 0, 0xffffffffffffffff, 0, 0)
ids = (ctypes.c_uint64 * 512)()
if call('listmount', request, ids, 512, 0) > 0: reached.append('listmount')
verdict(reached)
""")


# ---- 3: the network ---------------------------------------------------------------------------

@pytest.fixture
def listener():
    """A TCP and a UDP port of the host, on all addresses, and an abstract socket."""
    tcp, udp = socket.socket(), socket.socket(type=socket.SOCK_DGRAM)
    abstract = socket.socket(socket.AF_UNIX)
    tcp.bind(("0.0.0.0", 0))
    port = tcp.getsockname()[1]
    udp.bind(("0.0.0.0", 0))
    tcp.listen()
    abstract.bind(f"\0brig-probe-{port}-{os.getpid()}")
    abstract.listen()
    stop = threading.Event()

    def echo():
        udp.settimeout(0.05)
        while not stop.is_set():
            try:
                data, where = udp.recvfrom(100)
                udp.sendto(data, where)
            except OSError:  # nothing came, or who asked is gone
                pass

    thread = threading.Thread(target=echo, daemon=True)
    thread.start()
    with tcp, udp, abstract:
        yield {"tcp": port, "udp": udp.getsockname()[1], "abstract": abstract.getsockname()}
        stop.set()
        thread.join(20)


def addresses():
    """All of this machine's."""
    said = subprocess.run(["ip", "-o", "-4", "addr"], capture_output=True, text=True, check=False)
    found = [line.split()[3].split("/")[0] for line in said.stdout.splitlines()]
    return sorted({"127.0.0.1", *found})


def test_attack_03_tcp_to_the_host(probe, listener):
    probe.check(PRELUDE + f"""
reached = []
for address in {addresses()}:
    try: socket.create_connection((address, {listener["tcp"]}), 1); reached.append(address)
    except OSError: pass
verdict(reached)
""")


def test_attack_03_udp_and_names(probe, listener):
    """A name server is an UDP port."""
    probe.check(PRELUDE + f"""
reached = []
for address in {addresses()}:
    s = socket.socket(type=socket.SOCK_DGRAM); s.settimeout(0.3)
    try: s.sendto(b'x', (address, {listener["udp"]})); s.recv(10); reached.append(address)
    except OSError: pass
verdict(reached)
""")


def test_attack_03_abstract_socket_of_the_host(probe, listener):
    probe.check(PRELUDE + f"""
s = socket.socket(socket.AF_UNIX)
try: s.connect({listener["abstract"]!r}); verdict(['connected'])
except OSError: verdict([])
""")


def test_attack_03_abstract_socket_with_the_hosts_network(probe, listener):
    """--network host shows addresses, not the sockets of programs."""
    probe.check(PRELUDE + f"""
try: socket.socket(socket.AF_UNIX).connect({listener["abstract"]!r}); verdict(['connected'])
except OSError: verdict([])
""", "--network", "host")


def test_review_f6_old_landlock_keeps_unix_sockets_apart(probe, listener):
    """Before its version 6 landlock lets a guest with the host's network reach what listens there on an abstract
    name: then it has no Unix sockets but pairs, and the result says so. A pair of datagrams sends anywhere."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams:
        datagrams.bind(listener["abstract"] + b"-datagrams")
        result = probe.check(PRELUDE + f"""
reached = []
try: socket.socket(socket.AF_UNIX).connect({listener["abstract"]!r}); reached.append('connected')
except OSError: pass
for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC):
    try: socket.socketpair(type=kind)[0].sendto(b'x', {datagrams.getsockname()!r}); reached.append(kind)
    except OSError: pass
for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK):
    one, other = socket.socketpair(type=kind)
    try: one.connect({listener["abstract"]!r}); reached.append('connected again')
    except OSError: pass
    try: one.sendto(b'x', {datagrams.getsockname()!r}); assert other.recv(1) == b'x'
    except BlockingIOError: reached.append('sent elsewhere')
    except OSError: pass
    one.send(b'x'); other.recv(1)
socket.create_connection(('127.0.0.1', {listener["tcp"]}), 5).close()
verdict(reached)
""", "--network", "host", before=OLD_LANDLOCK)
    assert "older than version 3" in result["isolation"]["layers"]["landlock"], result["isolation"]
    assert "no Unix sockets but pairs" in result["isolation"]["off"]["net"], result["isolation"]


def test_review_f6_doctor_says_what_an_old_landlock_leaves_out(probe):
    doctor = probe.brig.run("--json", verb="doctor", before=[*probe.prefix, *OLD_LANDLOCK], cwd=probe.work)
    landlock, = (row for row in json.loads(doctor.stdout)["layers"] if row["name"] == "landlock")
    assert landlock["state"] == "ok" and "older than version 3" in landlock["why"], landlock


def test_attack_03_no_way_out(probe):
    probe.check(PRELUDE + """
reached = []
for family, where in ((socket.AF_INET, '198.51.100.1'), (socket.AF_INET, '255.255.255.255'),
                      (socket.AF_INET6, '2001:db8::1'), (socket.AF_INET6, 'ff02::1%2')):
    s = socket.socket(family, socket.SOCK_DGRAM)
    try: s.connect((where, 53)); reached.append(where)
    except OSError: pass
names = [name for _, name in socket.if_nameindex() if name != 'lo']
with open('/proc/net/route') as routes:
    names += routes.read().split()[11:]
verdict(reached + names)
""", unsafe=None if len(socket.if_nameindex()) > 1 else "this machine has no network")


@pytest.mark.parametrize("network", ["none", "host"])
def test_attack_03_raw_and_packet_sockets(probe, network):
    probe.check(PRELUDE + """
reached = []
for name, *args in (('raw', 2, 3, 255), ('icmp', 2, 3, 1), ('raw6', 10, 3, 58), ('packet', 17, 3, 0x300),
                    ('packet dgram', 17, 2, 0x300), ('old packet', 2, 10, 0x300)):
    if call('socket', *args) >= 0: reached.append(name)
verdict(reached)
""", "--network", network, unsafe=unless_root(probe))


@pytest.mark.parametrize("name", ["socket", "socketpair"])
def test_attack_03_families_of_sockets(probe, name):
    """Each family is a part of the kernel, some reach other machines (vsock), and asking for one
    loads a module: none but those that are needed is asked for."""
    probe.check(PRELUDE + f"""
reached = []
pair = (ctypes.c_int * 2)()
for family in range(64):
    for kind in (1, 2, 3, 5):
        ret = call({name!r}, family, kind, 0, pair)
        # Refused before the kernel looks for it: that has one error, whatever the kernel has.
        if family not in (1, 2, 10, 16) and ret not in (-errno.EAFNOSUPPORT, -errno.EPERM):
            reached.append((family, kind, ret))
        if ret >= 0 and {name!r} == 'socket': os.close(ret)
for protocol in range(1, 23):
    ret = call({name!r}, 16, 3, protocol, pair)
    if ret not in (-errno.EAFNOSUPPORT, -errno.EPERM):
        reached.append(('netlink', protocol, ret))
verdict(reached)
""")


def test_attack_03_packet_by_socketpair(probe):
    """AF_PACKET is refused as a family, not only for want of a capability."""
    probe.check(PRELUDE + """
pair = (ctypes.c_int * 2)()
ret = [call('socketpair', 17, 3, 0, pair), call('socketpair', 44, 3, 0, pair)]
verdict([] if set(ret) == {-errno.EAFNOSUPPORT} else ret)
""")


def test_attack_03_protocols_that_load_modules(probe):
    """SCTP, DCCP, L2TP and UDP-Lite are AF_INET too, and are rarely looked at."""
    probe.check(PRELUDE + """
reached = []
for kind, protocol in ((1, 132), (5, 132), (6, 33), (2, 115), (2, 136)):
    ret = call('socket', 2, kind, protocol)
    # ESOCKTNOSUPPORT or EPROTONOSUPPORT come after the kernel has looked for a module.
    if ret not in (-errno.EAFNOSUPPORT, -errno.EPERM): reached.append((kind, protocol, ret))
verdict(reached)
""")


# ---- 4: the machine ---------------------------------------------------------------------------

# With arguments that do nothing, but whose error shows that the call was let in.
MACHINE = {
    "init_module": "b'x', 1, b''", "finit_module": "0, b'', 0", "delete_module": "b'brig-none', 0o4000",
    "reboot": "0, 0, 0, 0", "swapon": "b'/brig-none', 0", "swapoff": "b'/brig-none'",
    "settimeofday": "0, 0", "kexec_load": "0, 1 << 20, 0, 0",
    "acct": "b'/brig-none'", "syslog": "10, 0, 0", "quotactl": "0x80000100, b'/brig-none', 0, 0",
    "perf_event_open": "struct.pack('II', 1, 112) + bytes(104), 0, -1, -1, 0",
    "bpf": "0, struct.pack('4I', 2, 4, 4, 1) + bytes(56), 72", "fanotify_init": "0, 0",
    "open_by_handle_at": "0, struct.pack('Ii', 0, 0), 0", "move_pages": "0, 0, 0, 0, 0, 0",
    "mbind": "0, 0, 0, 0, 0, 0", "io_uring_setup": "1, bytes(120)", "userfaultfd": "1",
    "add_key": "b'user', b'brig', b'x', 1, -1", "keyctl": "0, -3, 0",
    "request_key": "b'user', b'brig-none', 0, 0", "name_to_handle_at": "-100, b'/', bytes(8), bytes(8), 0",
    "pidfd_getfd": "0, 0, 0", "clock_adjtime": "0, struct.pack('I', 0x8000) + bytes(204)",
    "clock_settime": "0, struct.pack('qq', -1, -1)",
}
if X86:
    MACHINE |= {"ioperm": "0, 0, 1", "iopl": "0"}

@pytest.mark.parametrize("name", MACHINE)
def test_attack_04_calls_that_act_on_the_machine(probe, name):
    code = PRELUDE + f"""
ret = call({name!r}, {MACHINE[name]})
verdict([] if ret in REFUSED else [ret])
"""
    said = probe.bare(code)
    # Not in this kernel, or not for this user: then it is only tried in the cell.
    absent = "HELD" in said and (probe.user != "root" or name not in ("reboot", "swapon", "settimeofday"))
    probe.check(code, unsafe="not in this kernel, or not for this user" if absent else None)


def test_attack_04_settings_of_the_kernel(probe):
    probe.check(PRELUDE + """
reached = []
def attempt(path):
    # Some are open to all and refuse at the write. Without brig nothing is written.
    try: fd = os.open(path, os.O_WRONLY)
    except OSError: return
    try:
        with open(path) as now: text = now.read().encode()
    except OSError:
        reached.append(path)  # for writing only, and open
        return
    try:
        if 'BRIG_TEST_TOKEN' in os.environ: os.write(fd, text)
        reached.append(path)
    except OSError: pass
for root, directories, files in os.walk('/proc/sys'):
    for name in files:
        path = os.path.join(root, name)
        attempt(path)
for path in ('/proc/sysrq-trigger', '/proc/mtrr', '/proc/irq/default_smp_affinity',
             '/proc/self/uid_map', '/proc/self/gid_map', '/proc/self/projid_map', '/sys/power/state',
             '/sys/kernel/uevent_helper', '/proc/pressure/memory', '/proc/fs/nfsd/threads'):
    if 'self' not in path: attempt(path)
reached = [path for path in reached if not path.startswith('/proc/pressure')]  # a question, no setting
verdict(reached)
""", unsafe=unless_root(probe))


# ---- 5: devices -------------------------------------------------------------------------------

def test_attack_05_mknod(probe):
    probe.check(PRELUDE + """
reached = []
for directory in ('.', '/tmp', '/dev/shm', '/dev', os.environ.get('HOME', '/')):
    for kind in (0o020000, 0o060000):
        for device in ((1 << 8) | 1, (1 << 8) | 3, (254 << 8), (10 << 8) | 229):
            path = f'{directory}/brig-probe-{os.getpid()}'.encode()
            if call('mknodat', -100, path, kind | 0o666, device) == 0:
                reached.append((path, kind, device)); os.unlink(path)
verdict(reached)
""", unsafe=unless_root(probe))


@pytest.mark.parametrize("view", ["minimal", "host"])
def test_attack_05_devices_of_the_machine(probe, view):
    harmless = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "fd", "stdin", "stdout", "stderr"}
    probe.check(PRELUDE + f"""
import stat
reached = []
known = '''mem kmem port kmsg kvm fuse vda sda nvme0n1 loop0 loop-control net/tun vsock vhost-net vhost-vsock
userfaultfd console ttyS0 tty0 tty1 hwrng cpu_dma_latency btrfs-control dri/card0 snd/seq input/event0 uinput'''.split()
here = [os.path.relpath(os.path.join(r, f), '/dev') for r, _, fs in os.walk('/dev') for f in fs]
for name in sorted(set(known + here)):
    if name in {harmless!r} or name.startswith(('shm/', 'pts/', 'tty', 'vcs', 'watchdog', 'autofs')): continue
    try:
        fd = os.open('/dev/' + name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        if not stat.S_ISREG(os.fstat(fd).st_mode): reached.append(name)
        os.close(fd)
    except OSError: pass
verdict(reached)
""", "--view", view, unsafe=unless_root(probe))


@pytest.mark.root("makes device files")
def test_attack_05_device_left_in_the_work_directory(probe):
    for name, mode, device in (("zero", 0o020666, (1, 5)), ("kmsg", 0o020666, (1, 11))):
        path = os.path.join(probe.work, name)
        os.mknod(path, mode, os.makedev(*device))
        os.chmod(path, 0o666)
    probe.check(PRELUDE + """
reached = []
for name in ('zero', 'kmsg'):
    for flags in (os.O_RDONLY, os.O_WRONLY):
        try: os.close(os.open(name, flags)); reached.append(name)
        except OSError: pass
verdict(reached)
""")


# ---- 6: programs with more rights ---------------------------------------------------------------

RIGHTS = PRELUDE + """
import subprocess
said = subprocess.run(['./cat', '/proc/self/status'], capture_output=True, text=True)
fields = dict(line.split(':', 1) for line in said.stdout.splitlines() if ':' in line)
assert 'CapEff' in fields or said.returncode, said
reached = [k for k in ('CapEff', 'CapPrm', 'CapInh', 'CapAmb', 'CapBnd') if int(fields.get(k, '0'), 16)]
if set(fields.get('Uid', '').split()) - {str(os.getuid())}: reached.append(fields['Uid'])
if set(fields.get('Gid', '').split()) - {str(os.getgid())}: reached.append(fields['Gid'])
verdict(reached)
"""


@pytest.mark.root("makes setuid programs of other users")
@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o6755])
@pytest.mark.parametrize("owner", [0, 12345])
def test_attack_06_setuid_program(probe, mode, owner):
    path = shutil.copy("/usr/bin/cat", probe.work)
    os.chown(path, owner, owner)
    os.chmod(path, mode)
    probe.check(RIGHTS)


@pytest.mark.root("gives a program capabilities")
def test_attack_06_program_with_file_capabilities(probe):
    path = shutil.copy("/usr/bin/cat", probe.work)
    os.chmod(path, 0o755)
    subprocess.run(["setcap", "cap_setuid,cap_dac_override+ep", path], check=True)
    probe.check(RIGHTS)


def test_attack_06_setuid_programs_of_the_system(probe):
    """su as root without a password, sudo, mount: each says so if it is not what it wants to be."""
    probe.check(PRELUDE + """
import subprocess, shutil
reached = []
for name in ('su', 'mount', 'umount', 'newgrp', 'chsh', 'passwd', 'sudo', 'pkexec', 'fusermount3'):
    path = shutil.which(name, path='/usr/bin:/bin:/usr/sbin')
    if not path: continue
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        null = os.open('/dev/null', os.O_RDWR)
        for fd in (0, 1, 2): os.dup2(null, fd)
        libc.prctl(1, 9)
        os.execv(path, [path, '--brig-none'])
    for _ in range(2000):  # while it lives, its ids can be read
        try:
            with open(f'/proc/{pid}/status') as status: text = status.read()
        except OSError: break
        fields = dict(line.split(':', 1) for line in text.splitlines() if ':' in line)
        if fields['Name'].strip() == name and set(fields['Uid'].split()) != {str(os.getuid())}:
            reached.append(name)
            break
        if fields['State'].split()[0] == 'Z': break
    os.waitpid(pid, 0)
verdict(reached)
""", unsafe="a matter of luck without brig: the program may end before it is seen")


def test_attack_06_other_ids(probe):
    """There is one user in a cell, and no way to another."""
    probe.check(PRELUDE + """
reached = []
me = os.getuid()
for uid in {0, 1, 1000, 65534, 0x70000000, 2**32 - 2} - {me}:
    for name in ('setuid', 'setgid', 'seteuid', 'setegid'):
        if in_child(lambda: getattr(libc, name)(ctypes.c_uint(uid)) == 0): reached.append((name, uid))
if in_child(lambda: libc.setgroups(1, (ctypes.c_uint * 1)(0)) == 0 and me): reached.append('setgroups')
try:
    os.close(os.open('owned', os.O_CREAT | os.O_WRONLY, 0o600))
    os.chown('owned', 12345, 12345); reached.append('chown')
except OSError: pass
verdict(reached)
""", unsafe=unless_root(probe))


def test_attack_06_never_root_of_the_host(probe):
    """Whatever it is called inside, the host sees an uid that is nobody's, and not 0."""
    result = probe.cell("print(open('/proc/self/uid_map').read(), open('/proc/self/gid_map').read())")
    for line in result["stdout"].split("\n"):
        if line.strip():
            inside, outside, count = map(int, line.split())
            assert count == 1 and outside != 0, result["stdout"]
            assert outside in (NOBODY, NOBODY_GROUP) if probe.user == "user" else outside > 65534
            assert inside == (outside if probe.user == "user" else 1000)
