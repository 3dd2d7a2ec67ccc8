# SPDX-License-Identifier: MIT
"""Values on their way back from a guest: what encode() writes, decode() reads, and it reads nothing else."""
import array
import builtins
import collections
import contextlib
import datetime
import enum
import json
import math
import sys
import time
import types
import warnings
from random import Random

import numpy
import pytest

from brig import Array, _brig, _decode
from brig._decode import SAME_HASH_MAX, BadValue, decode
from brig._value import DEPTH_MAX, NotSendable, encode


def there_and_back(value):
    return decode(json.loads(encode(value)))


VALUES = [
    None, True, False, 0, -1, 1 << 62, -(1 << 63), 1 << 63, -(1 << 4000), 0.1, -0.0, 1e300, 5e-324,
    math.inf, -math.inf, "", "a\"\\\n\0\x7f", "é\u2028𝄞", "\ud800 half", b"", bytes(range(256)), bytearray(b"ab"),
    1 + 2j, complex(math.inf, -0.0), [], [[]], {}, (), ((),), (1, [2, (3,)]), {1, 2}, frozenset({(1, 2)}), set(),
    {"a": {"b": [1, {"c": None}]}}, {1: "a", (1, 2): "b", None: 3}, {"\ud800": 1}, {b"k": 1},
    datetime.datetime(2024, 2, 29, 12, 30, 1, 5), datetime.date(1, 1, 1), datetime.time(23, 59),
    datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=-5))),
    datetime.timedelta(days=-3, microseconds=1), array.array("d", [0.5, -1]), array.array("B"),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:30])
def test_value_comes_back_as_it_is(value):
    back = there_and_back(value)
    assert back == value and type(back) is type(value) and repr(back) == repr(value)


def test_number_of_any_size_and_nan_come_back():
    assert there_and_back(10**5000) == 10**5000
    assert math.isnan(there_and_back(math.nan))


TAGGED = [
    {"$": "bytes", "data": "AA=="}, {"$": "set", "items": []}, {"$": 1}, {"$": {"$": "x"}}, {"a": {"$": None}},
    {"$": "dict", "items": [["$", 1]]}, [{"$": "ndarray", "dtype": "|O8", "shape": [], "data": ""}],
]


@pytest.mark.parametrize("value", TAGGED, ids=str)
def test_data_that_looks_like_a_tag_stays_data(value):
    assert there_and_back(value) == value


def test_review_p2_subclasses_are_never_changed_to_the_plain_type():
    """Those of the standard library arrive as themselves; others are refused, with the way out."""
    value = [collections.OrderedDict(a=1), collections.defaultdict(list, {"b": []}), collections.Counter("x")]
    assert there_and_back(value) == value
    assert [type(item) for item in there_and_back(value)] == [type(item) for item in value]
    Text = type("Text", (str,), {"__str__": lambda self: "forged"})
    for kind in (Text, *(type("More", (plain,), {}) for plain in (int, float, dict, list, tuple, set, bytes))):
        plain = kind.__base__.__name__
        with pytest.raises(NotSendable, match=rf"{kind.__name__} \(a subclass: {plain}\(\) of it could be sent\)"):
            encode([kind()])
    Colour = enum.IntEnum("Colour", "RED")
    Point = collections.namedtuple("Point", "x y")
    assert decode(json.loads(encode([Point(1, 2), Colour.RED])), types=[Point, Colour]) == [Point(1, 2), Colour.RED]
    with pytest.raises(BadValue, match="Point of the result is not known: import its module in the caller, or pass"):
        there_and_back(Point(1, 2))


