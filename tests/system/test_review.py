# SPDX-License-Identifier: MIT
"""docs/REVIEW.md keeps its promise: each row of the review has a test with its number in its name."""
import glob
import os
import re

from conftest import ROOT

ELSEWHERE = {"U3"}  # the row itself says so


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def test_each_row_of_the_review_has_a_test():
    rows = set(re.findall(r"^\| ([A-Z]\d+) \|", read(os.path.join(ROOT, "docs", "REVIEW.md")), re.MULTILINE))
    tests = [path for kind in ("py", "c") for path in glob.glob(os.path.join(ROOT, "tests", "**", f"test_*.{kind}"), recursive=True)]
    named = {row.upper() for path in tests for row in re.findall(r"\btest_review_([a-z]\d+)_", read(path))}
    assert len(rows) == 61 and rows - named == ELSEWHERE
