# SPDX-License-Identifier: MIT
"""brig.dropin.loomflow: each test cites its row of the request."""
import asyncio
import inspect
import os
import threading
import time
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from signal import Signals
from uuid import UUID

import anyio
import guest_tools
import pytest
import trio
from conftest import PACKAGE, system

import brig
from brig.dropin import loomflow
from brig.dropin.loomflow import ConfigError, LoomError, SubprocessSandbox, ToolResult


class Tool:
    def __init__(self, fn):
        self.name, self.fn = fn.__name__, fn


class InProcessToolHost:
    """As much of the original as the sandbox sees."""

    def __init__(self, *functions):
        self._tools = {function.__name__: Tool(function) for function in functions}

    def get(self, name):
        return self._tools.get(name)

    async def list_tools(self, *, query=None):
        return [name for name in self._tools if not query or query in name]

    async def watch(self):
        for name in self._tools:
            yield name


@pytest.fixture(autouse=True)
def settings(guest, monkeypatch):
    monkeypatch.setitem(loomflow.SETTINGS, "env", guest["env"])


def call(function, args=None, timeout=30.0 * system.SLOW, **more):
    sandbox = SubprocessSandbox(InProcessToolHost(function), timeout_seconds=timeout)
    return asyncio.run(sandbox.call(function.__name__, args or {}, **more))


def test_row_constructor():
    """SubprocessSandbox(inner, *, timeout_seconds=30.0); properties inner, timeout_seconds"""
    parameters = inspect.signature(SubprocessSandbox).parameters
    assert list(parameters) == ["inner", "timeout_seconds"] and parameters["timeout_seconds"].default == 30.0
    assert parameters["timeout_seconds"].kind is inspect.Parameter.KEYWORD_ONLY
    host = InProcessToolHost()
    sandbox = SubprocessSandbox(host, timeout_seconds=2.5)
    assert sandbox.inner is host and sandbox.timeout_seconds == 2.5
    with pytest.raises(AttributeError):
        sandbox.inner = None


@pytest.mark.parametrize("seconds", [0, -1, -0.5])
def test_row_timeout_must_be_positive(seconds):
    """<= 0: ValueError "timeout_seconds must be positive" """
    with pytest.raises(ValueError, match="^timeout_seconds must be positive$"):
        SubprocessSandbox(InProcessToolHost(), timeout_seconds=seconds)


@pytest.mark.parametrize("inner, name", [(object(), "object"), (None, "NoneType"), ({}, "dict")])
def test_row_inner_without_callables(inner, name):
    """inner without callables: ConfigError "SubprocessSandbox wraps InProcessToolHost only ... Got X." """
    with pytest.raises(ConfigError) as caught:
        SubprocessSandbox(inner)
    assert str(caught.value) == (
        "SubprocessSandbox wraps InProcessToolHost only (it needs access to the registered Tool.fn callable). "
        f"Got {name}.")


def test_row_tool_result():
    """ToolResult {call_id, ok, output, error, denied, reason, duration_ms, started_at}; success, error_, denied_"""
    assert list(inspect.signature(ToolResult).parameters) == [
        "call_id", "ok", "output", "error", "denied", "reason", "duration_ms", "started_at"]
    good, bad = ToolResult.success("a", 1), ToolResult.error_("b", "oh", duration_ms=2.0)
    no = ToolResult.denied_(call_id="c", reason="not here")
    assert (good.call_id, good.ok, good.output, good.error, good.denied) == ("a", True, 1, None, False)
    assert (bad.ok, bad.error, bad.duration_ms) == (False, "oh", 2.0)
    assert (no.ok, no.denied, no.reason, no.error) == (False, True, "not here", None)
    assert isinstance(good.started_at, datetime)


def test_row_call_gives_a_tool_result():
    """await call(tool, args, *, call_id="") -> ToolResult"""
    before = datetime.now(timezone.utc)
    result = call(guest_tools.double, {"n": 4}, call_id="c-1")
    assert result.ok and result.output == (8, 1, "guest_tools") and result.error is None and result.call_id == "c-1"
    assert result.duration_ms > 0 and before <= result.started_at <= datetime.now(timezone.utc)
    parameters = inspect.signature(SubprocessSandbox.call).parameters
    assert list(parameters) == ["self", "tool", "args", "call_id"] and parameters["call_id"].default == ""


def test_row_watch_and_list_tools_pass_through():
    """watch() and list_tools(query=None) pass through"""
    async def main():
        sandbox = SubprocessSandbox(InProcessToolHost(len, print))
        events = [event async for event in sandbox.watch()]
        return events, await sandbox.list_tools(), await sandbox.list_tools(query="pri")
    assert asyncio.run(main()) == (["len", "print"], ["len", "print"], ["print"])


def test_row_host_is_found_by_shape(guest):
    """The host is found by shape: brig's own ToolHost is one"""
    async def main():
        sandbox = SubprocessSandbox(brig.ToolHost([guest_tools.double]))
        assert [tool.name for tool in await sandbox.list_tools()] == ["double"]
        return (await sandbox.call("double", {"n": 1})).output
    assert asyncio.run(main()) == (2, 1, "guest_tools")


