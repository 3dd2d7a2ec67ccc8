# SPDX-License-Identifier: MIT
"""Values from a guest: reads what encode() of _value.py writes, and nothing else.

The caller trusts none of the bytes: nothing is unpickled, evaluated or imported by a name of the
guest's, and anything that encode() would not write is refused. A reader of a type gets the members
of its object as JSON, checks each, and decodes those that are values themselves. Types of modules
are in _decode_numpy.py, _decode_frames.py and _decode_classes.py.
"""

from __future__ import annotations

import binascii
import importlib
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any

from . import _brig
from ._memory import NONE, BadPlace, Memory, TooLarge
from ._value import ATOM_TYPES, DEPTH_MAX, TAG

SAME_HASH_MAX = 100
"""The maximum number of values with the same hash in a set or a dict: a guest may choose numbers
so."""

LOOKS_MAX = 256
"""A guest may also choose numbers that collide in the table although their hashes differ: the
maximum of table slots probed per value of a set or a dict, on average."""

SAME_HASH_WEIGHT_MAX = 512
"""The maximum weight of a value with the same hash as another one, because the two are compared."""

ARRAY_CODES = "bBhHiIlLqQfd"
FACTORIES = {
    kind.__name__: kind
    for kind in (bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset)
}
DECIMAL = re.compile(r"-?(\d+(\.\d+)?(E[+-]\d{1,19})?|Infinity|s?NaN\d*)", re.ASCII)
UUID = re.compile(r"[0-9a-f]{32}", re.ASCII)

Reader = Callable[..., Any]


class BadValue(Exception):
    """decode(): encode() does not write this."""


