# SPDX-License-Identifier: MIT
"""Messages that a reviewer made to cost the caller time or memory, to run its code, or to raise something else than brig's."""
import base64
import dataclasses
import enum
import json
import os
import sys
import time
import typing

import numpy
import pandas  # noqa: F401: the caller has it
import pydantic
import pytest

import brig
from brig._decode import Array, BadValue, UnknownType, decode


def nd(array):
    return {"$": "ndarray", "dtype": array.dtype.str, "shape": list(array.shape), "data": base64.b64encode(array.tobytes()).decode()}


def index(array):
    return {"$": "index", "values": nd(array), "name": None, "freq": None}


def range_index(count):
    return {"$": "range_index", "bounds": [0, count, 1], "name": None}


def categorical(categories):
    return {"$": "categorical", "codes": nd(numpy.array([0], "i2")), "categories": categories, "ordered": False}


def seconds(work):
    begin = time.thread_time()
    work()
    return time.thread_time() - begin


# ---- code of the caller ----


class Importing(pydantic.BaseModel):
    name: typing.Any = None
    ran: typing.ClassVar[list] = []

    def __init_subclass__(cls):
        raise AssertionError

    @classmethod
    def __get_validators__(cls):
        cls.ran.append(1)
        yield cls.validate


def test_model_is_validated_only_if_the_caller_named_it():
    form = {"$": "model", "class": [__name__, "Importing"], "version": 2 if hasattr(pydantic.BaseModel, "model_fields") else 1,
            "fields": {"name": "this.s"}, "extra": None, "private": {}, "set": []}
    with pytest.raises(UnknownType, match=r"Template\(types=\[Importing\]\)"):
        decode(form)
    assert "this" not in sys.modules
    assert decode(dict(form, fields={"name": 1}), [Importing]).name == 1
    with pytest.raises(BadValue):  # no default of the class runs
        decode(dict(form, fields={}), [Importing])


Bits = enum.Flag("Bits", [f"B{n}" for n in range(16)])


def test_class_keeps_few_combinations_of_flags():
    def bits(value):
        return decode({"$": "flag", "class": [__name__, "Bits"], "value": value})
    assert bits(6) == Bits.B1 | Bits.B2
    with pytest.raises(BadValue, match="too many combinations"):
        for value in range(1 << 16):
            bits(value)
    assert len(Bits._value2member_map_) < 5000 and bits(6) is Bits.B1 | Bits.B2


# ---- time ----


def same_hashes(count):
    """Numbers for which pandas has the same hash."""
    found = []
    for high in range(1, count + 1):
        low = 0
        for bit in range(32):
            low |= ((high >> bit & 1) ^ (low >> (bit - 11) & 1 if bit >= 11 else 0)) << bit
        found.append(high << 33 | low)
    return numpy.array(found, "i8")


@pytest.mark.parametrize("form", [
    lambda: [{"$": "zone", "key": "UTC"}] * 2000,
    lambda: {"$": "frame", "columns": range_index(3000), "index": range_index(0), "data": [nd(numpy.zeros(0)) for _ in range(3000)], "attrs": {}},
    lambda: categorical(index(same_hashes(9000))),
], ids=["zones", "columns", "categories"])
def test_message_is_read_in_time(form):
    made = form()
    assert seconds(lambda: decode(made)) < 15


@pytest.mark.parametrize("form", [
    lambda: categorical(index(same_hashes(10_001))),
    lambda: [categorical(index(same_hashes(8000))), categorical(index(same_hashes(8000)))],
    lambda: {"$": "multi_index", "levels": [index(same_hashes(10_001))], "codes": [nd(numpy.array([0], "i2"))], "names": [None]},
], ids=["categories", "in all", "levels"])
def test_numbers_that_pandas_would_compare_are_bounded(form):
    with pytest.raises(BadValue, match="more than 10000 numbers"):
        decode(form())


# ---- memory ----

EMPTY = {"names": [], "formats": [], "offsets": [], "itemsize": 0, "align": False}


