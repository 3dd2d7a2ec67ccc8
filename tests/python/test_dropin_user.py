# SPDX-License-Identifier: MIT
"""The drop-ins for an ordinary user without a cgroup (P3): they run, and the result says what is not enforced."""
import os
import shutil

import pytest
from conftest import ROOT

SECUSCAN = """
import asyncio
from brig.dropin.secuscan import SandboxConfig, TaskExecutor, sandbox_execute

def execute(cmd, **keys):
    return asyncio.run(sandbox_execute(cmd, SandboxConfig(**keys)))

assert execute("echo open; exit 3") == ("open\\n", "", 3, None)
assert execute(["python3", "-c", "bytearray(300 << 20)"], max_memory_mb=64)[3] == "memory_limit"
assert execute("yes", max_output_bytes=100)[3] == "output_limit"
assert execute("sleep 60", timeout_seconds=0.3)[3] == "timeout"
assert asyncio.run(TaskExecutor()._execute_command(["echo", "x"], "t-1")) == ("x\\n", 0, None)
"""

SCIDEX = """
import brig
from brig.dropin import scidex

result = scidex.isolated_run(["echo", "hello"])
assert (result.stdout, result.returncode, result.completion_notes) == ("hello\\n", 0, None)
isolation, limits = result.details.isolation, result.details.limits
assert "cgroup" in isolation.degraded["cpus"] and "sampling" in isolation.layers["memory"], isolation
assert "sampling" in isolation.layers["pids"] and limits.cpus is None and limits.memory_bytes == 2 << 30
greedy = scidex.isolated_run(["python3", "-c", "bytearray(300 << 20)"], limits={"memory_mb": 64})
assert "memory" in greedy.completion_notes
many = scidex.isolated_run("for i in $(seq 60); do sleep 60 & done; wait", limits={"pids": 10})
assert "process" in many.completion_notes
assert scidex.cgroups.create("group") and scidex.cgroups.run("group", ["true"]).ok
"""

ASKED = """
import brig
from brig.dropin import scidex

for keys in ({"limits": {"cpus": 1}}, {"cpu_priority": "low"}):
    try:
        scidex.isolated_run(["true"], **keys)
    except brig.RefusedError as error:
        assert "cgroup" in str(error), error
    else:
        raise AssertionError(keys)
scidex.cgroups.create("group", {"cpus": 1})
scidex.load_metadata = lambda analysis_id: {"limits": {"cpus": 1}}
for run in (lambda: scidex.cgroups.run("group", ["true"]), lambda: scidex.isolated_run(["true"], analysis_id="a")):
    try:
        run()
    except brig.RefusedError as error:
        assert str(error).startswith("cpus: "), error
    else:
        raise AssertionError(run)
"""

OPENJARVIS = """
from brig.dropin.openjarvis import run_sandboxed
assert run_sandboxed("echo hello; exit 3").returncode == 3
assert run_sandboxed("sleep 60", timeout=0.3).timed_out
"""


@pytest.mark.parametrize("code", [SECUSCAN, SCIDEX, OPENJARVIS], ids=["secuscan", "scidex", "openjarvis"])
def test_review_p3_drop_ins_work_without_a_cgroup(as_user, code):
    done = as_user("-c", code)
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_review_p3_a_limit_that_was_asked_for_is_refused(as_user):
    done = as_user("-c", ASKED)
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_review_p3_notebook_runner_works_without_a_cgroup(as_user):
    example = os.path.join(as_user.directory, "notebook_runner")
    shutil.copytree(os.path.join(ROOT, "examples", "notebook_runner"), example)
    os.chmod(example, 0o755)
    none = os.path.join(as_user.directory, "sitecustomize.py")
    with open(none, "w", encoding="utf-8") as file:  # as on a machine without nbconvert
        file.write("import importlib.util as u\nfind = u.find_spec\n"
                   "u.find_spec = lambda name, package=None: None if name == 'nbconvert' else find(name, package)\n")
    package = as_user("-c", "import os; print(os.environ['PYTHONPATH'])").stdout.strip()
    done = as_user(os.path.join(example, "run_notebook.py"), os.path.join(example, "heights.ipynb"), "-o", "done.ipynb",
                   env={"PYTHONPATH": f"{package}:{as_user.directory}"})
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert done.stdout.splitlines()[1:] == ["[1] 4 heights", "[2] 1.74", "[3] no network: Network is unreachable"]
