# SPDX-License-Identifier: MIT
"""Values of pandas and pytz from a guest. Called by _decode.py.

They are put together by pandas' own constructors, from columns that are checked first. A caller that
has not imported pandas gets none of them.
"""

from __future__ import annotations

import re
import sys
from typing import Any, Callable

from ._decode import BadValue, Decoder, Reader, UnknownType, hashable, numbers
from ._decode_numpy import is_array
from ._value import TAG

UNITS = ("s", "ms", "us", "ns")
CLOSED = ("left", "right", "both", "neither")
FREQUENCY = re.compile(r"-?[A-Za-z0-9-]{1,40}", re.ASCII)
COLUMN_KINDS = "biufcmM"
"""Kinds of numpy's dtypes in a column; pandas has no others."""

NUMBERS_MAX = 10_000
"""Numbers and times that may be categories or levels, in all."""


def _get(module: str, name: str) -> Any:
    loaded = sys.modules.get(module)
    if loaded is None:
        text = f"{module}.{name}: the caller has not imported {module}; import it there"
        raise UnknownType(f"{module}.{name}", text)
    return loaded


def _built(name: str, make: Callable[[], Any]) -> Any:
    """The constructors of pandas raise exceptions of many types."""
    try:
        return make()
    except (BadValue, RecursionError):
        raise
    except Exception as error:
        raise BadValue(f"no {name}: {error!s:.200}") from None


def _word(value: Any, words: tuple[str, ...], name: str) -> str:
    if not isinstance(value, str) or value not in words:
        raise BadValue(f"no {name}")
    return value


def _frequency(freq: Any) -> str:
    if not isinstance(freq, str) or not FREQUENCY.fullmatch(freq):
        raise BadValue("a frequency is none")
    return freq


def _number(value: Any) -> int:
    if type(value) is not int or not -(1 << 63) < value < 1 << 63:  # the least one is NaT
        raise BadValue("a time is not a number")
    return value


# ---- time zones of pytz ----


def _read_pytz(decoder: Decoder, zone: Any, depth: int) -> Any:
    pytz = _get("pytz", "timezone")
    if not isinstance(zone, str) or zone not in pytz.all_timezones_set:
        raise UnknownType("pytz.timezone", f"the time zone {str(zone)[:40]!r} is not known here")
    return pytz.timezone(zone)


def _read_pytz_fixed(decoder: Decoder, minutes: Any, depth: int) -> Any:
    pytz = _get("pytz", "FixedOffset")
    if type(minutes) is not int:
        raise BadValue("a time zone without its minutes")
    return _built("time zone", lambda: pytz.FixedOffset(minutes))


def _zone(decoder: Decoder, tz: Any, depth: int) -> Any:
    import datetime

    zone = decoder.decode(tz, depth)
    if not isinstance(zone, datetime.tzinfo):
        raise BadValue("a time zone is none")
    return zone


# ---- scalars ----


def _read_timestamp(decoder: Decoder, value: Any, unit: Any, tz: Any, depth: int) -> Any:
    pandas = _get("pandas", "Timestamp")
    numpy, number = sys.modules["numpy"], _number(value)
    moment = numpy.datetime64(number, _word(unit, UNITS, "unit of time"))
    zone = None if tz is None else _zone(decoder, tz, depth)

    def make() -> Any:
        made = pandas.Timestamp(moment)
        return made if zone is None else made.tz_localize("UTC").tz_convert(zone)

    made = _built("Timestamp", make)
    if made.asm8 != moment and zone is None:
        raise BadValue("no Timestamp of this version of pandas")
    return made


def _read_timedelta(decoder: Decoder, value: Any, unit: Any, depth: int) -> Any:
    pandas = _get("pandas", "Timedelta")
    numpy, number = sys.modules["numpy"], _number(value)
    length = numpy.timedelta64(number, _word(unit, UNITS, "unit of time"))
    return _built("Timedelta", lambda: pandas.Timedelta(length))


def _read_period(decoder: Decoder, ordinal: Any, freq: Any, depth: int) -> Any:
    pandas, number, each = _get("pandas", "Period"), _number(ordinal), _frequency(freq)
    return _built("Period", lambda: pandas.Period(ordinal=number, freq=each))


def _read_interval(decoder: Decoder, left: Any, right: Any, closed: Any, depth: int) -> Any:
    pandas = _get("pandas", "Interval")
    begin, end = (decoder.decode(side, depth) for side in (left, right))
    side = _word(closed, CLOSED, "side of an Interval")
    return _built("Interval", lambda: pandas.Interval(begin, end, side))


# ---- arrays ----


