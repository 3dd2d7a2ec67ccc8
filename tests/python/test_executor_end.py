# SPDX-License-Identifier: MIT
"""The end of calls and runs that were submitted: nothing of them is left. And Pool.submit(), map() and start()."""
import gc
import time
from concurrent.futures import CancelledError, wait

import pytest

import brig
from executor_functions import nap, square


def is_begun(future):
    until = time.monotonic() + 20
    while not (future.running() and future._raw):
        assert time.monotonic() < until
        time.sleep(0.01)
    return True


def test_cancel_ends_a_running_call(guest, alive):
    with brig.Executor(1, timeout=50, **guest) as executor:
        running, waiting = executor.submit(nap), executor.submit(square, 3)
        assert is_begun(running) and not waiting.running()
        before = alive()
        began = time.monotonic()
        assert running.cancel() and running.cancelled() and running.cancel()
        with pytest.raises(CancelledError):
            running.result()
        assert waiting.result(30) == 9
        assert wait([running], 30).done == {running} and time.monotonic() - began < 30
        assert before >= alive()


def test_shutdown_cancels_what_has_not_begun(guest):
    executor = brig.Executor(1, timeout=50, **guest)
    first = executor.submit(nap, 0.3)
    assert is_begun(first)
    others = [executor.submit(square, n) for n in range(3)]
    executor.shutdown(wait=False, cancel_futures=True)
    assert all(other.cancelled() for other in others)
    assert first.result(50) == 0.3
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(square, 1)
    executor.shutdown()  # the template is closed: the fixture looks


def test_an_executor_that_is_dropped(guest):
    future = brig.Executor(1, timeout=50, **guest).submit(square, 5)
    gc.collect()
    assert future.result(50) == 25


def test_a_template_of_the_caller(guest):
    with brig.Template(max_concurrent=3, timeout=50, **guest) as template:
        with brig.Executor(template=template) as executor:
            assert executor._max_workers == 3 and executor.submit(square, 4).result(50) == 16
        assert template.call(square, 5) == 25  # it is not closed
        with pytest.raises(TypeError, match="'memory' is a setting of the template"):
            brig.Executor(template=template, memory="1G")


def test_pool_submit_and_map(guest):
    pool = brig.Pool(2, timeout=50, **guest)
    futures = [pool.submit(["echo", str(n)]) for n in range(5)]
    assert [future.result(50).stdout for future in futures] == [b"%d\n" % n for n in range(5)]
    assert [result.stdout_text for result in pool.map(["echo a", ["echo", "b"]], check=True)] == ["a\n", "b\n"]
    assert pool.submit("cat; exit 3", input="in").result(50).exit_code == 3
    with pytest.raises(brig.RunFailed, match="exited with 3"):
        pool.submit("exit 3", check=True).result(50)
    with pytest.raises(brig.NotFoundError):
        pool.submit(["/no/such"]).result(50)
    with pytest.raises(TypeError, match="did you mean memory"):
        pool.submit("true", memroy=3)
    assert (pool.running, pool.waiting) == (0, 0) or wait_until_idle(pool)


def wait_until_idle(pool):
    until = time.monotonic() + 20
    while (pool.running, pool.waiting) != (0, 0):
        assert time.monotonic() < until
        time.sleep(0.01)
    return True


def test_pool_futures_wait_in_line_and_are_cancelled(guest, alive):
    pool = brig.Pool(1, timeout=50, **guest)
    first, second, third = (pool.submit("sleep 50") for _ in range(3))
    assert is_begun(first) and (pool.running, pool.waiting) == (1, 2)
    assert second.cancel() and pool.waiting == 1 and wait([second], 5).done
    assert first.cancel() and is_begun(third)
    pool.resize(2)
    assert pool.submit("true").result(50).ok
    assert third.cancel() and wait([first, third], 30).not_done == set()
    assert wait_until_idle(pool) and alive() == 0


def test_leaving_pool_map_ends_its_runs(guest, alive):
    pool = brig.Pool(2, timeout=50, **guest)
    taken = []

    def commands():
        for n in range(100):
            taken.append(n)
            yield "sleep 50" if n else "true"

    results = pool.map(commands())
    assert next(results).ok
    results.close()
    assert len(taken) <= 6 and wait_until_idle(pool) and alive() == 0


def test_pool_start_keeps_its_place(guest):
    pool = brig.Pool(1, timeout=50, **guest)
    with pool.start("echo up; sleep 50") as run:
        assert next(event.text for event in run if event.type == "stdout") == "up\n"
        assert pool.running == 1
    assert run.result.status == "cancelled" and wait_until_idle(pool)
    with pytest.raises(brig.NotFoundError):
        pool.start(["/no/such"])
    assert pool.running == 0
