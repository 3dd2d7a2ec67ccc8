# SPDX-License-Identifier: MIT
"""The types of the package as real type checkers see them, and as help() shows them."""
import inspect
import json
import os
import pydoc
import re
import shutil
import subprocess
import sys

import pytest
from conftest import PACKAGE, ROOT, system

import brig

USES = os.path.join(ROOT, "tests", "python", "types", "uses.py")
PYRIGHT = os.path.join(ROOT, "build", "pyright", "node_modules", ".bin", "pyright")
PLAIN = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}  # a sanitizer is not for node


def wrong_lines():
    with open(USES, encoding="utf-8") as file:
        return [number for number, line in enumerate(file, 1) if line.endswith("  # wrong\n")]


def mypy(tmp_path):
    """The lines to which mypy objects, with its words. The package is where a user has it: not among the checked files."""
    env = dict(PLAIN, MYPYPATH=PACKAGE)
    command = ["/usr/bin/python3", "-m", "mypy", "--strict", "--no-error-summary", f"--cache-dir={tmp_path}", "--follow-imports=silent", USES]
    said = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120 * system.SLOW)
    assert not said.stderr, said.stderr
    found = [re.match(r"(.*):(\d+): (error|note): (.*)", line) for line in said.stdout.splitlines()]
    assert all(one and os.path.samefile(one[1], USES) for one in found if one is None or one[3] == "error"), said.stdout
    return {int(one[2]): one[4] for one in reversed(found) if one and one[3] == "error"}


def pyright(tmp_path):
    settings = {"include": ["uses.py"], "extraPaths": [PACKAGE], "typeCheckingMode": "strict", "pythonVersion": "3.11",
                # Of types that it cannot know here, such as a lambda's; and the "right" expressions are not used.
                "reportUnknownLambdaType": False, "reportUnknownMemberType": False, "reportUnknownArgumentType": False,
                "reportUnusedCallResult": False, "reportUnusedCoroutine": False, "reportUnknownVariableType": False}
    shutil.copy(USES, tmp_path)
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    assert os.path.exists(PYRIGHT), "no pyright: run tools/npm-setup"
    command = [PYRIGHT, "--outputjson", "--pythonpath", "/usr/bin/python3", "-p", str(tmp_path)]
    said = subprocess.run(command, env=PLAIN, capture_output=True, text=True, check=False, timeout=120 * system.SLOW)
    found = json.loads(said.stdout)
    assert found["summary"]["filesAnalyzed"] == 1, said.stdout
    faults = [one for one in found["generalDiagnostics"] if one["severity"] == "error"]
    return {one["range"]["start"]["line"] + 1: one["message"] for one in faults}


@pytest.mark.timeout(300 * system.SLOW)
@pytest.mark.parametrize("checker", [mypy, pyright])
def test_review_p6_type_checkers_see_wrong_uses(tmp_path, checker):
    found = checker(tmp_path)
    wrong = wrong_lines()
    assert len(wrong) > 40
    assert not {line: text for line, text in found.items() if line not in wrong}, "objects to a right use"
    assert not [line for line in wrong if line not in found], "does not object to a wrong use"


def test_keywords_are_those_of_the_table():
    """_keywords.py is what tools/python-keywords writes for the real table and the present signatures."""
    env = dict(os.environ, PYTHONPATH=PACKAGE)
    said = subprocess.run([sys.executable, os.path.join(ROOT, "tools", "python-keywords"), "--check"], env=env,
                          capture_output=True, text=True, check=False, timeout=30 * system.SLOW)
    assert said.returncode == 0, said.stderr


@pytest.mark.parametrize("function", [brig.run, brig.start, brig.aio.run, brig.aio.start, brig.Pool.run, brig.Pool.arun,
                                      brig.Pool, brig.Template, brig.Template.with_limits, brig.ToolHost, brig.tool])
def test_help_names_each_keyword_with_its_type_and_default(function):
    text = pydoc.plain(pydoc.render_doc(function))
    names = [name for name in inspect.signature(function).parameters if name not in ("self", "function")]
    assert {"memory", "timeout", "pids"} <= set(names) and "keys" not in names
    for name in names:
        assert re.search(rf"^ .*\b{name}: \S.*\n[ |]+\S", text, re.M), name
    assert 'memory: size; default 2G\n' in text and "memory of the whole process tree" in text


def test_signature_of_a_run_has_every_key():
    parameters = inspect.signature(brig.run).parameters
    assert set(brig.KEYS) | {"cmd", "cwd", "input", "check", "capture"} == set(parameters)
    assert all(one.default is None for name, one in parameters.items() if name in brig.KEYS)
    assert inspect.signature(brig.Template.with_limits).parameters.keys() == {
        "self", "labels", *(name for name, key in brig.KEYS.items() if key.limit)}
