# SPDX-License-Identifier: MIT
"""brig mcp: the protocol in raw lines, of both eras; commands, code and tools.

What the real clients make of it is in test_mcp_clients.py.
"""
import base64
import json
import os
import time

import pytest
from conftest import DEGRADED, ROOT, SLOW, WARM, needs_confine
from mcp_frame import EXAMPLES, MODERN, client, connect  # noqa: F401 (fixtures too)

pytestmark = pytest.mark.skipif(bool(WARM), reason="brig mcp has no --warm")


# ---- the protocol ------------------------------------------------------------------------------

@pytest.mark.parametrize("asked, given", [(v, v) for v in ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")]
                         + [("2099-01-01", "2025-11-25")])
def test_initialize_negotiates(connect, asked, given):
    result = connect().initialize(asked)
    assert result["protocolVersion"] == given
    assert result["capabilities"] == {"tools": {}}
    assert result["serverInfo"]["name"] == "brig"


def test_start_has_no_side_effects(connect, brig):
    """A client in auto mode starts a process only to ask who it is: nothing is built for that."""
    client = connect("-v")
    client.initialize()
    client.ask("tools/list")
    client.ask("server/discover", {"_meta": MODERN})
    assert not brig.left_groups()
    with open(f"/proc/{client.process.pid}/task/{client.process.pid}/children", encoding="ascii") as children:
        assert children.read() == ""
    assert "0 runs" in client.close()


def test_tools_are_listed_in_a_stable_order(connect):
    first = connect("--tools", f"{EXAMPLES}/tools.json").ask("tools/list")["result"]
    again = connect("--tools", f"{EXAMPLES}/tools.json").ask("tools/list")["result"]
    assert first == again
    tools = {tool["name"]: tool for tool in first["tools"]}
    assert list(tools) == ["run_command", "run_code", "poll_run", "write_stdin", "cancel_run",
                           "count", "checksum", "sort", "primes", "calendar"]
    for tool in tools.values():
        assert tool["inputSchema"]["type"] == "object"
        assert tool["description"]
    assert tools["checksum"]["outputSchema"]["properties"]["sha256"]
    assert tools["count"]["annotations"] == {"readOnlyHint": True}
    assert tools["run_command"]["annotations"]["openWorldHint"] is False
    assert tools["run_code"]["inputSchema"]["properties"]["language"]["enum"] == ["python", "bash", "node"]
    assert "nextCursor" not in first


def test_network_is_told(connect):
    tools = connect("--network", "host").ask("tools/list")["result"]["tools"]
    assert tools[0]["annotations"]["openWorldHint"] is True


def test_ping_and_unknown_methods(client):
    assert client.ask("ping")["result"] == {}
    assert client.ask("logging/setLevel", {"level": "debug"})["error"]["code"] == -32601
    assert client.ask("resources/list")["error"]["code"] == -32601


def test_modern_era_without_initialize(connect):
    client = connect()
    found = client.ask("server/discover", {"_meta": MODERN})["result"]
    assert "2026-07-28" in found["supportedVersions"]
    assert (found["resultType"], found["cacheScope"]) == ("complete", "private")
    assert found["ttlMs"] >= 0
    listed = client.ask("tools/list", {"_meta": MODERN})["result"]
    assert (listed["resultType"], listed["cacheScope"]) == ("complete", "private")
    assert listed["tools"]
    id = client.start_call("run_command", MODERN, command="echo modern")
    result = client.answer(id)["result"]
    assert result["resultType"] == "complete"
    assert result["structuredContent"]["stdout"] == "modern\n"
    assert client.ask("ping", {"_meta": MODERN})["error"]["code"] == -32601


def test_modern_era_version_mismatch(connect):
    client = connect()
    meta = {**MODERN, "io.modelcontextprotocol/protocolVersion": "2031-01-01\"\x1b[2J"}
    error = client.ask("tools/list", {"_meta": meta})["error"]
    assert error["code"] == -32022
    assert error["data"]["supported"] == ["2026-07-28"]
    assert error["data"]["requested"].startswith("2031-01-01")
    error = client.ask("tools/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}})["error"]
    assert error["code"] == -32602


def test_unknown_tool_and_bad_params(client):
    assert client.ask("tools/call", {"name": "nope\x1b[1m", "arguments": {}})["error"]["code"] == -32602
    assert client.ask("tools/call", {"name": 1})["error"]["code"] == -32602
    assert client.ask("tools/call")["error"]["code"] == -32602
    assert client.ask("tools/call", {"name": "run_command", "arguments": []})["error"]["code"] == -32602
    assert client.ask("initialize", {})["error"]["code"] == -32602
    assert client.ask("tools/list", {"cursor": "2"})["error"]["code"] == -32602
    assert client.ask("tools/call", {"name": "run_command", "arguments": None})["result"]["isError"]
    assert client.ask("tools/list", {"_meta": {"progressToken": 1.5}})["error"]["code"] == -32602


@pytest.mark.parametrize("line, code, id", [
    (b"{", -32700, None), (b"\xff\xfe", -32700, None), (b'{"jsonrpc":"2.0","id":"\xff","method":"ping"}', -32700, None),
    (b"[]", -32600, None), (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, None), (b"7", -32600, None),
    (b'{"jsonrpc":"1.0","id":5,"method":"ping"}', -32600, 5), (b'{"jsonrpc":"2.0","id":5}', -32600, 5),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None), (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600, None), (b'{"jsonrpc":"2.0","id":"x","method":3}', -32600, "x"),
    (b'{"jsonrpc":"2.0","id":"x","method":"ping","params":[1]}', -32602, "x"),
    (b'{"jsonrpc":"2.0","id":"x","id":"y","method":"ping"}', -32600, "x"),
    (b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"run_command","arguments":{"command":"a\\u0000b"}}}', -32600, 9),
    (b'{"jsonrpc":"2.0","id":9,"method":"ping","params":' + b'{"a":' * 400 + b"1" + b"}" * 401, 0, 9),
    (b'{"jsonrpc":"2.0","id":9,"method":"ping","params":' + b'{"a":' * 600 + b"1" + b"}" * 601, -32700, None),
    (b'{"jsonrpc":"2.0","id":"' + b"i" * 300 + b'","method":"ping"}', -32600, None),
])
def test_malformed_lines(client, line, code, id):
    client.send(line)
    client.send(b"")
    client.send(b"\r")
    alive = client.request("ping", id="alive")
    assert client.answer(alive)["result"] == {}
    message = client.answers.get(id) or client.others[0]
    assert message.get("error", {"code": 0})["code"] == code
    assert "id" not in message or message["id"] == id  # clients refuse null


