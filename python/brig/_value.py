# SPDX-License-Identifier: MIT
"""Values of a call as JSON, and back: the values that a function in a guest can return.

encode() runs in the guest, decode() in the caller, which trusts none of the bytes: nothing is
unpickled, evaluated or imported, and anything that encode() would not write is refused. JSON types
stand for themselves. Other types are an object with the member "$", which names the type. A dict
with a member "$", or with keys that are not str, is written as a list of pairs. A value of a
subclass arrives as a value of its plain type, as with the json module; nothing else changes
silently.

Each new interpreter in a guest loads this file, so it imports almost nothing.
"""

from __future__ import annotations

import binascii
import sys
from _json import encode_basestring  # type: ignore[attr-defined]

if __package__:  # in the caller
    from . import _brig

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

TAG = "$"
DEPTH_MAX = 200
"""Levels of nesting; the library accepts more than twice as many."""

SAME_HASH_MAX = 100
"""The maximum number of values with the same hash in a set or a dict: a guest may choose numbers
so."""

LOOKS_MAX = 256
"""A guest may also choose numbers that collide in the table although their hashes differ: the
maximum of table slots probed per value of a set or a dict, on average."""

SAME_HASH_WEIGHT_MAX = 512
"""The maximum weight of a value with the same hash as another one, because the two are compared."""

WAY_MAX = 8
"""Parts of the path to a value that cannot be sent, in a message."""

ARRAY_CODES = "bBhHiIlLqQfd"
DTYPE_SIZES = {
    "b": (1,),
    "i": (1, 2, 4, 8),
    "u": (1, 2, 4, 8),
    "f": (2, 4, 8),
    "c": (8, 16),
}
TIME_UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as")
INT_PLAIN = 1 << 63


class NotSendable(Exception):
    """encode(): a part of the value has no form in JSON here. The text names it and its place."""


class BadValue(Exception):
    """decode(): encode() does not write this."""


class Array:
    """A numpy array for a caller that has not imported numpy: `dtype` and `shape` as numpy writes
    them, and the bytes of the elements."""

    def __init__(self, dtype: str, shape: tuple[int, ...], data: bytes) -> None:
        self.dtype = dtype
        self.shape = shape
        self.data = data

    def numpy(self) -> Any:
        """The ndarray; imports numpy."""
        import numpy  # type: ignore[import]

        return numpy.frombuffer(bytearray(self.data), numpy.dtype(self.dtype)).reshape(self.shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Array) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Array(dtype={self.dtype!r}, shape={self.shape!r}, {len(self.data)} bytes)"


# ---- in the guest ----


