"""brig mcp: the protocol in raw lines, of both eras; runs that take long; clients that misbehave, or die.

What the real clients make of it is in test_mcp_clients.py.
"""
import base64
import json
import os
import queue
import signal
import subprocess
import threading
import time

import pytest
from conftest import CONFINED, ROOT, SLOW, WARM, finish, is_alive, needs_confine, start_time, wait_for_file, wait_until

EXAMPLES = os.path.join(ROOT, "examples", "tools")
pytestmark = pytest.mark.skipif(bool(WARM), reason="brig mcp has no --warm")

MODERN = {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
          "io.modelcontextprotocol/clientCapabilities": {}}


class Client:
    """A client that speaks in lines. Answers are put aside until somebody asks for them."""

    def __init__(self, brig, *options, **kw):
        self.brig = brig
        self.process = brig.start("-e", f"BRIG_TEST_TOKEN={brig.token}", *options, verb="mcp",
                                  stdin=subprocess.PIPE, **kw)
        self.answers, self.notifications, self.others = {}, [], []
        self.lines = queue.Queue()
        self.number = 0
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def send(self, message):
        text = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.process.stdin.write(text + b"\n")
        self.process.stdin.flush()

    def take(self, seconds=30):
        """One more line of the server; False at its end."""
        line = self.lines.get(timeout=seconds * SLOW)
        if line is None:
            return False
        message = json.loads(line.decode("utf-8"))
        assert message["jsonrpc"] == "2.0"
        if "method" in message:
            self.notifications.append(message)
        elif "id" in message:
            assert message["id"] not in self.answers, "two answers to one request"
            self.answers[message["id"]] = message
        else:
            self.others.append(message)
        return True

    def request(self, method, params=None, id=None):
        self.number += 1
        id = self.number if id is None else id
        message = {"jsonrpc": "2.0", "id": id, "method": method}
        if params is not None:
            message["params"] = params
        self.send(message)
        return id

    def notify(self, method, params):
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def answer(self, id, seconds=30):
        while id not in self.answers:
            assert self.take(seconds), "the server ended without an answer"
        return self.answers[id]

    def other(self):
        while not self.others:
            assert self.take()
        return self.others.pop(0)

    def ask(self, method, params=None):
        return self.answer(self.request(method, params))

    def start_call(self, name, meta=None, **arguments):
        params = {"name": name, "arguments": arguments}
        if meta:
            params["_meta"] = meta
        return self.request("tools/call", params)

    def call(self, name, **arguments):
        return self.answer(self.start_call(name, **arguments))["result"]

    def state(self, name, **arguments):
        """What a call of one of the server's own tools says, which is no error; text and object agree."""
        result = self.call(name, **arguments)
        assert not result["isError"], result
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        return result["structuredContent"]

    def refusal(self, name, **arguments):
        result = self.call(name, **arguments)
        assert result["isError"] and "structuredContent" not in result, result
        return result["content"][0]["text"]

    def initialize(self, version="2025-11-25"):
        answer = self.ask("initialize", {"protocolVersion": version, "capabilities": {},
                                         "clientInfo": {"name": "test", "version": "0"}})
        self.notify("notifications/initialized", {})
        return answer["result"]

    def close(self):
        """EOF; what the server said on stderr."""
        self.process.stdin.close()
        return self.end()

    def end(self):
        error = self.process.stderr.read().decode()
        assert self.process.wait(20 * SLOW) == 0, error
        while self.take():
            pass
        return error


@pytest.fixture
def connect(brig):
    clients = []

    def make(*options, **kw):
        clients.append(Client(brig, *options, **kw))
        return clients[-1]

    yield make
    for client in clients:
        if client.process.poll() is None:
            client.process.stdin.close()
            client.process.wait(20 * SLOW)


@pytest.fixture
def client(connect):
    client = connect()
    client.initialize()
    yield client
    if client.process.poll() is None:
        assert client.close() == ""


def memory_of(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) << 10


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


def test_environment_stdin_and_folder(client, brig):
    (brig.tmp / "sub").mkdir()
    state = client.state("run_command", command='cat; echo "$A"; pwd; cat ../sub/x 2>/dev/null; ls -d ../sub',
                         stdin="given\n", env={"A": "1 2"}, workdir="sub")
    assert state["stdout"] == f"given\n1 2\n{brig.tmp}/sub\n../sub\n"
    assert client.state("run_command", command=["pwd"], workdir=str(brig.tmp / "sub"))["stdout"] == f"{brig.tmp}/sub\n"
    assert client.state("run_command", command="cat")["stdout"] == ""  # stdin is empty, not the client's


