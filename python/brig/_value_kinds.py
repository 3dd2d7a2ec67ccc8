# SPDX-License-Identifier: MIT
"""Types of modules on their way from a guest: how encode() of _value.py writes them.

find() knows a type only if the guest has imported its module, and imports nothing. Types are
compared by identity: a subclass may carry more than its base, and is refused. Instances of
dataclasses, named tuples, enumerations and pydantic models are sent with the name of their class,
which the caller has to know (_decode_classes.py).
"""

from __future__ import annotations

import sys

if __package__:
    from . import _value_frames
    from ._value import Misfit, Raw, Writer, is_plain_dtype, name_of
else:
    import _value_frames  # type: ignore[import, no-redef]
    from _value import (  # type: ignore[import, no-redef]
        Misfit, Raw, Writer, is_plain_dtype, name_of,
    )  # fmt: skip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Write = Callable[[Writer, Any, int], None]

FACTORIES = (None, bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset)
"""What a defaultdict may make: types that have a name in every interpreter."""


def find(value: Any) -> Write | None:
    """The function that writes values of this type, or None."""
    kind = type(value)
    for module, name, write in _EXACT:
        loaded = sys.modules.get(module)
        if loaded is not None and vars(loaded).get(name) is kind:
            return write
    enum, numpy, pydantic = (sys.modules.get(name) for name in ("enum", "numpy", "pydantic"))
    if enum is not None and isinstance(value, enum.Enum):
        return _enum
    if numpy is not None and isinstance(value, numpy.generic):
        return _scalar
    if isinstance(value, tuple) and isinstance(getattr(kind, "_fields", None), tuple):
        return _named_tuple
    if "__dataclass_fields__" in vars(kind):
        return _dataclass
    if pydantic is not None and isinstance(value, pydantic.BaseModel):
        return _model
    return _value_frames.find(value)


# ---- of the standard library ----


def _array(writer: Writer, value: Any, depth: int) -> None:
    if value.typecode in "uw":
        raise Misfit(f"array({value.typecode!r})")
    data = Raw(memoryview(value).cast("B"))
    writer.tagged("array", depth, code=value.typecode, order=sys.byteorder, data=data)


def _defaultdict(writer: Writer, value: Any, depth: int) -> None:
    factory = value.default_factory
    if not any(factory is known for known in FACTORIES):
        raise Misfit("collections.defaultdict with a factory that is not a plain type")
    name = None if factory is None else factory.__name__
    writer.tagged("defaultdict", depth, factory=name, items=_pairs(value))


def _pairs(value: Any) -> list[list[Any]]:
    return [list(pair) for pair in value.items()]


def _deque(writer: Writer, value: Any, depth: int) -> None:
    writer.tagged("deque", depth, items=list(value), maxlen=value.maxlen)


def _decimal(writer: Writer, value: Any, depth: int) -> None:
    writer.tagged("decimal", depth, text=str(value))


def _uuid(writer: Writer, value: Any, depth: int) -> None:
    writer.tagged("uuid", depth, hex=value.hex, safe=value.is_safe.value)


def _path(writer: Writer, value: Any, depth: int) -> None:
    writer.tagged("path", depth, kind=type(value).__name__, text=str(value))


def _date(writer: Writer, value: Any, depth: int) -> None:
    writer.tagged("date", depth, iso=value.isoformat())


def _datetime(writer: Writer, value: Any, depth: int) -> None:
    parts = [value.year, value.month, value.day, *_clock(value)]
    offset = None
    if hasattr(value.tzinfo, "localize") and hasattr(value.tzinfo, "zone"):  # of pytz
        offset = int(value.utcoffset().total_seconds())
        if not _is_localized(value):
            raise Misfit("datetime.datetime with a time zone of pytz that localize() did not set")
    writer.tagged("datetime", depth, parts=parts, fold=value.fold, tz=value.tzinfo, offset=offset)


def _is_localized(value: Any) -> bool:
    """True if the caller can find the same instance of the zone, by the offset."""
    zone, naive = value.tzinfo, value.replace(tzinfo=None, fold=0)
    found = {id(zone.localize(naive, is_dst=summer).tzinfo) for summer in (False, True)}
    return value.fold == 0 and id(zone) in found


