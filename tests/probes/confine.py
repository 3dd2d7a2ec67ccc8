# SPDX-License-Identifier: MIT
"""Run a command as a restrictive container would: no clone3, no new namespaces, no mounts.

    confine.py [--no-landlock] COMMAND [ARG...]

A seccomp filter (x86-64): clone3 is ENOSYS, as where a filter cannot look into its argument; clone with
any CLONE_NEW* flag, unshare, setns and the calls of both mount interfaces are EPERM. With --no-landlock its calls are ENOSYS, as on an old kernel.
"""
import ctypes
import os
import struct
import sys

LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, ERROR = 0x7FFF0000, 0x00050000
EPERM, ENOSYS = 1, 38

CLONE, CLONE3 = 56, 435
LANDLOCK = (444, 445, 446)
CLONE_NEW = 0x7E020000  # NEWNS NEWCGROUP NEWUTS NEWIPC NEWUSER NEWPID NEWNET
FORBIDDEN = {
    "unshare": 272, "setns": 308, "mount": 165, "umount2": 166, "pivot_root": 155, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "mount_setattr": 442,
}


def program(absent):
    code = [(LOAD, 0, 0, 0)]
    for number in absent:
        code += [(EQUAL, 0, 1, number), (RETURN, 0, 0, ERROR | ENOSYS)]
    for number in FORBIDDEN.values():
        code += [(EQUAL, 0, 1, number), (RETURN, 0, 0, ERROR | EPERM)]
    code += [(EQUAL, 0, 3, CLONE), (LOAD, 0, 0, 16), (ANY_BIT, 0, 1, CLONE_NEW), (RETURN, 0, 0, ERROR | EPERM),
             (RETURN, 0, 0, ALLOW)]
    return code


def confine(landlock=True):
    code = program((CLONE3,) if landlock else (CLONE3, *LANDLOCK))
    filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in code))
    prog = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code), ctypes.addressof(filters)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, ctypes.byref(prog), 0, 0) != 0:
        sys.exit("confine.py: " + os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    command = sys.argv[1:]
    without = command[0] == "--no-landlock"
    confine(not without)
    os.execvp(command[without], command[without:])