@pytest.mark.parametrize("arguments, said", [
    ({}, "command: is missing"), ({"command": 1}, "command: is not of the right type"), ({"command": ""}, "empty"),
    ({"command": []}, "empty"), ({"command": ["a", 1]}, "array of strings"), ({"command": "x", "cwd": "/"}, "cwd: there is no"),
    ({"command": "x", "timeout": "soon"}, "soon"), ({"command": "x", "timeout": 0}, "timeout"),
    ({"command": "x", "timeout": 3600}, "1h is over the maximum of 30m"), ({"command": "x", "timeout": "unlimited"}, "over the maximum"),
    ({"command": "x", "workdir": ".."}, "is not a folder in the work folder"), ({"command": "x", "workdir": "/etc"}, "is not a folder in"),
    ({"command": "x", "workdir": "nope"}, "is not a folder in"), ({"command": "x", "env": {"A=B": "1"}}, "not a name"),
    ({"command": "x", "env": {"A": 1}}, "not a string"), ({"command": "x", "env": {"": "1"}}, "not a name"),
    ({"command": "x", "yield_seconds": 46}, "over the maximum of 45s"), ({"command": "x", "yield_seconds": -1}, "yield_seconds"),
    ({"command": "x", "stdin_open": "yes"}, "right type"),
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
    client = connect(before=CONFINED)
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


def test_code_imports_from_the_work_folder(client, brig):
    (brig.tmp / "mine.py").write_text("value = 5")
    (brig.tmp / "mine.js").write_text("exports.value = 6")
    assert client.state("run_code", language="python", code="import mine; print(mine.value)")["stdout"] == "5\n"
    assert client.state("run_code", language="node", code="console.log(require('./mine').value)")["stdout"] == "6\n"


def test_code_that_is_refused(client):
    assert "is not there" in client.refusal("run_code", language="cobol", code="x")
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


# ---- runs that take long -----------------------------------------------------------------------

def test_yield_poll_and_end(client, brig):
    os.mkfifo(brig.tmp / "gate")
    state = client.state("run_command", command="echo one; read x <gate; echo two", yield_seconds=0.3)
    assert (state["status"], state["exit_code"]) == ("running", None)
    run, seen = state["run_id"], state["sequence"]
    if seen == 0:  # a slow machine
        seen = client.state("poll_run", run_id=run, wait_seconds=2)["sequence"]
    assert client.state("poll_run", run_id=run, since=seen, wait_seconds=0)["stdout"] == ""
    (brig.tmp / "gate").write_text("go\n")
    state = client.state("poll_run", run_id=run, since=seen, wait_seconds=20)
    assert (state["status"], state["exit_code"], state["stdout"], state["sequence"]) == ("exited", 0, "two\n", 8)
    assert client.state("poll_run", run_id=run)["stdout"] == "one\ntwo\n"  # it is kept
    assert "not a place" in client.refusal("poll_run", run_id=run, since=9)
    assert "no run" in client.refusal("poll_run", run_id="run-0")
    assert "over the maximum" in client.refusal("poll_run", run_id=run, wait_seconds=50)
    assert "over" in client.refusal("write_stdin", run_id=run, data="x")


def test_write_stdin(client):
    state = client.state("run_command", command="while read x; do echo \"got $x\"; done; echo end", stdin="first\n",
                         stdin_open=True, yield_seconds=0)
    run = state["run_id"]
    client.state("write_stdin", run_id=run, data="second\n")
    state = client.state("write_stdin", run_id=run, data="third\n", close=True, wait_seconds=20)
    assert state["stdout"] == "got first\ngot second\ngot third\nend\n"
    assert state["status"] == "exited"


def test_write_stdin_that_is_refused_sends_nothing(client):
    run = client.state("run_command", command="cat", stdin_open=True, yield_seconds=0)["run_id"]
    assert "not a place" in client.refusal("write_stdin", run_id=run, data="no", since=5)
    assert client.state("write_stdin", run_id=run, data="yes", close=True, wait_seconds=20)["stdout"] == "yes"
    assert client.state("run_command", command=["cat"], stdin="", stdin_open=False)["stdout"] == ""


def test_write_stdin_never_blocks_the_server(client):
    run = client.state("run_command", command="sleep 60", stdin_open=True, yield_seconds=0)["run_id"]
    for _ in range(10):
        result = client.call("write_stdin", run_id=run, data="x" * 200_000, wait_seconds=0)
        if result["isError"]:
            break
    assert "more than the" in result["content"][0]["text"]
    assert client.ask("ping")["result"] == {}
    assert client.state("cancel_run", run_id=run)["status"] == "cancelled"
    run = client.state("run_command", command="sleep 60", yield_seconds=0)["run_id"]
    assert "stdin of this run is closed" in client.refusal("write_stdin", run_id=run, data="x")


def test_large_stdin_of_a_run_that_stays_open(client):
    state = client.state("run_command", command="head -c 900000 | wc -c", stdin="y" * 900_000, stdin_open=True)
    assert state["stdout"] == "900000\n"


def test_cancel_run_ends_what_ignores_it(connect):
    client = connect("--kill-after", "200ms")
    run = client.state("run_command", command="trap '' TERM; echo up; sleep 300 & sleep 300", yield_seconds=0)["run_id"]
    assert wait_until(lambda: client.state("poll_run", run_id=run, wait_seconds=0)["stdout"] == "up\n", 10)
    state = client.state("cancel_run", run_id=run)
    assert (state["status"], state["signal"]) == ("cancelled", 9)
    assert client.state("cancel_run", run_id=run)["status"] == "cancelled"


def test_too_many_runs(connect):
    client = connect("--max-runs", "2")
    runs = [client.state("run_command", command="sleep 60", yield_seconds=0)["run_id"] for _ in range(2)]
    assert "too many runs" in client.refusal("run_command", command="true")
    assert "too many runs" in client.refusal("run_code", language="bash", code="true")
    client.state("cancel_run", run_id=runs[0])
    assert client.state("run_command", command="echo again")["stdout"] == "again\n"


def test_runs_that_are_over_are_kept_in_a_bounded_number(client):
    runs = []
    for i in range(40):
        run = client.state("run_command", command=f"read x; echo {i}", stdin_open=True, yield_seconds=0)["run_id"]
        client.state("write_stdin", run_id=run, data="\n", close=True, wait_seconds=20)
        runs.append(run)
    assert client.state("poll_run", run_id=runs[-1])["stdout"] == "39\n"
    assert client.state("poll_run", run_id=runs[10])["stdout"] == "10\n"
    assert "ended long ago" in client.refusal("poll_run", run_id=runs[0])


def test_case_12_slow_listener_never_slows_the_run(client, brig):
    """Nobody polls while 3 MB are printed: the run ends as fast as it can, the newest output is kept, and
    the answer says how much is missing."""
    run = client.state("run_command", command="seq 1000000 1400000; touch done", yield_seconds=0)["run_id"]
    wait_for_file(brig.tmp / "done")  # nobody has asked since
    state = client.state("poll_run", run_id=run, wait_seconds=20)
    assert state["status"] == "exited"
    assert state["sequence"] == 400_001 * 8
    assert state["stdout"].endswith("1399999\n1400000\n")
    assert state["dropped_bytes"] + len(state["stdout"]) == state["sequence"]
    assert 100_000 < len(state["stdout"]) <= 256 << 10
    later = client.state("poll_run", run_id=run, since=state["sequence"] - 16)
    assert (later["stdout"], later["dropped_bytes"]) == ("1399999\n1400000\n", 0)


def test_case_12_streams_in_small_pieces_are_kept(client):
    code = "import os\nfor i in range(2000): os.write(1, b'o'); os.write(2, 'ä'.encode())"
    state = client.state("run_code", language="python", code=code)
    assert state["stdout"] + state["stderr"] == "o" * len(state["stdout"]) + "ä" * len(state["stderr"])
    assert len(state["stdout"]) + 2 * len(state["stderr"]) + state["dropped_bytes"] == 6000


def test_progress_is_told_and_output_never_only_there(client):
    id = client.start_call("run_command", {"progressToken": "p"}, command="echo a; sleep 2.5; echo b")
    state = client.answer(id)["result"]["structuredContent"]
    assert state["stdout"] == "a\nb\n"
    told = [n["params"] for n in client.notifications]
    assert told and all(n["method"] == "notifications/progress" for n in client.notifications)
    assert all(p["progressToken"] == "p" for p in told)
    assert "1 lines, 2 bytes" in told[-1]["message"]
    assert sorted({p["progress"] for p in told}) == [p["progress"] for p in told]


def test_cancelled_request_is_never_answered(client, brig):
    id = client.start_call("run_command", command="touch up; sleep 300")
    wait_for_file(brig.tmp / "up")
    client.notify("notifications/cancelled", {"requestId": id, "reason": "test"})
    client.notify("notifications/cancelled", {"requestId": id})
    client.notify("notifications/cancelled", {"requestId": 12345})
    client.notify("notifications/cancelled", {})
    assert wait_until(lambda: not brig_guests(brig, client), 10)
    client.ask("ping")
    assert id not in client.answers


def brig_guests(brig, client):
    return [pid for pid in brig.survivors() if pid != client.process.pid]


def test_a_poll_that_is_cancelled_leaves_the_run(client):
    run = client.state("run_command", command="sleep 300", yield_seconds=0)["run_id"]
    id = client.start_call("poll_run", run_id=run, wait_seconds=40)
    client.notify("notifications/cancelled", {"requestId": id})
    assert client.state("poll_run", run_id=run, wait_seconds=0)["status"] == "running"
    assert id not in client.answers


def test_case_36_two_hundred_calls_fifty_cancelled(connect):
    """No more than 8 run at once; those that are refused are asked again; each answer is of its own call, and
    what was cancelled half-way is not answered."""
    client = connect("-v", "--max-runs", "8")
    client.initialize()
    todo, waiting, cancelled, done = list(range(200)), {}, {}, set()

    def look():
        for id, i in [*waiting.items(), *cancelled.items()]:
            if id not in client.answers:
                continue
            result = client.answers[id]["result"]
            if result["isError"]:
                assert "too many runs" in result["content"][0]["text"]
                todo.append(i)
            else:
                assert result["structuredContent"]["stdout"] == f"call {i}\n"
                assert id in waiting
                done.add(i)
            waiting.pop(id, cancelled.pop(id, None))

    while todo or waiting:
        while todo and len(waiting) < 10:
            i = todo.pop(0)
            long = i % 4 == 3
            id = client.start_call("run_command", command=f"echo call {i}" + ("; sleep 300" if long else ""))
            if long:
                client.notify("notifications/cancelled", {"requestId": id})
            (cancelled if long else waiting)[id] = i
        client.ask("ping")
        look()
    assert (len(done), len(cancelled)) == (150, 50)
    assert not set(cancelled) & set(client.answers)
    said = client.close()
    assert int(said.split("runs, ")[1].split()[0]) > 20, said


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


# ---- the end -----------------------------------------------------------------------------------

@pytest.mark.parametrize("end", ["eof", signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_end_takes_everything_along(connect, brig, end):
    client = connect("--max-runs", "4", "--kill-after", "30s")
    for i in range(3):
        client.start_call("run_command", command=f"trap '' TERM; touch up{i}; sleep 300 & sleep 300")
    for i in range(3):
        wait_for_file(brig.tmp / f"up{i}")
    started = time.monotonic()
    if end == "eof":
        client.process.stdin.close()
    else:
        client.process.send_signal(end)
    assert client.end() == ""
    assert time.monotonic() - started < 5 * SLOW
    assert not client.answers
    brig.assert_nothing_is_left()


def test_killed_server_leaves_nothing(connect, brig):
    client = connect()
    client.start_call("run_command", command="touch up; sleep 300 & sleep 300")
    wait_for_file(brig.tmp / "up")
    client.process.kill()
    client.process.wait()
    assert wait_until(lambda: not brig.survivors(), 10)
    brig.run("--", "true")  # sweeps


def test_what_was_asked_before_the_end_is_answered(brig):
    lines = b"".join(b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n' % i for i in range(50))
    done = brig.run(verb="mcp", input=lines)
    assert (done.returncode, done.stdout.count(b"\n"), done.stderr) == (0, 50, b"")


# ---- clients that misbehave --------------------------------------------------------------------

@pytest.mark.measured
def test_line_of_50_megabytes(client):
    client.ask("ping")
    before = memory_of(client.process.pid)
    client.send(b'{"jsonrpc":"2.0","id":1000,"method":"ping","params":{"x":"' + b"y" * 50_000_000 + b'"}}')
    assert client.other()["error"]["code"] == -32600
    assert client.ask("ping")["result"] == {}
    assert memory_of(client.process.pid) - before < 20 << 20


@pytest.mark.measured
def test_line_of_a_million_values(client):
    client.send(b'{"jsonrpc":"2.0","id":"v","method":"ping","params":{"x":[' + b"0," * 2_000_000 + b"0]}}")
    assert client.answer("v")["error"]["code"] == -32600
    assert memory_of(client.process.pid) < 100 << 20


@pytest.mark.measured
def test_storm_of_10000_requests(client):
    ids = []
    for i in range(10_000):
        ids.append(client.request("ping") if i % 2 else client.start_call("run_command", command="sleep 300", yield_seconds=40))
    most = memory_of(client.process.pid)
    refused = 0
    for id in ids[1::2]:
        assert client.answer(id)["result"] == {}
    for id in ids[::2]:
        refused += id in client.answers and client.answers[id]["result"]["isError"]
    assert refused == 5000 - 8
    assert max(most, memory_of(client.process.pid)) < 60 << 20


@pytest.mark.measured
def test_client_that_does_not_read(brig):
    """10,000 requests and nobody reads the answers: the server stops to read; its runs go on, and the end
    of the client is seen all the same."""
    process = brig.start("-e", f"BRIG_TEST_TOKEN={brig.token}", verb="mcp", stdin=subprocess.PIPE)
    os.set_blocking(process.stdin.fileno(), False)
    call = {"jsonrpc": "2.0", "id": "c", "method": "tools/call",
            "params": {"name": "run_command", "arguments": {"command": "touch up; sleep 300"}}}
    process.stdin.write(json.dumps(call).encode() + b"\n")
    process.stdin.flush()
    lines = b'{"jsonrpc":"2.0","id":%d,"method":"tools/list"}\n'
    sent, i, blocked = 0, 0, 0
    while blocked < 20 and i < 200_000:
        i += 1
        try:
            sent += os.write(process.stdin.fileno(), lines % i)
            blocked = 0
        except BlockingIOError:
            blocked += 1
            time.sleep(0.02)
    assert blocked == 20, "the server reads on and on"
    wait_for_file(brig.tmp / "up")
    assert memory_of(process.pid) < 60 << 20
    process.stdin.close()
    assert process.wait(10 * SLOW) == 0
    process.stdout.close()
    process.stderr.close()
    brig.assert_nothing_is_left()


def test_client_that_dies(brig):
    """Killed with SIGKILL while runs go on: its server ends, and all of its runs."""
    script = """
import json, os, subprocess, sys, time
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
for i in range(3):
    call = {"jsonrpc": "2.0", "id": i, "method": "tools/call",
            "params": {"name": "run_command", "arguments": {"command": f"touch up{i}; sleep 300 & sleep 300"}}}
    server.stdin.write(json.dumps(call).encode() + b"\\n")
server.stdin.flush()
print(server.pid, flush=True)
time.sleep(300)
"""
    client = subprocess.Popen(["/usr/bin/python3", "-c", script, brig.binary, "mcp", "-e", f"BRIG_TEST_TOKEN={brig.token}"],
                              stdout=subprocess.PIPE, cwd=brig.tmp)
    server = int(client.stdout.readline())
    brig.makers[str(server)] = start_time(server)
    for i in range(3):
        wait_for_file(brig.tmp / f"up{i}")
    client.kill()
    finish(client)
    assert wait_until(lambda: not is_alive(server), 10)
    brig.assert_nothing_is_left()


def test_closed_stdout_ends_it(brig):
    process = brig.start(verb="mcp", stdin=subprocess.PIPE)
    process.stdout.close()
    assert process.wait(10 * SLOW) == 0
    process.stdin.close()
    process.stderr.close()


# ---- the documentation -------------------------------------------------------------------------

def configurations():
    with open(os.path.join(ROOT, "docs", "AGENTS.md"), encoding="utf-8") as page:
        blocks = [json.loads(block.split("```")[0]) for block in page.read().split("```json")[1:]]
    return [server for block in blocks for key in ("mcpServers", "servers") for server in block.get(key, {}).values()]


def test_configurations_of_the_docs(connect, brig):
    """Each is started as it stands there, with folders that exist, and answers."""
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
    (["--tools", "-"], "not from stdin"), (["--tools", "/nonexistent"], "/nonexistent"), (["--nope"], "unknown option"),
    (["word"], "is no option"), (["--stdin", "x"], "each run has its own"), (["--memory", "0"], "--memory"),
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