def _time(writer: Writer, value: Any, depth: int) -> None:
    writer.tagged("time", depth, parts=_clock(value), fold=value.fold, tz=value.tzinfo)


def _clock(value: Any) -> list[int]:
    return [value.hour, value.minute, value.second, value.microsecond]


def _timedelta(writer: Writer, value: Any, depth: int) -> None:
    writer.tagged("timedelta", depth, parts=[value.days, value.seconds, value.microseconds])


def _timezone(writer: Writer, value: Any, depth: int) -> None:
    given = value.__getinitargs__()
    name = given[1] if len(given) > 1 else None
    writer.tagged("timezone", depth, offset=given[0], name=name)


def _zone(writer: Writer, value: Any, depth: int) -> None:
    if value.key is None:
        raise Misfit("zoneinfo.ZoneInfo without a key")
    writer.tagged("zone", depth, key=value.key)


# ---- of numpy ----


def dtype_form(dtype: Any) -> Any:
    """A dtype as JSON: its text, or an object for structures and fields that are arrays."""
    if dtype.metadata is not None or dtype.hasobject:
        raise Misfit(f"numpy array of dtype {dtype!s:.80}")
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return {"base": dtype_form(base), "shape": list(shape)}
    if dtype.names is None:
        if not is_plain_dtype(dtype.str):
            raise Misfit(f"numpy array of dtype {dtype!s:.80}")
        return dtype.str
    fields = [dtype.fields[name] for name in dtype.names]
    if any(len(field) > 2 for field in fields) or dtype.type.__name__ != "void":
        raise Misfit(f"numpy array of dtype {dtype!r:.80}")  # titles, records
    end = 0
    for field in sorted(fields, key=lambda field: int(field[1])):
        if field[1] < end:
            raise Misfit("numpy array of a dtype whose fields overlap")
        end = field[1] + field[0].itemsize
    return {
        "names": list(dtype.names),
        "formats": [dtype_form(field[0]) for field in fields],
        "offsets": [int(field[1]) for field in fields],
        "itemsize": dtype.itemsize,
        "align": dtype.isalignedstruct,
    }


def _ndarray(writer: Writer, value: Any, depth: int) -> None:
    numpy = sys.modules["numpy"]
    form = dtype_form(value.dtype)
    shape = [int(side) for side in value.shape]
    flat = numpy.ascontiguousarray(value).reshape(-1)
    data = flat.view(numpy.uint8) if flat.size and flat.itemsize else b""
    writer.tagged("ndarray", depth, dtype=form, shape=shape, data=Raw(data))


def _scalar(writer: Writer, value: Any, depth: int) -> None:
    """Numbers and texts as the Python value that they stand for, dates as their number."""
    numpy, dtype = sys.modules["numpy"], value.dtype
    if vars(numpy).get(type(value).__name__) is not type(value) and dtype.kind not in "iu":
        raise Misfit(name_of(type(value)))
    if dtype.kind == "V":
        if type(value) is not numpy.void or dtype.names is None:
            raise Misfit(name_of(type(value)))
        writer.tagged("void", depth, array=numpy.array(value))
        return
    if dtype.kind in "SU" and not dtype.itemsize:
        dtype = numpy.dtype(f"{dtype.kind}1")
    if not is_plain_dtype(dtype.str):
        raise Misfit(name_of(type(value)))
    plain = int(value.view("i8")) if dtype.kind in "mM" else value.item()
    writer.tagged("scalar", depth, dtype=dtype.str, value=plain)


def _masked(writer: Writer, value: Any, depth: int) -> None:
    ma = sys.modules["numpy.ma"]
    mask = None if value.mask is ma.nomask else value.mask
    fill = value._fill_value  # None until it is set or asked for
    members = {"data": value.data, "mask": mask, "fill": fill, "hard": bool(value.hardmask)}
    if type(value.data) is not sys.modules["numpy"].ndarray:
        raise Misfit(f"numpy.ma.MaskedArray of {name_of(type(value.data))}")
    writer.tagged("masked", depth, **members)


def _masked_constant(writer: Writer, value: Any, depth: int) -> None:
    writer.tagged("masked_constant", depth)


# ---- with a class of the program ----


