# SPDX-License-Identifier: MIT
"""examples/: what their READMEs say is what happens."""
import importlib.util
import json
import os
import shutil
import subprocess
import sys

import pytest
from conftest import PACKAGE, ROOT

EXAMPLES = os.path.join(ROOT, "examples")


def run_example(name, *args, **env):
    return subprocess.run([sys.executable, "-W", "error", os.path.join(EXAMPLES, name), *map(str, args)], text=True,
                          capture_output=True, timeout=50, check=False, env={**os.environ, "PYTHONPATH": PACKAGE, **env})


# ---- agent_loop ----


def test_agent_loop_learns_from_error_timeout_and_output_limit(guest):
    done = run_example("agent_loop/agent.py")
    assert done.returncode == 0 and not done.stderr, done.stderr
    said = done.stdout.split("--- run_python\n")[1:]
    assert len(said) == 5 and "NameError: name 'chain'" in said[0]
    assert said[1].startswith("ended: timeout\n") and said[2].startswith("ended: output_limit\n")
    assert said[3] == "exit code 0\n", "a file of one call is there in the next"
    assert done.stdout.endswith("=== 6171, with 262 numbers in its chain.\n")


@pytest.fixture
def agent(monkeypatch):
    monkeypatch.syspath_prepend(os.path.join(EXAMPLES, "agent_loop"))
    yield importlib.import_module("agent")
    for name in ("agent", "model", "tools"):
        del sys.modules[name]


@pytest.mark.parametrize(("step", "said"), [
    ({"tool": "no_such", "arguments": {}}, "no such tool; there are run_python, run_shell"),
    ({"tool": "run_shell", "arguments": {"wrong": 1}}, "unexpected keyword argument 'wrong'"),
    ({"tool": "run_shell", "arguments": {"command": "echo hi; exit 3"}}, "exit code 3\nstdout:\nhi"),
])
def test_agent_loop_takes_any_model(guest, agent, tmp_path, step, said):
    seen = []

    def model(messages):
        seen[:] = messages
        return step if len(messages) == 1 else {"answer": "done"}
    assert agent.solve(model, "a task", tmp_path, watch=lambda text: None) == "done"
    assert [message["role"] for message in seen] == ["user", "assistant", "tool"] and said in seen[-1]["content"]
    assert agent.solve(lambda messages: step, "a task", tmp_path, watch=lambda text: None).startswith("(no answer")


# ---- notebook_runner ----


@pytest.fixture
def notebook(guest, tmp_path):
    """notebook(): run the example's notebook, or one of these cells, without nbconvert."""
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "sitecustomize.py").write_text(  # as on a machine without nbconvert
        "import importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda name, package=None: None if name == 'nbconvert' else find(name, package)\n")

    def run(*args, cells=None):
        book = tmp_path / "book.ipynb"
        shutil.copy(os.path.join(EXAMPLES, "notebook_runner", "heights.ipynb"), book)
        if cells is not None:
            whole = json.loads(book.read_text())
            whole["cells"] = [{"cell_type": "code", "source": cell, "outputs": []} for cell in cells]
            book.write_text(json.dumps(whole))
        done = run_example("notebook_runner/run_notebook.py", book, "-o", tmp_path / "done.ipynb", *args,
                           PYTHONPATH=f"{PACKAGE}:{tmp_path / 'none'}")
        return done, json.loads((tmp_path / "done.ipynb").read_text())
    return run


def test_notebook_runner_without_nbconvert(notebook):
    done, book = notebook("--timeout", 30)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert done.stdout.splitlines()[1:] == ["[1] 4 heights", "[2] 1.74", "[3] no network: Network is unreachable"]
    assert "execute_cells.py" in done.stdout and book["cells"][2]["outputs"][0]["data"]["text/plain"] == "1.74"


@pytest.mark.parametrize(("cell", "timeout", "said"), [
    ("1 / 0", 40, "ZeroDivisionError: division by zero"),
    ("while True: pass", 8, "timeout of 8s"),
    ("x = bytearray(1 << 30)", 40, "memory"),
    ("import sys; sys.exit(3)", 40, ""),
], ids=["error", "endless", "greedy", "exit"])
def test_notebook_runner_shows_how_far_it_came(notebook, cell, timeout, said):
    cells = ["print('a')", cell, "print('never')"]
    done, book = notebook("--timeout", timeout, "--memory", 100, cells=cells)
    assert done.returncode == 1 and said in done.stdout and "[1] a\n" in done.stdout and "never" not in done.stdout
    assert book["cells"][0]["outputs"][0]["text"] == "a\n"


# ---- plugin_scanner ----


def test_plugin_scanner_reports_findings_and_limits(guest, tmp_path):
    target = tmp_path / "target"
    (target / "sub").mkdir(parents=True)
    (target / "sub" / "id").write_text("x\n-----BEGIN RSA " + "PRIVATE KEY-----\n")
    (target / "open").touch()
    (target / "open").chmod(0o666)
    done = run_example("plugin_scanner/scan.py", target, "--json", tmp_path / "report.json")
    assert done.returncode == 2 and not done.stderr, done.stderr
    report = {part["plugin"]: part for part in json.loads((tmp_path / "report.json").read_text())}
    assert {name: part["state"] for name, part in report.items()} == {
        "greedy": "memory_limit", "noisy": "output_limit", "private_keys": "completed", "stuck": "timeout",
        "writable": "completed"}
    assert report["private_keys"]["findings"] == [{"path": "sub/id", "line": 2, "title": "a private key"}]
    assert report["writable"]["findings"][0]["path"] == "open" and report["noisy"]["junk_lines"] > 1000
    assert "sub/id:2: a private key" in done.stdout and "timeout of 500ms" in done.stdout


def test_plugin_scanner_trusts_no_plugin(guest, tmp_path):
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    reach = "touch /target/x /plugins/x; ls /target; echo '{\"path\": \"\\u001b[2J\", \"line\": 1, \"title\": \"t\"}'"
    (plugins / "reach.json").write_text(json.dumps({"command": ["sh", "-c", reach], "sandbox": {"allow_network": True}}))
    (plugins / "none.json").write_text('{"command": ["no-such-scanner"]}')
    done = run_example("plugin_scanner/scan.py", plugins, "--plugins", plugins, "--json", tmp_path / "report")
    none, reach = json.loads((tmp_path / "report").read_text())
    assert none["state"] == "failed" and "no-such-scanner" in none["message"]
    assert reach["junk_lines"] == 2 and len(reach["findings"]) == 1 and "\x1b" not in done.stdout
    assert sorted(path.name for path in plugins.iterdir()) == ["none.json", "reach.json"]
    (plugins / "none.json").unlink()
    assert run_example("plugin_scanner/scan.py", plugins, "--plugins", plugins).returncode == 1