def test_row_unknown_tool():
    """ "unknown tool: T" """
    result = asyncio.run(SubprocessSandbox(InProcessToolHost()).call("nope", {}, call_id="x"))
    assert (result.ok, result.error, result.call_id) == (False, "unknown tool: nope", "x")


def test_row_timeout(alive):
    """ "SubprocessSandbox: tool exceeded 30.0s"; SIGTERM, 1 s, SIGKILL """
    def hang():
        import signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            time.sleep(1)
    assert loomflow.SETTINGS["kill_after"] == 1
    began = time.monotonic()
    result = call(hang, timeout=0.5)
    assert result.error == "SubprocessSandbox: tool exceeded 0.5s" and not result.ok
    assert 1 < time.monotonic() - began < 4 * system.SLOW and alive() == 0


def test_row_raised():
    """ "SubprocessSandbox: tool raised Type: text" """
    def fail(kind):
        if kind == "exit":
            raise SystemExit(3)
        raise {"value": ValueError("bad"), "bare": KeyError()}[kind]
    errors = [call(fail, {"kind": kind}).error for kind in ("value", "bare", "exit")]
    assert errors == [f"SubprocessSandbox: tool raised {text}" for text in (
        "ValueError: bad", "KeyError: ", "SystemExit: the function called sys.exit(3)")]
    assert call(fail, {"kid": "value"}).error.startswith("SubprocessSandbox: tool raised TypeError: ")


def test_row_no_result_names_the_cause():
    """ "SubprocessSandbox: subprocess exited without producing a result" (followed by the cause) """
    def end(how):
        if how == "signal":
            os.kill(os.getpid(), 11)
        if how == "memory":
            return len(bytearray(1 << 30))
        if how == "object":
            return object()
        os._exit(3)
    loomflow.SETTINGS["memory"] = "64M"
    try:
        errors = [call(end, {"how": how}).error for how in ("signal", "exit", "memory", "object")]
    finally:
        del loomflow.SETTINGS["memory"]
    start = "SubprocessSandbox: subprocess exited without producing a result: "
    for error, cause in zip(errors, ("SIGSEGV", "exited with 3", "memory", "object is not among the types")):
        assert error.startswith(start) and cause in error


def test_row_not_picklable():
    """ "SubprocessSandbox: tool 'T' or its arguments are not picklable (…). Use a module-level ..." """
    lock = threading.Lock()

    def held():
        return lock
    error = call(held).error
    assert error.startswith("SubprocessSandbox: tool 'held' or its arguments are not picklable (the variable 'lock' of ")
    assert error.endswith("). Use a module-level function and primitive args.")
    assert "argument 'n'" in call(guest_tools.double, {"n": lock}).error


def test_row_coroutines():
    """Sync functions and coroutines"""
    async def later(n):
        await asyncio.sleep(0.01)
        return n + 1
    assert call(later, {"n": 1}).output == 2


def test_row_files_of_the_caller_are_not_there(tmp_path):
    """A tool sees the directories that it can import from, read-only, and no other files"""
    (tmp_path / "note").write_text("of the caller")

    def look(path, package):
        return os.path.exists(path), os.access(package, os.W_OK)
    assert call(look, {"path": str(tmp_path / "note"), "package": PACKAGE}).output == (False, False)


def test_row_cancelled_call_leaves_nothing(alive, monkeypatch):
    """A crash never reaches the caller, and nothing of a cancelled call is left"""
    def wait(seconds):
        time.sleep(seconds)
    monkeypatch.setitem(loomflow.SETTINGS, "parked", 0)  # so that only the call itself comes and goes

    async def main():
        sandbox = SubprocessSandbox(InProcessToolHost(wait))
        assert (await sandbox.call("wait", {"seconds": 0})).ok
        before = alive()
        task = asyncio.create_task(sandbox.call("wait", {"seconds": 300}))
        while alive() == before:
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert alive() == before
    asyncio.run(main())


# ---- the review ----


def test_review_n1_tool_result_has_the_methods_of_a_model():
    result = ToolResult.success("c-1", (1, 2), duration_ms=3)
    assert result.model_dump() == {
        "call_id": "c-1", "ok": True, "output": (1, 2), "error": None, "denied": False, "reason": None, "duration_ms": 3,
        "started_at": result.started_at}
    assert ToolResult.model_validate_json(result.model_dump_json()).started_at == result.started_at
    assert ToolResult.model_validate(result.model_dump(exclude={"output"}, exclude_none=True)).output is None
    assert result.model_copy(update={"ok": False}).ok is False
    for bad in ({"call_id": 1, "ok": True}, {"call_id": "c", "ok": "maybe"}, {"call_id": "c"}, [],
                {"call_id": "c", "ok": True, "started_at": "noon"}, {"call_id": "c", "ok": True, "error": 7}):
        with pytest.raises(ValueError):
            ToolResult.model_validate(bad)
    assert issubclass(ConfigError, LoomError)


