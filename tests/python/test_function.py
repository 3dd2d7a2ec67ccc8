# SPDX-License-Identifier: MIT
"""Functions and arguments on their way into a guest: by reference where it can import them, else by value.

Most are rebuilt here, by the code that a guest uses: what is rebuilt must not be what was sent. The ones in
a cell are in test_template.py.
"""
import abc
import asyncio
import collections
import concurrent.futures
import dataclasses
import enum
import functools
import itertools
import os
import socket
import sys
import textwrap
import threading
import types
import typing
import xml.etree.ElementTree

import pytest

from brig import UsageError, _function, _guest
from brig._function import NotSendable, pack
from brig._interpreter import PACKAGE, Interpreter, is_too_much


class Nowhere(Interpreter):
    """A guest that has this file nowhere: everything in it is sent by value."""

    def imports(self, name):
        return name != __name__ and super().imports(name)


HERE = Nowhere()


def send(function, *args, **keywords):
    """The function as the guest has it, called."""
    rebuilt, args, keywords = _guest.load(pack(function, args, keywords, HERE))
    return rebuilt(*args, **keywords)


def rebuild(function):
    rebuilt = _guest.load(pack(function, (), {}, HERE))[0]
    assert rebuilt is not function
    return rebuilt


FACTOR = 3


def times(x, more=1, *, plus=0):
    return x * FACTOR * more + plus


def even(n):
    return n == 0 or odd(n - 1)


def odd(n):
    return n != 0 and even(n - 1)


def test_by_value_with_globals_defaults_and_keywords():
    assert send(times, 2) == 6 and send(times, 2, more=2, plus=1) == 13
    assert rebuild(times).__globals__["FACTOR"] == 3 and rebuild(times).__globals__ is not globals()
    assert "socket" not in rebuild(times).__globals__, "only what it names is sent"


def test_functions_of_one_module_share_their_variables():
    rebuilt = rebuild(even)
    assert rebuilt(10) and not rebuilt(11)
    assert rebuilt.__globals__ is rebuilt.__globals__["odd"].__globals__


def test_case_30_closures_and_lambdas():
    def outer():
        count = 0

        def up():
            nonlocal count
            count += 1
            return count

        def both():
            return up() + up(), count
        return both
    assert send(outer()) == (3, 2)
    assert send((lambda y: lambda x: x + y)(5), 1) == 6
    assert send(lambda: [(lambda v: v * n)(2) for n in range(3)]) == [0, 2, 4]


def test_case_30_recursion_through_a_closure():
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)
    assert send(fib, 10) == 55

    def empty():
        return later
    if os.getpid() < 0:
        later = 1
    with pytest.raises(NameError):
        send(empty)


def shout(function):
    @functools.wraps(function)
    def wrapper(*args, **keywords):
        return str(function(*args, **keywords)).upper() + mark
    mark = "!"
    return wrapper


@shout
@shout
def greet(name):
    """Says hello."""
    return f"hello {name}"


@functools.lru_cache(maxsize=7)
def cached(n):
    return n if n < 2 else cached(n - 1) + cached(n - 2)


def test_case_30_decorated_functions():
    assert send(greet, "you") == "HELLO YOU!!" and rebuild(greet).__doc__ == "Says hello."
    assert send(functools.partial(times, 2, plus=1)) == 7
    assert send(cached, 60) == 1548008755920 and rebuild(cached).cache_info().maxsize == 7


def test_case_30_coroutines():
    async def twice(n):
        await asyncio.sleep(0)
        return n * 2
    assert asyncio.run(send(twice, 4)) == 8


class Base(abc.ABC):
    unit = "m"

    def __init__(self, length):
        self.length = length

    @abc.abstractmethod
    def scaled(self): ...

    def __call__(self, more):
        return f"{self.scaled() * more}{self.unit}"