def test_answers_of_the_client_are_passed_over(client):
    client.send({"jsonrpc": "2.0", "id": 77, "result": {}})
    client.send({"jsonrpc": "2.0", "method": "notifications/unknown"})
    assert client.ask("ping")["result"] == {}
    assert set(client.answers) == {1, 2}


def test_an_id_in_flight_is_refused(client):
    id = client.start_call("run_command", command="sleep 0.3; echo one")
    client.request("ping", id=id)
    assert client.other()["error"]["code"] == -32600
    assert client.answer(id)["result"]["structuredContent"]["stdout"] == "one\n"


# ---- run_command, run_code ---------------------------------------------------------------------

def test_command_as_text_and_as_array(client):
    state = client.state("run_command", command="echo $((1+1)); echo no >&2; exit 3")
    assert (state["status"], state["exit_code"], state["stdout"], state["stderr"]) == ("exited", 3, "2\n", "no\n")
    assert client.state("run_command", command=["echo", "$HOME", "a  b"])["stdout"] == "$HOME a  b\n"
    state = client.state("run_command", command="kill -9 $$")
    assert (state["status"], state["exit_code"], state["signal"]) == ("signaled", None, 9)


def test_environment_stdin_and_directory(client, brig):
    (brig.tmp / "sub").mkdir()
    state = client.state("run_command", command='cat; echo "$A"; pwd; cat ../sub/x 2>/dev/null; ls -d ../sub',
                         stdin="given\n", env={"A": "1 2"}, workdir="sub")
    assert state["stdout"] == f"given\n1 2\n{brig.tmp}/sub\n../sub\n"
    assert client.state("run_command", command=["pwd"], workdir=str(brig.tmp / "sub"))["stdout"] == f"{brig.tmp}/sub\n"
    assert client.state("run_command", command="cat")["stdout"] == ""  # stdin is empty, not the client's