def array_of_text():
    """Python 3.13 warns of it, and still has it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return array.array("u", "x")


@pytest.mark.parametrize("value, words", [
    (object(), "object"), ({"a": [1, {"b": object()}]}, "object (result['a'][1]['b'])"), (print, "builtin_function"),
    ((i for i in ()), "generator"), (types.SimpleNamespace(), "types.SimpleNamespace"), (array_of_text(), "array('u')"),
    ({(1, object()): 2}, "object"), (Exception("x"), "Exception"), ([1j, range(3)], "range (result[1])"),
])
def test_what_cannot_be_sent_is_named_with_its_place(value, words):
    with pytest.raises(NotSendable) as caught:
        encode(value)
    assert words in str(caught.value)


def test_depth_is_bounded_and_a_circle_ends():
    deep = []
    for _ in range(DEPTH_MAX - 5):
        deep = [deep]
    assert there_and_back(deep) == deep
    circle = {}
    circle["me"] = [circle]
    for value in ([[deep]] * 9, circle):
        for _ in range(10):
            value = (value,)
        with pytest.raises(NotSendable, match="nested deeper than 200 levels"):
            encode(value)
    with pytest.raises(BadValue, match="deeper"):
        decode(json.loads("[" * (DEPTH_MAX + 5) + "]" * (DEPTH_MAX + 5)))


HOSTILE = [
    {"$": "pickle", "data": ""}, {"$": "__reduce__"}, {"$": []}, {"$": None}, {"$": "bytes"}, {"$": "bytes", "data": 1},
    {"$": "bytes", "data": "AA"}, {"$": "bytes", "data": "AA==\n"}, {"$": "bytes", "data": "é"}, {"$": "bytes", "data": "AA==", "x": 1},
    {"$": "tuple", "items": {}}, {"$": "tuple", "items": None}, {"$": "set", "items": [[]]}, {"$": "set", "items": [{"a": 1}]},
    {"$": "dict", "items": [[1]]}, {"$": "dict", "items": [1]}, {"$": "dict", "items": [[[], 1]]}, {"$": "dict", "items": {"a": 1}},
    {"$": "int", "hex": 1}, {"$": "int", "hex": ""}, {"$": "int", "hex": "-"}, {"$": "int", "hex": "0x1"}, {"$": "int", "hex": "1_0"},
    {"$": "float", "name": "infinity"}, {"$": "float", "name": 1}, {"$": "complex", "real": 1, "imag": 2.0},
    {"$": "complex", "real": "1", "imag": 2.0}, {"$": "str", "data": "/w=="}, {"$": "array", "code": "u", "order": "little", "data": ""},
    {"$": "array", "code": "", "order": "little", "data": ""}, {"$": "array", "code": "dd", "order": "little", "data": ""},
    {"$": "array", "code": "d", "order": sys.byteorder, "data": "AA=="}, {"$": "array", "code": "B", "order": "middle", "data": ""},
    {"$": "datetime", "iso": "now"}, {"$": "datetime", "iso": 1}, {"$": "date", "iso": "2024-13-01"}, {"$": "time", "iso": None},
    {"$": "timedelta", "parts": [1, 2]}, {"$": "timedelta", "parts": [10**30, 0, 0]}, {"$": "timedelta", "parts": [True, 0, 0]},
]


@pytest.mark.parametrize("value", HOSTILE, ids=str)
def test_decoder_refuses_what_encode_does_not_write(value):
    with pytest.raises(BadValue):
        decode(value)


@pytest.mark.parametrize("dtype", ["|O8", "|V8", "O", "<f3", "<f16", "f8", "<f8,<f8", "<U-1", "<U", "<M8[evil]", "<i²", None, 8, ["<f8"],
                                   "|S99999999999"])
def test_decoder_refuses_dtypes_that_are_not_plain(dtype):
    with pytest.raises(BadValue, match="dtype"):
        decode({"$": "ndarray", "dtype": dtype, "shape": [], "data": ""})


@pytest.mark.parametrize("shape", [[1 << 60, 1 << 60], [-1], [-1, -1], [True], [1.0], ["1"], {}, None, [1] * 33, [3]])
def test_decoder_refuses_shapes_that_do_not_fit(shape):
    with pytest.raises(BadValue):
        decode({"$": "ndarray", "dtype": "<i4", "shape": shape, "data": "AAAAAA=="})


def test_decoder_is_not_held_up_by_numbers_of_one_hash():
    same = [{"$": "int", "hex": f"{i * ((1 << 61) - 1):x}"} for i in range(SAME_HASH_MAX + 2)]
    for value in ({"$": "set", "items": same}, {"$": "frozenset", "items": same}, {"$": "dict", "items": [[key, 1] for key in same]}):
        with pytest.raises(BadValue, match="hash"):
            decode(value)


def probe_chain(count):
    """Ints, each with a hash of its own: the first half stand in a row in the table of a dict, and each of the
    others has to go along that row."""
    size = 8
    while size * 2 / 3 < count:
        size *= 2
    mask, random, row, at = size - 1, Random(1), [], 7
    for _ in range(count // 2):
        row.append(at)
        at = (at * 5 + 1) & mask
    keys, taken, free = dict.fromkeys(row), set(row), at
    while len(keys) < count:
        key = random.choice(row[:count // 8]) | random.getrandbits(8) << (size.bit_length() - 1)
        perturb, at = key, key & mask
        while perturb and at in taken:
            perturb >>= 5
            at = (at * 5 + perturb + 1) & mask
        if not perturb and at in taken and key not in keys:
            keys[key] = None
            while free in taken:
                free = (free * 5 + 1) & mask
            taken.add(free)
    return list(keys)


def looks_of(hashes, in_set):
    """What CPython's dict or set does, in all tables on the way to the last one."""
    looks, size, fits = 0, 8, 0
    while fits < len(hashes):
        fits, taken = size * 3 // 5 if in_set else size * 2 // 3, set()
        for number in hashes[:fits]:
            perturb = number & (1 << 64) - 1
            at = number & size - 1
            while True:
                places = range(at, at + (10 if in_set and at + 9 < size else 1))
                free = next((place for place in places if place not in taken), None)
                looks += len(places) if free is None else free - at + 1
                if free is not None:
                    taken.add(free)
                    break
                perturb >>= 5
                at = (at * 5 + 1 + perturb) % size
        size *= 2
    return looks


