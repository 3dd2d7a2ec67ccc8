# SPDX-License-Identifier: MIT
"""Review P2: each kind of value in and out of a guest, equal or refused, with the real numpy, pandas and pydantic. The
table of docs/VALUES.md is what is measured here."""
import dataclasses
import enum
import functools
import json
import os
import re
import sys

import numpy
import pandas
import pytest
import value_kinds
from value_kinds import KINDS, Order, Person, describe, make

import brig
from brig._decode import BadValue, UnknownType, decode
from brig._value import NotSendable, encode

PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "VALUES.md")
REFUSED = "refused on the way back"
SENT = [text for section, texts in KINDS.items() if section != REFUSED for text in texts]


@pytest.fixture(scope="module")
def template():
    with brig.Template(preload=["value_kinds"], memory="1G", timeout=60, types=[Person]) as made:
        yield made


@pytest.fixture(scope="module")
def measured(template):
    """{expression: (in, out)}, each "equal", or what came instead."""
    texts = [*SENT, *KINDS[REFUSED]]
    expected = {text: describe(make(text)) for text in texts}
    there = template.call(value_kinds.arrive_all, [(make(text), expected[text]) for text in texts])
    arrived = dict(zip(texts, ("equal" if same is True else same for same in there)))
    table = {text: (arrived[text], "refused") for text in KINDS[REFUSED]}
    for text in KINDS[REFUSED]:
        outcome = template.try_call(value_kinds.sent, text)
        assert outcome.kind == "unserialisable" and "is not among the types" in outcome.error, (text, outcome)
    for text, back in zip(SENT, template.call(value_kinds.send_all, SENT)):
        table[text] = arrived[text], "equal" if describe(back) == expected[text] else describe(back)
    return table


def test_review_p2_every_kind_arrives_as_itself_in_both_directions(measured):
    assert {text: got for text, got in measured.items() if text in SENT and got != ("equal", "equal")} == {}


def table_of(measured):
    lines = ["| value | to the guest | back |", "|---|---|---|"]
    for section, texts in KINDS.items():
        lines.append(f"| *{section}* | | |")
        lines += ["| `" + text.replace("|", "\\|") + "` | " + " | ".join(measured[text]) + " |" for text in texts]
    return "\n".join(lines) + "\n"


def test_review_p2_table_of_the_page_is_what_is_measured(measured):
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    assert page.endswith("\n\n" + table_of(measured)), table_of(measured)


def test_example_of_the_page(script):
    with open(PAGE, encoding="utf-8") as file:
        example, = re.findall(r"^```python\n(.*?)^```", file.read(), re.S | re.M)
    done = script(example)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("text", SENT)
def test_review_p2_kind_comes_back_from_json(text):
    value = make(text)
    assert describe(decode(json.loads(encode(value)), [Person])) == describe(value)
    inside = {"a": [value, (value,)]}
    assert describe(decode(json.loads(encode(inside)), [Person])) == describe(inside)


@pytest.mark.parametrize("text", KINDS[REFUSED])
def test_review_p2_refusal_names_the_type_and_the_place(text):
    value = make(text)
    with pytest.raises(NotSendable) as caught:
        encode({"a": [0, value]})
    told = str(caught.value)
    assert "(result['a'][1])" in told
    assert any(name.__name__.rstrip("_") in told for name in type(value).__mro__[:-1]) or "dtype" in told, told


def test_review_p2_large_table_comes_back(template):
    frame = pandas.DataFrame({"a": numpy.arange(30_000), "b": numpy.linspace(0, 1, 30_000), "c": ["x", "y", "z"] * 10_000})
    back = template.call(dict, frame=frame)["frame"]
    pandas.testing.assert_frame_equal(back, frame)
    back.iloc[0, 0] = 9  # its memory is the caller's


# ---- classes ----