class UnknownType(BadValue):
    """The value is sound, but its class or its module is not loaded in the caller. `name` is the
    class; the text has the fix."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name


class Array:
    """A numpy array for a caller that has not imported numpy: `dtype` and `shape` as numpy writes
    them, and the bytes of the elements."""

    def __init__(self, dtype: str, shape: tuple[int, ...], data: bytes) -> None:
        self.dtype = dtype
        self.shape = shape
        self.data = data

    def numpy(self) -> Any:
        """The ndarray; imports numpy."""
        from ._decode_numpy import check_elements

        numpy: Any = importlib.import_module("numpy")
        made = numpy.frombuffer(bytearray(self.data), numpy.dtype(self.dtype)).reshape(self.shape)
        check_elements(numpy, made)
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Array) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Array(dtype={self.dtype!r}, shape={self.shape!r}, {len(self.data)} bytes)"


def decode(value: Any, types: Iterable[type] = (), memory: Memory | None = None) -> Any:
    """Decode a value from json.loads(), in place; BadValue if encode() did not write it. `types`
    are classes of the caller in addition to those of loaded modules, `memory` has large buffers.
    """
    return value if type(value) in ATOM_TYPES else Decoder(types, memory).decode(value, 0)


class Decoder:
    """Decodes one value."""

    def __init__(self, types: Iterable[type], memory: Memory | None) -> None:
        self.types = tuple(types)
        self.memory = memory
        self.zones: frozenset[str] | None = None  # of the system, once they are asked for
        self.hashed = 0  # comparisons that pandas may make because of hashes

    def decode(self, value: Any, depth: int) -> Any:
        if depth > DEPTH_MAX:
            raise BadValue(f"it is nested deeper than {DEPTH_MAX} levels")
        if isinstance(value, list):
            return self.decode_all(value, depth)
        if not isinstance(value, dict):
            return value
        if TAG not in value:
            for key, item in value.items():
                if type(item) not in ATOM_TYPES:
                    value[key] = self.decode(item, depth + 1)
            return value
        tag = value[TAG]
        if not isinstance(tag, str) or tag not in READERS:
            raise BadValue(f"{str(tag)[:40]!r} is not a type of a result")
        names, read = READERS[tag]
        if set(value) != {TAG, *names}:
            raise BadValue(f"a {tag} has {', '.join(names)}, and nothing else")
        return read(self, *(value[name] for name in names), depth + 1)

    def decode_all(self, values: list[Any], depth: int) -> list[Any]:
        """In place, because a copy of a large result would take too much memory."""
        for index, value in enumerate(values):
            if type(value) not in ATOM_TYPES:
                values[index] = self.decode(value, depth + 1)
        return values

    def items(self, items: Any, depth: int) -> list[Any]:
        if not isinstance(items, list):
            raise BadValue("the items are not a list")
        return self.decode_all(items, depth)

    def pairs(self, items: Any, depth: int) -> Iterable[tuple[Any, Any]]:
        pairs = self.items(items, depth)
        if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
            raise BadValue("a dict is not a list of pairs")
        keys = hashable([pair[0] for pair in pairs], False)
        return zip(keys, (pair[1] for pair in pairs))

    def buffer(self, data: Any, make: Callable[[int], Any] | None = None) -> Any:
        """The bytes of a value, of which nobody else has the memory. `make` gives the memory for a
        large one; without it they are bytes."""
        if isinstance(data, list):
            return self._part(data, make)
        if not isinstance(data, str):
            raise BadValue("bytes are not a text")
        try:
            return binascii.a2b_base64(data, strict_mode=True)
        except (binascii.Error, ValueError) as error:
            raise BadValue(f"bytes are not base64: {error}") from None

    def _part(self, place: list[Any], make: Callable[[int], Any] | None) -> Any:
        sound = len(place) == 2 and all(type(number) is int and number >= 0 for number in place)
        if not sound:
            raise BadValue("bytes are not at a place of the memory file")
        if self.memory is None:
            raise BadValue(NONE)
        offset, length = place
        try:
            self.memory.check(offset, length)
            if make is None:
                return self.memory.read_bytes(offset, length)
            made = make(length)
            self.memory.read_into(made, offset)
            return made
        except TooLarge:
            raise
        except BadPlace as error:
            raise BadValue(str(error)) from None

    def expect(self, value: Any, kind: type | tuple[type, ...], depth: int) -> Any:
        """Decode a member that must be of this very type."""
        made = self.decode(value, depth)
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if type(made) not in kinds:
            raise BadValue(f"a {type(made).__name__:.40} where a {kinds[0].__name__} belongs")
        return made


# ---- hashes chosen by a guest ----


def hashable(values: list[Any], in_set: bool) -> list[Any]:
    """Check that the values of a set, or the keys of a dict, can be inserted in linear time."""
    most = LOOKS_MAX * len(values)
    try:
        looks = _brig.hash_looks(values, in_set, most)
    except TypeError as error:
        raise BadValue(f"in a set or as a key: {error}") from None
    _check_same(values)
    if looks > most:
        raise BadValue("the hashes of a set or a dict collide too often")
    return values


def _check_same(values: list[Any]) -> None:
    """Values with the same hash are compared with each other. They are found by sorting: a dict
    with hashes chosen by the guest could itself be slow."""
    hashes = list(map(hash, values))
    order = sorted(range(len(hashes)), key=hashes.__getitem__)
    begin = 0
    for end in range(1, len(order) + 1):
        if end < len(order) and hashes[order[end]] == hashes[order[begin]]:
            continue
        if end - begin > SAME_HASH_MAX:
            raise BadValue(f"more than {SAME_HASH_MAX} values of a set or a dict have the same hash")
        if end - begin > 1 and any(_weight(values[at]) > SAME_HASH_WEIGHT_MAX for at in order[begin:end]):
            raise BadValue("large values of a set or a dict have the same hash")
        begin = end


def _weight(value: Any) -> int:
    """The maximum number of atoms that are compared to compare it with another value."""
    if hasattr(type(value), "__dataclass_fields__"):
        return 1 + sum(_weight(getattr(value, name, None)) for name in value.__dataclass_fields__)
    if not isinstance(value, (tuple, frozenset)):
        return 1
    inside = 1 + sum(map(_weight, value))
    return inside if isinstance(value, tuple) else 8 * inside**2


# ---- builtin types ----


def _read_int(decoder: Decoder, text: Any, depth: int) -> int:
    digits = text[1:] if isinstance(text, str) and text[:1] == "-" else text
    if not isinstance(digits, str) or not digits or set(digits) - set("0123456789abcdef"):
        raise BadValue("an int is not hexadecimal digits")
    return int(text, 16)


def _read_float(decoder: Decoder, name: Any, depth: int) -> float:
    if name not in ("nan", "inf", "-inf"):
        raise BadValue("a float is neither a number nor nan, inf, -inf")
    return float(name)


def _read_complex(decoder: Decoder, real: Any, imag: Any, depth: int) -> complex:
    return complex(*(decoder.expect(part, float, depth) for part in (real, imag)))


def _read_str(decoder: Decoder, data: Any, depth: int) -> str:
    try:
        return str(decoder.buffer(data), "utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise BadValue(f"a str is none: {error}") from None


def _read_bytearray(decoder: Decoder, data: Any, depth: int) -> bytearray:
    buffer = decoder.buffer(data, bytearray)
    return buffer if type(buffer) is bytearray else bytearray(buffer)


def _read_bytes(decoder: Decoder, data: Any, depth: int) -> bytes:
    return bytes(decoder.buffer(data))


def _read_memoryview(decoder: Decoder, data: Any, readonly: Any, depth: int) -> memoryview:
    if type(readonly) is not bool:
        raise BadValue("a memoryview is neither read-only nor writable")
    return memoryview((_read_bytes if readonly else _read_bytearray)(decoder, data, depth))


def _read_array(decoder: Decoder, code: Any, order: Any, data: Any, depth: int) -> Any:
    import array

    if not isinstance(code, str) or len(code) != 1 or code not in ARRAY_CODES:
        raise BadValue("no code of an array")
    raw = decoder.buffer(data)
    made = array.array(code)
    if order != sys.byteorder or len(raw) % made.itemsize:
        raise BadValue("the bytes of an array are not those of its elements")
    made.frombytes(raw)
    return made


# ---- of the standard library ----


def _made(name: str, make: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Make an object; the exceptions of a constructor that refuses its arguments are BadValue."""
    try:
        return make(*args, **keywords)
    except (TypeError, ValueError, OverflowError, ArithmeticError) as error:
        raise BadValue(f"no {name}: {error!s:.200}") from None