@pytest.mark.parametrize("in_set", [False, True])
def test_review_d4_looks_are_counted_as_python_has_them(in_set):
    random = Random(3)
    for count in (0, 1, 5, 6, 100, 1000):
        for spread in (4, 20, 60):
            hashes = [random.getrandbits(spread) << random.choice((0, 20)) for _ in range(count)]
            hashes = [hash(number) for number in hashes] + [hash(-1 - number) for number in hashes[:3]]
            assert _brig.hash_looks(hashes, in_set, 1 << 40) == looks_of(hashes, in_set)
    assert 50 < _brig.hash_looks([0] * 100, in_set, 50) <= 60


def seconds(work):
    begin = time.thread_time()
    work()
    return time.thread_time() - begin


def test_review_d4_numbers_that_share_a_probe_chain_are_refused():
    """Each hash is there once. To see that takes about as long as to read as many keys of the harmless kind."""
    keys = probe_chain(5000)
    assert len({hash(key) for key in keys}) == len(keys)

    def refused():
        with pytest.raises(BadValue, match="hash"):
            decode({"$": "dict", "items": [[key, 0] for key in keys]})
    harmless = {"$": "dict", "items": [[key, 0] for key in range(5000)]}
    took = [min(seconds(work) for _ in range(5)) for work in (refused, lambda: decode(harmless))]
    assert took[0] < 5 * took[1] + 0.05, took


@pytest.mark.parametrize("tag", ["set", "frozenset", "dict"])
def test_review_d4_numbers_that_share_a_probe_chain_take_linear_time(tag):
    """Refused or not: the hashes are counted without a dict of them, which would be as slow as what is refused."""
    def read(keys):
        with contextlib.suppress(BadValue):
            decode({"$": tag, "items": [[key, 0] for key in keys] if tag == "dict" else list(keys)})
    took = [min(seconds(lambda: read(keys)) for _ in range(5)) for keys in (probe_chain(1363), probe_chain(10920))]
    assert took[1] < 15 * took[0] + 0.01, took


