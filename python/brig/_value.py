# SPDX-License-Identifier: MIT
"""Values of a call as JSON: encode() runs in the guest, decode() of _decode.py in the caller.

JSON types stand for themselves. Other types are an object with the member "$", which names the
type; docs/VALUES.md lists them. A dict with a member "$", or with keys that are not str, is written
as a list of pairs. A value arrives as it was, or NotSendable names the part that cannot be sent:
nothing changes silently, so a subclass of a plain type is refused. Types of modules are in
_value_kinds.py.

Each new interpreter in a guest loads this file, so it imports almost nothing.
"""

from __future__ import annotations

import binascii
from _json import encode_basestring  # type: ignore[attr-defined]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

TAG = "$"
DEPTH_MAX = 200
"""Levels of nesting; the library accepts more than twice as many."""

WAY_MAX = 8
"""Parts of the path to a value that cannot be sent, in a message."""

DTYPE_SIZES = {
    "b": (1,),
    "i": (1, 2, 4, 8),
    "u": (1, 2, 4, 8),
    "f": (2, 4, 8),
    "c": (8, 16),
}
TIME_UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as")
INT_PLAIN = 1 << 63

LARGE = 1 << 18
"""Bytes of a buffer from which on it goes into the memory file of the call."""


class NotSendable(Exception):
    """encode(): a part of the value has no form in JSON here. The text names it and its place."""