class Scale(Base):
    __slots__ = ("length", "factor")

    def __init__(self, length, factor=2):
        super().__init__(length)
        self.factor = factor

    def scaled(self):
        return self.length * self.factor

    @property
    def half(self):
        return self.length / 2

    @classmethod
    def of(cls, text):
        return cls(int(text))

    @staticmethod
    def name():
        return Scale.__name__

    @functools.cached_property
    def slow(self):
        return self.length


@dataclasses.dataclass(order=True)
class Point:
    x: int
    y: int = 0
    tags: list = dataclasses.field(default_factory=list)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2

    def shown(self):
        return self.name.lower()


class Pair(typing.NamedTuple):
    left: int
    right: int = 7


Loose = collections.namedtuple("Loose", "a b")
Item = typing.TypeVar("Item")


class Box(typing.Generic[Item]):
    def open(self):
        return "opened"


def test_instances_and_classes_by_value():
    assert send(Scale(3), 2) == "12m"
    assert send(Scale(3).scaled) == 6
    assert send(Scale.of, "4").half == 2
    assert send(lambda thing: (thing.half, thing.of("6").scaled(), thing.name()), Scale(4)) == (2, 12, "Scale")
    with pytest.raises(TypeError, match="abstract"):
        send(lambda: Base(1))


def test_dataclasses_enums_and_named_tuples_by_value():
    def work(point):
        other = Point(1)
        other.tags.append("x")
        return dataclasses.asdict(dataclasses.replace(point, y=5)), point < other, Point(1) == Point(1), other.tags, Point(2).tags
    assert send(work, Point(1, -1)) == ({"x": 1, "y": 5, "tags": []}, True, True, ["x"], [])
    assert send(lambda c: (c.shown(), c is Colour.RED, Colour(2).name, len(Colour)), Colour.RED) == ("red", True, "BLUE", 2)
    assert send(lambda: Box[int]().open()) == "opened"
    assert send(lambda p: (p.right, p._replace(left=0), Loose(1, 2).b), Pair(1)) == (7, (0, 7), 2)


def test_modules_go_by_name_with_what_was_imported_below_them():
    names = rebuild(lambda: (os.path.sep, concurrent.futures.Future, xml.etree.ElementTree.Element)).__globals__
    assert names["os"] is os and names["concurrent"] is concurrent and "socket" not in names


def test_review_f2_annotations_do_not_keep_a_function_from_being_sent():
    """One that cannot be sent is left out: a lock (threading.Lock itself can be since Python 3.13)."""
    def typed(a: int, b: "str", c: threading.Lock()) -> typing.TypeVar("T"):
        return a
    assert rebuild(typed).__annotations__ == {"a": int, "b": "str"}


def test_by_reference_if_it_is_that_very_object():
    job = pack(textwrap.dedent, (), {}, HERE)
    assert b"textwrap" in job and len(job) < 200
    assert _guest.load(job)[0] is textwrap.dedent
    assert _guest.load(pack(sorted, ([2, 1],), {}, HERE))[0] is sorted
    assert _guest.load(pack(collections.Counter.most_common, (), {}, HERE))[0] is collections.Counter.most_common
    changed = types.FunctionType(textwrap.dedent.__code__, textwrap.dedent.__globals__, "dedent")
    changed.__module__, changed.__qualname__ = "textwrap", "dedent"
    assert _guest.load(pack(changed, (), {}, HERE))[0] is not textwrap.dedent


LOCK = threading.Lock()


def held():
    return LOCK


def uses_held():
    return held()


