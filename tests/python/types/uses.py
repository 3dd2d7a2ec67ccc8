# SPDX-License-Identifier: MIT
"""Right and wrong uses of the package, read by mypy --strict and by pyright (test_types.py) and never run.

A checker has to object to each line with the comment "# wrong", and to no other.
"""
import dataclasses
import functools
import os
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Callable, assert_type

import brig

anything: dict[str, Any] = {"memory": 3}
settings: brig.Settings = {"memory": "1G", "network": "host"}
mistyped: brig.Settings = {"memroy": "1G"}  # wrong


# ---- keywords of a run ----

assert_type(brig.run("true", memory="1G", timeout=timedelta(seconds=3), check=True), brig.Result)
brig.run(["true", Path("/etc")], memory=1 << 30, cpus=0.5, pids=5, env={"A": "b", "N": 3, "HOME": None}, cwd=Path("/tmp"))
brig.run("true", ro=["/a", ("/b", "/c"), ("/d", None)], rw={"/a": "/b"}, tmpfs=[("/t", "1M"), "/u"], labels={"n": 3})
brig.run("true", network="host", redact=True, channel="on", require=["seccomp"], input=b"x", capture=False)
brig.run("true", **anything)
brig.run("true", **settings)
brig.run("true", memroy=3)  # wrong
brig.run("true", memory=[])  # wrong
brig.run("true", timeout=b"3")  # wrong
brig.run("true", network="hosts")  # wrong
brig.run("true", env=["A=b"])  # wrong
brig.run("true", ro=3)  # wrong
brig.run("true", pids=0.5)  # wrong
brig.run("true", view=True)  # wrong
brig.run(3)  # wrong
brig.run()  # wrong
assert_type(brig.start("true", memory="1G"), brig.Run)
brig.start("true", memroy=3)  # wrong
brig.start("true", check=True)  # wrong

pool = brig.Pool(4, warm=2, memory="1G", check=True)


async def in_a_loop() -> None:
    assert_type(await brig.aio.run("true", memory="1G", check=True), brig.Result)
    assert_type(await brig.aio.start("true", cpu_time=3), brig.aio.Run)
    await brig.aio.run("true", memroy=3)  # wrong
    await brig.aio.start("true", memory=[])  # wrong
    assert_type(await pool.arun("true", timeout="3s"), brig.Result)
    await pool.arun("true", timeuot=3)  # wrong


assert_type(pool.run("true", memory=3), brig.Result)
brig.Pool("4")  # wrong
brig.Pool(memroy=3)  # wrong
pool.run("true", memroy=3)  # wrong
assert_type(pool.submit("true", memory=3).result(), brig.Result)
pool.submit("true", memroy=3)  # wrong
assert_type(pool.map(["true", ["false"]], timeout=3), Iterator[brig.Result])
pool.map(["true"], timeuot=3)  # wrong
pool.map([3])  # wrong
pool.start("true", capture=False)
pool.start("true", check=True)  # wrong
executor = brig.Executor(4, cold=True, memory="1G", types=[dict])
assert_type(executor.submit(len, "abc").result(), int)
brig.Executor(memroy=3)  # wrong
brig.Executor(max_concurrent=3)  # wrong


# ---- calls ----


def work(number: int, *, z: str = "") -> float:
    return number / len(z)


async def fetch(url: str) -> bytes:
    return url.encode()


class Sub(brig.Template):
    pass


@dataclasses.dataclass
class Point:
    x: int

    def plus(self, more: int) -> int:
        return self.x + more


template = brig.Template(["json"], max_concurrent=3, paths=["/a", Path("/b")], memory="1G", timeout=3)
assert_type(template, brig.Template)
brig.Template(preload=3)  # wrong
brig.Template(memroy=3)  # wrong
brig.Template(memory=[])  # wrong
brig.Template(stdin="/dev/null")  # wrong
brig.Template(check=True)  # wrong
Sub(memroy=3)  # wrong
assert_type(template.with_limits(memory="1G", labels={"a": "b"}), brig.Template)
template.with_limits(network="host")  # wrong

assert_type(template.call(work, 3, z="a"), float)
assert_type(template.call(fetch, "http://"), bytes)
assert_type(template.call(len, [1, 2]), int)
assert_type(template.call(os.path.exists, "/"), bool)
assert_type(template.call(lambda: 3), int)
template.call(lambda x: x + 1, 3)
assert_type(template.call(functools.partial(work, 3), z="a"), float)
assert_type(template.call(Point, 3), Point)
assert_type(template.call(Point(3).plus, 3), int)
template.call(Point, "3")  # wrong
template.call(Point(3).plus, "3")  # wrong
unknown: Callable[..., Any] = len
template.call(unknown, 3, z=4)
template.call(work, "wrong", z=3)  # wrong
template.call(work, "wrong")  # wrong
template.call(work, 3, z=3)  # wrong
template.call(work, 3, y="a")  # wrong
template.call(work)  # wrong
template.call(3)  # wrong
template.call(fetch, 3)  # wrong

outcome: brig.Outcome = template.try_call(work, 3)
assert_type(template.try_call(work, 3).check(), float)
assert_type(template.try_call(fetch, "x").check(), bytes)
template.try_call(work, "wrong", z=3)  # wrong
call: brig.Call = template.start(work, 3)
assert_type(template.start(work, 3).value(5), float)
assert_type(template.start(work, 3).outcome().check(), float)
template.start(work, "wrong", z=3)  # wrong


async def calls() -> None:
    assert_type(await template.acall(work, 3, z="a"), float)
    assert_type(await template.acall(fetch, "a"), bytes)
    assert_type((await template.atry_call(work, 3)).check(), float)
    await template.acall(work, "wrong", z=3)  # wrong
    await template.atry_call(work, "wrong", z=3)  # wrong
    squares: AsyncIterator[float] = template.amap(work, range(3))
    async for square in squares:
        assert_type(square, float)
    template.amap(work, ["a"])  # wrong


values: Iterator[float] = template.map(work, range(3))
assert_type([one.check() for one in template.map(work, range(3), outcomes=True)], list[float])
template.map(lambda a, b: a + b, [1], [2])
template.map(work, ["a"])  # wrong


# ---- tools ----


@brig.tool
def plain(text: str) -> int:
    return len(text)


@brig.tool(name="other", timeout=5, memory="1G")
def limited(text: str) -> int:
    return len(text)


assert_type(plain("a"), int)
assert_type(limited("a"), int)
plain(3)  # wrong
limited(3)  # wrong
brig.tool(timeuot=3)  # wrong
brig.tool(network="host")  # wrong
brig.ToolHost([plain, limited], memory="1G", preload=["json"], redact=False)
brig.ToolHost(template=template)
brig.ToolHost([plain], memroy=3)  # wrong