def one_row(count, high=0, possible=lambda number: True):
    """Hashes that end up in one row in a table of 1 << 14, if there are many copies of each; alone they are harmless."""
    size, place, begin = 1 << 14, 7, set()
    for _ in range(64):
        begin.add(place)
        place = (place * 5 + 1) % size
    numbers, number = [], high
    while len(numbers) < count:
        number += 1
        perturb, place = number, number % size
        while perturb:
            perturb >>= 5
            place = (place * 5 + 1 + perturb) % size
        if place in begin and possible(number):
            numbers.append(number)
    return numbers


def copies(numbers):
    """Ints: 90 of each of these hashes."""
    return [{"$": "int", "hex": f"{number + i * sys.hash_info.modulus:x}"} for i in range(90) for number in numbers]


@pytest.mark.parametrize("in_set", [False, True])
def test_review_d4_copies_of_a_hash_count_as_often_as_they_are_there(in_set):
    items = copies(one_row(100))
    with pytest.raises(BadValue, match="collide too often"):
        decode({"$": "set", "items": items} if in_set else {"$": "dict", "items": [[key, 0] for key in items]})


def one_in_a_tuple(number):
    """What int has a tuple of it alone this hash of, as CPython mixes 64 bits; None: there is none."""
    mask, one, two, five = (1 << 64) - 1, 11400714785074694791, 14029467366897019727, 2870177450012600261
    mixed = (number - (1 ^ five ^ 3527539)) * pow(one, -1, 1 << 64) & mask
    lane = ((mixed >> 31 | mixed << 33) - five) * pow(two, -1, 1 << 64) & mask
    return lane if lane < sys.hash_info.modulus else None


def test_review_d4_hash_of_a_tuple_is_taken_as_it_is():
    """It is longer than that of an int: as an int it would have another hash, and so another place."""
    hashes = one_row(100, 1 << 62, lambda number: one_in_a_tuple(number) is not None)
    numbers = [one_in_a_tuple(number) for number in hashes]
    if [hash((number,)) for number in numbers] != hashes:
        pytest.skip("this Python mixes the hash of a tuple otherwise")
    with pytest.raises(BadValue, match="collide too often"):
        decode({"$": "dict", "items": [[{"$": "tuple", "items": [number]}, 0] for number in copies(numbers)]})


@pytest.mark.parametrize("wrap", [int, float, complex])
def test_review_d4_all_kinds_of_numbers(wrap):
    items = [[json.loads(encode(wrap(key))), 0] for key in probe_chain(2000)]
    with pytest.raises(BadValue, match="hash"):
        decode({"$": "dict", "items": items})


def test_review_d4_tuples_are_compared_in_linear_time():
    """Tuples of -1 and -2 have one hash, whichever of them they have. Compared to their end, each with each."""
    def tuples(length, count):
        ends = [[-1 - (i >> bit & 1) for bit in range(7)] for i in range(count)]
        return [{"$": "tuple", "items": [1] * (length - 7) + end} for end in ends]
    assert len(decode({"$": "set", "items": tuples(8, 64)})) == 64
    with pytest.raises(BadValue, match="hash"):
        decode({"$": "set", "items": tuples(2000, 2)})
    with pytest.raises(BadValue, match="hash"):
        decode({"$": "dict", "items": [[{"$": "frozenset", "items": [key]}, 1] for key in tuples(600, 2)]})


KEYS = {
    "counted": lambda: range(20000), "shifted": lambda: range(0, 20000 << 32, 1 << 32), "below zero": lambda: range(-20000, 0),
    "fractions": lambda: (i / 7 for i in range(20000)), "pages": lambda: (i * 4096 for i in range(20000)),
    "grid": lambda: ((x, y) for x in range(-70, 70) for y in range(-70, 70)),
    "points": lambda: ((x, -y, 1.5) for x in range(30) for y in range(30)),
    "powers of ten": lambda: (10 ** i for i in range(300)), "powers of two": lambda: (1 << i for i in range(2000)),
    "complex": lambda: (complex(x, -x) for x in range(5000)), "pairs": lambda: (frozenset((x, x + 1)) for x in range(5000)),
    "hashes": lambda: (hash(str(i)) for i in range(20000)), "odd": lambda: range(1, 1 << 61, (1 << 47) + 1),
}