def numbers(values: Any, count: int, name: str) -> list[int]:
    if not isinstance(values, list) or [type(part) for part in values] != [int] * count:
        raise BadValue(f"the parts of a {name} are not {count} numbers")
    return values


def _read_defaultdict(decoder: Decoder, factory: Any, items: Any, depth: int) -> Any:
    from collections import defaultdict

    if factory is not None and (not isinstance(factory, str) or factory not in FACTORIES):
        raise BadValue("a defaultdict makes a type that is not a plain one")
    make = None if factory is None else FACTORIES[factory]
    return defaultdict(make, decoder.pairs(items, depth))


def _read_counter(decoder: Decoder, items: Any, depth: int) -> Any:
    from collections import Counter

    made: Any = Counter()
    dict.update(made, decoder.pairs(items, depth))
    return made


def _read_ordered(decoder: Decoder, items: Any, depth: int) -> Any:
    from collections import OrderedDict

    return OrderedDict(decoder.pairs(items, depth))


def _read_deque(decoder: Decoder, items: Any, maxlen: Any, depth: int) -> Any:
    from collections import deque

    if maxlen is not None and (type(maxlen) is not int or not 0 <= maxlen <= sys.maxsize):
        raise BadValue("the maximum of a deque is not a length")
    return deque(decoder.items(items, depth), maxlen)


def _read_decimal(decoder: Decoder, text: Any, depth: int) -> Any:
    import decimal

    if not isinstance(text, str) or not DECIMAL.fullmatch(text):
        raise BadValue("a Decimal is not a number")
    return _made("Decimal", decimal.Decimal, text)


def _read_uuid(decoder: Decoder, hex: Any, safe: Any, depth: int) -> Any:
    import uuid

    if not isinstance(hex, str) or not UUID.fullmatch(hex) or type(safe) not in (int, type(None)):
        raise BadValue("a UUID is not 32 hexadecimal digits")
    return uuid.UUID(hex=hex, is_safe=_made("UUID", uuid.SafeUUID, safe))


def _read_path(decoder: Decoder, kind: Any, text: Any, depth: int) -> Any:
    import pathlib

    kinds = (pathlib.PosixPath, pathlib.PurePosixPath, pathlib.PureWindowsPath)
    named = {one.__name__: one for one in kinds}
    text = decoder.expect(text, str, depth)
    if not isinstance(kind, str) or kind not in named:
        raise BadValue("a path is not of a kind that is known")
    made = named[kind](text)
    if str(made) != text:
        raise BadValue("a path is not in its normal form")
    return made


def _read_date(decoder: Decoder, iso: Any, depth: int) -> Any:
    import datetime

    return _made("date", datetime.date.fromisoformat, iso)


