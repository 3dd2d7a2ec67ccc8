# SPDX-License-Identifier: MIT
"""The kinds of values of docs/VALUES.md, as expressions that caller and guest evaluate, and a description of a
value that tells any two different ones apart. Imported by the tests and, in the guest, by their functions."""
import array
import collections
import dataclasses
import datetime
import decimal
import enum
import math
import pathlib
import types
import typing
import uuid
import zoneinfo

import numpy
import pandas
import pydantic
import pytz

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")


class Colour(enum.Enum):
    RED = 1
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1


class Access(enum.Flag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass
class Order:
    number: int
    items: list = dataclasses.field(default_factory=list)
    note: object = None


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Its constructor changes what it gets: it must not run again in the caller."""
    x: float
    y: float

    def __post_init__(self):
        object.__setattr__(self, "x", self.x + 1)


Point = collections.namedtuple("Point", "x y")


class Record(typing.NamedTuple):
    name: str
    size: int = 0


class Person(pydantic.BaseModel):
    name: str
    age: int = 0
    friend: typing.Optional["Person"] = None
    born: typing.Optional[datetime.date] = None
    _secret: int = pydantic.PrivateAttr(default=5)


def local_order():
    @dataclasses.dataclass
    class Local:
        a: int
    return Local


def make_local():
    return local_order()(3)


class Text(str):
    pass


class Frame(pandas.DataFrame):
    pass


def person_with_secret():
    made = Person(name="a", age=3, friend=Person(name="b"), born=datetime.date(2000, 2, 29))
    made._secret = 7
    return made


def masked_with_fill():
    return numpy.ma.array([[1.5, 2], [3, 4]], mask=[[0, 1], [0, 0]], fill_value=-9.0)


def table():
    rows = pandas.date_range("2024-01-01", periods=3, freq="D", tz="Europe/Berlin", name="day")
    return pandas.DataFrame({
        "whole": numpy.arange(3, dtype="i2"), "real": [0.5, math.nan, math.inf], "text": ["a", None, "ü"],
        "when": pandas.to_datetime(["2024-01-01T00:00:00.000000001", None, "2024-01-03T00:00:00.000000002"]),
        "long": pandas.to_timedelta([1, None, 3], unit="s"), "zoned": rows.tz_convert("UTC"),
        "kind": pandas.Categorical(["x", None, "y"], categories=["y", "x"], ordered=True),
        "maybe": pandas.array([1, None, 3], dtype="Int32"), "flag": pandas.array([True, None, False], dtype="boolean"),
        "string": pandas.array(["a", None, "c"], dtype="string[python]"), "mixed": [1, "two", pandas.NaT],
    }, index=rows)


# Sections of the table: expressions of values, by what they are.
KINDS = {
    "builtin": [
        "None", "True", "7", "-(1 << 200)", "-0.0", "math.nan", "2 - 1j", "'text \\u20ac'", "'\\ud800'", "b'\\0\\xff'",
        "bytearray(b'x')", "memoryview(b'x')", "[1, [2]]", "(1, (2,))", "{1, 2}", "frozenset('ab')", "{'a': {1: None}}",
    ],
    "standard library": [
        "datetime.datetime(2024, 10, 27, 2, 30, fold=1)", "datetime.datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=1)",
        "datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)", "datetime.date(1, 1, 1)",
        "datetime.time(1, 2, 3, 4, fold=1)", "datetime.timedelta(-1, 2, 3)",
        "datetime.timezone(datetime.timedelta(hours=2), 'here')", "BERLIN", "decimal.Decimal('1.10')",
        "decimal.Decimal('-sNaN7')", "uuid.UUID(int=5)", "pathlib.Path('/a/b')", "pathlib.PurePosixPath('a')",
        "pathlib.PureWindowsPath('c:/a')", "array.array('d', [0.5])", "collections.OrderedDict(b=1, a=2)",
        "collections.Counter('aab')", "collections.defaultdict(list, {1: [2]})", "collections.deque([1, 2], 5)",
    ],
    "classes of the program": [
        "Colour.BLUE", "Level.LOW", "Access.READ | Access.WRITE", "Order(1, [Order(2)])", "Place(1.0, 2.0)", "Point(1, [2])",
        "Record('a')", "person_with_secret()",
    ],
    "numpy": [
        "numpy.float64(0.1)", "numpy.float16(0.1)", "numpy.int8(-3)", "numpy.bool_(True)", "numpy.complex64(1 - 2j)",
        "numpy.str_('ü')", "numpy.bytes_(b'a')", "numpy.datetime64('2024-01-01T00:00:00.000000001')",
        "numpy.datetime64('2024-01')", "numpy.datetime64('NaT', 's')", "numpy.timedelta64(3, 'D')",
        "numpy.timedelta64('NaT', 'ms')", "numpy.arange(6, dtype='>i4').reshape(2, 3)", "numpy.arange(6.0).reshape(2, 3).T",
        "numpy.zeros((0, 3))", "numpy.array(5)", "numpy.array(['a', 'bcd'])", "numpy.array([b'a'])",
        "numpy.array(['2024-01-01', 'NaT'], 'M8[us]')", "numpy.array([1, 2], 'm8[25s]')",
        "numpy.ma.array([1, 2, 3], mask=[0, 1, 0])", "masked_with_fill()", "numpy.ma.array([1, 2])", "numpy.ma.masked",
        "numpy.array([(1, [2, 3], 'x')], [('a', 'i4'), ('b', 'f8', 2), ('c', 'U3')])",
        "numpy.zeros(2, numpy.dtype([('a', 'i1'), ('b', 'f8')], align=True))",
        "numpy.array([(1, 2)], [('a', 'i4'), ('b', 'i4')])[0]",
    ],
    "pandas": [
        "table()", "pandas.DataFrame()", "pandas.DataFrame([[1, 2]], columns=['a', 'a'])",
        "pandas.DataFrame({('a', 1): [1.5]}, index=pandas.MultiIndex.from_tuples([(1, 'x')], names=['i', None]))",
        "pandas.Series([1, 2], name='s', dtype='u1')", "pandas.Series([pandas.Timestamp('2024'), [1]])",
        "pandas.Series(pandas.period_range('2024', periods=2, freq='D'))", "pandas.Series(pandas.interval_range(0, 2))",
        "pandas.Index(['a', None], name=('n', 1))", "pandas.Index([1.5])", "pandas.RangeIndex(1, 9, 2)",
        "pandas.date_range('2024', periods=3, freq='W')", "pandas.timedelta_range('1D', periods=2)",
        "pandas.CategoricalIndex(['a', 'b', 'a'])", "pandas.MultiIndex.from_product([[1, 2], ['a']])",
        "pandas.Categorical(['a'])", "pandas.array([0.5, None], dtype='Float32')",
        "pandas.Timestamp('2024-01-01T00:00:00.123456789')", "pandas.Timestamp('2024-10-27 01:30', tz='UTC').tz_convert('Europe/Berlin')",
        "pandas.Timestamp('2024-07-01', tz=BERLIN)", "pandas.Timedelta(5, 'ns')", "pandas.NaT", "pandas.NA",
        "pandas.Period('2024-01', 'M')", "pandas.Interval(0, 1.5, 'both')",
        "pytz.timezone('Europe/Berlin').localize(datetime.datetime(2024, 7, 1))",
    ],
    "refused on the way back": [
        "print", "int", "range(3)", "ValueError('x')", "types.SimpleNamespace(a=1)", "Text('t')",
        "numpy.longdouble(1)", "numpy.array(['a', None])", "numpy.char.array(['a'])", "numpy.array([1]).view(numpy.recarray)",
        "Frame({'a': [1]})", "pandas.Series([0, 1], dtype='Sparse[int]')",
    ],
}


def make(text):
    return eval(text, globals())  # noqa: the tests' own text


def names_of(value):
    """The fields of an instance of a class of the program."""
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    more = {"_secret": value._secret} if isinstance(value, Person) else {}
    chosen = "model_fields_set" if hasattr(type(value), "model_fields_set") else "__fields_set__"  # pydantic 2, or 1
    return {**vars(value), **more, "set": sorted(getattr(value, chosen))}


def describe(value):
    """A text that is the same for equal values of the same types only."""
    head = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, (pandas.DataFrame, pandas.Series)):
        if isinstance(value, pandas.DataFrame):
            name, parts = describe(value.columns), [describe(value.iloc[:, i]) for i in range(value.shape[1])]
        else:
            name, parts = value.name, describe_column(value)
        return f"{head}({name!r}, {describe(value.index)}, {parts}, {value.attrs})"
    if isinstance(value, pandas.MultiIndex):
        return f"{head}({[describe(level) for level in value.levels]}, {[list(c) for c in value.codes]}, {list(value.names)})"
    if isinstance(value, pandas.Index):
        return f"{head}({value.name!r}, {getattr(value, 'freq', None)!r}, {describe_column(value)})"
    if isinstance(value, pandas.api.extensions.ExtensionArray):
        return f"{head}({describe_column(pandas.Series(value))})"
    if isinstance(value, numpy.ma.MaskedArray) and value is not numpy.ma.masked:
        return f"{head}({describe(value.data)}, {describe(numpy.ma.getmaskarray(value))}, {value.fill_value!r})"
    if isinstance(value, (numpy.ndarray, numpy.generic)) and not isinstance(value, numpy.ma.MaskedArray):
        return f"{head}({value.dtype!r}, {value.dtype.isalignedstruct}, {value.shape}, {bytes_of(value)})"
    if isinstance(value, (pydantic.BaseModel, Order, Place)):
        return f"{head}({describe(names_of(value))})"
    if isinstance(value, memoryview):
        return f"{head}({bytes(value)!r}, {value.readonly})"
    if isinstance(value, datetime.datetime):
        return f"{head}({value!r}, {value.fold}, {value.tzinfo!r}, {getattr(value, 'value', '')})"
    if isinstance(value, dict):
        return f"{head}({getattr(value, 'default_factory', '')}, {[(describe(k), describe(v)) for k, v in value.items()]})"
    if isinstance(value, (set, frozenset)):
        return f"{head}({sorted(map(describe, value))})"
    if isinstance(value, (list, tuple, collections.deque)):
        return f"{head}({[describe(item) for item in value]}, {getattr(value, 'maxlen', None)})"
    return f"{head}({value!r})"


def bytes_of(value):
    """The bytes of an array; a long double has some that say nothing, and an object an address."""
    return value.tobytes().hex() if value.dtype.kind != "O" and value.dtype.char not in "gG" else value.tolist()


def describe_column(values):
    dtype, array_of = values.dtype, values.array
    if isinstance(dtype, pandas.CategoricalDtype):
        return f"{dtype!r} {describe(array_of.categories)} {list(array_of.codes)} {array_of.ordered}"
    return f"{dtype!r} {[describe(item) for item in values]}"


# ---- in the guest ----

def sent(text):
    return make(text)


def arrive_all(pairs):
    """For each argument: True if it is what the caller described, else what it is."""
    return [describe(value) == expected or describe(value) for value, expected in pairs]


def send_all(texts):
    return [make(text) for text in texts]


assert array and decimal and pathlib and pytz and types and uuid  # for the expressions
