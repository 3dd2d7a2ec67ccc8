# SPDX-License-Identifier: MIT
"""Plain calls (_plain.h): functions that the guest has, with arguments and values without a structure. What is
not plain goes the other way, and nobody sees a difference but by the time that it takes.

They are packed and read here, by the code that caller and guest use. The ones in a cell are in test_template.py.
"""
import enum
import gc
import json
import math
import os
import posixpath
import random
import string
import sys
import textwrap
import types
import weakref

import pytest

from brig import _brig, _guest, _serve
from brig._function import NAMES_MAX, Names, pack_plain
from brig._interpreter import Interpreter
from brig._outcome import value_of

NAMES = Names(Interpreter())
SUCCESS = _guest.SUCCESS.encode()

ATOMS = [
    None, True, False, 0, 1, -1, 10**9, 2**63 - 1, -(2**63), 0.0, -0.0, 1.5, math.inf, -math.inf, "", "plain",
    "naïve ☃ 𝄞", "with\0zero", '"quoted\\"', b"", b"\0\xff",
]  # fmt: skip


def load(job):
    return _serve.load(_guest.HEAD_PLAIN, job)


def sent(function, *args, **keywords):
    job = pack_plain(function, args, keywords, NAMES)
    return None if job is None else load(job)


def same(a, b):
    return type(a) is type(b) and repr(a) == repr(b)


# ---- the job ----

@pytest.mark.parametrize("atom", ATOMS, ids=repr)
def test_atoms_arrive_as_they_are(atom):
    function, args, keywords = sent(posixpath.join, atom, "between", key=atom)
    assert function is posixpath.join and same(args[0], atom) and args[1] == "between"
    assert list(keywords) == ["key"] and same(keywords["key"], atom)


def test_a_number_that_is_none():
    assert math.isnan(sent(abs, math.nan)[1][0])


def test_no_arguments():
    assert sent(os.getpid) == (os.getpid, (), {})


class Whole(int):
    pass


class Colour(enum.IntEnum):
    RED = 1


@pytest.mark.parametrize("argument", [[], (), {}, set(), Whole(1), Colour.RED, 2**63, -(2**63) - 1, 1j, "\ud800",
                                      bytearray(b"x"), ...], ids=repr)
def test_what_is_not_plain(argument):
    assert sent(abs, argument) is None
    assert sent(abs, key=argument) is None


def test_what_is_too_long():
    most = 16384 - len(pack_plain(len, ("",), {}, NAMES))
    assert len(sent(len, "x" * most)[1][0]) == most
    assert sent(len, "x" * (most + 1)) is None
    assert sent(len, *range(20000)) is None


def test_what_is_not_a_module_s_own():
    def inner():
        pass
    for function in (inner, lambda: None, "x".upper, [].append, textwrap.TextWrapper.wrap, int, types.SimpleNamespace(),
                     dict.fromkeys, print.__call__, Whole.from_bytes):
        assert sent(function) is None, function


def test_a_function_that_was_replaced(monkeypatch):
    first = textwrap.dedent
    assert sent(first, "x")[0] is first
    monkeypatch.setattr(textwrap, "dedent", lambda text: text)
    assert sent(first, "x") is None
    assert sent(textwrap.dedent, "x") is None