@pytest.mark.parametrize("form", [
    {"$": "masked", "data": nd(numpy.arange(3)), "mask": None, "fill": range_index(2**50), "hard": False},
    {"$": "masked", "data": nd(numpy.arange(3)), "mask": None, "fill": [[1], [1, 2]], "hard": False},
    {"$": "intervals", "left": {"$": "index", "values": categorical(range_index(2**24)), "name": None, "freq": None},
     "right": index(numpy.arange(1)), "closed": "left"},
    {"$": "intervals", "left": range_index(2**40), "right": range_index(2**40), "closed": "left"},
    categorical(range_index(2**40)),
    {"$": "ndarray", "dtype": EMPTY, "shape": [2**62], "data": ""},
    {"$": "ndarray", "dtype": {"names": ["a"], "formats": [{"base": EMPTY, "shape": [2**31 - 1]}], "offsets": [0], "itemsize": 0,
                               "align": False}, "shape": [1], "data": ""},
], ids=["fill", "ragged fill", "intervals", "ranges", "range of categories", "no bytes", "arrays of no bytes"])
def test_small_message_does_not_become_large(form):
    with pytest.raises(BadValue):
        decode(form)


def test_text_of_an_error_is_short():
    with pytest.raises(BadValue) as caught:
        decode({"$": "date", "iso": "A" * 10**6})
    assert len(str(caught.value)) < 1000


def test_array_without_numpy_is_checked_when_it_becomes_one():
    with pytest.raises(BadValue):
        Array("<U1", (1,), b"\xff\xff\xff\x7f").numpy()


# ---- exceptions ----


@dataclasses.dataclass(frozen=True)
class Named:
    name: str

    def __hash__(self):
        return hash(self.name.lower())


SAME_AS_NA = {"$": "set", "items": [{"$": "na"}, {"$": "scalar", "dtype": "<M8[ns]", "value": 2**61 - 1}]}
NAMED = {"$": "set", "items": [{"$": "dataclass", "class": [__name__, "Named"], "fields": {"name": 5}}]}


@pytest.mark.parametrize("form", [SAME_AS_NA, NAMED], ids=["na", "hash"])
@pytest.mark.parametrize("way", ["call", "try_call"])
def test_exception_of_a_class_is_a_bad_result(guest, form, way):
    def send(text):
        body = '{"status":"success","output":' + text + "}"
        os.write(3, f"{len(body)}\n{body}".encode())
        os._exit(0)
    with brig.Template(**guest) as template:
        if way == "try_call":
            assert template.try_call(send, json.dumps(form)).kind == "bad_result"
        else:
            with pytest.raises(brig.CallFailed, match="invalid value"):
                template.call(send, json.dumps(form))


# ---- arguments of tools ----


@dataclasses.dataclass
class Left:
    child: "typing.Union[Left, Right, None]" = None


@dataclasses.dataclass
class Right:
    child: "typing.Union[Left, Right, None]" = None


def nested(depth, leaf):
    value = {"child": leaf}
    for _ in range(depth):
        value = {"child": value}
    return value


def test_arguments_are_checked_in_time(guest):
    def tree(x: typing.Union[Left, Right]):
        return 1
    with brig.ToolHost([tree], **guest) as host:
        answers = []
        assert seconds(lambda: answers.append(host.call("tree", {"x": nested(40, 5)}))) < 10
        assert answers[0].denied and "arguments: " in answers[0].error
        assert host.call("tree", {"x": nested(4, None)}).ok


def test_bad_numbers_and_sets_are_denied(guest):
    def half(x: typing.Annotated[float, pydantic.Field(multiple_of=0.5)]):
        return x

    def five(x: typing.Annotated[int, pydantic.Field(multiple_of=5)]):
        return x

    def several(x: typing.Set[typing.Any]):
        return len(x)

    def whole(x: typing.Set[int]):
        return len(x)
    with brig.ToolHost([half, five, several, whole], **guest) as host:
        assert all(host.call("half", {"x": x}).denied for x in (float("inf"), float("nan")))
        assert host.call("five", {"x": 10**400}).ok and host.call("five", {"x": 10**400 + 1}).denied
        assert host.call("several", {"x": [[1]]}).denied and host.call("several", {"x": [1, 2]}).output == 2
        assert host.call("whole", {"x": [k * (2**61 - 1) for k in range(4000)]}).denied


# ---- descriptors ----


def test_results_of_calls_hold_no_descriptor(guest):
    def large():
        return bytes(1 << 20)
    with brig.Template(parked=1, **guest) as template:
        template.call(large)
        kept, before = [], len(os.listdir("/proc/self/fd"))
        for _ in range(10):
            with template.start(large) as call:
                kept.append(call.wait())
            del call
        assert len(os.listdir("/proc/self/fd")) <= before + 4