ORIGINAL = """
import asyncio
from loomflow.core.errors import ConfigError, LoomError
from loomflow.core.types import ToolResult
from brig.dropin import loomflow

assert (loomflow.ToolResult, loomflow.ConfigError, loomflow.LoomError) == (ToolResult, ConfigError, LoomError)
class Tool:
    fn = staticmethod(len)
class Host:
    def get(self, name):
        return Tool() if name == "len" else None
try:
    loomflow.SubprocessSandbox(object())
except LoomError as error:
    assert type(error) is ConfigError
sandbox = loomflow.SubprocessSandbox(Host())
for name in ("len", "nope"):
    assert type(asyncio.run(sandbox.call(name, {"obj": 1}))) is ToolResult
"""


def test_review_n1_an_installed_original_s_classes_are_used(guest, script, tmp_path):
    package = tmp_path / "original" / "loomflow" / "core"
    package.mkdir(parents=True)
    (package / "errors.py").write_text("class LoomError(Exception): pass\nclass ConfigError(LoomError): pass\n")
    (package / "types.py").write_text(inspect.cleandoc("""
        class ToolResult:
            @classmethod
            def make(cls, *args, **more):
                return cls()
            success = error_ = denied_ = make
    """))
    done = script(ORIGINAL, more={"PYTHONPATH": f"{PACKAGE}:{tmp_path / 'original'}"}.items())
    assert done.returncode == 0, done.stderr


def wait_long(seconds):
    time.sleep(seconds)
    return "slept"


RUNS = {"trio": trio.run, "anyio on trio": lambda main: anyio.run(main, backend="trio"),
        "anyio on asyncio": lambda main: anyio.run(main, backend="asyncio")}


@pytest.mark.filterwarnings("ignore:trio.MultiError is deprecated")  # Debian's anyio 3.6 with its trio 0.22
@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_review_n4_other_loops(run):
    async def later(n):
        await asyncio.sleep(0.01)
        return n + 1

    def fail():
        raise ValueError("bad")

    async def main():
        sandbox = SubprocessSandbox(InProcessToolHost(guest_tools.double, later, fail), timeout_seconds=30.0 * system.SLOW)
        assert await sandbox.list_tools() == ["double", "later", "fail"]
        return [await sandbox.call(*one) for one in (
            ("double", {"n": 4}), ("later", {"n": 1}), ("fail", {}), ("nope", {}), ("double", {"n": threading.Lock()}))]
    double, later_, failed, unknown, lock = run(main)
    assert double.output == (8, 1, "guest_tools") and later_.output == 2
    assert failed.error == "SubprocessSandbox: tool raised ValueError: bad" and unknown.error == "unknown tool: nope"
    assert "not picklable" in lock.error


def test_review_n4_timeout_and_parallel_calls_in_trio(alive):
    results = {}

    async def main():
        slow = SubprocessSandbox(InProcessToolHost(wait_long), timeout_seconds=0.5)
        fast = SubprocessSandbox(InProcessToolHost(wait_long), timeout_seconds=30.0 * system.SLOW)

        async def one(name, sandbox, seconds):
            results[name] = await sandbox.call("wait_long", {"seconds": seconds})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one, "slow", slow, 60)
            for n in range(3):
                nursery.start_soon(one, n, fast, 0.1)
    trio.run(main)
    assert results.pop("slow").error == "SubprocessSandbox: tool exceeded 0.5s"
    assert [result.output for result in results.values()] == ["slept"] * 3


def test_review_n4_cancelled_call_in_trio_leaves_nothing(alive, monkeypatch):
    monkeypatch.setitem(loomflow.SETTINGS, "parked", 0)

    async def main():
        sandbox = SubprocessSandbox(InProcessToolHost(wait_long))
        assert (await sandbox.call("wait_long", {"seconds": 0})).ok
        before = alive()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sandbox.call, "wait_long", {"seconds": 300})
            while alive() == before:
                await trio.sleep(0.02)
            nursery.cancel_scope.cancel()
        assert alive() == before
    trio.run(main)


@pytest.mark.parametrize("value", [
    datetime(2026, 1, 2, tzinfo=timezone.utc), {(1, 2): {3}}, b"raw", 2**200, [1.5, None, "x"], Path("a/b"), Decimal("1.10"),
    UUID(int=7), Signals.SIGTERM, guest_tools.Point(1, "x")], ids=repr)
def test_review_n4_values_arrive_as_they_are(value):
    def give():
        return value
    assert call(give).output == value


def test_review_n4_models_arrive_if_their_class_is_named(monkeypatch):
    def give():
        return guest_tools.person("a")
    answer = call(give)
    assert not answer.ok and "Template(types=[Person])" in answer.error
    monkeypatch.setitem(loomflow.SETTINGS, "types", [guest_tools.Person])
    assert call(give).output == guest_tools.Person(name="a")
