# SPDX-License-Identifier: MIT
"""ATTACKS 7 to 10: ways around the filter of system calls: arguments, corners of the processor, filters of its own,
other ABIs."""
import contextlib
import os
import subprocess

import pytest
from guest_code import CLONES, PRELUDE, X86


# ---- 7: the upper half of arguments -------------------------------------------------------------

HIGH = [1 << 32, 1 << 63, 0xFFFFFFFF << 32]


@pytest.mark.parametrize("high", HIGH, ids=hex)
def test_attack_07_clone_with_high_bits(probe, high):
    probe.check(PRELUDE + CLONES + f"""
reached = []
for name, flags in SPACES.items():
    if name != 'time' and in_child(lambda: clone(flags | NEWUSER | {high})): reached.append(name)
    if in_child(lambda: call('unshare', flags | NEWUSER | {high}) == 0): reached.append('unshare ' + name)
verdict(reached)
""")


TERMINAL = PRELUDE + """
import fcntl, termios
master, slave = os.openpty()
def own():
    # Typing is for one's own terminal only, or for root.
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
"""


@pytest.mark.parametrize("high", [0, *HIGH], ids=hex)
def test_attack_07_typing_with_high_bits(probe, high):
    """TIOCSTI, on a terminal of the guest's own so that nothing else holds it."""
    legacy = True  # before Linux 6.2 nobody could turn it off
    with contextlib.suppress(FileNotFoundError), open("/proc/sys/dev/tty/legacy_tiocsti", encoding="ascii") as setting:
        legacy = setting.read().strip() == "1"
    probe.check(TERMINAL + f"""
def typed():
    own()
    return call('ioctl', slave, 0x5412 | {high}, b'x') == 0
verdict(in_child(typed))
""", unsafe=None if legacy else "the kernel has it off")


@pytest.mark.parametrize("high", HIGH, ids=hex)
def test_attack_07_socket_family_with_high_bits(probe, high):
    probe.check(PRELUDE + f"""
reached = []
for family, kind in ((40, 1), (17, 3), (38, 5), (44, 3), (16, 3)):
    protocol = 9 if family == 16 else 0  # of netlink: the audit log
    ret = call('socket', family | {high}, kind, protocol | {high})
    if ret not in (-errno.EAFNOSUPPORT, -errno.EPERM): reached.append((family, ret))
verdict(reached)
""", unsafe=None if os.path.exists("/dev/vsock") else "no family that an ordinary user may have")


@pytest.mark.parametrize("high", HIGH, ids=hex)
def test_attack_07_number_and_personality_with_high_bits(probe, high):
    probe.check(PRELUDE + f"""
reached = []
if in_child(lambda: call_number(NR['unshare'] | {high}, NEWUSER) == 0): reached.append('unshare')
if in_child(lambda: call('personality', 0x40000 | {high}) >= 0): reached.append('personality')
if in_child(lambda: call('personality', 8 | {high}) >= 0): reached.append('personality 32')
verdict(reached)
""")


# ---- 8: odd corners of the processor ------------------------------------------------------------

@pytest.mark.skipif(not X86, reason="only x86 has it")
def test_attack_08_modify_ldt(probe):
    probe.check(PRELUDE + """
entry = struct.pack('4I', 0, 0, 0xfffff, 0x51)
reached = [f for f in (0, 1, 2, 0x11) if call('modify_ldt', f, ctypes.create_string_buffer(entry, 64), 16) >= 0]
verdict(reached)
""")


@pytest.mark.parametrize("value", [0x8, 0x40000, 0x100000, 0x400000, 0x20000, 0x4000000, 0x1000000])
def test_attack_08_personality(probe, value):
    """Addresses that are not random, pages at 0, all that is readable executable: not to be had."""
    probe.check(PRELUDE + f"""
verdict(in_child(lambda: call('personality', {value}) >= 0 and call('personality', 0xffffffff) == {value}))
""")


def test_attack_08_personality_may_be_asked(probe):
    result = probe.cell(PRELUDE + "print(call('personality', 0xffffffff))")
    assert result["stdout"] == "0\n"


# ---- 9: filters of the guest's own ----------------------------------------------------------------

# Notifies for unshare, allows the rest.
FILTER = PRELUDE + """
def bpf(code, jt, jf, k): return struct.pack('HBBI', code, jt, jf, k)
def program(action):
    return b''.join([bpf(0x20, 0, 0, 0), bpf(0x15, 0, 1, NR['unshare']), bpf(6, 0, 0, action),
                     bpf(6, 0, 0, 0x7fff0000)])
class Program(ctypes.Structure):
    _fields_ = [('len', ctypes.c_ushort), ('filter', ctypes.c_char_p)]
def install(action, flags):
    libc.prctl(38, 1, 0, 0, 0)
    code = program(action)
    return call('seccomp', 1, flags, ctypes.byref(Program(4, code)))
"""