@pytest.mark.parametrize("arguments, said", [
    ({}, "command: is missing"), ({"command": 1}, "command: has the wrong type"), ({"command": ""}, "empty"),
    ({"command": []}, "empty"), ({"command": ["a", 1]}, "array of strings"), ({"command": "x", "cwd": "/"}, "cwd: no such argument"),
    ({"command": "x", "timeout": "soon"}, "soon"), ({"command": "x", "timeout": 0}, "timeout"),
    ({"command": "x", "timeout": 3600}, "1h is over the maximum of 30m"), ({"command": "x", "timeout": "unlimited"}, "over the maximum"),
    ({"command": "x", "workdir": ".."}, "is not a directory in the work directory"), ({"command": "x", "workdir": "/etc"}, "is not a directory in"),
    ({"command": "x", "workdir": "nope"}, "is not a directory in"), ({"command": "x", "env": {"A=B": "1"}}, "not a name"),
    ({"command": "x", "env": {"A": 1}}, "not a string"), ({"command": "x", "env": {"": "1"}}, "not a name"),
    ({"command": "x", "yield_seconds": 46}, "over the maximum of 45s"), ({"command": "x", "yield_seconds": -1}, "yield_seconds"),
    ({"command": "x", "stdin_open": "yes"}, "wrong type"),
])
def test_bad_arguments_are_results(client, arguments, said):
    assert said in client.refusal("run_command", **arguments)


def test_agents_do_not_learn_what_is_outside(client, brig):
    """What is there and what is not, outside of the view, gives the same answers; links of a guest as well."""
    there, missing = os.path.join(ROOT, "Makefile"), os.path.join(ROOT, "nothing")
    (brig.tmp / "link-1").symlink_to(there)
    (brig.tmp / "link-2").symlink_to(missing)
    for pair in [(there, missing), ("link-1", "link-2"), ("/root", "/toor")]:
        said = {client.refusal("run_command", command="ls", workdir=path).replace(path, "") for path in pair}
        assert len(said) == 1, said
        for argv in (lambda path: [path], lambda path: ["cat", path]):
            states = [client.state("run_command", command=argv(path)) for path in pair]
            assert len({(s["status"], s["exit_code"], s["stderr"].replace(p, "")) for s, p in zip(states, pair)}) == 1, states
            assert not any(s.get("hints") for s in states), states


def test_review_u4_hints_for_agents(client):
    """That there is no network; in their words, without an option that they do not have."""
    code = "import socket; socket.create_connection(('1.1.1.1', 80))"
    hint, = client.state("run_code", language="python", code=code)["hints"]
    assert "it has no network" in hint and "--" not in hint


def test_a_program_that_is_not_there_is_a_result(client):
    state = client.state("run_command", command=["/nonexistent", "x"])
    assert (state["status"], state["exit_code"]) == ("exited", 127)
    assert client.state("run_command", command=["-x"])["exit_code"] == 127


def test_operator_options_hold(connect, brig):
    client = connect("--timeout", "5s", "--memory", "64M", "-e", "FIXED=1")
    assert "6s is over the maximum of 5s" in client.refusal("run_command", command="true", timeout=6)
    state = client.state("run_command", command="echo $FIXED; head -c 200M /dev/zero | tail -c 190M | wc -c")
    assert state["status"] == "memory_limit"
    assert state["stdout"].startswith("1\n")
    started = time.monotonic()
    assert client.state("run_command", command="sleep 60", timeout="0.3")["status"] == "timeout"
    assert time.monotonic() - started < 10 * SLOW


