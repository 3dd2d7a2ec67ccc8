# SPDX-License-Identifier: MIT
"""Executor: programs for ProcessPoolExecutor, with one line changed. What its end leaves is in test_executor_end.py."""
import asyncio
import concurrent.futures
import functools
import os
import sys
import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, as_completed, wait

import pytest

import brig
import executor_functions
from executor_functions import fail, get_settings, grow, nap, set_up, square

QUIET = {"timeout": 50, "memory": "128M"}


@pytest.fixture(scope="module")
def executor():
    with brig.Executor(2, **QUIET) as made:
        yield made


@pytest.fixture(scope="module")
def cold():
    with brig.Executor(2, cold=True, **QUIET) as made:
        yield made


@pytest.fixture(params=["forked", "cold"])
def either(request, executor, cold):
    return executor if request.param == "forked" else cold


def is_begun(future):
    until = time.monotonic() + 20
    while not (future.running() and future._raw):
        assert time.monotonic() < until
        time.sleep(0.01)
    return True


# ---- as ProcessPoolExecutor ----


def program(make):
    """A program for any executor: what it computes."""
    said = []
    with make(max_workers=2) as pool:
        futures = {pool.submit(pow, n, 2): n for n in range(6)}
        said.append(sorted((futures[one], one.result()) for one in as_completed(futures, timeout=50)))
        said.append(list(pool.map(divmod, range(10, 15), [3] * 5)))
        said.append(list(pool.map(abs, range(-7, 0), chunksize=3)))
        done, left = wait([pool.submit(len, "abc"), pool.submit(int, "ten")], timeout=50)
        said.append((len(done), len(left), sorted(type(one.exception()).__name__ for one in done)))
    for call in (lambda: pool.submit(len, ""), lambda: pool.map(len, [""])):
        try:
            call()
        except RuntimeError as error:
            said.append(str(error))
    return said


def test_one_line_changes():
    mine, theirs = program(functools.partial(brig.Executor, **QUIET)), program(ProcessPoolExecutor)
    assert mine[3] == (2, 0, ["GuestError", "NoneType"]) and theirs[3] == (2, 0, ["NoneType", "ValueError"])
    del mine[3], theirs[3]
    assert mine == theirs


def test_calls_and_their_exceptions(either):
    assert isinstance(either, concurrent.futures.Executor)
    future = either.submit(square, 12)
    assert isinstance(future, Future) and future.result(50) == 144 and future.done() and not future.cancelled()
    with pytest.raises(brig.GuestError, match="ValueError: no") as raised:
        either.submit(fail, "no").result(50)
    assert raised.value.type == "ValueError" and "in fail" in raised.value.traceback
    with pytest.raises(brig.MemoryLimit):
        either.submit(grow).result(50)
    lock = threading.Lock()
    failed = either.submit(lambda: lock).exception(50)
    assert isinstance(failed, brig.CallFailed) and failed.kind == "unsendable" and "'lock'" in str(failed)
    assert either.submit(lambda: int(open(0).read() == "")).result(50) == 1
    with pytest.raises(TypeError):
        either.submit(17)


def test_a_call_that_runs_too_long():
    with brig.Executor(1, timeout=0.3) as executor, pytest.raises(brig.Timeout):
        executor.submit(nap).result(50)


def test_calls_are_packed_by_submit(executor):
    words = ["before"]
    future = executor.submit(lambda: list(words))
    words[0] = "after"
    assert future.result(50) == ["before"]


def test_map_in_order_with_a_timeout(executor):
    assert list(executor.map(square, range(5))) == [0, 1, 4, 9, 16]
    assert list(executor.map(lambda a, b: a + b, "abc", "xy", chunksize=2)) == ["ax", "by"]
    with pytest.raises(ValueError, match="chunksize"):
        executor.map(square, [1], chunksize=0)
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        list(executor.map(nap, [50, 50, 50], timeout=0.2))
    assert executor.submit(square, 2).result(50) == 4  # the others were ended: there are two workers
    assert time.monotonic() - began < 30


def test_elements_of_a_chunk_share_a_call(executor):
    pids = list(executor.map(lambda n: os.stat("/proc/self").st_ctime_ns, range(4), chunksize=2))
    assert pids[0] == pids[1] and pids[2] == pids[3]
    with pytest.raises(brig.GuestError, match="ValueError: 3"):
        list(executor.map(lambda n: fail(n) if n == 3 else n, range(4), chunksize=4))


