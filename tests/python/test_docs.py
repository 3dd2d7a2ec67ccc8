# SPDX-License-Identifier: MIT
"""docs/PYTHON.md: what it shows is what happens."""
import os
import re

from conftest import ROOT


def blocks():
    with open(os.path.join(ROOT, "docs", "PYTHON.md"), encoding="utf-8") as file:
        return re.findall(r"^```python\n(.*?)^```", file.read(), re.S | re.M)


def test_every_example_runs_in_order(guest, script):
    assert len(blocks()) > 10
    done = script("\n".join(blocks()))
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert "Killed: it ran longer than its timeout of 500ms" in done.stdout
