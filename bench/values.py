# SPDX-License-Identifier: MIT
"""The time and the memory for a large value to come back from a call: by a template of brig, and by
concurrent.futures.ProcessPoolExecutor. Interleaved; prints the minimum and the median in ms, and the peak of the caller's
memory in MB.

    bench/values.py [MEGABYTES] [ROUNDS]
"""
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import brig


def make_array(megabytes: int) -> Any:
    import numpy

    return numpy.ones(megabytes * 125_000)


def make_bytes(megabytes: int) -> bytes:
    return bytes(megabytes * 1_000_000)


def peak() -> int:
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) // 1000 for line in status if line.startswith("VmHWM"))


def main() -> None:
    megabytes, rounds = (int(word) for word in (*sys.argv[1:], *("100", "10")[len(sys.argv) - 1 :]))
    import numpy

    assert numpy.zeros(1).size  # the caller has numpy
    with brig.Template(preload=["numpy"], memory="2G", result_size="1G", timeout=120) as template, ProcessPoolExecutor(1) as pool:
        functions: tuple[Callable[[int], Any], ...] = (make_array, make_bytes)
        for function in functions:
            ways: dict[str, Callable[[], Any]] = {"brig": lambda: template.call(function, megabytes),
                                                  "pool": lambda: pool.submit(function, megabytes).result()}
            times: dict[str, list[float]] = {name: [] for name in ways}
            for call in ways.values():
                call()
            for _ in range(rounds):
                for name, call in ways.items():
                    began = time.perf_counter()
                    value = call()
                    times[name].append((time.perf_counter() - began) * 1000)
                    del value
            for name, taken in times.items():
                taken.sort()
                print(f"{function.__name__:12} {name:5} {taken[0]:7.0f} {taken[len(taken) // 2]:7.0f} ms")
            print(f"{function.__name__:12} ratio {times['brig'][0] / times['pool'][0]:7.2f} "
                  f"{times['brig'][rounds // 2] / times['pool'][rounds // 2]:7.2f}")
    print("peak", peak(), "MB")


if __name__ == "__main__":
    main()