def _column(decoder: Decoder, form: Any, depth: int) -> Any:
    """The values of a Series or an Index: an array of numpy or pandas, of one dimension."""
    pandas, numpy = _get("pandas", "Series"), sys.modules["numpy"]
    if isinstance(form, dict) and form.get(TAG) == "objects":
        if set(form) != {TAG, "items"}:
            raise BadValue("objects have items, and nothing else")
        return _objects(decoder.items(form["items"], depth + 1))
    values = decoder.decode(form, depth)
    if isinstance(values, pandas.api.extensions.ExtensionArray):
        return values
    if not is_array(values, COLUMN_KINDS) or not values.dtype.isnative:
        raise BadValue(f"a column is not an array of {numpy.__name__} that pandas has")
    return values


def _objects(items: list[Any]) -> Any:
    made = sys.modules["numpy"].empty(len(items), object)
    for place, item in enumerate(items):  # a slice would take items of the same length apart
        made[place] = item
    return made


def _read_categorical(
    decoder: Decoder, codes: Any, categories: Any, ordered: Any, depth: int
) -> Any:
    pandas = _get("pandas", "Categorical")
    numbers_of, names = (decoder.decode(part, depth) for part in (codes, categories))
    if not is_array(numbers_of, "i") or type(ordered) is not bool:
        raise BadValue("a Categorical without its codes")
    _check_distinct(decoder, names)
    make = pandas.Categorical.from_codes
    return _built("Categorical", lambda: make(numbers_of, categories=names, ordered=ordered))


def _check_distinct(decoder: Decoder, index: Any) -> None:
    """pandas looks for doubles in it by their hashes. A guest can choose numbers whose hashes are
    the same, so that their number is bounded, in all of a result."""
    pandas = _get("pandas", "Index")
    if not isinstance(index, pandas.Index) or isinstance(index, pandas.MultiIndex):
        raise BadValue("categories are not an Index")
    if index.dtype == object:
        hashable(list(index), False)
        return
    decoder.hashed += len(index) ** 2
    if decoder.hashed > NUMBERS_MAX**2:
        raise BadValue(f"categories and levels have more than {NUMBERS_MAX} numbers")


def _read_zoned(decoder: Decoder, values: Any, tz: Any, depth: int) -> Any:
    pandas, moments = _get("pandas", "Series"), decoder.decode(values, depth)
    zone = _zone(decoder, tz, depth)
    if not is_array(moments, "M") or not moments.dtype.isnative:
        raise BadValue("times with a time zone are no times")
    make = pandas.DatetimeIndex
    made = _built("times", lambda: make(moments).tz_localize("UTC").tz_convert(zone).array)
    return _of_dtype(made, pandas.DatetimeTZDtype(_unit(moments.dtype), zone))


def _unit(dtype: Any) -> str:
    return _word(sys.modules["numpy"].datetime_data(dtype)[0], UNITS, "unit of time")


def _of_dtype(made: Any, dtype: Any) -> Any:
    if made.dtype != dtype:
        raise BadValue(f"pandas has no column of {dtype!s:.60}")
    return made


def _read_nullable(decoder: Decoder, values: Any, mask: Any, depth: int) -> Any:
    pandas = _get("pandas", "Series")
    data, hidden = (decoder.decode(part, depth) for part in (values, mask))
    if not is_array(data, "biuf") or not data.dtype.isnative or not is_array(hidden, "b"):
        raise BadValue("values that may be missing are no numbers")
    names = {"b": "BooleanArray", "f": "FloatingArray"}
    make = getattr(pandas.arrays, names.get(data.dtype.kind, "IntegerArray"))
    return _built("array", lambda: make(data, hidden))


def _read_strings(decoder: Decoder, items: Any, depth: int) -> Any:
    pandas = _get("pandas", "Series")
    texts = _objects(decoder.items(items, depth))
    if not all(type(text) is str or text is pandas.NA for text in texts):
        raise BadValue("strings are none")
    return _built("strings", lambda: pandas.array(texts, dtype=pandas.StringDtype("python")))


def _read_periods(decoder: Decoder, ordinals: Any, freq: Any, depth: int) -> Any:
    pandas, number = _get("pandas", "Series"), decoder.decode(ordinals, depth)
    each = _frequency(freq)
    if not is_array(number, "i") or number.dtype != "i8":
        raise BadValue("periods are no numbers")
    make = pandas.arrays.PeriodArray
    return _built("periods", lambda: make(number, dtype=pandas.PeriodDtype(each)))


def _read_intervals(decoder: Decoder, left: Any, right: Any, closed: Any, depth: int) -> Any:
    pandas = _get("pandas", "Series")
    begin, end = (decoder.decode(side, depth) for side in (left, right))
    numpy = sys.modules["numpy"]
    for ends in (begin, end):
        plain = isinstance(ends, pandas.Index) and not isinstance(ends, pandas.RangeIndex)
        if not plain or not isinstance(ends.dtype, (numpy.dtype, pandas.DatetimeTZDtype)):
            raise BadValue("intervals have no ends")
    side = _word(closed, CLOSED, "side of an Interval")
    make = pandas.arrays.IntervalArray.from_arrays
    return _built("intervals", lambda: make(begin, end, side))


# ---- indexes and tables ----


