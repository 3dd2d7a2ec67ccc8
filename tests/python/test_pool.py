# SPDX-License-Identifier: MIT
"""brig.Pool: so many at once, in order, across threads and event loops."""
import asyncio
import threading
import time

import pytest
from conftest import system

import brig
from brig import _pool


class Gate:
    """Guests that wait for a file: the test says when they end."""

    def __init__(self, directory):
        self.directory = directory

    def command(self, name):
        return f"echo > {name}.in; until [ -e {name}.go ] || [ -e all.go ]; do sleep 0.02; done"

    def entered(self):
        return sorted(path.stem for path in self.directory.glob("*.in"))

    def open(self, name):
        (self.directory / f"{name}.go").touch()


@pytest.fixture
def gate(guest, tmp_path):
    gate = Gate(tmp_path)
    yield gate
    gate.open("all")


def background(function):
    thread = threading.Thread(target=function)
    thread.start()
    return thread


def test_at_most_so_many_in_order_across_threads_and_loops(guest, gate):
    pool = brig.Pool(2, **guest)
    threads = []
    for number in range(6):
        name = f"n{number}"
        if number % 2:
            threads.append(background(lambda n=name: asyncio.run(pool.arun(gate.command(n)))))
        else:
            threads.append(background(lambda n=name: pool.run(gate.command(n))))
        assert system.wait_until(lambda n=number: pool.running + pool.waiting == n + 1)
    for number in range(5):
        started = [f"n{i}" for i in range(min(number + 2, 6))]
        assert system.wait_until(lambda s=started: gate.entered() == s), gate.entered()
        assert pool.running == 2 if number < 5 else 1
        gate.open(f"n{number}")
    gate.open("all")
    for thread in threads:
        thread.join(10)
    assert pool.running == pool.waiting == 0


def test_case_24_waiting_does_not_count_against_the_timeout(guest):
    pool = brig.Pool(1, timeout=1.0, **guest)
    results = []
    threads = [background(lambda: results.append(pool.run("sleep 0.6"))) for _ in range(4)]
    for thread in threads:
        thread.join()
    assert [result.status for result in results] == ["exited"] * 4


def test_case_36_a_thousand_queued_fifty_cancelled(guest):
    """Never more than four at once, those who were cancelled never start, all others run."""
    pool = brig.Pool(4)
    most, running, order = 0, 0, []

    async def fake_run(cmd, **_):
        nonlocal most, running
        running += 1
        most = max(most, running)
        order.append(cmd)
        await asyncio.sleep(0.0005)
        running -= 1

    async def main():
        tasks = [asyncio.create_task(pool.arun(number)) for number in range(1000)]
        await asyncio.sleep(0)
        assert pool.running == 4 and pool.waiting == 996
        cancelled = set(range(100, 1000, 18))
        assert len(cancelled) == 50
        for number in cancelled:
            tasks[number].cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert {i for i, what in enumerate(done) if isinstance(what, asyncio.CancelledError)} == cancelled
        assert order == [number for number in range(1000) if number not in cancelled]
    real, brig.aio.run = brig.aio.run, fake_run
    try:
        asyncio.run(main())
    finally:
        brig.aio.run = real
    assert most == 4 and pool.running == pool.waiting == 0


def test_case_36_resize_takes_effect(guest, gate):
    pool = brig.Pool(1, **guest)
    threads = [background(lambda n=i: pool.run(gate.command(f"n{n}"))) for i in range(4)]
    assert system.wait_until(lambda: len(gate.entered()) == 1 and pool.waiting == 3)
    pool.resize(3)
    assert system.wait_until(lambda: len(gate.entered()) == 3) and pool.max_concurrent == 3
    pool.resize(1)
    for name in gate.entered()[:2]:
        gate.open(name)
    assert system.wait_until(lambda: pool.running == 1)
    time.sleep(0.1)
    assert pool.waiting == 1, "none starts before one has ended"
    gate.open("all")
    for thread in threads:
        thread.join(10)
    for wrong in (0, -1):
        with pytest.raises(ValueError):
            pool.resize(wrong)
    for wrong in (True, 1.5, "4"):
        with pytest.raises(TypeError):
            pool.resize(wrong)