def test_attack_09_listener_that_lets_everything_pass(probe):
    """A thread is asked about the calls of another and says: go on. What brig refuses stays so."""
    probe.check(FILTER + """
import fcntl, threading
def attempt():
    listener = install(0x7fc00000, 8)
    if listener < 0: return False
    def say_yes():
        request = bytearray(80)
        fcntl.ioctl(listener, 0xc0502100, request)
        answer = bytearray(struct.pack('QqiI', struct.unpack_from('Q', request)[0], 0, 0, 1))
        fcntl.ioctl(listener, 0xc0182101, answer)
    threading.Thread(target=say_yes, daemon=True).start()
    # Only the thread that installed it is asked about, so the other one may answer. A user
    # namespace needs a process of one thread: another kind where that is allowed.
    return in_child(lambda: call('unshare', NEWUSER) == 0)
verdict(in_child(attempt))
""")


@pytest.mark.parametrize("action", [0x7fff0000, 0x7ffc0000, 0x7ff00000], ids=["allow", "log", "trace"])
def test_attack_09_filter_that_allows(probe, action):
    """Without brig its own action is what counts; in a cell the refusal is stronger than each of them."""
    probe.check(FILTER + f"""
verdict(in_child(lambda: install({action}, 0) == 0 and call('unshare', NEWUSER) != -errno.EPERM))
""")
    installed = probe.cell(FILTER + f"print(install({action}, 0))")
    assert installed["stdout"] == "0\n", "the filter was not installed: the probe shows nothing"


def test_attack_09_listener_answers_for_the_kernel_only_itself(probe):
    """Its own answers deceive its own children, and open nothing."""
    probe.check(FILTER + """
import fcntl, threading
def attempt():
    listener = install(0x7fc00000, 8)
    if listener < 0: return False
    def say_done():
        request = bytearray(80)
        fcntl.ioctl(listener, 0xc0502100, request)
        answer = bytearray(struct.pack('QqiI', struct.unpack_from('Q', request)[0], 0, 0, 0))
        fcntl.ioctl(listener, 0xc0182101, answer)
    threading.Thread(target=say_done, daemon=True).start()
    before = os.readlink('/proc/self/ns/user')
    return in_child(lambda: call('unshare', NEWUSER) == 0 and False or os.readlink('/proc/self/ns/user') != before)
verdict(in_child(attempt))
""", unsafe="a listener that says done does nothing anywhere")


@pytest.mark.skipif(not X86, reason="registers of x86")
def test_attack_09_tracer_changes_the_call(probe):
    """A tracer turns getppid into unshare after it was entered: the filter looks again."""
    probe.check(PRELUDE + """
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
pid = os.fork()
if pid == 0:
    libc.ptrace(0, 0, 0, 0)
    os.kill(os.getpid(), signal.SIGSTOP)
    ret = call('getppid')
    os._exit(0 if ret == 0 else 1)
os.waitpid(pid, 0)
regs = (ctypes.c_ulong * 27)()
changed = False
while True:
    libc.ptrace(24, pid, 0, 0)
    _, status = os.waitpid(pid, 0)
    if os.WIFEXITED(status) or os.WIFSIGNALED(status): break
    libc.ptrace(12, pid, 0, ctypes.addressof(regs))
    if regs[15] == NR['getppid'] and not changed:
        regs[15], regs[14] = NR['unshare'], NEWUSER  # orig_rax, rdi
        libc.ptrace(13, pid, 0, ctypes.addressof(regs))
        changed = True
print('changed', changed)
verdict(changed and os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0)
""")


def test_attack_09_init_is_out_of_reach(probe):
    """init has no filter: nothing of the guest may run in it."""
    result = probe.cell(PRELUDE + """
reached = []
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
for request in (16, 0x4206):
    if libc.ptrace(request, 1, 0, 0) == 0: reached.append(request)
for name in ('mem', 'exe', 'root', 'cwd', 'fd/3', 'fd/4', 'environ', 'auxv', 'maps'):
    for flags in (os.O_RDONLY, os.O_RDWR):
        try: fd = os.open('/proc/1/' + name, flags)
        except OSError: continue
        try:
            if os.read(fd, 1) or flags == os.O_RDWR: reached.append((name, flags))
        except OSError: pass
for name in ('map_files', 'ns'):
    try: reached += [(name, os.readlink(f'/proc/1/{name}/{entry}')) for entry in os.listdir('/proc/1/' + name)]
    except OSError: pass
buffer = ctypes.create_string_buffer(8)
class Vector(ctypes.Structure): _fields_ = [('base', ctypes.c_void_p), ('len', ctypes.c_size_t)]
local = Vector(ctypes.addressof(buffer), 8)
for base in (0x400000, 0x10000):
    for function in (libc.process_vm_readv, libc.process_vm_writev):
        ctypes.set_errno(0)
        function(1, ctypes.byref(local), 1, ctypes.byref(Vector(base, 8)), 1, 0)
        if ctypes.get_errno() != errno.EPERM: reached.append((function.__name__, ctypes.get_errno()))
try:
    if call('pidfd_getfd', os.pidfd_open(1), 3, 0) >= 0: reached.append('pidfd_getfd')
except OSError: pass
verdict(reached)
""")
    assert result["stdout"] == "HELD\n", result["stdout"] + result["stderr"]


