# SPDX-License-Identifier: MIT
"""How the command is built: as hardened as the library, by any compiler that meson may find."""
import os
import re
import shlex
import subprocess

import pytest
from conftest import ROOT

BRIG = os.path.join(ROOT, "build", "brig")


def said(*command):
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def check_elf(path):
    """A static PIE whose relocated data is read-only, without an executable stack."""
    header, segments, dynamic = (said("readelf", option, path) for option in ("-hW", "-lW", "-dW"))
    assert re.search(r"Type:\s+DYN", header) and "INTERP" not in segments and "NEEDED" not in dynamic
    assert "GNU_RELRO" in segments and re.search(r"FLAGS_1.*NOW.*PIE", dynamic) and "TEXTREL" not in dynamic
    assert re.search(r"GNU_STACK.* RW ", segments)
    assert not re.search(r"LOAD.* RWE ", segments)


def test_review_f7_the_command_is_a_hardened_file():
    check_elf(BRIG)
    assert "__stack_chk_fail" in said("nm", BRIG)
    if os.uname().machine == "x86_64":  # control-flow protection: functions begin with a landing pad
        assert re.search(r"<main>:\n.*endbr64", said("objdump", "-d", "--no-show-raw-insn", BRIG))


def test_review_f7_what_was_relocated_is_read_only_while_it_runs(tmp_path):
    """musl's start-up code leaves that out: the header alone says nothing."""
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    with subprocess.Popen([BRIG, "run", "-w", tmp_path, "--", "sh", "-c", "echo > ready; cat"], stdin=subprocess.PIPE,
                          stdout=subprocess.DEVNULL, cwd=tmp_path) as process:
        with open(ready, encoding="ascii") as opened:
            opened.read()
        with open(f"/proc/{process.pid}/maps", encoding="ascii") as maps:
            lines = [line.split() for line in maps if line.rstrip().endswith(os.path.realpath(BRIG))]
        process.kill()
    relro = next(line for line in said("readelf", "-lW", BRIG).splitlines() if "GNU_RELRO" in line).split()
    base = int(lines[0][0].split("-")[0], 16)
    start, end = base + int(relro[2], 16) & -4096, base + int(relro[2], 16) + int(relro[5], 16) & -4096
    for line in lines:
        first, last = (int(part, 16) for part in line[0].split("-"))
        assert last <= start or first >= end or line[1] == "r--p", line
    assert any(int(line[0].split("-")[0], 16) == start and line[1] == "r--p" for line in lines), lines


def compile_commands():
    """{source: words} of what makes the command, and of the library."""
    lines = said("ninja", "-C", "build", "-t", "commands", "brig", "libbrig.a").splitlines()
    found = {"command": {}, "library": {}}
    for line in lines:
        words = shlex.split(line.split("&&")[-1])
        if "-c" in words:
            source = words[words.index("-c") + 1]
            found["command" if "brig.p/" in line and "musl" in words[0] else "library"][source] = words
    return found


def test_review_f7_the_command_is_compiled_as_the_library_is():
    found = compile_commands()
    if not found["command"]:
        pytest.skip("optional: no musl-gcc here, so that the command is made of the library's own objects")
    wanted = {word for word in found["library"]["../src/lib/run/run.c"] if re.match(r"-W(?!l,)|-fstack|-fcf|-fvis|-fno-common", word)}
    assert {"-fstack-protector-strong", "-fstack-clash-protection", "-Wshadow", "-Wconversion"} <= wanted
    for source, words in found["command"].items():
        missing = wanted - set(words) - {"-Winvalid-pch", "-Wpedantic"}
        assert not missing and "-fPIE" in words, (source, missing)
    child = [words for source, words in found["library"].items() if "/child/" in source]
    assert child and all("-fno-stack-protector" in words for words in child)
    assert not any("/child/" in source for source in found["command"]), "between clone and exec without instrumentation"


def test_review_f2_the_child_uses_no_type_that_newer_headers_lack():
    """Debian 12's kernel headers have struct timespec, Debian 13's do not; what compiles here must compile there."""
    found = subprocess.run(["grep", "-rnw", "struct timespec", "src/child"], cwd=ROOT, check=False, capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (1, "")


def test_review_f3_a_compiler_of_several_words(machine, tmp_path):
    """With ccache installed, meson's compiler is `ccache cc`."""
    ccache = tmp_path / "ccache"
    ccache.write_text('#!/bin/sh\n[ "$1" != --version ] || { echo ccache version 4.8; exit; }\necho "$1" >>"$0.log"; exec "$@"\n')
    ccache.chmod(0o755)
    out = machine.run("""meson setup $1/build -Dwerror=true; ninja -C $1/build brig; cd $1; build/brig run -- echo started
        grep -c cc ccache.log""", tmp_path, env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert "ccache cc" in out and out.splitlines()[-2] == "started", out


def test_review_f5_without_musl_the_command_is_static_too(machine, tmp_path):
    out = machine.run("""touch $1/nothing; [ ! -e /usr/bin/musl-gcc ] || mount --bind $1/nothing /usr/bin/musl-gcc
        meson setup $1/build; ninja -C $1/build brig; cd $1; build/brig run -- echo started""", tmp_path)
    assert "musl-gcc found: NO" in out and out.endswith("started\n"), out
    check_elf(tmp_path / "build" / "brig")
