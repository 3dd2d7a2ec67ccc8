# SPDX-License-Identifier: MIT
"""numpy's values from a guest. Called by _decode.py.

A dtype is built from a closed set of texts, and the elements are checked: numpy itself trusts the
code points of its texts, and the bytes of its bools.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from ._decode import Array, BadValue, Decoder, Reader, UnknownType
from ._value import is_plain_dtype

SIDES_MAX = 32
"""Dimensions of an array; numpy 1 has no more."""

FIELDS_MAX = 4096
"""Fields of a dtype, with those of its fields."""

FIELD_DEPTH_MAX = 8
ITEM_MAX = 1 << 26
"""Bytes of an element, as in numpy's own texts: is_plain_dtype()."""

LARGEST_CODE_POINT = 0x10FFFF


def get_numpy(name: str) -> Any:
    """The module, if the caller has imported it: a guest decides what it sends."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        raise UnknownType(name, f"{name}: the caller has not imported numpy; import it there")
    return numpy


def lengths(values: Any) -> tuple[int, ...]:
    if not isinstance(values, list) or len(values) > SIDES_MAX:
        raise BadValue("the shape of an array is not a list")
    if not all(type(side) is int and 0 <= side <= sys.maxsize for side in values):
        raise BadValue("the shape of an array is not made of lengths")
    return tuple(values)


# ---- dtypes ----


class _Dtypes:
    """Makes a dtype from its form; counts fields, so that a form cannot grow into a huge dtype."""

    def __init__(self, numpy: Any) -> None:
        self._numpy = numpy
        self._fields = 0

    def make(self, form: Any, depth: int) -> Any:
        self._fields += 1
        if depth > FIELD_DEPTH_MAX or self._fields > FIELDS_MAX:
            raise BadValue("a dtype has too many fields")
        if is_plain_dtype(form):
            return self._numpy.dtype(form)
        if not isinstance(form, dict):
            raise BadValue("a dtype that is not a plain one")
        if set(form) == {"base", "shape"} and depth:
            return self._array(form, depth)
        if set(form) == {"names", "formats", "offsets", "itemsize", "align"}:
            return self._structure(form, depth)
        raise BadValue("a dtype that is not a plain one")

    def _array(self, form: dict[str, Any], depth: int) -> Any:
        base, shape = self.make(form["base"], depth + 1), lengths(form["shape"])
        size = base.itemsize
        for side in shape:
            size *= side
        if not shape or not 0 < size <= ITEM_MAX:
            raise BadValue("a dtype whose field is too large")
        return self._numpy.dtype((base, shape))

    def _structure(self, form: dict[str, Any], depth: int) -> Any:
        names, formats, offsets, itemsize = (
            form[name] for name in ("names", "formats", "offsets", "itemsize")
        )
        lists = [names, formats, offsets]
        if not all(isinstance(one, list) and len(one) == len(names) for one in lists):
            raise BadValue("a dtype whose fields have no names, formats and offsets")
        if not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
            raise BadValue("a dtype whose fields have no names of their own")
        if type(itemsize) is not int or not 0 < itemsize <= ITEM_MAX or type(form["align"]) is not bool:
            raise BadValue("a dtype without a size")
        made = [self.make(one, depth + 1) for one in formats]
        _check_places(made, offsets, itemsize)
        whole = {"names": names, "formats": made, "offsets": offsets, "itemsize": itemsize}
        return self._numpy.dtype(whole, align=form["align"])


def _check_places(fields: list[Any], offsets: list[Any], itemsize: int) -> None:
    """Fields lie inside of the element and do not overlap."""
    if not all(type(offset) is int and offset >= 0 for offset in offsets):
        raise BadValue("a dtype whose fields have no places")
    end = 0
    for offset, field in sorted(zip(offsets, fields), key=lambda pair: int(pair[0])):
        if offset < end:
            raise BadValue("a dtype whose fields overlap")
        end = offset + field.itemsize
    if end > itemsize:
        raise BadValue("a dtype whose fields lie outside of it")


def _element_size(dtype: str) -> int:
    size = int(dtype[2:].partition("[")[0])
    return size * 4 if dtype[1] == "U" else size


# ---- arrays ----


def _read_ndarray(decoder: Decoder, dtype: Any, shape: Any, data: Any, depth: int) -> Any:
    if "numpy" not in sys.modules and is_plain_dtype(dtype):
        raw = decoder.buffer(data)
        _check_size(_element_size(dtype), lengths(shape), len(raw))
        return Array(dtype, tuple(shape), bytes(raw))
    if not is_plain_dtype(dtype) and not isinstance(dtype, dict):
        raise BadValue("a dtype that is not a plain one")
    numpy = get_numpy("numpy.ndarray")
    try:
        made = _Dtypes(numpy).make(dtype, 0)
        raw = decoder.buffer(data, lambda size: numpy.empty(size, "u1"))
        _check_size(made.itemsize, lengths(shape), len(raw))
        raw = bytearray(raw) if type(raw) is bytes else raw  # an array can be written to
        flat = numpy.frombuffer(raw, made) if len(raw) else numpy.empty(lengths(shape), made)
        array = flat.reshape(shape)
    except (TypeError, ValueError, OverflowError, MemoryError) as error:  # sizes that numpy refuses
        raise BadValue(f"no array of numpy's: {error}") from None
    check_elements(numpy, array)
    return array


def _check_size(item: int, shape: tuple[int, ...], size: int) -> None:
    want = item
    for side in shape:
        want *= side
    if want != size:
        raise BadValue(f"an array of {want} bytes has {size}")


def check_elements(numpy: Any, array: Any) -> None:
    """numpy trusts code points and bools: wrong ones fail later, in the caller's code."""
    dtype = array.dtype
    if dtype.names is not None:
        for name in dtype.names:
            check_elements(numpy, array[name])
    elif dtype.kind == "U" and array.size:
        points = numpy.ascontiguousarray(array).reshape(-1).view(f"{dtype.byteorder}u4")
        if int(points.max()) > LARGEST_CODE_POINT:
            raise BadValue("an array of texts has a character that is none")
    elif dtype.kind == "b" and array.size:
        if int(numpy.ascontiguousarray(array).reshape(-1).view("u1").max()) > 1:
            raise BadValue("an array of bools has another value")