def test_attack_09_settings_of_init_are_out_of_reach(probe):
    """What is written there changes init: whom the kernel kills first, its name, its maps."""
    result = probe.cell(PRELUDE + """
reached = []
for name, text in (('oom_score_adj', b'1000'), ('comm', b'x'), ('coredump_filter', b'0'), ('timerslack_ns', b'1'),
                   ('clear_refs', b'1'), ('autogroup', b'1'), ('sched', b'0'), ('make-it-fail', b'0'),
                   ('loginuid', b'0'), ('uid_map', b'0 0 1'), ('setgroups', b'deny'), ('timens_offsets', b'1 1 1')):
    try: os.write(os.open('/proc/1/' + name, os.O_WRONLY), text); reached.append(name)
    except OSError: pass
if os.path.exists('/proc/1/limits'):
    old = (ctypes.c_ulong * 2)()
    for which in range(16):
        if libc.prlimit(1, which, None, old) == 0 and libc.prlimit(1, which, old, None) == 0: reached.append(which)
verdict(reached)
""")
    assert result["stdout"] == "HELD\n", result["stdout"] + result["stderr"]


# ---- 10: other ABIs -------------------------------------------------------------------------------

pytestmark_x86 = pytest.mark.skipif(not X86, reason="only x86 has other ABIs that a guest can enter")

MACHINE_CODE = PRELUDE + """
import mmap
def function(code):
    # Bytes of x86 as a function, below 4 GiB so that 32-bit code can use them.
    libc.mmap.restype = ctypes.c_void_p
    at = libc.mmap(ctypes.c_void_p(0), ctypes.c_size_t(4096), 7, 0x62, -1, ctypes.c_long(0))
    ctypes.memmove(at, code, len(code))
    return ctypes.CFUNCTYPE(ctypes.c_int)(at)
def int80(number, b=0, c=0, d=0):
    # push rbx; mov eax, ebx, ecx, edx; int 0x80; pop rbx; ret
    return function(b'\\x53\\xb8' + struct.pack('I', number) + b'\\xbb' + struct.pack('I', b & 0xffffffff) +
                    b'\\xb9' + struct.pack('I', c) + b'\\xba' + struct.pack('I', d) + b'\\xcd\\x80\\x5b\\xc3')()
"""


def has_ia32():
    said = subprocess.run(["/usr/bin/python3", "-c", MACHINE_CODE + "print(int80(20) == os.getpid())"],
                          capture_output=True, text=True, check=False)
    return "True" in said.stdout


def has_x32():
    said = subprocess.run(["/usr/bin/python3", "-c", PRELUDE + "print(call_number(0x40000000 | 39))"],
                          capture_output=True, text=True, check=False)
    return not said.stdout.startswith("-")


@pytestmark_x86
def test_attack_10_int_0x80(probe):
    """By number of the 32-bit table: getpid, unshare, mount, socketcall, modify_ldt, ptrace."""
    probe.check(MACHINE_CODE + """
reached = []
for name, *args in (('getpid', 20), ('getuid', 24), ('getppid', 64), ('umask', 60), ('time', 13)):
    ret = int80(*args)
    if ret != -errno.ENOSYS: reached.append((name, ret))
if in_child(lambda: int80(310, NEWUSER) == 0): reached.append('unshare')
if in_child(lambda: int80(136, 0x40000) >= 0): reached.append('personality')
verdict(reached)
""", unsafe=None if has_ia32() else "this kernel has no 32-bit calls")


@pytestmark_x86
def test_attack_10_every_32_bit_call(probe):
    """Not one number of that table is served, the ones without a counterpart included."""
    result = probe.cell(MACHINE_CODE + """
reached = [n for n in range(0, 470) if n not in (1, 252, 119, 173) and int80(n, -1) != -errno.ENOSYS]
verdict(reached)
""")
    assert result["stdout"] == "HELD\n", result["stdout"] + result["stderr"]


