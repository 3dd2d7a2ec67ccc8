# SPDX-License-Identifier: MIT
"""Types of pandas and pytz on their way from a guest. Called by _value_kinds.find(); imports nothing.

A DataFrame is sent column by column. A column is a numpy array, or the parts of one of pandas' own
arrays; an index is a column with a name. _decode_frames.py puts them together again.
"""

from __future__ import annotations

import sys

if __package__:
    from ._value import Misfit, Writer, name_of
else:
    from _value import Misfit, Writer, name_of  # type: ignore[import, no-redef]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Write = Callable[[Writer, Any, int], None]

INDEXES = ("Index", "Int64Index", "UInt64Index", "Float64Index", "DatetimeIndex", "TimedeltaIndex",
           "PeriodIndex", "CategoricalIndex", "IntervalIndex")  # fmt: skip
NULLABLE = ("Int8Dtype", "Int16Dtype", "Int32Dtype", "Int64Dtype", "UInt8Dtype", "UInt16Dtype",
            "UInt32Dtype", "UInt64Dtype", "Float32Dtype", "Float64Dtype", "BooleanDtype")  # fmt: skip


def find(value: Any) -> Write | None:
    """The function that writes values of this type, or None."""
    pytz, pandas = sys.modules.get("pytz"), sys.modules.get("pandas")
    if type(value) is _Column:
        return _write_column
    if pytz is not None and isinstance(value, pytz.tzinfo.BaseTzInfo):
        return _pytz
    if pytz is not None and type(value).__name__ == "_FixedOffset":
        return _pytz_fixed
    if pandas is None or not hasattr(pandas, "DataFrame"):  # being imported
        return None
    if value is pandas.NaT:
        return lambda writer, value, depth: writer.tagged("nat", depth)
    if value is pandas.NA:
        return lambda writer, value, depth: writer.tagged("na", depth)
    for name, write in _EXACT.items():
        if type(value) is getattr(pandas, name):
            return write
    if any(type(value) is getattr(_indexes(), name, None) for name in INDEXES):
        return _index
    return _extension if isinstance(value, pandas.api.extensions.ExtensionArray) else None


def _indexes() -> Any:
    """The module that has all classes of indexes, those of older versions too."""
    return sys.modules["pandas.core.indexes.api"]


def _pytz(writer: Writer, value: Any, depth: int) -> None:
    writer.tagged("pytz", depth, zone=value.zone)


def _pytz_fixed(writer: Writer, value: Any, depth: int) -> None:
    writer.tagged("pytz_fixed", depth, minutes=value._minutes)


# ---- scalars ----


def _unit(value: Any) -> str:
    return getattr(value, "unit", "ns")


def _timestamp(writer: Writer, value: Any, depth: int) -> None:
    if value.tzinfo is None and value.fold:
        raise Misfit("pandas.Timestamp without a time zone, but with a fold,")
    number = int(value.asm8.view("i8"))
    writer.tagged("timestamp", depth, value=number, unit=_unit(value), tz=value.tzinfo)


def _timedelta(writer: Writer, value: Any, depth: int) -> None:
    number = int(value.asm8.view("i8"))
    writer.tagged("pandas_timedelta", depth, value=number, unit=_unit(value))


def _period(writer: Writer, value: Any, depth: int) -> None:
    writer.tagged("period", depth, ordinal=value.ordinal, freq=value.freqstr)


def _interval(writer: Writer, value: Any, depth: int) -> None:
    writer.tagged("interval", depth, left=value.left, right=value.right, closed=value.closed)


# ---- columns ----


class _Column:
    """A column in the message."""

    __slots__ = ("values",)

    def __init__(self, values: Any) -> None:
        self.values = values


def _write_column(writer: Writer, column: _Column, depth: int) -> None:
    """`values` is a Series or an Index. The dtype decides."""
    numpy, values = sys.modules["numpy"], column.values
    dtype = values.dtype
    if not isinstance(dtype, numpy.dtype):
        _extension(writer, values.array, depth)
    elif dtype.kind == "O":
        writer.tagged_items("objects", values.to_numpy(), depth)
    else:
        writer.write(values.to_numpy(), depth)