def is_array(value: Any, kind: str = "", sides: int = 1) -> bool:
    """True for an ndarray of so many dimensions, whose dtype is of one of these kinds."""
    numpy = sys.modules.get("numpy")
    if numpy is None or type(value) is not numpy.ndarray or value.ndim != sides:
        return False
    return not kind or value.dtype.kind in kind


def _read_masked(
    decoder: Decoder, data: Any, mask: Any, fill: Any, hard: Any, depth: int
) -> Any:
    numpy = get_numpy("numpy.ma.MaskedArray")
    ma: Any = importlib.import_module("numpy.ma")
    values, mask, fill = (decoder.decode(part, depth) for part in (data, mask, fill))
    if type(values) is not numpy.ndarray or type(hard) is not bool:
        raise BadValue("a masked array has no array")
    expected = ma.make_mask_descr(values.dtype)
    if mask is not None:
        if type(mask) is not numpy.ndarray or mask.dtype != expected or mask.shape != values.shape:
            raise BadValue("the mask of an array does not fit it")
    made = ma.MaskedArray(values, ma.nomask if mask is None else mask, hard_mask=hard)
    if fill is not None:
        if type(fill) is not numpy.ndarray or fill.shape != () or fill.dtype != values.dtype:
            raise BadValue("the fill value of an array is not one of its elements")
        made._fill_value = fill
    return made


def _read_masked_constant(decoder: Decoder, depth: int) -> Any:
    get_numpy("numpy.ma.masked")
    ma: Any = importlib.import_module("numpy.ma")
    return ma.masked


# ---- scalars ----

_PLAIN = {"b": bool, "i": int, "u": int, "f": float, "c": complex, "S": bytes, "U": str, "M": int, "m": int}


def _read_scalar(decoder: Decoder, dtype: Any, value: Any, depth: int) -> Any:
    """numpy's, or the Python value where the caller has not imported numpy."""
    if not is_plain_dtype(dtype):
        raise BadValue("a dtype that is not a plain one")
    plain = decoder.expect(value, _PLAIN[dtype[1]], depth)
    if "numpy" not in sys.modules and dtype[1] not in "Mm":
        return plain
    numpy = get_numpy("numpy.datetime64")
    kind = numpy.dtype(dtype)
    if dtype[1] in "Mm":
        if not -(1 << 63) <= plain < 1 << 63:
            raise BadValue("no number of numpy's")
        return numpy.array(plain, "i8").view(kind.newbyteorder("="))[()]
    if dtype[1] in "SU":
        return kind.type(plain)
    if kind.kind in "iu":
        bounds = numpy.iinfo(kind)
        if not int(bounds.min) <= plain <= int(bounds.max):
            raise BadValue("a number that its type of numpy's does not have")
    try:
        made = numpy.array(plain, kind)[()]
    except (TypeError, ValueError, OverflowError) as error:
        raise BadValue(f"no number of numpy's: {error}") from None
    if made.item() != plain and plain == plain:
        raise BadValue("a number that its type of numpy's does not have")
    return made


def _read_void(decoder: Decoder, array: Any, depth: int) -> Any:
    made = decoder.decode(array, depth)
    numpy = get_numpy("numpy.void")
    if type(made) is not numpy.ndarray or made.shape != () or made.dtype.names is None:
        raise BadValue("an element is not one of a structure")
    return made[()]


READERS: dict[str, tuple[tuple[str, ...], Reader]] = {
    "ndarray": (("dtype", "shape", "data"), _read_ndarray),
    "masked": (("data", "mask", "fill", "hard"), _read_masked),
    "masked_constant": ((), _read_masked_constant),
    "scalar": (("dtype", "value"), _read_scalar),
    "void": (("array",), _read_void),
}