def _class(kind: type) -> list[str]:
    return [kind.__module__, kind.__qualname__]


def _enum(writer: Writer, value: Any, depth: int) -> None:
    kind = type(value)
    if kind._member_map_.get(value._name_) is value:
        writer.tagged("enum", depth, **{"class": _class(kind)}, name=value._name_)
    elif isinstance(value, sys.modules["enum"].Flag) and type(value._value_) is int:
        writer.tagged("flag", depth, **{"class": _class(kind)}, value=value._value_)
    else:
        raise Misfit(name_of(kind))


def _named_tuple(writer: Writer, value: Any, depth: int) -> None:
    kind = type(value)
    if kind.__bases__ != (tuple,) or getattr(value, "__dict__", None):
        raise Misfit(f"{name_of(kind)} (a subclass: tuple() of it could be sent)")
    writer.tagged("named_tuple", depth, **{"class": _class(kind)}, items=list(value))


def _dataclass(writer: Writer, value: Any, depth: int) -> None:
    kind = type(value)
    names = [
        name
        for name, field in kind.__dataclass_fields__.items()
        if field._field_type.name == "_FIELD"
    ]
    _refuse_more(value, names)
    if any(isinstance(value, plain) for plain in (BaseException, dict, list, str, int, float, tuple)):
        raise Misfit(name_of(kind))
    missing = [name for name in names if not hasattr(value, name)]
    if missing:
        raise Misfit(f"{name_of(kind)} without its field {missing[0]!r}")
    fields = {name: getattr(value, name) for name in names}
    try:
        writer.tagged("dataclass", depth, **{"class": _class(kind)}, fields=fields)
    except Misfit as misfit:
        misfit.way[-1:] = [f".{misfit.way[-1].strip('[]')[1:-1]}"] if misfit.way else []
        raise


def _refuse_more(value: Any, names: list[str]) -> None:
    """An attribute that is not a field would be lost, unless it is a cache."""
    for name in getattr(value, "__dict__", ()):
        made = getattr(type(value), name, None)
        if name not in names and type(made).__name__ != "cached_property":
            raise Misfit(f"{name_of(type(value))} with the attribute {name!r}, which is no field,")


def _model(writer: Writer, value: Any, depth: int) -> None:
    """The state that pydantic itself pickles, of version 1 or 2."""
    kind, state = type(value), value.__getstate__()
    version = 2 if "__pydantic_fields_set__" in state else 1
    if version == 2:
        extra, private = state["__pydantic_extra__"], state["__pydantic_private__"]
    else:
        extra, private = None, state["__private_attribute_values__"]
    writer.tagged(
        "model",
        depth,
        **{"class": _class(kind)},
        version=version,
        fields=dict(state["__dict__"]),
        extra=extra,
        private={k: v for k, v in (private or {}).items() if not _is_undefined(v)},
        set=sorted(state["__pydantic_fields_set__" if version == 2 else "__fields_set__"]),
    )


def _is_undefined(value: Any) -> bool:
    return type(value).__name__ in ("UndefinedType", "PydanticUndefinedType")


_EXACT: tuple[tuple[str, str, Write], ...] = (
    ("numpy", "ndarray", _ndarray),
    ("numpy.ma", "MaskedArray", _masked),
    ("numpy.ma.core", "MaskedConstant", _masked_constant),
    ("datetime", "datetime", _datetime),
    ("datetime", "date", _date),
    ("datetime", "time", _time),
    ("datetime", "timedelta", _timedelta),
    ("datetime", "timezone", _timezone),
    ("zoneinfo", "ZoneInfo", _zone),
    ("decimal", "Decimal", _decimal),
    ("uuid", "UUID", _uuid),
    ("pathlib", "PosixPath", _path),
    ("pathlib", "PurePosixPath", _path),
    ("pathlib", "PureWindowsPath", _path),
    ("array", "array", _array),
    ("collections", "OrderedDict", lambda w, v, d: w.tagged("ordered_dict", d, items=_pairs(v))),
    ("collections", "Counter", lambda w, v, d: w.tagged("counter", d, items=_pairs(v))),
    ("collections", "defaultdict", _defaultdict),
    ("collections", "deque", _deque),
)
