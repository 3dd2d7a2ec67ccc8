# SPDX-License-Identifier: MIT
"""brig.tool and brig.ToolHost: what an agent may call, and what it is told."""
import asyncio
import functools
import json
import os
import threading
import time
import typing

import guest_tools
import pytest
from conftest import system

import brig


plain = brig.tool(guest_tools.plain)


@pytest.fixture
def host(guest):
    with brig.ToolHost([plain], timeout=30 * system.SLOW, kill_after=0.1, **guest) as made:
        yield made


def test_review_p4_whole_numbers_of_json(guest):
    """JSON Schema's integer is any number without a fraction; the function gets an int."""
    def kinds(a: int, b: float, c: int | float, d: list[int], e: dict[str, int], f: int | None = None):
        return [repr(value) for value in (a, b, c, d, e, f)]
    with brig.ToolHost([kinds], timeout=30 * system.SLOW, **guest) as host:
        good = {"a": 1.0, "b": 1.0, "c": 2.0, "d": [3.0, 4], "e": {"x": 5.0}, "f": 1e3}
        answer = host.call("kinds", good)
        assert answer.output == ["1", "1.0", "2.0", "[3, 4]", "{'x': 5}", "1000"], answer
        for bad in (1.5, float("nan"), float("inf"), True):
            assert host.call("kinds", {**good, "a": bad}).denied


# ---- what there is ----


def test_marked_function_stays_a_function():
    @brig.tool(name="other.name", description="does it", timeout=5, memory="64M")
    def work(a: int):
        return a + 1
    assert work(1) == 2 and plain(2) == 4
    tool = brig.ToolHost([work]).get("other.name")
    assert (tool.description, tool.fn, tool.limits) == ("does it", work, {"timeout": 5, "memory": "64M"})


def test_schema_comes_from_the_signature():
    def work(text: str, count: int = 3, ratio: float | None = None, *, deep: dict[str, list[int]] = {}, kind: typing.Literal["a", "b"],
             any_thing=object(), pair: tuple[int, str] = (1, "x"), opt: typing.Optional[bool] = None, odd: threading.Event = None):
        """Works."""
    tool = brig.ToolHost([work]).list_tools()[0]
    assert tool.to_dict() == {"name": "work", "description": "Works.", "input_schema": {
        "type": "object", "required": ["text", "kind"], "additionalProperties": False, "properties": {
            "text": {"type": "string"},
            "count": {"type": "integer", "default": 3},
            "ratio": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None},
            "deep": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "integer"}}, "default": {}},
            "kind": {"enum": ["a", "b"]},
            "any_thing": {},
            "pair": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2},
            "opt": {"anyOf": [{"type": "boolean"}, {"type": "null"}], "default": None},
            "odd": {"default": None}}}}
    json.dumps(tool.to_dict())


def test_list_tools_by_a_text():
    host = brig.ToolHost([plain, guest_tools.double])
    assert [tool.name for tool in host.list_tools()] == ["plain", "double"]
    assert [tool.name for tool in host.list_tools("DOUBLES")] == ["plain"]
    assert host.list_tools()[0].description == "Doubles.\n\nA number, that is." and host.get("nope") is None


def test_what_is_no_tool_is_refused():
    def positional(a, /): ...
    def many(*args): ...
    for function, words in ((positional, "cannot be passed by name"), (many, "cannot be passed by name"), (lambda: 1, "'<lambda>' is not a tool name"),
                            (functools.partial(len), "is not a tool name")):
        with pytest.raises(brig.UsageError, match=words):
            brig.ToolHost([function])
    with pytest.raises(brig.UsageError, match="there already is a tool 'plain'"):
        brig.ToolHost([plain, plain])
    with pytest.raises(TypeError, match="int cannot be called"):
        brig.ToolHost([3])
    with pytest.raises(TypeError, match="'timeuot' is no setting of a run; did you mean timeout"):
        brig.tool(timeuot=3)
    with pytest.raises(TypeError, match="'network' is not a limit"):
        brig.tool(network="host")
    with pytest.raises(TypeError, match="memory: set these on the template"):
        brig.ToolHost(template=brig.Template(), memory="1G")


# ---- calls ----


def test_call_gives_a_result(host):
    answer = host.call("plain", {"n": 21}, call_id="c-7")
    assert (answer.call_id, answer.tool, answer.ok, answer.output, answer.error) == ("c-7", "plain", True, 42, None)
    assert answer.duration_ms > 0 and answer.result.ok and answer.kind is None and not answer.denied
    whole = json.loads(json.dumps(answer.to_dict()))
    assert whole["output"] == 42 and whole["result"]["schema"] == "brig.result/1"
    first, second = (asyncio.run(host.acall("plain", {"n": "a"})) for _ in range(2))
    assert first.output == "aa" and first.call_id != second.call_id
    assert json.dumps(host.call("plain", {"n": (1, b"x")}).to_dict()["output"])