@pytestmark_x86
def test_attack_10_32_bit_program(probe):
    """An ELF file for i386 whose code is exit(42)."""
    probe.check(PRELUDE + """
code = b'\\xbb' + struct.pack('I', 42) + b'\\xb8' + struct.pack('I', 1) + b'\\xcd\\x80\\xf4'
base = 0x8048000
size = 52 + 32 + len(code)
elf = (b'\\x7fELF\\x01\\x01\\x01' + bytes(9) + struct.pack('HHIIIIIHHHHHH', 2, 3, 1, base + 84, 52, 0, 0, 52, 32, 1, 0, 0, 0)
       + struct.pack('8I', 1, 0, base, base, size, size, 5, 4096) + code)
with open('elf32', 'wb') as f: f.write(elf)
os.chmod('elf32', 0o755)
pid = os.fork()
if pid == 0:
    try: os.execv('./elf32', ['elf32'])
    except OSError: os._exit(7)
status = os.waitpid(pid, 0)[1]
print(status)
verdict(os.WIFEXITED(status) and os.WEXITSTATUS(status) == 42)
""", unsafe=None if has_ia32() else "this kernel has no 32-bit calls")


@pytestmark_x86
@pytest.mark.not_emulated("qemu 7.2 reads the stack of a far return with the kernel's rights, and panics")
def test_attack_10_32_bit_code_segment(probe):
    """A far return to the 32-bit segment, getpid there by int 0x80 and by syscall, and back."""
    probe.check(MACHINE_CODE + """
import mmap
def from_32(enter):
    libc.mmap.restype = ctypes.c_void_p
    at = libc.mmap(ctypes.c_void_p(0), ctypes.c_size_t(8192), 7, 0x22 | 0x40, -1, ctypes.c_long(0))  # MAP_32BIT
    # 64: save rbx rbp rsp r12-15; stack below 4 GiB; push 0x23; push low; retfq
    low, stack, back = at + 256, at + 8192 - 16, at + 512
    save = b'\\x48\\x89\\x24\\x25' + struct.pack('I', at + 1024)      # mov [at+1024], rsp
    code64 = (b'\\x53\\x55\\x41\\x54\\x41\\x55\\x41\\x56\\x41\\x57' + save +
              b'\\xbc' + struct.pack('I', stack) +                    # mov esp, stack
              b'\\x6a\\x23' + b'\\x68' + struct.pack('I', low) + b'\\x48\\xcb')
    code32 = (b'\\xb8' + struct.pack('I', 20) + enter +               # mov eax, 20
              b'\\x68' + struct.pack('I', 0x33) + b'\\x68' + struct.pack('I', back) + b'\\xcb')
    tail = (b'\\x48\\x8b\\x24\\x25' + struct.pack('I', at + 1024) +
            b'\\x41\\x5f\\x41\\x5e\\x41\\x5d\\x41\\x5c\\x5d\\x5b\\xc3')
    ctypes.memmove(at, code64, len(code64)); ctypes.memmove(low, code32, len(code32)); ctypes.memmove(back, tail, len(tail))
    return ctypes.CFUNCTYPE(ctypes.c_int)(at)()
reached = []
for name, enter in (('int', b'\\xcd\\x80'), ('syscall', b'\\x89\\xcd\\x0f\\x05')):
    if in_child(lambda: from_32(enter) == os.getpid()): reached.append(name)
verdict(reached)
""", unsafe=None if has_ia32() else "this kernel has no 32-bit calls")


@pytestmark_x86
def test_attack_10_x32(probe):
    probe.check(PRELUDE + CLONES + """
reached = []
X32 = 0x40000000
for number in [*range(0, 15), 39, 102, *range(16, 34), *range(512, 548)]:
    if number in (15, 513, 520, 545): continue  # would not come back
    if in_child(lambda: call_number(X32 | number, -1) != -errno.ENOSYS): reached.append(number)
if in_child(lambda: call_number(X32 | NR['unshare'], NEWUSER) == 0): reached.append('unshare')
if in_child(lambda: call_number(X32 | NR['getpid']) == os.getpid()): reached.append('getpid')
for high in (1 << 32, 1 << 63):
    if in_child(lambda: call_number(X32 | high | NR['unshare'], NEWUSER) == 0): reached.append('unshare high')
verdict(reached)
""", unsafe=None if has_x32() else "this kernel has no x32 calls")


def test_attack_10_calls_newer_than_the_filter(probe):
    """Unknown numbers get ENOSYS, at both ends of the range."""
    result = probe.cell(PRELUDE + """
numbers = [*range(480, 512), *range(548, 1024), 0x3fffffff, 0x7fffffff, 0x80000000, 0xffffffff, 0x40000000]
verdict([n for n in numbers if call_number(n) != -errno.ENOSYS])
""")
    assert result["stdout"] == "HELD\n", result["stdout"]
