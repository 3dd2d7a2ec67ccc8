# SPDX-License-Identifier: MIT
"""docs/dropins: each row of a page names the tests that show it, and no name of a drop-in is left out (N7)."""
import ast
import functools
import importlib
import os
import re

import pytest
from conftest import ROOT

NAMES = ("amplifier", "loomflow", "openjarvis", "scidex", "secuscan")
PAGES = os.path.join(ROOT, "docs", "dropins")
TESTS = os.path.join(ROOT, "tests", "python")
CITED = re.compile(r"`([a-z_]+)::(test_[a-z0-9_]+)`")


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def rows(name):
    """The rows of a page's tables as lists of cells, without the heads."""
    lines = [line for line in read(PAGES, f"{name}.md").splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in cells if row[0].strip("| -") not in ("name", "") and not row[0].startswith("---")]


@functools.lru_cache
def names_of_tests(module):
    tree = ast.parse(read(TESTS, f"test_dropin_{module}.py"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def cited(name):
    return [pair for row in rows(name) for pair in CITED.findall(row[-1])]


def test_review_n7_every_drop_in_has_a_page():
    assert sorted(os.listdir(PAGES)) == [f"{name}.md" for name in NAMES]


@pytest.mark.parametrize("name", NAMES)
def test_review_n7_each_row_names_a_test_that_exists(name):
    assert len(rows(name)) > 8
    for row in rows(name):
        pairs = CITED.findall(row[-1])
        assert pairs and CITED.sub("", row[-1]).strip() == "", f"this row names no test: {row}"
        for module, test in pairs:
            assert test in names_of_tests(module), f"{name}.md: there is no test_dropin_{module}.py::{test}"


@pytest.mark.parametrize("name", NAMES)
def test_review_n7_each_test_of_the_review_is_on_the_page(name):
    modules = [file[12:-3] for file in os.listdir(TESTS) if re.fullmatch(rf"test_dropin_{name}(_[a-z]+)?\.py", file)]
    there = {(module, test) for module in modules for test in names_of_tests(module) if test.startswith("test_review_")}
    assert there <= set(cited(name)), there - set(cited(name))


@pytest.mark.parametrize("name", NAMES)
def test_review_n7_each_public_name_has_a_row(name):
    module = importlib.import_module(f"brig.dropin.{name}")
    named = {word for row in rows(name) for word in re.findall(r"`(\w+)`", row[0])}
    assert set(module.__all__) <= named, set(module.__all__) - named
    assert all(hasattr(module, word) for word in named), [word for word in named if not hasattr(module, word)]


def test_review_n7_the_tutorial_claims_no_equality():
    text = read(ROOT, "docs", "python", "5-embedding.md")
    assert "| nothing" not in text
    assert all(f"(../dropins/{name}.md)" in text for name in NAMES)