class _Misfit(Exception):
    """A value without a form, and the path to it, to which each container adds a part."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.way: list[str] = []

    def sentence(self) -> str:
        way = "".join(reversed(self.way[-WAY_MAX:]))
        place = f" (result{way})" if way else ""
        return f"{self.what}{place} is not among the types that a function can send back"


def encode(value: Any) -> str:
    """The value as JSON. NotSendable names a part that cannot be sent."""
    atom = _ATOMS.get(type(value))
    parts: list[str] = []
    try:
        if atom is not None:
            return atom(value)
        _Writer(parts.append).write(value, 0)
    except RecursionError:
        raise NotSendable("the result is nested too deeply") from None
    except _Misfit as misfit:
        raise NotSendable(misfit.sentence()) from None
    return "".join(parts)


def _text(value: str) -> str:
    """A JSON string; a str with a lone surrogate is tagged instead."""
    if _is_plain_text(value):
        return str(encode_basestring(value))
    return _tagged("str", "data", _base64(value.encode("utf-8", "surrogatepass")))


def _is_plain_text(value: str) -> bool:
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _base64(data: Any) -> str:
    return '"' + binascii.b2a_base64(data, newline=False).decode() + '"'


def _tagged(tag: str, *members: str) -> str:
    """An object with a tag; `members` are pairs of a name and JSON."""
    text = f'{{"{TAG}":"{tag}"'
    for name, json in zip(members[::2], members[1::2]):
        text += f',"{name}":{json}'
    return text + "}"


def _int(value: int) -> str:
    # Hexadecimal digits are parsed in linear time, and no reader takes them for a float.
    if -INT_PLAIN <= value < INT_PLAIN:
        return int.__repr__(value)
    return _tagged("int", "hex", f'"{value:x}"')


def _float(value: float) -> str:
    text = float.__repr__(value)
    return _tagged("float", "name", f'"{text}"') if text in ("nan", "inf", "-inf") else text


def _complex(value: complex) -> str:
    return _tagged("complex", "real", _float(value.real), "imag", _float(value.imag))


def _array(value: Any) -> str:
    code = value.typecode
    if code == "u":
        raise _Misfit("array('u')")
    order = f'"{sys.byteorder}"'
    return _tagged("array", "code", f'"{code}"', "order", order, "data", _base64(value))


def _ndarray(value: Any) -> str:
    dtype = value.dtype.str
    if not is_plain_dtype(dtype):
        raise _Misfit(f"numpy array of dtype {value.dtype}")
    shape = "[" + ",".join(str(int(side)) for side in value.shape) + "]"
    data = _base64(value.tobytes())
    return _tagged("ndarray", "dtype", f'"{dtype}"', "shape", shape, "data", data)


def _timedelta(value: Any) -> str:
    return _tagged("timedelta", "parts", f"[{value.days},{value.seconds},{value.microseconds}]")


_ATOMS: dict[type, Callable[[Any], str]] = {
    str: _text,
    int: _int,
    float: _float,
    bool: lambda value: "true" if value else "false",
    type(None): lambda value: "null",
}
"""The most frequent types; compared by identity, for speed."""

_SIMPLE: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (str, lambda value: _text(str.__str__(value))),
    (int, _int),
    (float, _float),
    (complex, _complex),
    (bytes, lambda value: _tagged("bytes", "data", _base64(value))),
    (bytearray, lambda value: _tagged("bytearray", "data", _base64(value))),
    (memoryview, lambda value: _tagged("bytes", "data", _base64(value.tobytes()))),
)


def _of_loaded_module(value: Any) -> str | None:
    """Types that exist only if their module was imported; this does not import it."""
    modules = sys.modules
    numpy, array, datetime = (modules.get(name) for name in ("numpy", "array", "datetime"))
    if numpy is not None and isinstance(value, numpy.ndarray):
        return _ndarray(value)
    if array is not None and isinstance(value, array.array):
        return _array(value)
    if datetime is not None:
        if isinstance(value, datetime.timedelta):
            return _timedelta(value)
        for name in ("datetime", "date", "time"):  # a datetime is also a date
            if isinstance(value, getattr(datetime, name)):
                return _tagged(name, "iso", _text(value.isoformat()))
    return None


class _Writer:
    """Writes one value; `add` takes each piece of the text."""

    def __init__(self, add: Callable[[str], None]) -> None:
        self._add = add

    def write(self, value: Any, depth: int) -> None:
        atom = _ATOMS.get(type(value))
        if atom is not None:
            self._add(atom(value))
        elif depth > DEPTH_MAX - 2:
            raise NotSendable(f"the result is nested deeper than {DEPTH_MAX} levels")
        elif isinstance(value, dict):
            self._write_dict(value, depth)
        elif isinstance(value, list):
            self._write_items(list.__iter__(value), depth)
        elif isinstance(value, (tuple, set, frozenset)):
            name = next(t.__name__ for t in (tuple, frozenset, set) if isinstance(value, t))
            self._add(f'{{"{TAG}":"{name}","items":')
            self._write_items(iter(value), depth + 1)
            self._add("}")
        else:
            self._add(self._simple(value, depth))

    def _simple(self, value: Any, depth: int) -> str:
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(value, numpy.generic):
            return self._number(value, depth)
        for kind, write in _SIMPLE:
            if isinstance(value, kind):
                return write(value)
        text = _of_loaded_module(value)
        if text is None:
            raise _Misfit(_name(type(value)))
        return text

    def _number(self, value: Any, depth: int) -> str:
        """A numpy scalar is sent as the Python value that it stands for."""
        plain = value.item()
        if type(plain) is type(value) or not is_plain_dtype(value.dtype.str):
            raise _Misfit(_name(type(value)))
        parts: list[str] = []
        _Writer(parts.append).write(plain, depth + 1)
        return "".join(parts)

    def _write_items(self, items: Any, depth: int) -> None:
        before, index = "[", 0
        try:
            for item in items:
                self._add(before)
                self.write(item, depth + 1)
                before = ","
                index += 1
        except _Misfit as misfit:
            misfit.way.append(f"[{index}]")
            raise
        self._add("[]" if before == "[" else "]")

    def _write_dict(self, value: dict[Any, Any], depth: int) -> None:
        if TAG in value or not all(type(key) is str and _is_plain_text(key) for key in value):
            self._add(f'{{"{TAG}":"dict","items":')
            self._write_items((list(pair) for pair in dict.items(value)), depth + 1)
            self._add("}")
            return
        before, key = "{", ""
        try:
            for key, item in dict.items(value):
                self._add(before + encode_basestring(key) + ":")
                self.write(item, depth + 1)
                before = ","
        except _Misfit as misfit:
            misfit.way.append(f"[{key[:40]!r}]")
            raise
        self._add("{}" if before == "{" else "}")


def _name(kind: type) -> str:
    module = kind.__module__
    name = kind.__qualname__
    return name if module in ("builtins", "__main__") else f"{module}.{name}"


# ---- in the caller ----


def is_plain_dtype(text: Any) -> bool:
    """True if it is a numpy type whose elements are plain bytes: numbers, dates, fixed-width texts.
    """
    if not isinstance(text, str) or len(text) > 32 or text[:1] not in ("<", ">", "|"):
        return False
    kind, rest = text[1:2], text[2:]
    digits = rest.isascii() and rest.isdecimal()
    if kind in DTYPE_SIZES:
        return digits and int(rest) in DTYPE_SIZES[kind]
    if kind in ("S", "U"):
        return digits and 0 < int(rest) <= 1 << 20
    if kind in ("M", "m"):
        return rest == "8" or (rest[:2] == "8[" and rest[-1:] == "]" and rest[2:-1] in TIME_UNITS)
    return False


def _element_size(dtype: str) -> int:
    size = int(dtype[2:].partition("[")[0])
    return size * 4 if dtype[1] == "U" else size


def decode(value: Any) -> Any:
    """Decode a value from json.loads(), in place; BadValue if encode() did not write it."""
    return value if type(value) in _ATOMS else _decode(value, 0)


def _decode(value: Any, depth: int) -> Any:
    if depth > DEPTH_MAX:
        raise BadValue(f"it is nested deeper than {DEPTH_MAX} levels")
    if isinstance(value, list):
        return _decode_all(value, depth)
    if not isinstance(value, dict):
        return value
    if TAG not in value:
        for key, item in value.items():
            if type(item) not in _ATOMS:
                value[key] = _decode(item, depth + 1)
        return value
    tag = value[TAG]
    if not isinstance(tag, str) or tag not in _READERS:
        raise BadValue(f"{str(tag)[:40]!r} is not a type of a result")
    names, read = _READERS[tag]
    if set(value) != {TAG, *names}:
        raise BadValue(f"a {tag} has {', '.join(names)}, and nothing else")
    return read(*(value[name] for name in names), depth + 1)


def _decode_all(values: list[Any], depth: int) -> list[Any]:
    """In place, because a copy of a large result would take too much memory."""
    for index, value in enumerate(values):
        if type(value) not in _ATOMS:
            values[index] = _decode(value, depth + 1)
    return values


def _bytes(text: Any) -> bytes:
    if not isinstance(text, str):
        raise BadValue("bytes are not a text")
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise BadValue(f"bytes are not base64: {error}") from None


def _items(items: Any, depth: int) -> list[Any]:
    if not isinstance(items, list):
        raise BadValue("the items are not a list")
    return _decode_all(items, depth)


def _hashable(values: list[Any], in_set: bool) -> list[Any]:
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
    if not isinstance(value, (tuple, frozenset)):
        return 1
    inside = 1 + sum(map(_weight, value))
    return inside if isinstance(value, tuple) else 8 * inside**2


def _read_dict(items: Any, depth: int) -> dict[Any, Any]:
    pairs = _items(items, depth)
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise BadValue("a dict is not a list of pairs")
    keys = _hashable([pair[0] for pair in pairs], False)
    return dict(zip(keys, (pair[1] for pair in pairs)))


def _read_int(text: Any, depth: int) -> int:
    digits = text[1:] if isinstance(text, str) and text[:1] == "-" else text
    if not isinstance(digits, str) or not digits or set(digits) - set("0123456789abcdef"):
        raise BadValue("an int is not hexadecimal digits")
    return int(text, 16)


def _read_float(name: Any, depth: int) -> float:
    if name not in ("nan", "inf", "-inf"):
        raise BadValue("a float is neither a number nor nan, inf, -inf")
    return float(name)


def _read_complex(real: Any, imag: Any, depth: int) -> complex:
    parts = [_decode(part, depth + 1) for part in (real, imag)]
    if not all(type(part) is float for part in parts):
        raise BadValue("a complex is not two floats")
    return complex(*parts)


def _read_str(text: Any, depth: int) -> str:
    try:
        return _bytes(text).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise BadValue(f"a str is none: {error}") from None


def _read_array(code: Any, order: Any, data: Any, depth: int) -> Any:
    import array

    raw = _bytes(data)
    if not isinstance(code, str) or len(code) != 1 or code not in ARRAY_CODES:
        raise BadValue("no code of an array")
    made = array.array(code)
    if order != sys.byteorder or len(raw) % made.itemsize:
        raise BadValue("the bytes of an array are not those of its elements")
    made.frombytes(raw)
    return made


def _read_ndarray(dtype: Any, shape: Any, data: Any, depth: int) -> Any:
    raw = _bytes(data)
    if not is_plain_dtype(dtype):
        raise BadValue("a dtype that is not a plain one")
    if not isinstance(shape, list) or len(shape) > 32:
        raise BadValue("the shape of an array is not a list")
    want = _element_size(dtype)
    for side in shape:
        if type(side) is not int or not 0 <= side <= sys.maxsize:
            raise BadValue("the shape of an array is not made of lengths")
        want *= side
    if want != len(raw):
        raise BadValue(f"an array of {want} bytes has {len(raw)}")
    made = Array(dtype, tuple(shape), raw)
    if "numpy" not in sys.modules:
        return made
    try:
        return made.numpy()
    except (TypeError, ValueError, OverflowError, MemoryError) as error:  # sizes that numpy refuses
        raise BadValue(f"no array of numpy's: {error}") from None


def _time_reader(name: str) -> Callable[[Any, int], Any]:
    def read(iso: Any, depth: int) -> Any:
        import datetime

        try:
            return getattr(datetime, name).fromisoformat(iso)
        except (TypeError, ValueError) as error:
            raise BadValue(f"no {name}: {error}") from None

    return read


def _read_timedelta(parts: Any, depth: int) -> Any:
    import datetime

    if not isinstance(parts, list) or [type(part) for part in parts] != [int, int, int]:
        raise BadValue("a timedelta is not days, seconds, microseconds")
    try:
        return datetime.timedelta(*parts)
    except OverflowError as error:
        raise BadValue(f"no timedelta: {error}") from None


_READERS: dict[str, tuple[tuple[str, ...], Callable[..., Any]]] = {
    "dict": (("items",), _read_dict),
    "tuple": (("items",), lambda items, depth: tuple(_items(items, depth))),
    "set": (("items",), lambda items, depth: set(_hashable(_items(items, depth), True))),
    "frozenset": (("items",), lambda items, depth: frozenset(_hashable(_items(items, depth), True))),
    "int": (("hex",), _read_int),
    "float": (("name",), _read_float),
    "complex": (("real", "imag"), _read_complex),
    "str": (("data",), _read_str),
    "bytes": (("data",), lambda data, depth: _bytes(data)),
    "bytearray": (("data",), lambda data, depth: bytearray(_bytes(data))),
    "array": (("code", "order", "data"), _read_array),
    "ndarray": (("dtype", "shape", "data"), _read_ndarray),
    "datetime": (("iso",), _time_reader("datetime")),
    "date": (("iso",), _time_reader("date")),
    "time": (("iso",), _time_reader("time")),
    "timedelta": (("parts",), _read_timedelta),
}
