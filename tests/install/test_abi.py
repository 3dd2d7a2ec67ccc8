# SPDX-License-Identifier: MIT
"""The interface of the library: its version, its symbols, and the structs that callers allocate."""
import os
import re
import subprocess

from conftest import ROOT


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


HEADER = read("include", "brig.h")


def test_the_version_is_one():
    meson = re.search(r"version: '([0-9.]+)'", read("meson.build")).group(1)
    parts = [re.search(rf"#define BRIG_VERSION_{part}\s+(\d+)", HEADER).group(1) for part in ("MAJOR", "MINOR", "PATCH")]
    assert re.search(r'#define BRIG_VERSION\s+"(.*)"', HEADER).group(1) == ".".join(parts) == meson
    shown = subprocess.check_output([os.path.join(ROOT, "build", "brig"), "--version"], text=True)
    assert shown == f"brig {meson}\n"


def test_exported_symbols_are_those_of_the_list_the_header_and_the_package():
    listed = re.findall(r"^\s+(brig_\w+);", read("src", "lib", "libbrig.map"), re.M)
    table = subprocess.check_output(["nm", "-D", "--defined-only", os.path.join(ROOT, "build", "libbrig.so")], text=True)
    exported = re.findall(r"(brig_\w+)@@BRIG_0", table)
    declared = re.findall(r"BRIG_API[^;(]*?\b(brig_\w+)\(", HEADER)
    packaged = re.findall(r"^ (brig_\w+)@BRIG_0", read("debian", "libbrig0.symbols"), re.M)
    assert listed == sorted(listed)
    assert sorted(exported) == listed
    assert sorted(declared) == listed
    assert sorted(packaged) == listed


SIZES = {
    "brig_error": 560,
    "brig_event": 120,
    "brig_key": 120,
    "brig_layer": 40,
    "brig_output": 88,
    "brig_usage": 88,
    "brig_limits": 144,
    "brig_isolation": 48,
    "brig_result": 688,
    "brig_tool": 80,
    "brig_answer": 80,
}


def test_structs_keep_their_size(tmp_path):
    """A program that was compiled with another header gives the library memory of this size, and walks arrays by it."""
    named = re.findall(r"^struct (brig_\w+) \{", HEADER, re.M)
    assert sorted(named) == sorted(SIZES)
    source = tmp_path / "sizes.c"
    checks = "".join(f'_Static_assert(sizeof(struct {name}) == {size}, "{name}");\n' for name, size in SIZES.items())
    source.write_text("#include <brig.h>\n#include <stddef.h>\n" + checks + """
        _Static_assert(offsetof(struct brig_error, stage) == 8 && offsetof(struct brig_error, key) == 16 &&
                       offsetof(struct brig_error, text) == 48, "");
        _Static_assert(offsetof(struct brig_event, data) == 32 && offsetof(struct brig_event, limit) == 48 &&
                       offsetof(struct brig_event, memory_bytes) == 64, "");
        _Static_assert(offsetof(struct brig_limits, milli_cpus) == 72 && offsetof(struct brig_limits, reserved) == 80 &&
                       offsetof(struct brig_usage, reserved) == 56, "");
    """)
    subprocess.run(["gcc", "-c", "-I", os.path.join(ROOT, "include"), source, "-o", tmp_path / "sizes.o"], check=True)