def _name(decoder: Decoder, name: Any, depth: int) -> Any:
    made = decoder.decode(name, depth)
    hashable([made], False)
    return made


def _read_index(decoder: Decoder, values: Any, name: Any, freq: Any, depth: int) -> Any:
    pandas = _get("pandas", "Index")
    column, label = _column(decoder, values, depth), _name(decoder, name, depth)

    def make() -> Any:
        made = pandas.Index(column, dtype=column.dtype, name=label, tupleize_cols=False)
        if freq is not None:
            made.freq = _frequency(freq)
            if made.freqstr != freq:
                raise BadValue("an index has another frequency")
        return made

    return _of_dtype(_built("Index", make), column.dtype)


def _read_range_index(decoder: Decoder, bounds: Any, name: Any, depth: int) -> Any:
    pandas, three = _get("pandas", "RangeIndex"), numbers(bounds, 3, "RangeIndex")
    label = _name(decoder, name, depth)
    if any(abs(number) >= 1 << 62 for number in three):
        raise BadValue("a RangeIndex is too large")
    return _built("RangeIndex", lambda: pandas.RangeIndex(*three, name=label))


def _read_multi_index(decoder: Decoder, levels: Any, codes: Any, names: Any, depth: int) -> Any:
    pandas = _get("pandas", "MultiIndex")
    parts, places = decoder.items(levels, depth), decoder.items(codes, depth)
    labels = hashable(decoder.items(names, depth), False)
    if not parts or not len(parts) == len(places) == len(labels):
        raise BadValue("a MultiIndex has levels, and codes and a name for each")
    if not all(is_array(place, "i") for place in places):
        raise BadValue("the codes of a MultiIndex are no numbers")
    for part in parts:
        _check_distinct(decoder, part)
    return _built("MultiIndex", lambda: pandas.MultiIndex(parts, places, names=labels))


def _read_index_of(decoder: Decoder, index: Any, depth: int) -> Any:
    made = decoder.decode(index, depth)
    if not isinstance(made, _get("pandas", "Index").Index):
        raise BadValue("an index is none")
    return made


def _make_series(values: Any, index: Any, name: Any = None) -> Any:
    pandas = _get("pandas", "Series")
    if len(values) != len(index):
        raise BadValue(f"a column of {len(values)} values has an index of {len(index)}")
    made = _built("Series", lambda: pandas.Series(values, index, values.dtype, name, copy=False))
    return _of_dtype(made, values.dtype)


def _read_series(
    decoder: Decoder, values: Any, index: Any, name: Any, attrs: Any, depth: int
) -> Any:
    rows = _read_index_of(decoder, index, depth)
    made = _make_series(_column(decoder, values, depth), rows, _name(decoder, name, depth))
    made.attrs = decoder.expect(attrs, dict, depth)
    return made


def _read_frame(
    decoder: Decoder, columns: Any, index: Any, data: Any, attrs: Any, depth: int
) -> Any:
    pandas = _get("pandas", "DataFrame")
    head, rows = (_read_index_of(decoder, part, depth) for part in (columns, index))
    if not isinstance(data, list) or len(data) != len(head):
        raise BadValue("a DataFrame has another number of columns")
    series = {
        place: _make_series(_column(decoder, form, depth + 1), rows)
        for place, form in enumerate(data)
    }

    def make() -> Any:
        made = pandas.DataFrame(series, index=rows, copy=False)
        if list(made.dtypes) != [one.dtype for one in series.values()]:
            raise BadValue("a DataFrame has columns of another type")
        made.columns = head
        return made

    made = _built("DataFrame", make)
    made.attrs = decoder.expect(attrs, dict, depth)
    return made


READERS: dict[str, tuple[tuple[str, ...], Reader]] = {
    "pytz": (("zone",), _read_pytz),
    "pytz_fixed": (("minutes",), _read_pytz_fixed),
    "nat": ((), lambda decoder, depth: _get("pandas", "NaT").NaT),
    "na": ((), lambda decoder, depth: _get("pandas", "NA").NA),
    "timestamp": (("value", "unit", "tz"), _read_timestamp),
    "pandas_timedelta": (("value", "unit"), _read_timedelta),
    "period": (("ordinal", "freq"), _read_period),
    "interval": (("left", "right", "closed"), _read_interval),
    "categorical": (("codes", "categories", "ordered"), _read_categorical),
    "zoned": (("values", "tz"), _read_zoned),
    "nullable": (("values", "mask"), _read_nullable),
    "strings": (("items",), _read_strings),
    "periods": (("ordinals", "freq"), _read_periods),
    "intervals": (("left", "right", "closed"), _read_intervals),
    "index": (("values", "name", "freq"), _read_index),
    "range_index": (("bounds", "name"), _read_range_index),
    "multi_index": (("levels", "codes", "names"), _read_multi_index),
    "series": (("values", "index", "name", "attrs"), _read_series),
    "frame": (("columns", "index", "data", "attrs"), _read_frame),
}