def _read_datetime(
    decoder: Decoder, parts: Any, fold: Any, tz: Any, offset: Any, depth: int
) -> Any:
    import datetime

    zone = _tzinfo(decoder, tz, depth)
    localize = getattr(zone, "localize", None)  # pytz has an instance for each offset of a zone
    keywords = {"fold": _fold(fold), "tzinfo": None if localize else zone}
    made = _made("datetime", datetime.datetime, *numbers(parts, 7, "datetime"), **keywords)
    if not localize:
        if offset is not None:
            raise BadValue("a datetime has an offset beside its time zone")
        return made
    for summer in (False, True):
        local = _made("datetime", localize, made, is_dst=summer)
        if type(offset) is int and local.utcoffset().total_seconds() == offset:
            return local
    raise BadValue("a datetime has an offset that its time zone does not have")


def _read_time(decoder: Decoder, parts: Any, fold: Any, tz: Any, depth: int) -> Any:
    import datetime

    keywords = {"fold": _fold(fold), "tzinfo": _tzinfo(decoder, tz, depth)}
    return _made("time", datetime.time, *numbers(parts, 4, "time"), **keywords)


def _fold(fold: Any) -> int:
    if type(fold) is not int or fold not in (0, 1):
        raise BadValue("a fold is neither 0 nor 1")
    return fold


def _tzinfo(decoder: Decoder, tz: Any, depth: int) -> Any:
    import datetime

    zone = decoder.decode(tz, depth)
    if zone is not None and not isinstance(zone, datetime.tzinfo):
        raise BadValue("a time zone is none")
    return zone


def _read_timedelta(decoder: Decoder, parts: Any, depth: int) -> Any:
    import datetime

    return _made("timedelta", datetime.timedelta, *numbers(parts, 3, "timedelta"))


def _read_timezone(decoder: Decoder, offset: Any, name: Any, depth: int) -> Any:
    import datetime

    delta = decoder.expect(offset, datetime.timedelta, depth)
    if name is None:
        return _made("timezone", datetime.timezone, delta)
    return _made("timezone", datetime.timezone, delta, decoder.expect(name, str, depth))


def _read_zone(decoder: Decoder, key: Any, depth: int) -> Any:
    import zoneinfo

    # A name from this list only: ZoneInfo would look for a module of that name.
    if decoder.zones is None:
        decoder.zones = frozenset(zoneinfo.available_timezones())
    if not isinstance(key, str) or key not in decoder.zones:
        raise UnknownType("zoneinfo.ZoneInfo", f"the time zone {str(key)[:40]!r} is not known here")
    return zoneinfo.ZoneInfo(key)


READERS: dict[str, tuple[tuple[str, ...], Reader]] = {
    "dict": (("items",), lambda decoder, items, depth: dict(decoder.pairs(items, depth))),
    "tuple": (("items",), lambda decoder, items, depth: tuple(decoder.items(items, depth))),
    "set": (("items",), lambda decoder, items, depth: set(hashable(decoder.items(items, depth), True))),
    "frozenset": (
        ("items",),
        lambda decoder, items, depth: frozenset(hashable(decoder.items(items, depth), True)),
    ),
    "int": (("hex",), _read_int),
    "float": (("name",), _read_float),
    "complex": (("real", "imag"), _read_complex),
    "str": (("data",), _read_str),
    "bytes": (("data",), _read_bytes),
    "bytearray": (("data",), _read_bytearray),
    "memoryview": (("data", "readonly"), _read_memoryview),
    "array": (("code", "order", "data"), _read_array),
    "ordered_dict": (("items",), _read_ordered),
    "defaultdict": (("factory", "items"), _read_defaultdict),
    "counter": (("items",), _read_counter),
    "deque": (("items", "maxlen"), _read_deque),
    "decimal": (("text",), _read_decimal),
    "uuid": (("hex", "safe"), _read_uuid),
    "path": (("kind", "text"), _read_path),
    "datetime": (("parts", "fold", "tz", "offset"), _read_datetime),
    "date": (("iso",), _read_date),
    "time": (("parts", "fold", "tz"), _read_time),
    "timedelta": (("parts",), _read_timedelta),
    "timezone": (("offset", "name"), _read_timezone),
    "zone": (("key",), _read_zone),
}

from . import _decode_classes, _decode_frames, _decode_numpy  # noqa: E402  they use the names above

for _kinds in (_decode_classes, _decode_frames, _decode_numpy):
    READERS.update(_kinds.READERS)
