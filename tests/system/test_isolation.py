# SPDX-License-Identifier: MIT
"""The key `isolation`: a cell or a refusal, and less only where somebody asked for it."""
import json
import os
import subprocess

import pytest
from batch_frame import batch, results_of  # noqa: F401
from conftest import CONFINED, ROOT, TRACED, message, needs_confine
from mcp_frame import connect  # noqa: F401
from test_limit_sources import operator  # noqa: F401

pytestmark = needs_confine
REFUSED = "no cell can be built here"


def test_review_c1_default_is_a_cell_or_a_refusal(brig, marker):
    """The cause, the fix, the option that allows less, and who tells more; nothing is started."""
    for options in ([], ["-q"], ["--isolation", "cell"], ["--json"]):
        done = brig.run(*options, "--", "touch", marker, before=CONFINED)
        text = message(done)
        assert done.returncode == 125 and not marker.exists()
        for word in (REFUSED, "user namespace", "Operation not permitted", "--security-opt seccomp=unconfined",
                     "systempaths=unconfined", "--isolation auto", "brig doctor"):
            assert word in text, (word, text)
    error = json.loads(done.stdout)["error"]
    assert error["stage"] == "isolation" and "--isolation auto" in error["text"]


@pytest.mark.parametrize("how", ["option", "variable", "spec"])
@pytest.mark.parametrize("quiet", [[], ["-q"]])
def test_review_c1_auto_warns_and_the_result_says_so(brig, tmp_path, aside, how, quiet):
    spec = tmp_path / "spec.json"
    spec.write_text('{"isolation": "auto"}')
    options = {"option": ["--isolation", "auto"], "variable": [], "spec": ["--spec", spec]}[how]
    env = {**os.environ, "BRIG_ISOLATION": "auto"} if how == "variable" else None
    done = brig.run(*quiet, *options, "--result", aside / "result", "--", "echo", "hi", before=CONFINED, env=env)
    assert (done.returncode, done.stdout) == (0, b"hi\n")
    lines = done.stderr.decode().splitlines()
    assert len(lines) == 1 and "warning" in lines[0] and "user namespace" in lines[0], lines
    assert json.loads((aside / "result").read_text())["isolation"]["tier"] == "degraded"


def test_review_c1_auto_is_a_cell_where_one_can_be_built(brig):
    done = brig.run("--isolation", "auto", "--json", "--", "true")
    assert done.stderr == b"" and json.loads(done.stdout)["isolation"]["tier"] == "cell"


def test_review_c1_explain_and_doctor(brig):
    done = brig.run("--", "true", verb="explain", before=CONFINED)
    assert done.returncode == 125 and "--isolation auto" in message(done)
    assert brig.run("--isolation", "auto", "--", "true", verb="explain", before=CONFINED).returncode == 0
    assert json.loads(brig.run("--json", verb="doctor", before=CONFINED).stdout)["tier"] == "degraded"


def test_review_c1_batch(batch):  # noqa: F811
    jobs = '{"command":["true"]}\n{"command":["true"],"isolation":"auto"}\n{"command":["true"],"isolation":"auto"}\n'
    done = batch.run(before=CONFINED, feed=jobs.encode())
    refused, *ran = sorted(results_of(done), key=lambda row: row["line"])
    assert refused["status"] == "error" and '"isolation": "auto"' in refused["error"]["text"]
    assert [row["isolation"]["tier"] for row in ran] == ["degraded"] * 2
    assert done.stderr.count(b"no cell can be built here") == 1


def test_review_c1_tools(brig, aside):
    tools = aside / "tools.json"
    tool = {"command": ["true"], "result": "stdout"}
    tools.write_text(json.dumps({"tools": [{"name": "strict", **tool}, {"name": "lax", "isolation": "auto", **tool}]}))
    done = brig.run("strict", "--tools", tools, verb="call", before=CONFINED)
    assert done.returncode == 125 and '"isolation": "auto" in the tools file' in message(done)
    done = brig.run("lax", "-q", "--tools", tools, verb="call", before=CONFINED)
    assert done.returncode == 0 and b"warning" in done.stderr
    assert json.loads(done.stdout)["result"]["isolation"]["tier"] == "degraded"


