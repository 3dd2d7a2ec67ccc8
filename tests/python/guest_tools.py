# SPDX-License-Identifier: MIT
"""Functions that a guest imports: it has next to nothing to import with them."""
import dataclasses
import functools
import sys
import time

CALLS = []
SECRET = "of the caller"


def double(n):
    CALLS.append(n)
    return n * 2, len(CALLS), __name__


@functools.wraps(double)
def renamed(n):
    return "renamed", n


def plain(n):
    """Doubles.

    A number, that is.
    """
    return n * 2


def talk(times):
    for number in range(times):
        print("line", number)
        time.sleep(0.05)
    return times


class Counter:
    def __init__(self, start):
        self.value = start

    def up(self, by=1):
        self.value += by
        return self.value


@dataclasses.dataclass
class Point:
    x: int
    name: str


def person(name):
    return sys.modules[__name__].Person(name=name)


def __getattr__(name):
    """Guests import this file; only those that make a Person need pydantic."""
    if name != "Person":
        raise AttributeError(name)
    import pydantic

    class Person(pydantic.BaseModel):
        name: str
    Person.__qualname__ = "Person"
    globals()["Person"] = Person
    return Person