def test_cancelled_while_waiting_gives_the_place_on(guest, gate):
    pool = brig.Pool(1, **guest)

    async def main():
        first = asyncio.create_task(pool.arun(gate.command("first")))
        while gate.entered() != ["first"]:
            await asyncio.sleep(0.01)
        second = asyncio.create_task(pool.arun(gate.command("second")))
        third = asyncio.create_task(pool.arun(gate.command("third")))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        gate.open("all")
        await asyncio.gather(first, third)
        assert gate.entered() == ["first", "third"]
    asyncio.run(main())
    assert pool.running == pool.waiting == 0


def test_cancelled_while_it_runs_gives_the_place_on(guest, alive):
    pool = brig.Pool(1, **guest)

    async def main():
        first = asyncio.create_task(pool.arun("sleep 300"))
        while not alive():
            await asyncio.sleep(0.01)
        second = asyncio.create_task(pool.arun("echo second"))
        first.cancel()
        assert (await second).stdout == b"second\n"
        assert first.cancelled()
    asyncio.run(main())


def test_a_closed_loop_does_not_keep_its_place(guest, gate):
    pool = brig.Pool(1, **guest)
    thread = background(lambda: pool.run(gate.command("first")))
    assert system.wait_until(lambda: gate.entered() == ["first"])
    loop = asyncio.new_event_loop()
    coroutine = pool.arun("true")
    task = loop.create_task(coroutine)
    loop.run_until_complete(asyncio.sleep(0))
    assert pool.waiting == 1
    task._log_destroy_pending = False
    loop.close()
    gate.open("all")
    thread.join(10)
    assert pool.run("true").ok
    del task, coroutine


def test_faults_give_the_place_back(guest):
    pool = brig.Pool(1, memory="64M", **guest)
    for _ in range(3):
        with pytest.raises(brig.NotFoundError):
            pool.run(["/no/such"])
        with pytest.raises(TypeError):
            pool.run("true", memroy=1)
    assert pool.run("true", timeout=5).limits.memory_bytes == 64 << 20
    with pytest.raises(TypeError, match="memroy"):
        brig.Pool(1, memroy=1)


def test_warm(guest, tmp_path):
    with brig.Pool(2, warm=2, memory="128M", cwd=tmp_path, **guest) as pool:
        assert system.wait_until(lambda: pool.warm_ready == 2)
        result = pool.run("echo $BRIG_TEST_TOKEN")
        assert result.isolation.warm and result.stdout_text.strip() == guest["env"]["BRIG_TEST_TOKEN"]
        assert not pool.run("true", memory="64M").isolation.warm
    assert pool.warm_ready == 0 and pool.run("true").ok
    for wrong, kind in ((-1, ValueError), (1.5, TypeError), (1000, brig.Error)):
        with pytest.raises(kind):
            brig.Pool(1, warm=wrong)



def test_what_an_exception_of_a_signal_handler_interrupted_is_done_by_the_next_one():
    """A place was given, and whom it was given to is not told, or is still in line."""
    pool = brig.Pool(1)
    told = []
    first, second = _pool._Waiter(lambda: told.append(1)), _pool._Waiter(lambda: told.append(2))
    with pool._place():
        assert not pool._join(first) and not pool._join(second)
    assert told == [1] and (pool.running, pool.waiting) == (1, 1)
    pool._running, second.granted = pool._running + 1, True  # and there it was interrupted
    pool._leave(first)
    assert told == [1, 2] and (pool.running, pool.waiting) == (1, 0)
    pool._leave(second)
    pool._leave(second)
    assert (pool.running, pool.waiting) == (0, 0)
