# SPDX-License-Identifier: MIT
"""`make install`: what it installs works, for the command, for programs in C and in Python, and for the operator."""
import json
import os
import re

import pytest
from conftest import ROOT

LIMITS = json.dumps({"maximum": {"memory": "64M"}})
FILES = ["bin/brig", "include/brig.h", "include/brig_template.h", "share/man/man1/brig.1",
         "share/bash-completion/completions/brig", "share/zsh/site-functions/_brig",
         "share/fish/vendor_completions.d/brig.fish"]
LIBRARIES = ["libbrig.so", "libbrig.so.0", "libbrig.a", "libbrig_template.a", "pkgconfig/libbrig.pc"]


def readme_program():
    """The program in C of README, as it is there."""
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as readme:
        text = readme.read()
    block = re.search(r"^    #include <brig\.h>\n(?:(?:    .*)?\n)*?    }\n", text, re.MULTILINE)
    return re.sub(r"^    ", "", block[0], flags=re.MULTILINE)


@pytest.fixture(scope="session")
def installed(machine):
    """A machine on which root has installed brig, by the two words of README."""
    machine.run("make install")
    return machine


@pytest.fixture
def program(tmp_path):
    (tmp_path / "host.c").write_text(readme_program())
    (tmp_path / "job.py").write_text("print('of the job')\n")
    return tmp_path


COMPILE = 'cd "$1"; cc -Wall -Wextra -Werror -o host host.c'


def test_review_f4_everything_is_installed(installed):
    triplet = installed.run("cc -print-multiarch").strip()
    files = [*FILES, *(f"lib/{triplet}/{name}" for name in LIBRARIES)]
    said = installed.run('cd /usr/local; for f; do [ -s "$f" ] || echo "no $f"; done', *files)
    assert said == ""
    assert "brig run" in installed.run("mandoc -T ascii /usr/local/share/man/man1/brig.1 | col -b")


def test_review_f4_the_python_package_is_found(installed):
    said = installed.run("cd /; /usr/bin/python3 -c 'import brig; print(brig.__file__, brig.run([\"echo\", \"x\"]).stdout_text)'")
    assert said.startswith("/usr/local/lib/python3") and said.endswith(" x\n\n")


def test_review_f4_readmes_program_links_and_starts(installed, program):
    """By what pkg-config says alone; the loader has to know the library."""
    said = installed.run(COMPILE + " $(pkg-config --cflags --libs libbrig); ldd host; ./host", program)
    assert "/usr/local/lib/" in said and said.endswith("exited\n"), said


def test_review_f4_readmes_program_links_statically(installed, program):
    said = installed.run(COMPILE + " -static $(pkg-config --static --cflags --libs libbrig); ldd host || :; ./host", program)
    assert "not a dynamic executable" in said and said.endswith("exited\n"), said


def test_review_u12_readmes_program_ends_after_an_error(installed, program):
    """The key's value is refused: a message, the exit code, and no run that there is not."""
    text = (program / "host.c").read_text().replace('"512M"', '"much"')
    (program / "host.c").write_text(text)
    said = installed.run(COMPILE + " -g -fsanitize=address,undefined $(pkg-config --cflags --libs libbrig); ./host; echo $?",
                         program, check=False)
    assert "memory" in said and "Sanitizer" not in said, said
    assert installed.run('cd "$1"; ./host >/dev/null 2>&1 || echo $?', program) == "2\n"


def test_review_f4_the_operators_file_is_read(installed):
    said = installed.run("""
        mkdir -p /etc/brig; echo "$1" > /etc/brig/limits.json
        cd /tmp; /usr/local/bin/brig run --json -- true; rm -r /etc/brig""", LIMITS)
    assert json.loads(said)["limits"]["memory_bytes"] == 64 << 20


def test_review_f4_the_operators_file_is_the_librarys_too(installed, program):
    said = installed.run(COMPILE + """ $(pkg-config --cflags --libs libbrig)
        mkdir -p /etc/brig; echo nonsense > /etc/brig/limits.json; code=0; ./host || code=$?
        rm -r /etc/brig; exit $code""", program, check=False)
    assert "/etc/brig/limits.json" in said


@pytest.mark.parametrize("how", ["make install PREFIX=$prefix", "make install PREFIX=$prefix DESTDIR=$1/stage && mv $1/stage$prefix $prefix",
                                 "meson configure build -Dprefix=$prefix && meson install -C build"], ids=["prefix", "destdir", "meson"])
def test_review_f4_another_prefix(machine, program, how):
    """Below DESTDIR all is as it will be without it, and nothing is anywhere else."""
    said = machine.run("prefix=$1/opt; { " + how + """; } >$1/log || { cat $1/log; exit 1; }
        if find $1/stage /etc/brig $prefix/etc -type f 2>/dev/null | grep .; then exit 1; fi
        mkdir /etc/brig; echo "$2" > /etc/brig/limits.json
        cd $1; $prefix/bin/brig run --json -- true; rm -r /etc/brig
        export PKG_CONFIG_PATH=$prefix/lib/$(cc -print-multiarch)/pkgconfig
        cc -Wall -Wextra -Werror -o host host.c $(pkg-config --cflags --libs libbrig)
        LD_LIBRARY_PATH=$(pkg-config --variable=libdir libbrig) ./host""", program, LIMITS)
    result, *rest = said.splitlines()
    assert json.loads(result)["limits"]["memory_bytes"] == 64 << 20
    assert rest[-1] == "exited"


def test_review_f4_a_named_directory_is_obeyed(machine, tmp_path):
    said = machine.run("""make install PREFIX=$1/opt SYSCONFDIR=$1/conf >$1/log
        mkdir -p $1/conf/brig; echo "$2" > $1/conf/brig/limits.json
        cd $1; opt/bin/brig run --json -- true""", tmp_path, LIMITS)
    assert json.loads(said)["limits"]["memory_bytes"] == 64 << 20