def test_a_function_of_a_module_that_the_guest_does_not_have(tmp_path, monkeypatch):
    """The module's directory is nowhere that the guest looks."""
    (tmp_path / "far_away.py").write_text("def near():\n    return 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    names = Names(Interpreter(paths=[]))
    import far_away
    try:
        assert pack_plain(far_away.near, (), {}, names) is None
    finally:
        del sys.modules["far_away"]


def test_a_name_that_is_no_name():
    module = sys.modules[__name__]
    odd = types.FunctionType((lambda: None).__code__, globals(), "a\0b")
    odd.__qualname__ = "a\0b"
    setattr(module, "a\0b", odd)
    try:
        assert sent(odd) is None
    finally:
        delattr(module, "a\0b")


def test_functions_that_go_by_value_are_not_kept():
    def inner():
        pass
    names = Names(Interpreter())
    seen = weakref.ref(inner)
    assert pack_plain(inner, (), {}, names) is None and not names
    del inner
    gc.collect()
    assert seen() is None


def test_a_module_name_that_is_none():
    def inner():
        pass
    for name in ([], None, 1):
        inner.__module__ = name
        assert sent(inner) is None


def test_names_are_not_kept_for_ever():
    names = Names(Interpreter())
    for number in range(3 * NAMES_MAX):
        function = types.FunctionType((lambda: None).__code__, {"__name__": "textwrap"}, f"made_{number}")
        function.__qualname__ = function.__name__
        setattr(textwrap, function.__name__, function)
        try:
            assert pack_plain(function, (), {}, names)
        finally:
            delattr(textwrap, function.__name__)
        assert 0 < len(names) <= NAMES_MAX


def test_a_module_that_is_not_there_yet(monkeypatch):
    job = pack_plain(textwrap.dedent, (" x",), {}, NAMES)
    monkeypatch.delitem(sys.modules, "textwrap")
    assert load(job) == (("textwrap", "dedent"), (" x",), {})


def test_jobs_that_were_cut():
    """Not that anybody would: an error, and no byte is read that is not there."""
    whole = pack_plain(posixpath.join, ("one", 2, 3.0, b"four"), {"five": None}, NAMES)
    for length in range(len(_guest.HEAD_PLAIN), len(whole)):
        with pytest.raises(ValueError, match="job"):
            load(whole[:length])
    with pytest.raises(ValueError, match="kind"):
        load(whole.replace(b"s\x03\0\0\0one", b"?\x03\0\0\0one"))
    other = b"another job"
    assert load(other) == other


# ---- the answer ----

@pytest.mark.parametrize("value", [*ATOMS[:9], 10**17, 10**18, -(10**18), "", "plain", " ~", string.printable[:90]], ids=repr)
def test_an_answer_is_what_it_is_in_json(value):
    """Whether it is plain or not: what is sent can be read, and what can be read is the same."""
    message = _serve.plain_answer(_guest.SUCCESS, value)
    if message is None:
        message = _guest._frame((_guest.SUCCESS + json.dumps(value) + "}").encode())
    length, _, answer = message.partition(b"\n")
    assert int(length) == len(answer)
    assert same(json.loads(answer)["output"], value)
    there, read = value_of(answer)
    assert there and same(read, value)


@pytest.mark.parametrize("value", ["é", '"', "\\", "a\nb", "\0", "x" * 5000, 2**63, 1.5, b"", [], Whole(1), Colour.RED, "\ud800"],
                         ids=lambda value: repr(value)[:20])
def test_an_answer_that_is_not_plain(value):
    assert _serve.plain_answer(_guest.SUCCESS, value) is None


@pytest.mark.parametrize("text", ["", "}", "-", "--1", "1e5", "1.5", "01x", "0x1", "nul", "nulll", "True", '"', '"a', 'a"',
                                  '"a\\"', '"\\u0041"', '"é"', '"a"b"', "[]", "{}", "9" * 19, "1,\"x\":2", " 1", "1 "])
def test_an_answer_that_is_read_the_other_way(text):
    assert _brig.plain_value(SUCCESS + text.encode() + b"}", SUCCESS) is NotImplemented


def test_answers_without_their_ends():
    for answer in (b"", b"}", SUCCESS, SUCCESS[:-1] + b"1}", SUCCESS + b"1", SUCCESS + b"1]", SUCCESS + b'"' + b"x" * 5000 + b'"}'):
        assert _brig.plain_value(answer, SUCCESS) is NotImplemented


def test_an_answer_with_more_in_it():
    """It is looked at with the rest of the result, which says what is wrong with it."""
    assert value_of(SUCCESS + b'1,"status":"error"}') == (False, None)
    assert value_of(b'{"output":1,"status":"success"}') == (False, None)


def test_any_bytes_as_an_answer():
    """What is taken for plain is the same as JSON has it."""
    chance = random.Random(1)
    for _ in range(20000):
        answer = SUCCESS + bytes(chance.choice(b'0123456789-"atrufelsn}\\ \xc3') for _ in range(chance.randrange(6))) + b"}"
        value = _brig.plain_value(answer, SUCCESS)
        if value is not NotImplemented:
            try:
                expected = json.loads(answer)["output"]
            except ValueError:  # the library has looked before: numbers with leading zeros, mostly
                continue
            assert same(value, expected), answer


def test_wrong_arguments():
    for call in (lambda: _brig.plain_job(b"", ()), lambda: _brig.plain_job("", (), {}), lambda: _brig.plain_value(b""),
                 lambda: _brig.plain_value("", b""), lambda: _serve.plain_answer(b"", 1), lambda: _serve.plain_answer("")):
        with pytest.raises(TypeError):
            call()
