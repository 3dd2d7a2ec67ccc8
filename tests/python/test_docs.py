# SPDX-License-Identifier: MIT
"""docs/python: the examples of each page of the tutorial, in their order, do what the page says."""
import os
import re

import pytest
from conftest import ROOT

PAGES = sorted(os.listdir(os.path.join(ROOT, "docs", "python")))
KILLED = "Killed: it ran longer than its timeout of 500ms"
PRINTED = {"2-limits.md": KILLED, "5-embedding.md": KILLED}


def examples(page):
    with open(os.path.join(ROOT, "docs", "python", page), encoding="utf-8") as file:
        blocks = re.findall(r"^```python\n(.*?)^```", file.read(), re.S | re.M)
    assert len(blocks) > 3
    return "\n".join(blocks)


def test_pages_are_a_path():
    """The overview names each page, and each page leads to the next."""
    assert len(PAGES) == 5
    with open(os.path.join(ROOT, "docs", "PYTHON.md"), encoding="utf-8") as file:
        overview = file.read()
    assert all(f"(python/{page})" in overview for page in PAGES)
    for page, following in zip(PAGES, PAGES[1:]):
        with open(os.path.join(ROOT, "docs", "python", page), encoding="utf-8") as file:
            assert f"({following})" in file.read()


@pytest.mark.parametrize("page", PAGES)
def test_examples_run_in_order(guest, script, page):
    done = script(examples(page))
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert PRINTED.get(page, "") in done.stdout


@pytest.mark.parametrize("page", PAGES)
def test_examples_run_as_an_ordinary_user_without_a_cgroup(as_user, page):
    """From a file, as people do: tracebacks and functions by value need its text."""
    path = os.path.join(as_user.directory, "examples.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(examples(page))
    os.chmod(path, 0o644)
    done = as_user(path)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert PRINTED.get(page, "") in done.stdout
