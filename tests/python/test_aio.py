# SPDX-License-Identifier: MIT
"""brig.aio: runs in event loops."""
import asyncio
import os
import threading
import time

import pytest
from conftest import system

import brig


def test_run(guest):
    result = asyncio.run(brig.aio.run("cat; exit 3", input="x", **guest))
    assert (result.stdout, result.exit_code) == (b"x", 3)


def test_check_and_errors(guest):
    with pytest.raises(brig.RunFailed):
        asyncio.run(brig.aio.run("exit 3", check=True, **guest))
    with pytest.raises(brig.NotFoundError):
        asyncio.run(brig.aio.run(["/no/such"], **guest))
    with pytest.raises(TypeError, match="memroy"):
        asyncio.run(brig.aio.run("true", memroy=1))


def test_runs_beside_each_other_without_threads(guest):
    async def main():
        before = threading.active_count()
        many = asyncio.gather(*(brig.aio.run("sleep 0.5", **guest) for _ in range(8)))
        await asyncio.sleep(0.2)
        assert threading.active_count() <= before + 1  # the one that starts them all
        return await many
    began = time.monotonic()
    assert all(result.ok for result in asyncio.run(main()))
    assert time.monotonic() - began < 3 * system.SLOW


def test_events(guest):
    async def main():
        events = []
        async with await brig.aio.start("echo a; sleep 0.1; echo b; exit 3", **guest) as run:
            async for event in run:
                events.append(event)
            assert (await run.wait()).exit_code == 3 and run.result is events[-1].result
        return events
    events = asyncio.run(main())
    assert "".join(event.text for event in events) == "a\nb\n" and events[-1].type == "ended"


def test_events_of_a_handle_of_start(guest):
    """What brig.start() gave can be iterated in a loop as well, also by two at once."""
    async def texts(run):
        return "".join([event.text async for event in run])

    async def main():
        run = brig.start("echo a; sleep 0.1; echo b; sleep 0.1; echo c", **guest)
        assert await texts(run) == "a\nb\nc\n" and await texts(run) == ""
        run = brig.start("echo a; sleep 0.1; echo b", **guest)
        both = await asyncio.gather(texts(run), texts(run))
        assert sorted("".join(both)) == ["\n", "\n", "a", "b"] and run.wait(1).ok
    asyncio.run(main())


STUBBORN = "trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 300' & echo up > up; while :; do sleep 300; done"


def test_cancelled_task_kills_the_tree_first(guest, alive):
    async def main():
        task = asyncio.create_task(brig.aio.run(STUBBORN, kill_after=0.2, **guest))
        while alive() < 2 or not os.path.exists("up"):  # it ignores SIGTERM by then
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert alive() == 0
    asyncio.run(main())


def test_cancelled_twice_is_killed_at_once(guest, alive):
    async def main():
        task = asyncio.create_task(brig.aio.run(STUBBORN, kill_after=60, **guest))
        while alive() < 2 or not os.path.exists("up"):  # it ignores SIGTERM by then
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.sleep(0.1)
        assert alive() > 0 and not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)
        assert alive() == 0
    asyncio.run(main())


def test_asyncio_timeout_around_it(guest, alive):
    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await brig.aio.run("sleep 300", **guest)
        assert alive() == 0
    asyncio.run(main())


def test_wait_with_a_timeout_and_cancel(guest, alive):
    async def main():
        run = await brig.aio.start("sleep 300", **guest)
        with pytest.raises(TimeoutError):
            await run.wait(0.05)
        assert run.result is None and alive() > 0
        run.cancel("enough")
        result = await run.wait(5)
        assert result.status == "cancelled" and "enough" in result.notes
    asyncio.run(main())


def test_with_ends_it_after_an_exception(guest, alive):
    async def main():
        with pytest.raises(KeyError):
            async with await brig.aio.start("sleep 300", **guest) as run:
                raise KeyError
        assert alive() == 0 and run.result.status == "cancelled"
    asyncio.run(main())


def test_loop_that_ends_with_a_run_on_its_way(guest, alive, script):
    token = guest["env"]["BRIG_TEST_TOKEN"]
    done = script(f"""
import asyncio, brig
async def main():
    await brig.aio.start("sleep 300", env={{"BRIG_TEST_TOKEN": "{token}"}})
asyncio.run(main())
""")
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert alive() == 0


def test_a_run_belongs_to_its_loop(guest):
    async def begin():
        return await brig.aio.start("sleep 0.2", **guest)

    async def use(run):
        with pytest.raises(RuntimeError, match="another event loop"):
            await run.wait()
    one, two = asyncio.new_event_loop(), asyncio.new_event_loop()
    run = one.run_until_complete(begin())
    two.run_until_complete(use(run))
    assert one.run_until_complete(run.wait()).ok
    one.close()
    two.close()


def test_case_37_two_event_loops_in_two_threads(guest):
    """Both start, watch and cancel runs at the same time, and a third thread runs without a loop."""
    problems = []

    async def work(name):
        for number in range(4):
            text = f"{name}-{number}"
            results = await asyncio.gather(*(brig.aio.run(["echo", text], **guest) for _ in range(3)))
            assert all(result.stdout_text == text + "\n" for result in results)
            async with await brig.aio.start("echo up; sleep 300", **guest) as run:
                async for event in run:
                    if event.type == "stdout":
                        run.cancel()
            assert run.result.status == "cancelled"

    def guarded(function):
        try:
            function()
        except BaseException as error:
            problems.append(error)
    threads = [threading.Thread(target=guarded, args=(lambda n=name: asyncio.run(work(n)),)) for name in "ab"]
    threads.append(threading.Thread(target=guarded, args=(
        lambda: [brig.run("true", check=True, **guest) for _ in range(10)],)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not problems