class Misfit(Exception):
    """A value without a form, and the path to it, to which each container adds a part."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.way: list[str] = []

    def sentence(self) -> str:
        way = "".join(reversed(self.way[-WAY_MAX:]))
        place = f" (result{way})" if way else ""
        return f"{self.what}{place} is not among the types that a function can send back"


class Raw:
    """Bytes of a value: base64 in the JSON or, if there are many, a part of the memory file."""

    __slots__ = ("buffer",)

    def __init__(self, buffer: Any) -> None:
        self.buffer = buffer


def encode(value: Any, spill: Callable[[memoryview], int] | None = None) -> str:
    """The value as JSON. NotSendable names a part that cannot be sent. `spill` writes a large
    buffer to the memory file and returns its offset, or -1 if it cannot."""
    atom = _ATOMS.get(type(value))
    try:
        if atom is not None:
            return atom(value)
        writer = Writer(spill)
        writer.write(value, 0)
    except RecursionError:
        raise NotSendable("the result is nested too deeply") from None
    except Misfit as misfit:
        raise NotSendable(misfit.sentence()) from None
    return "".join(writer.parts)


def _text(value: str) -> str:
    """A JSON string; a str with a lone surrogate is tagged instead."""
    if _is_plain_text(value):
        return str(encode_basestring(value))
    return f'{{"{TAG}":"str","data":{_base64(value.encode("utf-8", "surrogatepass"))}}}'


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


def _int(value: int) -> str:
    # Hexadecimal digits are parsed in linear time, and no reader takes them for a float.
    if -INT_PLAIN <= value < INT_PLAIN:
        return int.__repr__(value)
    return f'{{"{TAG}":"int","hex":"{value:x}"}}'


def _float(value: float) -> str:
    text = float.__repr__(value)
    if text in ("nan", "inf", "-inf"):
        return f'{{"{TAG}":"float","name":"{text}"}}'
    return text


_ATOMS: dict[type, Callable[[Any], str]] = {
    str: _text,
    int: _int,
    float: _float,
    bool: lambda value: "true" if value else "false",
    type(None): lambda value: "null",
}
"""The most frequent types; compared by identity, for speed."""

ATOM_TYPES = frozenset(_ATOMS)


class Writer:
    """Writes one value to `parts`, the pieces of the text."""

    def __init__(self, spill: Callable[[memoryview], int] | None) -> None:
        self.parts: list[str] = []
        self._add = self.parts.append
        self._spill = spill
        self._found: dict[type, Callable[[Writer, Any, int], None]] = {}

    def write(self, value: Any, depth: int) -> None:
        kind = type(value)
        atom = _ATOMS.get(kind)
        if atom is not None:
            self._add(atom(value))
            return
        if depth > DEPTH_MAX - 2:
            raise NotSendable(f"the result is nested deeper than {DEPTH_MAX} levels")
        write = _WRITERS.get(kind) or self._found.get(kind)
        if write is None:
            write = _value_kinds.find(value)
            if write is None:
                raise Misfit(describe_type(kind))
            self._found[kind] = write
        write(self, value, depth)

    def tagged(self, tag: str, depth: int, **members: Any) -> None:
        """An object with a tag; the members are values, written in turn."""
        self._add(f'{{"{TAG}":"{tag}"')
        for name, value in members.items():
            self._add(f',"{name}":')
            self.write(value, depth + 1)
        self._add("}")

    def items(self, items: Any, depth: int) -> None:
        before, index = "[", 0
        try:
            for item in items:
                self._add(before)
                self.write(item, depth + 1)
                before = ","
                index += 1
        except Misfit as misfit:
            misfit.way.append(f"[{index}]")
            raise
        self._add("[]" if before == "[" else "]")

    def tagged_items(self, tag: str, items: Any, depth: int) -> None:
        self._add(f'{{"{TAG}":"{tag}","items":')
        self.items(items, depth + 1)
        self._add("}")

    def write_dict(self, value: dict[Any, Any], depth: int) -> None:
        if TAG in value or not all(type(key) is str and _is_plain_text(key) for key in value):
            self.tagged_items("dict", (list(pair) for pair in dict.items(value)), depth)
            return
        before, key = "{", ""
        try:
            for key, item in dict.items(value):
                self._add(before + encode_basestring(key) + ":")
                self.write(item, depth + 1)
                before = ","
        except Misfit as misfit:
            misfit.way.append(f"[{key[:40]!r}]")
            raise
        self._add("{}" if before == "{" else "}")

    def write_raw(self, raw: Raw, depth: int) -> None:
        """Bytes are not redacted, nor looked at by the library, in either place."""
        view = memoryview(raw.buffer)
        place = self._spill(view) if self._spill is not None and view.nbytes >= LARGE else -1
        self._add(f"[{place},{view.nbytes}]" if place >= 0 else _base64(view))

    def write_complex(self, value: complex, depth: int) -> None:
        self.tagged("complex", depth, real=value.real, imag=value.imag)

    def write_bytes(self, value: Any, depth: int) -> None:
        self.tagged(type(value).__name__, depth, data=Raw(value))

    def write_memoryview(self, value: memoryview, depth: int) -> None:
        if value.format != "B" or value.ndim != 1 or not value.contiguous:
            raise Misfit("memoryview of anything but bytes in a row")
        self.tagged("memoryview", depth, data=Raw(value), readonly=value.readonly)


_WRITERS: dict[type, Callable[[Writer, Any, int], None]] = {
    list: Writer.items,
    dict: Writer.write_dict,
    tuple: lambda writer, value, depth: writer.tagged_items("tuple", value, depth),
    set: lambda writer, value, depth: writer.tagged_items("set", value, depth),
    frozenset: lambda writer, value, depth: writer.tagged_items("frozenset", value, depth),
    complex: Writer.write_complex,
    bytes: Writer.write_bytes,
    bytearray: Writer.write_bytes,
    memoryview: Writer.write_memoryview,
    Raw: Writer.write_raw,
}


def name_of(kind: type) -> str:
    module = kind.__module__
    name = kind.__qualname__
    return name if module in ("builtins", "__main__") else f"{module}.{name}"


def describe_type(kind: type) -> str:
    """The name of a class that cannot be sent; with its plain type, which could be."""
    for plain in (str, int, float, complex, bytes, bytearray, dict, list, tuple, set, frozenset):
        if issubclass(kind, plain):
            return f"{name_of(kind)} (a subclass: {plain.__name__}() of it could be sent)"
    return name_of(kind)


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
        return rest == "8" or (rest[:2] == "8[" and rest[-1:] == "]" and _is_unit(rest[2:-1]))
    return False


def _is_unit(text: str) -> bool:
    """A unit of numpy's dates: "ns", or with a count before it, as "25s"."""
    unit = text.lstrip("0123456789")
    count = text[: len(text) - len(unit)]
    return unit in TIME_UNITS and (not count or (len(count) < 10 and count[0] != "0"))


# Last, because it imports the names above.
if __package__:
    from . import _value_kinds
else:
    import _value_kinds  # type: ignore[import, no-redef]