def test_review_p2_class_that_the_caller_does_not_have_is_named_with_the_fix(template):
    outcome = template.try_call(value_kinds.make_local)
    name = "value_kinds.local_order.<locals>.Local"
    assert outcome.kind == "unserialisable" and outcome.type == name
    assert f"the class {name} of the result is not known" in outcome.error and "types=[Local]" in outcome.error
    with pytest.raises(brig.CallFailed, match="types="):
        template.call(value_kinds.make_local)
    Local = value_kinds.local_order()
    with brig.Template(preload=["value_kinds"], memory="1G", types=[Local]) as named:
        assert named.call(value_kinds.make_local) == Local(3)
        assert named.try_call(value_kinds.make_local).value == Local(3)
        assert named.start(value_kinds.make_local).value() == Local(3)
        assert list(named.with_limits(timeout=30).map(lambda number: Local(number), [1, 2])) == [Local(1), Local(2)]
    with pytest.raises(TypeError, match="types: 3 is not a class"):
        brig.Template(types=[3])


class Mine(enum.Enum):
    A = object


@pytest.mark.parametrize("named", [["os", "system"], ["sys", "modules"], ["antigravity", "Order"], ["value_kinds", "nothing"],
                                   ["value_kinds", "Order.__init__"], ["brig._outcome", "Outcome"], ["value_kinds", "numpy.ndarray"],
                                   ["", "x"], ["x", ""], ["x"], "value_kinds.Order", None, [1, 2], ["a" * 1000, "b"],
                                   ["collections", "OrderedDict"], ["value_kinds", "Text"]], ids=str)
def test_hostile_class_is_not_looked_for_further(named):
    for form in ({"$": "dataclass", "class": named, "fields": {"number": 1, "items": [], "note": None}},
                 {"$": "enum", "class": named, "name": "A"}, {"$": "flag", "class": named, "value": 1},
                 {"$": "named_tuple", "class": named, "items": [1, 2]},
                 {"$": "model", "class": named, "version": 1, "fields": {}, "extra": None, "private": {}, "set": []}):
        with pytest.raises(BadValue):
            decode(form)
    assert "antigravity" not in sys.modules


@dataclasses.dataclass
class Loud:
    path: str

    def __del__(self):
        raise AssertionError("ran with a path of the guest's")


@dataclasses.dataclass
class Set:
    size: int

    def set(self, value):
        raise AssertionError("ran with a size of the guest's")
    size = property(lambda self: 0, set)


class Missing(enum.Flag):
    A = 1

    @classmethod
    def _missing_(cls, value):
        raise AssertionError("ran with a value of the guest's")


def here(name):
    return [__name__, name]


def order(**fields):
    return {"$": "dataclass", "class": ["value_kinds", "Order"], "fields": {"number": 1, "items": [], "note": None, **fields}}


def person(**members):
    form = json.loads(encode(Person(name="a", age=1)))
    return {**form, **members}


@pytest.mark.parametrize("form", [
    order(more=1), {**order(), "fields": {"number": 1}}, {**order(), "fields": [1]}, {**order(), "fields": None},
    {"$": "dataclass", "class": here("Loud"), "fields": {"path": "/"}}, {"$": "dataclass", "class": here("Set"), "fields": {"size": 1}},
    {"$": "dataclass", "class": ["value_kinds", "Colour"], "fields": {}}, {"$": "enum", "class": ["value_kinds", "Colour"], "name": "GREEN"},
    {"$": "enum", "class": ["value_kinds", "Colour"], "name": "__class__"}, {"$": "enum", "class": ["value_kinds", "Colour"], "name": None},
    {"$": "enum", "class": ["value_kinds", "Order"], "name": "number"}, {"$": "flag", "class": ["value_kinds", "Access"], "value": 99},
    {"$": "flag", "class": ["value_kinds", "Access"], "value": "1"}, {"$": "flag", "class": here("Missing"), "value": 2},
    {"$": "flag", "class": ["value_kinds", "Colour"], "value": 1}, {"$": "named_tuple", "class": ["value_kinds", "Point"], "items": [1]},
    {"$": "named_tuple", "class": ["value_kinds", "Point"], "items": {}}, {"$": "named_tuple", "class": ["value_kinds", "Order"], "items": []},
    person(fields={"name": "a", "age": "old", "friend": None, "born": None}), person(fields={"name": "a"}, set=["name", "other"]),
    person(fields={"name": "a", "age": "3", "friend": None, "born": None}), person(private={"_other": 1}), person(private={"__dict__": {}}),
    person(version=3), person(version=None), person(set="name"), person(set=[[]]), person(fields=None), person(extra={"evil": 1}, version=2),
    {**person(), "class": ["value_kinds", "Order"]},
], ids=str)
def test_hostile_instance_is_refused_and_runs_no_code_of_its_class(form):
    with pytest.raises(BadValue):
        decode(form, [Person])


