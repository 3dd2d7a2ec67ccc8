# SPDX-License-Identifier: MIT
"""A client of `brig mcp` that speaks in raw lines."""
import json
import os
import queue
import subprocess
import threading

import pytest
from conftest import ROOT, SLOW

EXAMPLES = os.path.join(ROOT, "examples", "tools")
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
