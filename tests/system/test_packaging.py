# SPDX-License-Identifier: MIT
"""debian/ keeps up with the rest of the tree: what would otherwise come to light when a package is built."""
import os
import re
import shutil
import subprocess

import pytest
from conftest import ROOT


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def test_review_f8_version_of_the_packages_is_the_projects():
    project = re.search(r"^  version: '([^']+)'", read("meson.build"), re.MULTILINE)[1]
    assert re.match(r"brig \(([^)]+)\)", read("debian", "changelog"))[1] == project


def test_review_f8_symbols_file_has_every_symbol():
    library = os.environ.get("BRIG_LIB")
    if not library:
        pytest.skip("BRIG_LIB is not set")
    names = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, check=True, text=True).stdout
    exported = {line.split()[2].replace("@@", "@") for line in names.splitlines()} - {"BRIG_0"} | {"BRIG_0@BRIG_0"}
    listed = set(re.findall(r"^ (\S+@\S+) ", read("debian", "libbrig0.symbols"), re.MULTILINE))
    assert exported == listed, "debian/libbrig0.symbols: add a line for each that is new; one that is gone breaks programs"


def test_setup_without_sudo_prints_the_command(tmp_path):
    """An ordinary user is told what to run as root, with every package that is missing."""
    tools, programs = tmp_path / "tools", tmp_path / "bin"
    tools.mkdir()
    programs.mkdir()
    setup = shutil.copy(os.path.join(ROOT, "tools", "setup"), tools)
    (tools / "packages").write_text("a no-such-package\na no-such-package-either no-such-command\nb not-asked-for\n")
    for name in ("sh", "dirname", "awk", "dpkg-query", "grep"):
        (programs / name).symlink_to(shutil.which(name))
    (programs / "id").write_text("#!/bin/sh\necho 1000\n")
    (programs / "id").chmod(0o755)
    done = subprocess.run(["sh", setup, "a"], env={"PATH": str(programs)}, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == ("setup: packages are missing, and there is no sudo; run as root: "
                           "apt-get install --no-install-recommends no-such-package no-such-package-either\n")