def test_review_p2_attributes_that_would_be_lost_are_named():
    made = Order(1)
    made.more = 2
    with pytest.raises(NotSendable, match="Order with the attribute 'more'"):
        encode(made)
    with pytest.raises(NotSendable, match=r"object \(result\.note\)"):
        encode(Order(1, note=object()))

    @dataclasses.dataclass
    class Cached:
        a: int

        @functools.cached_property
        def twice(self):
            return 2 * self.a
    made = Cached(2)
    assert made.twice == 4
    assert decode(json.loads(encode(made)), types=[Cached]) == made


# ---- data ----

def zoned(data, **more):
    return {"$": "zoned", "values": json.loads(encode(data)), "tz": {"$": "timezone", "offset": {"$": "timedelta", "parts": [0, 0, 0]}, "name": None}, **more}


def form_of(value, **members):
    return {**json.loads(encode(value)), **members}


ARRAY = form_of(numpy.arange(2, dtype="<i4"))
STRUCTURE = {"names": ["a", "b"], "formats": ["<i4", "<i4"], "offsets": [0, 4], "itemsize": 8, "align": False}
INDEX = form_of(pandas.RangeIndex(2))
MASKED = form_of(numpy.ma.array([1, 2], mask=[0, 1], fill_value=3))


@pytest.mark.parametrize("form", [
    # structures
    *({**ARRAY, "shape": [1], "dtype": {**STRUCTURE, **change}} for change in (
        {"offsets": [0, 2]}, {"offsets": [0, 8]}, {"offsets": [-4, 0]}, {"offsets": [0]}, {"offsets": [True, 4]}, {"itemsize": 1 << 40},
        {"itemsize": -8}, {"itemsize": 7}, {"names": ["a", "a"]}, {"names": ["a", ""]}, {"names": ["a", 1]}, {"formats": ["<i4", "|O8"]},
        {"formats": ["<i4", {"base": "<i4", "shape": [1 << 40]}]}, {"formats": ["<i4", {"base": "|O8", "shape": [1]}]},
        {"formats": ["<i4", None]}, {"align": None}, {"titles": ["x", "y"]})),
    {**ARRAY, "dtype": {"base": "<i4", "shape": [2]}},
    {**ARRAY, "dtype": functools.reduce(lambda form, _: {**STRUCTURE, "names": ["a"], "formats": [form], "offsets": [0]}, range(50), "<i4")},
    {**ARRAY, "shape": [3]}, {**ARRAY, "shape": [1 << 62, 1 << 62]}, {**ARRAY, "shape": [-2]}, {**ARRAY, "data": [0, 8]}, {**ARRAY, "data": [-1, 8]},
    {**ARRAY, "data": {"$": "bytes", "data": ""}}, {**ARRAY, "dtype": "<M8[0s]"}, {**ARRAY, "dtype": "<M8[99999999999s]", "shape": [1]},
    {**ARRAY, "dtype": "|b1", "shape": [1], "data": "Ag=="},
    # scalars
    {"$": "scalar", "dtype": "|i1", "value": 300}, {"$": "scalar", "dtype": "|u1", "value": -1}, {"$": "scalar", "dtype": "<i4", "value": 1.5},
    {"$": "scalar", "dtype": "<f4", "value": 0.1}, {"$": "scalar", "dtype": "|b1", "value": 1}, {"$": "scalar", "dtype": "|O8", "value": 1},
    {"$": "scalar", "dtype": "<M8[s]", "value": "2024"}, {"$": "scalar", "dtype": "<M8[s]", "value": {"$": "int", "hex": "f" * 17}},
    {"$": "void", "array": ARRAY}, {"$": "void", "array": None},
    # masked arrays
    {**MASKED, "mask": form_of(numpy.zeros(3, bool))}, {**MASKED, "mask": form_of(numpy.zeros(2, "i1"))}, {**MASKED, "mask": True},
    {**MASKED, "data": [1, 2]}, {**MASKED, "fill": form_of(numpy.zeros(2, "i8"))}, {**MASKED, "fill": "x"}, {**MASKED, "hard": 1},
    # indexes
    {**INDEX, "bounds": [0, 5, 0]}, {**INDEX, "bounds": [0, 5]}, {**INDEX, "bounds": [0, 1 << 63, 1]}, {**INDEX, "name": []},
    form_of(pandas.Index([1, 2]), values=ARRAY["data"]), form_of(pandas.Index([1, 2]), freq="D"), form_of(pandas.Index([1, 2]), name={"$": "set", "items": []}),
    form_of(pandas.date_range("2024", periods=3), freq="H"), form_of(pandas.date_range("2024", periods=3), freq="; import os"),
    form_of(pandas.Index(["a"]), values={"$": "objects", "items": None}), {"$": "objects", "items": []},
    form_of(pandas.MultiIndex.from_product([[1], [2]]), codes=[[9], [0]]), form_of(pandas.MultiIndex.from_product([[1], [2]]), levels=[1, 2]),
    form_of(pandas.MultiIndex.from_product([[1], [2]]), codes=[form_of(numpy.array([5])), form_of(numpy.array([0]))]),
    form_of(pandas.MultiIndex.from_product([[1], [2]]), names=[None]), form_of(pandas.MultiIndex.from_product([[1], [2]]), names=[[], 1]),
    # pandas' own arrays
    form_of(pandas.Categorical(["a"]), codes=form_of(numpy.array([7], "i1"))), form_of(pandas.Categorical(["a"]), codes=form_of(numpy.array([-2], "i1"))),
    form_of(pandas.Categorical(["a"]), categories=["a"]), form_of(pandas.Categorical(["a"]), ordered=None),
    form_of(pandas.Categorical(["a"]), categories=form_of(pandas.Index(["a", "a"]))), zoned(numpy.arange(3)), zoned(numpy.zeros(1, "M8[ns]"), tz=None),
    zoned(numpy.zeros((1, 1), "M8[ns]")), zoned(numpy.zeros(1, "M8[Y]")), form_of(pandas.array([1, None]), mask=form_of(numpy.zeros(3, bool))),
    form_of(pandas.array([1, None]), mask=form_of(numpy.zeros(2, "i1"))), form_of(pandas.array([1, None]), values=form_of(numpy.zeros(2, "f2"))),
    {"$": "strings", "items": [1]}, {"$": "strings", "items": None}, {"$": "periods", "ordinals": ARRAY, "freq": "D"},
    {"$": "periods", "ordinals": form_of(numpy.arange(2)), "freq": "nothing"}, {"$": "periods", "ordinals": form_of(numpy.arange(2)), "freq": None},
    {"$": "intervals", "left": INDEX, "right": [], "closed": "left"}, {"$": "intervals", "left": INDEX, "right": INDEX, "closed": "evil"},
    # tables
    form_of(pandas.Series([1, 2]), index=form_of(pandas.RangeIndex(1 << 40))), form_of(pandas.Series([1, 2]), index=None), form_of(pandas.Series([1, 2]), attrs=[]),
    form_of(pandas.Series([1, 2]), values=form_of(numpy.zeros((2, 2)))), form_of(pandas.Series([1, 2]), values=form_of(numpy.array(["a", "b"]))),
    form_of(pandas.DataFrame({"a": [1]}), columns=INDEX), form_of(pandas.DataFrame({"a": [1]}), data=[]), form_of(pandas.DataFrame({"a": [1]}), data=None),
    form_of(pandas.DataFrame({"a": [1]}), data=[ARRAY]), form_of(pandas.DataFrame({"a": [1]}), index="x"),
    # times
    {"$": "timestamp", "value": 1, "unit": "Y", "tz": None}, {"$": "timestamp", "value": -(1 << 63), "unit": "ns", "tz": None},
    {"$": "timestamp", "value": "now", "unit": "ns", "tz": None}, {"$": "timestamp", "value": 1, "unit": "ns", "tz": "UTC"},
    {"$": "period", "ordinal": 1, "freq": "().__class__"}, {"$": "interval", "left": 2, "right": 1, "closed": "left"},
    {"$": "interval", "left": "a", "right": "b", "closed": "left"}, {"$": "zone", "key": "../../etc/passwd"}, {"$": "zone", "key": "/etc/passwd"},
    {"$": "zone", "key": None}, {"$": "pytz", "zone": "../x"}, {"$": "pytz_fixed", "minutes": 10**9}, {"$": "pytz_fixed", "minutes": "1"},
    {"$": "datetime", "parts": [2024, 13, 1, 0, 0, 0, 0], "fold": 0, "tz": None, "offset": None}, {"$": "datetime", "parts": [2024], "fold": 0, "tz": None, "offset": None},
    {"$": "datetime", "parts": [2024, 1, 1, 0, 0, 0, 0], "fold": 2, "tz": None, "offset": None}, {"$": "datetime", "parts": [2024, 1, 1, 0, 0, 0, 0], "fold": 0, "tz": 5, "offset": None},
    {"$": "datetime", "parts": [2024, 1, 1, 0, 0, 0, 0], "fold": 0, "tz": {"$": "pytz", "zone": "Europe/Berlin"}, "offset": 7},
    {"$": "datetime", "parts": [2024, 1, 1, 0, 0, 0, 0], "fold": 0, "tz": None, "offset": 3600}, {"$": "time", "parts": [25, 0, 0, 0], "fold": 0, "tz": None},
    {"$": "timezone", "offset": {"$": "timedelta", "parts": [2, 0, 0]}, "name": None}, {"$": "timezone", "offset": 1, "name": None},
    # the rest
    {"$": "decimal", "text": "1e5"}, {"$": "decimal", "text": "1_0"}, {"$": "decimal", "text": "٣"}, {"$": "decimal", "text": 1}, {"$": "decimal", "text": ""},
    {"$": "decimal", "text": "1E+" + "9" * 30}, {"$": "uuid", "hex": "0" * 31, "safe": 0}, {"$": "uuid", "hex": "0" * 32, "safe": 5}, {"$": "uuid", "hex": None, "safe": 0},
    {"$": "path", "kind": "WindowsPath", "text": "a"}, {"$": "path", "kind": "PosixPath", "text": "a/../"}, {"$": "path", "kind": [], "text": "a"},
    {"$": "defaultdict", "factory": "eval", "items": []}, {"$": "defaultdict", "factory": "list", "items": [[[], 1]]}, {"$": "deque", "items": [], "maxlen": -1},
    {"$": "counter", "items": [1]}, {"$": "memoryview", "data": "", "readonly": None}, {"$": "memoryview", "data": 1, "readonly": True},
], ids=lambda form: str(form)[:60])
def test_hostile_form_is_refused(form):
    with pytest.raises(BadValue):
        decode(json.loads(json.dumps(form)))