def _extension(writer: Writer, array: Any, depth: int) -> None:
    """An array of pandas' own."""
    pandas, kind = sys.modules["pandas"], type(array.dtype).__name__
    if not (type(array.dtype) is getattr(pandas, kind, None) and kind in _ARRAYS):
        raise Misfit(f"pandas array of dtype {array.dtype!s:.80}")
    _ARRAYS[kind](writer, array, depth)


def _categorical(writer: Writer, array: Any, depth: int) -> None:
    ordered = array.ordered
    members = {"codes": array.codes, "categories": array.categories, "ordered": ordered}
    writer.tagged("categorical", depth, **members)


def _zoned(writer: Writer, array: Any, depth: int) -> None:
    numpy = sys.modules["numpy"]
    values = numpy.asarray(array.tz_convert("UTC").tz_localize(None))
    writer.tagged("zoned", depth, values=values, tz=array.tz)


def _nullable(writer: Writer, array: Any, depth: int) -> None:
    writer.tagged("nullable", depth, values=array._data, mask=array._mask)


def _strings(writer: Writer, array: Any, depth: int) -> None:
    pandas = sys.modules["pandas"]
    if array.dtype.storage != "python" or array.dtype.na_value is not pandas.NA:
        raise Misfit(f"pandas array of strings of {array.dtype.storage}")
    writer.tagged_items("strings", list(array), depth)


def _periods(writer: Writer, array: Any, depth: int) -> None:
    writer.tagged("periods", depth, ordinals=array.asi8, freq=array.freqstr)


def _intervals(writer: Writer, array: Any, depth: int) -> None:
    writer.tagged("intervals", depth, left=array.left, right=array.right, closed=array.closed)


_ARRAYS: dict[str, Write] = {
    "CategoricalDtype": _categorical,
    "DatetimeTZDtype": _zoned,
    "StringDtype": _strings,
    "PeriodDtype": _periods,
    "IntervalDtype": _intervals,
    **dict.fromkeys(NULLABLE, _nullable),
}


# ---- indexes and tables ----


def _index(writer: Writer, value: Any, depth: int) -> None:
    freq = None
    if type(value).__name__ in ("DatetimeIndex", "TimedeltaIndex") and value.freq is not None:
        freq = value.freqstr
    writer.tagged("index", depth, values=_Column(value), name=value.name, freq=freq)


def _range_index(writer: Writer, value: Any, depth: int) -> None:
    bounds = [value.start, value.stop, value.step]
    writer.tagged("range_index", depth, bounds=bounds, name=value.name)


def _multi_index(writer: Writer, value: Any, depth: int) -> None:
    numpy = sys.modules["numpy"]
    codes = [numpy.asarray(codes) for codes in value.codes]
    names = list(value.names)
    writer.tagged("multi_index", depth, levels=list(value.levels), codes=codes, names=names)


def _series(writer: Writer, value: Any, depth: int) -> None:
    _refuse_flags(value)
    members = {"values": _Column(value), "index": value.index, "name": value.name}
    writer.tagged("series", depth, **members, attrs=dict(value.attrs))


def _frame(writer: Writer, value: Any, depth: int) -> None:
    _refuse_flags(value)
    data = [_Column(value.iloc[:, place]) for place in range(value.shape[1])]
    writer.tagged(
        "frame", depth, columns=value.columns, index=value.index, data=data, attrs=dict(value.attrs)
    )


def _refuse_flags(value: Any) -> None:
    if not value.flags.allows_duplicate_labels:
        raise Misfit(f"{name_of(type(value))} that does not allow duplicate labels")


_EXACT: dict[str, Write] = {
    "DataFrame": _frame,
    "Series": _series,
    "RangeIndex": _range_index,
    "MultiIndex": _multi_index,
    "Timestamp": _timestamp,
    "Timedelta": _timedelta,
    "Period": _period,
    "Interval": _interval,
}