def test_variables_of_the_server_are_not_shown(connect, brig):
    client = connect(env={**os.environ, "PRIVATE": "secret-of-the-host"})
    assert "secret-of-the-host" not in client.state("run_command", command="env")["stdout"]
    assert "not a name" in client.refusal("run_command", command="env", env={"PRIVATE=": ""})
    assert client.state("run_command", command="echo $PRIVATE", env={"PRIVATE": ""})["stdout"] == "\n"


@needs_confine
def test_where_no_cell_can_be_built(connect):
    client = connect(before=DEGRADED)
    state = client.state("run_code", language="python", code="import sys; print(__file__, sys.stdin.read())", stdin="in")
    assert state["isolation"] == "degraded"
    assert state["stdout"].endswith("/code in\n")


CODE = {
    "python": "import sys\nprint(sys.stdin.read() + '!')\nsys.exit(4)",
    "bash": "read line; echo \"$line!\"; exit 4",
    "node": "console.log(require('fs').readFileSync(0, 'utf8') + '!'); process.exit(4)",
}


@pytest.mark.parametrize("language", CODE)
def test_code_in_each_language(client, language):
    state = client.state("run_code", language=language, code=CODE[language], stdin="given")
    assert (state["exit_code"], state["stdout"], state["stderr"]) == (4, "given!\n", "")


def test_code_is_not_on_a_command_line(client):
    state = client.state("run_code", language="python", code="print(open('/proc/self/cmdline').read())\n# hidden")
    assert "hidden" not in state["stdout"]
    state = client.state("run_code", language="python", code="def f():\n    1/0\nf()")
    assert "line 2, in f" in state["stderr"]


def test_code_imports_from_the_work_directory(client, brig):
    (brig.tmp / "mine.py").write_text("value = 5")
    (brig.tmp / "mine.js").write_text("exports.value = 6")
    assert client.state("run_code", language="python", code="import mine; print(mine.value)")["stdout"] == "5\n"
    assert client.state("run_code", language="node", code="console.log(require('./mine').value)")["stdout"] == "6\n"


def test_code_that_is_refused(client):
    assert "is not available" in client.refusal("run_code", language="cobol", code="x")
    assert "code: has to be" in client.refusal("run_code", language="bash", code="")
    assert "code: has to be" in client.refusal("run_code", language="bash", code="#" * 1048577)
    assert client.state("run_code", language="bash", code="#" * 1048000 + "\necho end")["stdout"] == "end\n"


def test_output_that_is_no_text(client):
    state = client.state("run_command", command="printf '\\377\\000\\033[2J'")
    assert state["stdout_encoding"] == "base64"
    assert base64.b64decode(state["stdout"]) == b"\xff\0\x1b[2J"
    state = client.state("run_command", command="printf '\\033]0;x\\007'")
    assert state["stdout"] == "\x1b]0;x\x07"
    # No byte of the stream itself is a control character.
    assert all(byte >= 32 for byte in json.dumps(state).encode())


def test_secrets_are_hidden(client):
    key = "AKIA" + "IOSFODNN7EXAMPLQ"
    state = client.state("run_command", command=f"echo key {key[:10]}''{key[10:]}")
    assert key not in state["stdout"] and "[redacted:" in state["stdout"]
    assert state["secrets_hidden"] == 1


# ---- tools of a file ---------------------------------------------------------------------------

