# SPDX-License-Identifier: MIT
"""Debian's libpcre2-8.a, compiled for glibc, in a program that is linked with musl: it needs no symbol that musl and
src/musl do not have. The linker would say so as well, but only for the members that it takes, and not by this name."""
import os
import shutil
import subprocess

import pytest
from conftest import ROOT

pytestmark = [
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="optional: the symbols were compared on x86-64 alone"),
    pytest.mark.skipif(not shutil.which("musl-gcc"), reason="optional: no musl-gcc here, so that the command is linked with glibc"),
]

SOURCES = ["src/musl/musl_pcre2.c"]
# Made by the linker, not by a library.
OF_THE_LINKER = {"_GLOBAL_OFFSET_TABLE_", "__dso_handle"}
# All that PCRE2 10.42 (Debian 12) and 10.46 (Debian 13) need on x86-64. In both C libraries they are the same thing: the bits
# of the ctype tables, the place of the stack protector's canary, a mutex of zeroes, the numbers of _SC_PAGESIZE and of
# MADV_*. A new name needs such a look, since a symbol of one name may have another ABI.
AGREED = {
    "__ctype_b_loc", "__ctype_tolower_loc", "__ctype_toupper_loc", "__memcpy_chk", "__stack_chk_fail", "free", "madvise",
    "malloc", "memchr", "memcmp", "memcpy", "memmove", "memset", "mmap", "munmap", "posix_madvise", "pthread_mutex_lock",
    "pthread_mutex_unlock", "strchr", "strlen", "sysconf",
}


def symbols(path):
    """(defined, undefined) of an object file or an archive; weak ones count as defined if they are."""
    defined, undefined = set(), set()
    for line in subprocess.run(["nm", "-P", path], check=True, capture_output=True, text=True).stdout.splitlines():
        fields = line.split()
        if len(fields) < 2 or line.endswith(":"):
            continue  # the name of a member
        if fields[1] == "U":
            undefined.add(fields[0])
        elif fields[1].isupper() or fields[1] in "wv" and len(fields) > 2:
            defined.add(fields[0])
    return defined, undefined


def needed_of(archive):
    defined, undefined = symbols(archive)
    return undefined - defined - OF_THE_LINKER


def compile_with_musl(source, target):
    subprocess.run(["musl-gcc", "-c", "-O2", "-D_GNU_SOURCE", source, "-o", target], check=True)
    return target


def musl_libc():
    """Beside the start-up file that musl-gcc names; -print-file-name gives that of glibc."""
    said = subprocess.run(["musl-gcc", "-static", "-###", "-x", "c", "/dev/null"], check=True, capture_output=True, text=True).stderr
    [start] = {word for word in said.replace('"', " ").split() if word.endswith("/Scrt1.o")}
    return os.path.join(os.path.dirname(start), "libc.a")


@pytest.fixture(scope="module")
def provided(tmp_path_factory):
    """The symbols of musl's libc.a and of src/musl."""
    directory = tmp_path_factory.mktemp("objects")
    found = set(symbols(musl_libc())[0])
    for source in SOURCES:
        found |= symbols(compile_with_musl(os.path.join(ROOT, source), directory / (os.path.basename(source) + ".o")))[0]
    return found


@pytest.fixture(scope="module")
def needed():
    libdir = subprocess.run(["pkg-config", "--variable=libdir", "libpcre2-8"], check=True, capture_output=True, text=True)
    found = needed_of(os.path.join(libdir.stdout.strip(), "libpcre2-8.a"))
    assert {"malloc", "memcpy"} <= found
    return found


def test_musl_has_what_pcre2_needs(needed, provided):
    missing = sorted(needed - provided)
    assert not missing, f"libpcre2-8.a needs {', '.join(missing)}, which musl has not: add it to src/musl/musl_pcre2.c"


def test_every_symbol_was_looked_at(needed):
    """musl has a symbol of the name; whether it is the same thing is a question for a person."""
    new = sorted(needed - AGREED)
    assert not new, f"libpcre2-8.a needs {', '.join(new)} now: compare it in glibc and musl, then add it to AGREED"


def test_what_src_musl_adds_is_needed(needed, tmp_path):
    """Nothing stays in src/musl for a PCRE2 that is gone."""
    for source in SOURCES:
        added = symbols(compile_with_musl(os.path.join(ROOT, source), tmp_path / "added.o"))[0]
        assert added and added <= needed, sorted(added - needed)


def test_a_symbol_that_musl_has_not_is_named(provided, tmp_path):
    """The check sees what it is for."""
    (tmp_path / "new.c").write_text("char *secure_getenv(const char *); unsigned long __strlcpy_chk(void);\n"
                                    "void use(void) { secure_getenv(\"A\"); __strlcpy_chk(); }\n")
    subprocess.run(["gcc", "-c", tmp_path / "new.c", "-o", tmp_path / "new.o"], check=True)
    assert needed_of(tmp_path / "new.o") - provided == {"__strlcpy_chk"}