def test_review_c1_agents_are_refused_and_cannot_ask(connect):  # noqa: F811
    client = connect(before=CONFINED)
    said = client.refusal("run_command", command="true")
    assert REFUSED in said and "operator" in said and "--isolation" not in said
    assert "no such argument" in client.refusal("run_command", command="true", isolation="auto")


def test_review_c1_operator_forbids_auto(brig, operator):  # noqa: F811
    """Where the operator's maximum is a cell, nobody gets less; refused by name, wherever it was asked for."""
    before = operator({"isolation": "cell"})
    done = brig.run("--isolation", "auto", "--", "echo", "hi", before=before)
    assert (done.returncode, done.stdout) == (125, b"")
    assert "isolation: auto is over the operator's maximum of cell" in message(done)
    assert brig.run("--", "true", before=before).returncode == 0
    done = brig.run("--isolation", "auto", "--", "echo", "hi", before=[*before, *CONFINED])
    assert (done.returncode, done.stdout) == (125, b"")
    assert json.loads(brig.run("--json", verb="doctor", before=before).stdout)["tier"] == "cell"


def test_review_c1_jobs_own_metadata_cannot_ask_for_less(brig, tmp_path):
    (tmp_path / "meta.json").write_text('{"limits": {"isolation": "auto"}}')
    done = brig.run("--metadata", tmp_path / "meta.json", "--", "true")
    assert done.returncode == 2 and "isolation" in message(done)


def test_review_c1_python(tmp_path):
    code = """
import warnings, brig
try:
    brig.run("true")
    raise SystemExit("it ran")
except brig.RefusedError as error:
    assert 'isolation="auto"' in error.text and "--isolation" not in error.text, error.text
    assert error.stage == "isolation"
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    assert brig.run("true", isolation="auto").isolation.tier == "degraded"
    assert [w.category for w in seen] == [brig.DegradedWarning], seen
warnings.simplefilter("error")
try:
    brig.run("true", isolation="auto")
    raise SystemExit("it ran")
except brig.DegradedWarning:
    pass
"""
    package = os.environ.get("BRIG_PYTHON", os.path.join(ROOT, "build", "python"))
    done = subprocess.run([*CONFINED, "/usr/bin/python3", "-c", code], cwd=tmp_path, check=False, capture_output=True,
                          env={**os.environ, "PYTHONPATH": package})
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.root("mounts over a file of /proc; a user namespace can have no /proc of its own then")
@pytest.mark.parametrize("pattern, missing", [("@/run/core.sock", True), ("@@/run/core.sock", True), ("core", False), ("|/bin/x", False)])
def test_review_c7_core_dumps_to_a_socket_are_not_claimed_to_be_off(brig, tmp_path, pattern, missing):
    (tmp_path / "pattern").write_text(pattern + "\n")
    before = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /proc/sys/kernel/core_pattern && exec "$@"', tmp_path / "pattern"]
    isolation = brig.result("--", "true", before=before)["isolation"]
    assert ("core_dumps" in isolation["degraded"]) == missing and ("core_dumps" in isolation["layers"]) != missing
    assert brig.run("--require", "core_dumps", "--", "true", before=before).returncode == (125 if missing else 0)


@pytest.mark.skipif(subprocess.run(["strace", "-qq", "-o", "/dev/null", "true"], check=False, capture_output=True).returncode != 0, reason="strace cannot be used here")
def test_review_c1_landlock_that_is_refused_is_not_left_out(brig):
    done = brig.run("--", "echo", "ran", before=["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=landlock_create_ruleset",
                                                 "-e", "inject=landlock_create_ruleset:error=EPERM"], env=TRACED)
    assert (done.returncode, done.stdout) == (125, b"") and "landlock" in message(done)