def messages():
    lock = LOCK
    own = types.ModuleType("made_up")
    yield (lambda: lock), (), {}, ["the variable 'lock' of messages.<locals>.<lambda>", "lock"]
    yield held, (), {}, ["the global variable 'LOCK' of held", "cannot pickle '_thread.lock' object"]
    yield uses_held, (), {}, ["the global variable 'LOCK' of held"]
    yield print, (1, lock), {}, ["argument 2 cannot be sent"]
    yield print, (), {"end": {"a": [lock]}}, ["argument 'end'['a'][0]"]
    yield print, (types.SimpleNamespace(inner=lock),), {}, ["argument 1.inner"]
    yield (lambda x=lock: x), (), {}, ["a default of messages.<locals>.<lambda>"]
    yield (lambda: own), (), {}, ["'own'", "module 'made_up' cannot be imported in the guest: it has no file"]
    yield (lambda: sys.modules[__name__]), (sys.modules["__main__"],), {}, ["argument 1", "__main__"]
    yield (i for i in ()).__next__, (), {}, ["generator"]
    yield open, (sys.__stderr__,), {}, ["argument 1", "TextIOWrapper"]


@pytest.mark.parametrize("index", range(11))
def test_case_30_what_cannot_be_sent_is_named_with_its_variable(index):
    function, args, keywords, words = next(itertools.islice(messages(), index, None))
    with pytest.raises(NotSendable) as caught:
        pack(function, args, keywords, HERE)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_size_and_depth_are_bounded(monkeypatch):
    monkeypatch.setattr(_function, "JOB_MAX", 1 << 20)
    with pytest.raises(NotSendable, match="take 2 MiB; at most 1 can be sent"):
        pack(len, (bytes(2 << 20),), {}, HERE)
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(NotSendable, match="nested too deeply"):
        pack(len, (deep,), {}, HERE)


def test_job_of_another_interpreter_is_refused():
    with pytest.raises(ValueError, match="cpython-27.*is not for this interpreter"):
        _guest.load(b"brig-job 1 cpython-27\n" + pack(len, (), {}, HERE).partition(b"\n")[2])


# ---- what a guest is shown ----


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_home_is_not_shown_because_python_was_started_in_it(home, monkeypatch):
    project = home / "project"
    project.mkdir()
    for directory in ("", str(home), str(home.parent), "/", "/tmp", str(project)):
        monkeypatch.syspath_prepend(directory)
    monkeypatch.chdir(home)
    shown = Interpreter()
    assert str(project) in shown.ro and str(project) in shown.path
    assert not {str(home), str(home.parent), "/", "/tmp"} & {*shown.ro, *shown.path}
    assert not any(str(home).startswith(path + "/") or path == str(home) for path in shown.ro)
    assert str(home) in shown.hidden and is_too_much(os.path.realpath(os.path.expanduser("~")))


def test_module_in_a_hidden_directory_goes_by_value(home, monkeypatch):
    (home / "brig_hidden_tools.py").write_text("DEEP = 4\ndef work(n):\n    return n * DEEP\n")
    monkeypatch.syspath_prepend(str(home))
    import brig_hidden_tools
    try:
        hidden = Interpreter()
        assert not hidden.imports("brig_hidden_tools")
        job = pack(brig_hidden_tools.work, (2,), {}, hidden)
        function, args, _ = _guest.load(job)
        assert function(*args) == 8 and function is not brig_hidden_tools.work
        with pytest.raises(NotSendable, match="is not in a directory of sys.path that the guest sees"):
            pack(lambda: brig_hidden_tools.work(1), (), {}, hidden)
        named = Interpreter([home])
        assert named.imports("brig_hidden_tools") and str(home) in named.ro
    finally:
        del sys.modules["brig_hidden_tools"]


def test_paths_name_the_directories_instead(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "sub").mkdir()
    os.symlink(tmp_path / "sub", tmp_path / "link")
    assert str(tmp_path) in Interpreter().ro
    bare = Interpreter([])
    assert str(tmp_path) not in bare.ro and PACKAGE in [*bare.ro, *filter(bare.shows, [PACKAGE])]
    assert bare.imports("json") and bare.path
    assert str(tmp_path / "sub") in Interpreter([tmp_path / "link"]).ro
    with pytest.raises(UsageError, match="/no/such: does not exist"):
        Interpreter(["/no/such"])
