# SPDX-License-Identifier: MIT
"""Calls of a Python function, interleaved: by a template of brig, and by the means of the standard
library. Prints one JSON object per line, as bench_spawn does; run by bench/run.

    bench/templates.py SECONDS
    bench/templates.py parts    where the time of a call that was forked ahead goes, in µs
    bench/templates.py rate     two threads that call again and again, by the number of forks ahead
"""
import json
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext

import brig
from brig._outcome import value_of

MODULES = ["json", "asyncio", "ssl", "http.client", "sqlite3", "decimal"]
IMPORTS = "import " + ", ".join(MODULES)
AT_ONCE = 20
PAUSE = 0.02  # seconds in which the next child is forked ahead


def call_fresh() -> None:
    subprocess.run([sys.executable, "-c", f"{IMPORTS}; print(abs(-7))"], check=True, stdout=subprocess.DEVNULL)


def answer(pipe: Connection) -> None:
    for name in MODULES:
        __import__(name)
    pipe.send(abs(-7))


def call_process(context: ForkServerContext | SpawnContext) -> None:
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=answer, args=(there,))
    process.start()
    there.close()
    here.recv()
    process.join()


def spawn_true() -> None:
    environment: dict[str, str] = {}
    os.waitpid(os.posix_spawn("/bin/true", ["true"], environment), 0)


def measure(ways: dict[str, tuple[Callable[[], object], int]], seconds: float) -> dict[str, list[float]]:
    """{name: [seconds of a call, ...]}, one of each in turn; slow ones are called in fewer rounds."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    until = time.monotonic() + seconds
    rounds = 0
    while time.monotonic() < until or rounds < 10:
        for name, (call, every) in ways.items():
            if rounds % every:
                continue
            time.sleep(PAUSE)
            began = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - began)
        rounds += 1
    return times


def private_kib(pids: Iterable[int]) -> int:
    """The private memory of these processes."""
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as rows:
            total += sum(int(row.split()[1]) for row in rows if row.startswith("Private_"))
    return total


def children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as names:
        return [int(name) for name in names.read().split()]


def memory_of_calls() -> int:
    with brig.Template(preload=MODULES, parked=0, max_concurrent=AT_ONCE) as template:
        calls = [template.start(wait_here) for _ in range(AT_ONCE)]
        for call in calls:
            next(event for event in call if event.type == "stdout")
        return private_kib(pid for call in calls for pid in children(call.pid))


def wait_here() -> None:
    print("here", flush=True)
    time.sleep(300)


def memory_of_interpreters() -> int:
    code = f"{IMPORTS}; print('here', flush=True); import time; time.sleep(300)"
    running = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(AT_ONCE)]
    for process in running:
        assert process.stdout is not None
        process.stdout.readline()
    total = private_kib(process.pid for process in running)
    for process in running:
        process.kill()
        process.communicate()
    return total


def print_parts() -> None:
    """Print the minimum and the median of each row. A whole run is a call that waits for the end of its process."""
    names = ("the job", "until the function", "until the answer", "the value", "in all", "a whole run", "posix_spawn")
    rows: dict[str, list[float]] = {name: [] for name in names}
    now = time.monotonic_ns
    with brig.Template(preload=MODULES, parked=4) as template:
        others: tuple[tuple[str, Callable[[], object]], ...] = (
            ("a whole run", lambda: template.try_call(now)), ("posix_spawn", spawn_true))
        for _ in range(200):
            time.sleep(PAUSE)
            times = [now()]
            job = template._try_job(now, (), {})
            assert isinstance(job, bytes)
            times.append(now())
            run, answer = template._backend.call(job, template._keys)
            times.append(now())
            there, called = value_of(answer)
            times.append(now())
            run.close()
            if there:
                times.insert(2, called)
                for name, part in zip(names, (*(b - a for a, b in zip(times, times[1:])), times[-1] - times[0])):
                    rows[name].append(part / 1000)
            for name, call in others:
                time.sleep(PAUSE)
                began = now()
                call()
                rows[name].append((now() - began) / 1000)
    for name, taken in rows.items():
        taken.sort()
        print(f"{name:20} {taken[0]:6.0f} {taken[len(taken) // 2]:6.0f}")


def call_steadily(template: brig.Template, seconds: float, pause: float) -> list[float]:
    """The times of calls from two threads, sorted."""
    times: list[float] = []
    until = time.monotonic() + seconds
    function: Callable[[int], int] = abs  # mypy cannot match a generic function with a ParamSpec

    def work() -> None:
        while time.monotonic() < until:
            began = time.perf_counter()
            template.call(function, -7)
            times.append(time.perf_counter() - began)
            time.sleep(pause)
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(times)


def print_rate() -> None:
    templates = {
        "parked=1": brig.Template(preload=MODULES, parked=1),
        "parked=8": brig.Template(preload=MODULES, parked=8),
        "adapting": brig.Template(preload=MODULES),
    }
    for _ in range(3):
        for name, template in templates.items():
            for pause in (0.02, 0.0):
                times = call_steadily(template, 2, pause)
                median, late = (times[int(len(times) * part)] * 1000 for part in (0.5, 0.9))
                print(f"{name}, pause of {pause * 1000:2.0f} ms: {len(times) / 2:4.0f}/s, "
                      f"median {median:5.2f} ms, p90 {late:5.2f} ms", flush=True)
    for template in templates.values():
        template.close()


def main() -> None:
    if sys.argv[1:] == ["rate"]:
        print_rate()
        return
    if sys.argv[1:] == ["parts"]:
        print_parts()
        return
    function: Callable[[int], int] = abs  # mypy cannot match a generic function with a ParamSpec
    with brig.Template(preload=MODULES, parked=4) as ahead, brig.Template(preload=MODULES, parked=0) as template:
        ways: dict[str, tuple[Callable[[], object], int]] = {
            "posix_spawn": (spawn_true, 1),
            "template, forked ahead": (lambda: ahead.call(function, -7), 1),
            "template": (lambda: template.call(function, -7), 1),
            "multiprocessing, forkserver": (lambda: call_process(multiprocessing.get_context("forkserver")), 8),
            "multiprocessing, spawn": (lambda: call_process(multiprocessing.get_context("spawn")), 8),
            "a fresh interpreter": (call_fresh, 8),
        }
        times = measure(ways, float(sys.argv[1]))
    for name, taken in times.items():
        taken.sort()
        print(json.dumps({"name": name, "median_us": taken[len(taken) // 2] * 1e6, "minimum_us": taken[0] * 1e6,
                          "p99_us": taken[int(len(taken) * 0.99)] * 1e6}))
    print(json.dumps({"memory": {"calls_kib": memory_of_calls(), "interpreters_kib": memory_of_interpreters(),
                                 "at_once": AT_ONCE}}))


if __name__ == "__main__":
    main()