# ---- the end of calls ----


def test_cancel_of_a_waiting_call(executor):
    busy = [executor.submit(nap) for _ in range(2)]
    assert all(map(is_begun, busy))
    waiting = executor.submit(nap)
    told = []
    waiting.add_done_callback(told.append)
    assert waiting.cancel() and told == [waiting]
    assert wait([waiting], 5).done == {waiting}
    assert next(as_completed([*busy, waiting], 5)) is waiting
    assert [future.cancel() for future in busy] == [True, True] and wait(busy, 30).done == set(busy)
    finished = executor.submit(square, 3)
    assert finished.result(50) == 9 and not finished.cancel() and not finished.cancelled()


def test_many_are_cancelled_at_random_moments(executor):
    for delay in range(30):
        futures = [executor.submit(square, n) for n in range(3)]
        time.sleep(delay / 5000)
        kept = {future for future in futures if not future.cancel()}
        assert wait(futures, 30).not_done == set()
        assert all(future.done() and future.cancelled() != (future in kept) for future in futures)
    assert executor.submit(square, 3).result(50) == 9


def test_the_interpreter_waits_for_its_calls(script):
    code = """
import brig, time
future = brig.Executor(1).submit(pow, 2, 5)
future.add_done_callback(lambda done: print(done.result(), flush=True))
"""
    ended = script(code)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "32\n", "")


# ---- settings ----


def test_initializer_runs_before_each_call(either):
    with brig.Executor(template=either._template, initializer=set_up, initargs=({"a": 1},)) as executor:
        assert list(executor.map(lambda n: get_settings()["a"] + n, range(2))) == [1, 2]
        assert executor.submit(get_settings).result(50) == {"a": 1}
    with brig.Executor(template=either._template, initializer=fail, initargs=("early",)) as executor:
        with pytest.raises(brig.GuestError, match="early"):
            executor.submit(square, 1).result(50)
    assert executor_functions.settings is None


@pytest.mark.parametrize("keywords, error, text", [
    ({"max_workers": 0}, ValueError, "max_workers: 0 is less than 1"),
    ({"max_workers": "4"}, TypeError, "max_workers: str is not an int"),
    ({"mp_context": object()}, TypeError, "leave it out"),
    ({"initializer": 3}, TypeError, "initializer must be a callable"),
    ({"max_tasks_per_child": 0}, ValueError, "max_tasks_per_child"),
    ({"memroy": 3}, TypeError, "did you mean memory"),
    ({"cold": True, "preload": ["json"]}, TypeError, "'preload' is for a template"),
])  # fmt: skip
def test_arguments_that_make_no_sense(keywords, error, text):
    with pytest.raises(error, match=text):
        brig.Executor(**keywords)


# ---- others that take an executor ----


def test_run_in_executor(executor):
    async def main():
        loop = asyncio.get_running_loop()
        values = await asyncio.gather(*(loop.run_in_executor(executor, square, n) for n in range(4)))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(loop.run_in_executor(executor, nap), 0.2)
        both = [loop.run_in_executor(executor, nap) for _ in range(2)]
        await asyncio.sleep(0.1)
        for one in both:
            one.cancel()
        return values, await loop.run_in_executor(executor, square, 9)  # the workers are free

    assert asyncio.run(main()) == ([0, 1, 4, 9], 81)


def test_joblib(executor):
    joblib = pytest.importorskip("joblib")
    from joblib._parallel_backends import ParallelBackendBase

    class Backend(ParallelBackendBase):
        supports_timeout = True

        def effective_n_jobs(self, n_jobs):
            return executor._max_workers

        def apply_async(self, func, callback=None):
            future = executor.submit(func)
            future.get = future.result
            if callback:
                future.add_done_callback(lambda done: callback(done.result()))
            return future

    joblib.register_parallel_backend("brig", Backend)
    with joblib.parallel_backend("brig"):
        assert joblib.Parallel(timeout=50)(joblib.delayed(square)(n) for n in range(2, 4)) == [4, 9]


def test_first_completed(executor):
    slow, quick = executor.submit(nap), executor.submit(square, 2)
    done, left = wait([slow, quick], 50, FIRST_COMPLETED)
    assert (done, left) == ({quick}, {slow}) and slow.cancel() and wait([slow], 30).done
    assert sys.getrefcount(slow) < 10
