# SPDX-License-Identifier: MIT
"""What the code of a probe begins with. It runs inside of a cell, so it is text.

call(name, ...) makes a system call by its name with all 64 bits of each argument, and returns
0 or more, or -errno. verdict(list) is how a probe ends: what it reached, or HELD.
"""
import platform

X86 = platform.machine() == "x86_64"

# name: number on x86_64, number on all later machines
NUMBERS = {
    "acct": (163, 89), "add_key": (248, 217), "adjtimex": (159, 171), "bpf": (321, 280),
    "capset": (126, 91), "chroot": (161, 51), "clock_adjtime": (305, 266),
    "clock_settime": (227, 112), "clone": (56, 220), "clone3": (435, 435),
    "delete_module": (176, 106), "fcntl": (72, 25), "inotify_add_watch": (254, 27), "fanotify_init": (300, 262), "finit_module": (313, 273),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fsopen": (430, 430), "fspick": (433, 433),
    "getpid": (39, 172), "getppid": (110, 173), "init_module": (175, 105),
    "io_uring_setup": (425, 425), "ioctl": (16, 29), "kexec_file_load": (320, 294),
    "kexec_load": (246, 104), "keyctl": (250, 219), "listmount": (458, 458), "mbind": (237, 235),
    "mknodat": (259, 33), "mount": (165, 40), "mount_setattr": (442, 442),
    "move_mount": (429, 429), "move_pages": (279, 239), "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265), "open_tree": (428, 428), "open_tree_attr": (467, 467),
    "perf_event_open": (298, 241), "personality": (135, 92), "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41), "quotactl": (179, 60), "reboot": (169, 142),
    "request_key": (249, 218), "seccomp": (317, 277), "sethostname": (170, 161),
    "setdomainname": (171, 162), "setns": (308, 268), "settimeofday": (164, 170),
    "socket": (41, 198), "socketpair": (53, 199), "statmount": (457, 457), "swapoff": (168, 225),
    "swapon": (167, 224), "syslog": (103, 116), "umount2": (166, 39), "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
if X86:
    NUMBERS |= {"ioperm": (173,), "iopl": (172,), "modify_ldt": (154,)}

PRELUDE = f"""
import ctypes, errno, os, signal, socket, struct, sys
NR = { {name: numbers[0 if X86 else 1] for name, numbers in NUMBERS.items()} }
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call_number(number, *args):
    full = [ctypes.c_ulong(a & (1 << 64) - 1) if isinstance(a, int) else a for a in args]
    full += [ctypes.c_ulong(0)] * (6 - len(full))
    ret = libc.syscall(ctypes.c_ulong(number), *full)
    return ret if ret >= 0 else -ctypes.get_errno()
def call(name, *args):
    return call_number(NR[name], *args)
def verdict(reached):
    print("ESCAPED " + repr(reached) if reached else "HELD")
def in_child(function):
    # The truth of what a function returns, found in a process of its own.
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if function() else 1)
        except BaseException as e:
            print(repr(e), file=sys.stderr, flush=True)
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0
REFUSED = (-errno.EPERM, -errno.ENOSYS)
NEWUSER = 0x10000000
SPACES = dict(user=NEWUSER, mnt=0x20000, uts=0x4000000, ipc=0x8000000, pid=0x20000000,
              net=0x40000000, cgroup=0x2000000, time=0x80)
"""

CLONES = """
def ended(pid):
    if pid == 0:
        os._exit(0)
    return pid > 0 and os.waitpid(pid, 0)[1] == 0
def clone(flags):
    return ended(call('clone', flags | signal.SIGCHLD))
def clone3(flags):
    args = struct.pack('11Q', flags, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0)
    return ended(call('clone3', args, len(args)))
"""