def test_review_p2_text_with_characters_that_are_none_is_refused():
    """numpy takes any number for a character, and raises SystemError when it is looked at."""
    data = numpy.array([0x110000], "<u4")
    form = form_of(data, dtype="<U1")
    with pytest.raises(BadValue, match="character that is none"):
        decode(form)
    inside = {"names": ["t"], "formats": [{"base": "<U1", "shape": [1]}], "offsets": [0], "itemsize": 4, "align": False}
    with pytest.raises(BadValue, match="character that is none"):
        decode(form_of(data, dtype=inside))
    with pytest.raises(BadValue, match="character that is none"):
        decode(form_of(data.astype(">u4"), dtype=">U1"))


def test_review_p2_nat_is_not_the_fault_of_the_guest(template):
    assert template.call(value_kinds.sent, "pandas.NaT") is pandas.NaT
    back = template.call(value_kinds.sent, "[numpy.datetime64('NaT'), numpy.timedelta64('NaT', 's')]")
    assert [str(one) for one in back] == ["NaT", "NaT"] and back[1].dtype == "m8[s]"


def test_review_p2_caller_without_the_modules(script):
    """It gets what it can have, and is told what to import for the rest."""
    done = script('''if True:
        import brig, sys
        def make(text):
            import numpy, pandas
            return eval(text)
        with brig.Template(preload=["pandas"], timeout=60, memory="1G") as template:
            assert template.call(make, "numpy.float64(1.5)") == 1.5
            assert template.call(make, "numpy.arange(2, dtype='<i2')") == brig.Array("<i2", (2,), bytes([0, 0, 1, 0]))
            for text, words in (("pandas.DataFrame()", "the caller has not imported pandas"), ("pandas.NaT", "pandas.NaT"),
                                ("numpy.ma.array([1])", "has not imported numpy"), ("numpy.datetime64(1, 's')", "import it")):
                outcome = template.try_call(make, text)
                assert outcome.kind == "unserialisable" and words in outcome.error, outcome
        assert not {"numpy", "pandas"} & set(sys.modules)
        print("done")
    ''', timeout=120)
    assert done.stdout == "done\n", done.stderr


