# SPDX-License-Identifier: MIT
"""The cross build for aarch64, in build-aarch64: its file, its filters of system calls, and that it starts.

The filters are run here by a small interpreter of BPF: qemu's user mode has no seccomp.
"""
import os
import re
import struct
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, "build-aarch64")
COMPILER = "aarch64-linux-gnu-gcc"
AARCH64, X86_64 = 0xC00000B7, 0xC000003E
ALLOW, EPERM, ENOMEM, ENOSYS = 0x7FFF0000, 0x50001, 0x5000C, 0x50026


def numbers():
    """The compiler's own values, by compiling them: not the way that tools/seccomp reads the headers."""
    text = subprocess.run([COMPILER, "-dM", "-E", "-"], input="#include <asm/unistd.h>\n", capture_output=True, text=True, check=True).stdout
    names = sorted(set(re.findall(r"#define __NR_(\w+)", text)) - {"syscalls", "arch_specific_syscall"})
    source = "#include <asm/unistd.h>\n" + "".join(f'"@{name}", __NR_{name}\n' for name in names)
    out = subprocess.run([COMPILER, "-E", "-P", "-"], input=source, capture_output=True, text=True, check=True).stdout
    return {name: int(number) for name, number in re.findall(r'"@(\w+)", (\d+)', out)}


NUMBERS = numbers()


def answer(table, number, *args, arch=AARCH64):
    """What a filter of the build says to a call."""
    with open(os.path.join(BUILD, table + ".inc"), encoding="ascii") as text:
        code = [tuple(int(word.strip("u"), 0) for word in row.split(",")) for row in re.findall(r"\{(.*)\}", text.read())]
    data = struct.pack("<IIQ6Q", number, arch, 0, *args, *[0] * (6 - len(args)))
    at = value = 0
    while True:
        op, yes, no, operand = code[at]
        at += 1
        if op == 0x06:
            return operand
        if op == 0x20:
            value, = struct.unpack_from("<I", data, operand)
        elif op == 0x05:
            at += operand
        else:
            at += yes if {0x15: value == operand, 0x35: value >= operand, 0x45: value & operand}[op] else no


@pytest.mark.parametrize("name", ["mmap", "fcntl", "lseek", "fstat", "newfstatat", "ftruncate", "sendfile", "statfs", "fadvise64",
                                  "read", "write", "openat", "execve", "exit_group", "clone", "futex", "ppoll", "getrandom"])
def test_review_f5_a_guest_may_make_the_calls_of_any_program(name):
    """The generic table of the kernel names some of them by other names."""
    assert answer("seccomp_cell", NUMBERS[name]) == ALLOW


def test_review_f5_every_call_of_the_table_has_its_answer():
    """A name that is in the table and not in the filter would be refused without a word."""
    with open(os.path.join(ROOT, "src", "child", "seccomp", "cell.table"), encoding="ascii") as table:
        lines = [line.split("#")[0].strip() for line in table]
    names = [name for line in lines if re.fullmatch(r"[\w ]+", line) for name in line.split()]
    there = [name for name in names if name in NUMBERS]
    assert len(there) > 150
    assert [name for name in there if answer("seccomp_cell", NUMBERS[name]) != ALLOW] == []


def test_review_f5_the_filter_refuses():
    refused = {name: answer("seccomp_cell", NUMBERS[name]) for name in ("mount", "bpf", "init_module", "unshare", "setns", "kexec_load", "io_uring_setup")}
    assert not [name for name, said in refused.items() if said == ALLOW], refused
    assert answer("seccomp_cell", NUMBERS["clone"], 0x10000000) == EPERM  # CLONE_NEWUSER
    assert answer("seccomp_cell", NUMBERS["mmap"], 0, 4096, 3, 0x40022) == ENOMEM  # MAP_HUGETLB
    assert answer("seccomp_cell", NUMBERS["fchmodat"], 0, 0, 0o4755) == EPERM
    assert answer("seccomp_cell", max(NUMBERS.values()) + 1) == ENOSYS
    assert answer("seccomp_cell", NUMBERS["read"], arch=X86_64) == ENOSYS


def test_review_f5_the_command_is_one_static_file_for_aarch64():
    said = subprocess.run(["readelf", "-hldW", os.path.join(BUILD, "brig")], check=True, capture_output=True, text=True).stdout
    assert re.search(r"Machine:\s+AArch64", said) and re.search(r"Type:\s+DYN", said)
    assert "INTERP" not in said and "NEEDED" not in said and "GNU_RELRO" in said


def test_review_f5_the_command_starts_and_reads_its_arguments():
    def brig(*args):
        return subprocess.run(["qemu-aarch64", os.path.join(BUILD, "brig"), *args], check=False, capture_output=True, text=True)
    assert brig("--version").stdout.startswith("brig ")
    assert "--memory" in brig("run", "--help").stdout
    wrong = brig("run", "--memory", "much", "--", "true")
    assert wrong.returncode == 2 and "memory" in wrong.stderr