def test_tools_of_a_file(connect):
    client = connect("--tools", f"{EXAMPLES}/tools.json", cwd=EXAMPLES)
    result = client.call("checksum", text="abc")
    expected = {"sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}
    assert (result["structuredContent"], result["isError"]) == (expected, False)
    assert json.loads(result["content"][0]["text"]) == expected
    result = client.call("calendar")
    assert "Mo Tu We" in result["content"][0]["text"] and "structuredContent" not in result
    assert "text" in client.refusal("checksum")
    assert "most" in client.refusal("count", text="x", most=0)


def write_tools(brig, *tools):
    path = brig.tmp / "tools.json"
    path.write_text(json.dumps({"tools": list(tools)}))
    return path


def shell_tool(script, **more):
    return {"name": "t", "result": "stdout", "command": ["/bin/sh", "-c", script], **more}


def test_tool_that_fails_or_says_too_much(connect, brig):
    client = connect("--tools", write_tools(brig, shell_tool("echo last words >&2; exit 3")))
    assert "last words" in client.refusal("t")
    client = connect("--tools", write_tools(brig, shell_tool("head -c 5000000 /dev/zero | tr '\\0' x")))
    assert "5000002 bytes" in client.refusal("t")


def test_tool_that_takes_long(connect, brig):
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    script = 'echo hi >&2; sleep 0.7; printf \'41\\n{"status": "success", "output": {"a": 5}}\' >&3'
    for more in ({}, {"output_schema": schema}):
        tool = {"name": "t", "command": ["/bin/sh", "-c", script], **more}
        client = connect("--yield", "0.2s", "--tools", write_tools(brig, tool))
        result = client.call("t")
        assert result["isError"] == bool(more)  # else clients check it against the schema of the output
        state = json.loads(result["content"][0]["text"])
        assert state["status"] == "running"
        for _ in range(20):
            polled = client.state("poll_run", run_id=state["run_id"])
            if polled["status"] != "running":
                break
        assert (polled["status"], polled["output"], polled["error"], polled["stderr"]) == ("exited", {"a": 5}, None, "hi\n")


# ---- the documentation -------------------------------------------------------------------------

def configurations():
    with open(os.path.join(ROOT, "docs", "AGENTS.md"), encoding="utf-8") as page:
        blocks = [json.loads(block.split("```")[0]) for block in page.read().split("```json")[1:]]
    return [server for block in blocks for key in ("mcpServers", "servers") for server in block.get(key, {}).values()]


def test_configurations_of_the_docs(connect, brig):
    """Each is started as it stands there, with directories that exist, and answers."""
    assert len(configurations()) == 4
    for server in configurations():
        assert (server["command"], server["args"][0]) == ("brig", "mcp")
        options = [arg.replace("/home/you/tools", EXAMPLES).replace("${workspaceFolder}", str(brig.tmp)) for arg in server["args"][1:]]
        options = [str(brig.tmp) if arg.startswith("/home/you") else arg for arg in options]
        client = connect(*options)
        client.initialize()
        assert client.state("run_command", command="echo ready")["stdout"] == "ready\n"


# ---- the command line --------------------------------------------------------------------------

@pytest.mark.parametrize("options, said", [
    (["--yield", "0"], "--yield"), (["--max-runs", "65"], "is over 64"), (["--keep", "1M"], "is over 512K"),
    (["--tools", "-"], "stdin is the connection"), (["--tools", "/nonexistent"], "/nonexistent"), (["--nope"], "unknown option"),
    (["word"], "is not an option"), (["--stdin", "x"], "is set for each run"), (["--memory", "0"], "--memory"),
    (["--workdir", "/nonexistent"], "/nonexistent"),
])
def test_bad_command_lines(brig, options, said):
    done = brig.run(*options, verb="mcp")
    assert (done.returncode, done.stdout) == (2, b"")
    assert said in done.stderr.decode()


def test_help(brig):
    done = brig.run("--help", verb="mcp")
    assert done.returncode == 0 and b"--max-runs N" in done.stdout


def test_a_tool_of_a_name_that_brig_has_is_refused(brig, tmp_path):
    """Who offers a narrower one must not give the wide one away."""
    path = tmp_path / "tools.json"
    path.write_text(json.dumps({"tools": [{"name": "run_command", "command": ["true"]}]}))
    done = brig.run("--tools", path, verb="mcp")
    assert done.returncode == 2 and b"tool run_command" in done.stderr and done.stdout == b""


def test_nothing_is_said_to_a_notification(client):
    for text in (b'{"jsonrpc":"2.0","method":"notifications/initialized","params":null}',
                 b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}', b'{"method":"x"}'):
        client.send(text)
    assert client.ask("ping")["result"] == {}
    assert client.others == []


def test_an_env_file_that_became_a_link_is_not_read(connect, brig, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "env"
    outside.write_text("OTHER_SETTING=topsecret\n")
    (brig.tmp / ".env").write_text("MINE=1\n")
    client = connect("--env-file", ".env")
    client.initialize()
    assert "MINE=1" in client.call("run_command", command="env")["structuredContent"]["stdout"]
    client.call("run_command", command=f"rm .env; ln -s {outside} .env")
    answer = client.call("run_command", command="env")
    assert "topsecret" not in json.dumps(answer) and answer["isError"]


def test_operator_options_bound_the_tools_of_a_file(connect, tmp_path):
    """By name; what was not named is as the file says."""
    path = tmp_path / "tools.json"
    code = "ulimit -n; echo $BRIG_TOOL"
    path.write_text(json.dumps({"tools": [
        {"name": "wide", "result": "stdout", "command": ["sh", "-c", "sleep 60"], "timeout": "1h", "open_files": 500},
        {"name": "narrow", "result": "stdout", "command": ["sh", "-c", code], "open_files": 60}]}))
    client = connect("--tools", path, "--timeout", f"{2 * SLOW}s", "--open-files", "100", "-k", "100ms")
    client.initialize()
    begin = time.monotonic()
    answer = client.call("wide")
    assert answer["isError"] and "timeout" in json.dumps(answer)
    assert time.monotonic() - begin < 30 * SLOW
    assert "60\\nnarrow" in json.dumps(client.call("narrow"))


def test_review_e2_no_command_rewrites_a_tool(connect, brig):
    """run_command wrote the script, which then ran with the tool's own network and view."""
    (brig.tmp / "bin").mkdir()
    (brig.tmp / "bin" / "tool.sh").write_text("#!/bin/sh\necho kept\n")
    (brig.tmp / "bin" / "tool.sh").chmod(0o755)
    tools = brig.tmp / "tools.json"
    tools.write_text(json.dumps({"tools": [{"name": "t", "result": "stdout", "command": ["bin/tool.sh"], "network": "host"}]}))
    client = connect("--tools", tools)
    forge = "echo forged >bin/tool.sh; echo forged >tools.json; mv bin z; mv tools.json z; touch bin/sh; echo mine >mine"
    assert client.state("run_command", command=forge)["exit_code"] == 0
    assert (brig.tmp / "mine").exists() and sorted(os.listdir(brig.tmp / "bin")) == ["tool.sh"]
    assert client.call("t")["content"][0]["text"] == "kept\n"
    assert "forged" not in tools.read_text()


def test_review_e2_no_command_turns_a_link_or_fills_a_place_in_path(connect, brig):
    """While brig mcp runs: the next call ran what the link led to, or what PATH then had first."""
    (brig.tmp / "releases" / "1").mkdir(parents=True)
    for name in ("releases/1/tool", "releases/by"):
        (brig.tmp / name).write_text("#!/bin/sh\necho kept\n")
        (brig.tmp / name).chmod(0o755)
    (brig.tmp / "current").symlink_to("releases/1")
    (brig.tmp / "place").mkdir()
    tools = brig.tmp / "tools.json"
    path = {"PATH": f"{brig.tmp}/place:/usr/bin:/bin"}
    tools.write_text(json.dumps({"tools": [{"name": "t", "result": "stdout", "command": ["current/tool"]}]}))
    done = brig.run("--tools", tools, verb="mcp")
    assert done.returncode == 125 and b"current: is a symlink" in done.stderr
    tools.write_text(json.dumps({"tools": [{"name": "t", "result": "stdout", "command": ["echo", "kept"], "env": path}]}))
    client = connect("--tools", tools)
    forge = "printf '#!/bin/sh\necho forged\n' >place/echo; chmod 755 place/echo; mv place z; echo mine >mine"
    assert client.state("run_command", command=forge)["exit_code"] == 0
    assert (brig.tmp / "mine").exists() and not list((brig.tmp / "place").iterdir())
    assert client.call("t")["content"][0]["text"] == "kept\n"
