# SPDX-License-Identifier: MIT
"""tools/layers: the modules call one way, and the check sees it where they do not."""
import os
import subprocess
import sys

import pytest

from conftest import ROOT


def layers(*args):
    return subprocess.run([sys.executable, os.path.join(ROOT, "tools", "layers"), *map(str, args)], cwd=ROOT, check=False,
                          capture_output=True, text=True)


def build(tree, sources):
    """Object files where the build has those of the command."""
    for name, text in sources.items():
        source, target = tree / "src" / (name + ".c"), tree / "build" / "brig.p" / "src" / (name + ".o")
        source.parent.mkdir(parents=True, exist_ok=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(text)
        subprocess.run(["gcc", "-c", source, "-o", target], check=True)
    return layers(tree / "build", tree / "src")


def test_the_tree_has_no_cycle():
    found = layers()
    assert found.returncode == 0, found.stderr
    assert "no cycle" in found.stdout


def test_a_cycle_is_found(tmp_path):
    found = build(tmp_path, {"base/one": "void two(void); void one(void) { two(); }",
                             "base/two": "void three(void); void two(void) { three(); }",
                             "base/three": "void one(void); void three(void) { one(); }"})
    assert found.returncode == 1
    assert "a cycle: base/one calls base/two (two); base/two calls base/three" in found.stderr


@pytest.mark.parametrize("sources, said", [
    ({"base/low": "void high(void); void low(void) { high(); }", "lib/spec/high": "void high(void) {}"},
     "base is not above lib/spec"),
    ({"lib/spawn/a": "void b(void); void a(void) { b(); }", "lib/result/b": "void b(void) {}"},
     "lib/spawn is not above lib/result"),
    ({"cli/a": "void spec_new(void); void a(void) { spec_new(); }", "lib/spec/b": "void spec_new(void) {}"},
     "a program sees include/brig.h alone"),
    ({"other/a": "void a(void) {}"}, "src/other is not in LAYERS"),
])
def test_a_call_against_the_layers_is_found(tmp_path, sources, said):
    found = build(tmp_path, sources)
    assert found.returncode == 1
    assert said in found.stderr


def test_object_files_of_sources_that_are_gone_do_not_count(tmp_path):
    assert build(tmp_path, {"base/one": "void two(void); void one(void) { two(); }",
                            "base/two": "void one(void); void two(void) { one(); }"}).returncode == 1
    (tmp_path / "src" / "base" / "two.c").unlink()
    assert layers(tmp_path / "build", tmp_path / "src").returncode == 0


def test_no_two_source_files_have_one_name():
    names = [os.path.basename(path) for path in subprocess.run(
        ["find", "src", "-name", "*.[ch]"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()]
    assert sorted(names) == sorted(set(names))