@pytest.mark.parametrize("name, arguments, words", [
    ("nope", {}, "unknown tool: nope"),
    ("typed", {}, "typed: arguments: /count: is missing"),
    ("typed", {"count": "three"}, "typed: arguments: /count: 'three' is no whole number"),
    ("typed", {"count": True}, "typed: arguments: /count: True is no whole number"),
    ("typed", {"count": 1, "cuont": 2}, "typed: arguments: /cuont: no such parameter (there are: count, names, kind)"),
    ("typed", {"count": 1, "names": ["a", 2]}, "typed: arguments: /names/1: 2 is no text"),
    ("typed", {"count": 1, "kind": "c"}, "typed: arguments: /kind: 'c' is none of 'a', 'b'"),
    ("typed", [1], "typed: arguments: list is not an object"),
])
def test_arguments_that_do_not_fit_start_nothing(host, name, arguments, words):
    def typed(count: int, names: list[str] = [], kind: typing.Literal["a", "b"] = "a"): ...
    host.register(typed)
    answer = host.call(name, arguments)
    assert (answer.ok, answer.denied, answer.error, answer.reason, answer.result) == (False, True, words, words, None)
    assert asyncio.run(host.acall(name, arguments)).error == words


def test_case_28_crash_memory_hang_and_exit_are_named(host):
    def crash():
        os.kill(os.getpid(), 11)

    def leave():
        os._exit(3)

    def fail():
        raise ValueError("no such thing")

    @brig.tool(memory="64M")
    def greedy():
        return len(bytearray(1 << 30))

    @brig.tool(timeout=0.7 * system.SLOW)
    def hang():
        print("begun")
        time.sleep(300)
    names = ["crash", "leave", "fail", "greedy", "hang"]
    for function in (crash, leave, fail, greedy, hang):
        host.register(function)
    answers = [host.call(name) for name in names]
    assert [answer.kind for answer in answers] == ["signal", "exited", "raised", "memory_limit", "timeout"]
    words = ["SIGSEGV", "exited with 3", "ValueError: no such thing", "memory", "timeout"]
    for answer, text in zip(answers, words):
        assert not answer.ok and text in answer.error and not answer.denied
    assert answers[4].result.stdout == b"begun\n"


def test_secrets_of_a_tool_are_hidden(host):
    def leak():
        return "token=abcdefghijklmnop1234"
    host.register(leak)
    assert "abcdefghijklmnop" not in host.call("leak").output


def test_tools_on_a_template_that_is_given(guest):
    with brig.Template(labels={"of": "mine"}, **guest) as template:
        with brig.ToolHost([plain], template=template) as host:
            assert host.call("plain", {"n": 1}).result.labels == {"of": "mine"}
        with pytest.raises(brig.UsageError, match="closed"):
            host.call("plain", {"n": 1})
        assert template.call(plain, 1) == 2


# ---- watching ----


def test_watch_in_a_thread(host):
    host.register(guest_tools.talk)
    seen = []
    watch = host.watch()
    thread = threading.Thread(target=lambda: seen.extend(watch))
    thread.start()
    answer = host.call("talk", {"times": 3}, call_id="t")
    host.call("nope")
    host.close()
    thread.join(10)
    assert [event.type for event in seen if event.call_id == "t"][:2] == ["started", "stdout"]
    assert "".join(event.text for event in seen if event.type == "stdout") == "line 0\nline 1\nline 2\n"
    ends = [event for event in seen if event.type == "ended"]
    assert [(end.tool, end.result.ok) for end in ends] == [("talk", True), ("nope", False)] and ends[0].result == answer
    assert list(host.watch()) == []


def test_watch_in_an_event_loop_is_live(host):
    host.register(guest_tools.talk)

    async def main():
        order = []
        with host.watch() as watch:
            task = asyncio.create_task(host.acall("talk", {"times": 4}))
            async for event in watch:
                if event.type == "stdout":
                    order.append(task.done())
                if event.type == "ended":
                    break
            assert (await task).output == 4
        return order
    order = asyncio.run(main())
    assert order and not order[0], "the first line came before the end"


def test_slow_watcher_loses_the_oldest_and_is_told(host):
    from brig import _tool_watch
    watch = host.watch()
    event = brig.ToolEvent("c", "t", "stdout", brig.Event("stdout", 1, 0.0, b"x" * 1000))
    for _ in range(_tool_watch.QUEUE_BYTES // 1000 + 10):
        host._publish(event)
    first = next(watch)
    assert first.dropped >= 10 and watch._bytes <= _tool_watch.QUEUE_BYTES
    watch.close()
    assert len(list(watch)) == _tool_watch.QUEUE_BYTES // 1000 - 1


def test_case_37_a_fork_has_the_tools_and_not_those_who_watch(guest, script):
    done = script("""
import brig, os, sys, threading
def work(n: int):
    return n + 1
host = brig.ToolHost([work], env={"BRIG_TEST_TOKEN": sys.argv[1]})
watch = host.watch()
host._lock.acquire()            # as if another thread held it
pid = os.fork()
if pid == 0:
    os._exit(0 if host.call("work", {"n": 1}).output == 2 else 1)
host._lock.release()
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert host.call("work", {"n": 2}).output == 3
host.close()
assert [event.type for event in watch if event.type == "ended"] == ["ended"]
""", guest["env"]["BRIG_TEST_TOKEN"])
    assert done.returncode == 0 and not done.stderr, done.stderr
