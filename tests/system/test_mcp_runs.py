# SPDX-License-Identifier: MIT
"""brig mcp: runs that take long, their end, and clients that misbehave or die."""
import json
import os
import signal
import subprocess
import time

import pytest
from conftest import SLOW, WARM, finish, is_alive, start_time, wait_for_file, wait_until
from mcp_frame import client, connect, memory_of  # noqa: F401 (fixtures too)

pytestmark = pytest.mark.skipif(bool(WARM), reason="brig mcp has no --warm")


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
    assert "not an offset" in client.refusal("poll_run", run_id=run, since=9)
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
    assert "not an offset" in client.refusal("write_stdin", run_id=run, data="no", since=5)
    assert client.state("write_stdin", run_id=run, data="yes", close=True, wait_seconds=20)["stdout"] == "yes"
    assert client.state("run_command", command=["cat"], stdin="", stdin_open=False)["stdout"] == ""


def test_write_stdin_never_blocks_the_server(client):
    run = client.state("run_command", command="sleep 60", stdin_open=True, yield_seconds=0)["run_id"]
    for _ in range(10):
        result = client.call("write_stdin", run_id=run, data="x" * 200_000, wait_seconds=0)
        if result["isError"]:
            break
    assert "do not fit into" in result["content"][0]["text"]
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