@pytest.mark.parametrize("keys", KEYS.values(), ids=list(KEYS))
def test_review_d4_keys_as_people_have_them_arrive(keys):
    keys = list(keys())
    assert list(decode(json.loads(encode(dict.fromkeys(keys, 0))))) == keys
    assert decode(json.loads(encode(set(keys)))) == set(keys)


def test_case_27_decoder_imports_and_evaluates_nothing_of_the_guest(monkeypatch):
    def trap(*args, **kw):
        if args and args[0] not in ("array", "datetime", "numpy", "collections", "decimal", "pathlib", "uuid", "zoneinfo"):
            raise AssertionError(f"import of {args[0]}")
        return real(*args, **kw)
    real = builtins.__import__
    for name in ("eval", "exec", "compile"):
        monkeypatch.setattr(builtins, name, trap)
    monkeypatch.setattr(builtins, "__import__", trap)
    failures = 0
    for value in [*HOSTILE, *TAGGED, {"$": "os.system", "items": ["true"]}, {"$": "module", "name": "antigravity"}]:
        try:
            decode(value)
        except BadValue:
            failures += 1
    monkeypatch.undo()
    assert failures >= len(HOSTILE) and "antigravity" not in sys.modules


def test_array_without_numpy(monkeypatch):
    monkeypatch.delitem(sys.modules, "numpy")
    back = decode({"$": "ndarray", "dtype": "<i2", "shape": [1, 2], "data": "AQACAA=="})
    assert back == Array("<i2", (1, 2), b"\1\0\2\0") and "1, 2" in repr(back)


def test_shape_that_numpy_does_not_take_is_no_value():
    """No bytes are enough for any shape with a 0 in it; numpy has a maximum all the same."""
    assert numpy  # of Debian
    with pytest.raises(BadValue, match="no array of numpy's"):
        decode({"$": "ndarray", "dtype": "<f8", "shape": [0, sys.maxsize, sys.maxsize], "data": ""})


def test_arrays_of_numpy():
    back = there_and_back([numpy.zeros((2, 1)), numpy.zeros((0, 5), "M8[ns]")])
    assert [(type(one), one.dtype.str, one.shape) for one in back] == [
        (numpy.ndarray, "<f8", (2, 1)), (numpy.ndarray, "<M8[ns]", (0, 5))]
    back[0][0] = 1
    with pytest.raises(NotSendable, match="numpy array of dtype object"):
        encode(numpy.array([None]))


def test_mutations_are_values_or_refused():
    """Any JSON at all: decode() gives a value or raises BadValue, and nothing else."""
    random = Random(7)
    tags = [*_decode.READERS, "nope"]
    names = ["$", *{name for names, _ in _decode.READERS.values() for name in names}]
    atoms = [None, True, 0, -1, 10**30, 0.5, "", "AA==", "<f8", "|S0", "<U1", "d", "nan", "1f", "2024-01-01", "little", "\ud800", "ns", ["value_kinds", "Order"],
             {"$": "ndarray", "dtype": "<i8", "shape": [1], "data": "AAAAAAAAAAA="}]

    def some(depth):
        kind = random.randrange(4 if depth else 1)
        if kind == 0:
            return random.choice([*atoms, *tags])
        if kind == 1:
            return [some(depth - 1) for _ in range(random.randrange(4))]
        made = {name: some(depth - 1) for name in random.sample(names, random.randrange(3))}
        if kind == 3:
            tag = random.choice(tags)
            made = {"$": tag, **{name: some(depth - 1) for name in _decode.READERS.get(tag, [[]])[0]}}
        return made
    refused = 0
    for _ in range(20_000):
        try:
            decode(some(4))
        except BadValue:
            refused += 1
    assert 1_000 < refused < 20_000