def test_review_p2_classes_of_the_running_program(script):
    """They go to the guest by value, and are found here by their name."""
    done = script('''if True:
        import brig, collections, dataclasses, enum
        @dataclasses.dataclass
        class Order:
            number: int
        class Colour(enum.Enum):
            RED = 1
        Point = collections.namedtuple("Point", "x y")
        def turn(order, colour, point):
            assert isinstance(order, Order) and colour is Colour.RED
            return [Order(order.number + 1), colour, point._replace(x=5)]
        with brig.Template(timeout=60) as template:
            back = template.call(turn, Order(1), Colour.RED, Point(1, 2))
            assert back == [Order(2), Colour.RED, Point(5, 2)] and back[1] is Colour.RED and type(back[2]) is Point, back
        print("done")
    ''', timeout=60)
    assert done.stdout == "done\n", done.stderr


def test_review_p2_unknown_module_is_no_bad_value(monkeypatch):
    for name in ("pandas", "pytz"):
        form = {"$": "nat"} if name == "pandas" else {"$": "pytz", "zone": "UTC"}
        with monkeypatch.context() as without:
            without.delitem(sys.modules, name)
            with pytest.raises(UnknownType, match=f"has not imported {name}"):
                decode(form)


def test_plot_is_made_in_a_guest(template):
    """matplotlib of Debian, without a display: the picture comes back as bytes."""
    picture = template.call(draw, [1, 3, 2])
    assert picture.startswith(b"\x89PNG") and len(picture) > 5000


def draw(numbers):
    import io

    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    file = io.BytesIO()
    pyplot.plot(numbers)
    pyplot.savefig(file, format="png")
    return file.getvalue()


