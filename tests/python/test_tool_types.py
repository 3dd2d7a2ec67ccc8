# SPDX-License-Identifier: MIT
"""Types of a tool's parameters: their schemas, plain and strict, and the values that the tool gets."""
import dataclasses
import enum
import inspect
import json
import typing

import pytest
import tool_types
from conftest import system
from tool_types import Color, Item, Level, Line, Movie, Pair, Point, Shape, Tree, show

import brig
from brig._tool import make_tool
from brig._tool_doc import parameters_of

TREE = {"value": 1, "children": [{"value": 2, "children": [{"value": 3}]}]}
ITEM = {"name": "tea", "price": 2}

# Tool, a value in JSON, and the value that the tool gets.
VALUES = [
    ("a_text", "x", "x"),
    ("a_number", 1.5, 1.5),
    ("a_flag", True, True),
    ("a_literal", 2, 2),
    ("an_enum", "red", Color.RED),
    ("an_int_enum", 2, Level.HIGH),
    ("a_named_enum", "FLAT", Shape.FLAT),
    ("an_enum_literal", "red", Color.RED),
    ("an_optional", None, None),
    ("an_optional", "red", Color.RED),
    ("a_default", "red", Color.RED),
    ("a_union", 3, 3),
    ("a_union", {"x": 1}, Point(1)),
    ("a_union", ["blue"], [Color.BLUE]),
    ("a_list", ["red", "blue"], [Color.RED, Color.BLUE]),
    ("a_set", [1, 1], {1}),
    ("a_frozenset", ["red"], frozenset({Color.RED})),
    ("a_tuple", [1, "red"], (1, Color.RED)),
    ("a_long_tuple", [1, 2, 3], (1, 2, 3)),
    ("a_mapping", {"here": {"x": 1, "y": 2}}, {"here": Point(1, 2)}),
    ("a_keyed_mapping", {"3": "red"}, {3: Color.RED}),
    ("a_limited_option", None, None),
    ("a_limited_option", 2, 2),
    ("a_number", 2, 2.0),
    ("an_int", 3, 3),
    ("a_dataclass", {"x": 1}, Point(1)),
    ("a_nested_dataclass", {"points": [{"x": 1}], "color": "blue", "kinds": [1]}, Line([Point(1)], Color.BLUE, {Level.LOW})),
    ("a_tree", TREE, Tree(1, [Tree(2, [Tree(3)])])),
    ("a_typed_dict", {"title": "M", "color": "red"}, Movie(title="M", color=Color.RED)),
    ("a_named_tuple", {"left": 1}, Pair(1)),
    ("a_model", ITEM, Item(**ITEM)),
    ("a_list_of_models", [ITEM], [Item(**ITEM)]),
    ("a_recursive_model", {"items": [ITEM], "more": {"items": []}}, tool_types.Cart(items=[Item(**ITEM)], more={"items": []})),
    ("a_date", "2026-01-02", tool_types.datetime.date(2026, 1, 2)),
    ("a_datetime", "2026-01-02T03:04:05+00:00", tool_types.datetime.datetime.fromisoformat("2026-01-02T03:04:05+00:00")),
    ("a_uuid", "12345678-1234-5678-1234-567812345678", tool_types.uuid.UUID("12345678123456781234567812345678")),
    ("a_decimal", "1.10", tool_types.decimal.Decimal("1.10")),
    ("a_path", "/a/b", tool_types.pathlib.PurePath("/a/b")),
    ("an_annotated", 2, 2),
    ("a_field", "abc", "abc"),
]

FAULTS = [
    ("an_enum", "green", "/value: 'green' is none of 'red', 'blue'"),
    ("an_int_enum", "1", "/value: '1' is none of 1, 2"),
    ("a_dataclass", {"y": 1}, "/value/x: is missing"),
    ("a_dataclass", {"x": 1, "z": 1}, "/value/z: no such parameter (there are: x, y)"),
    ("a_nested_dataclass", {"points": [{"x": "1"}]}, "/value/points/0/x: '1' is no whole number"),
    ("a_tree", {"value": 1, "children": [{"value": "2"}]}, "/value/children/0/value: '2' is no whole number"),
    ("a_tuple", [1], "/value: [1] has fewer than 2 items"),
    ("a_keyed_mapping", {"x": "red"}, "/value: 'x' is no int"),
    ("a_limited_option", 1, "/value: 1 is less than 2"),
    ("a_date", "soon", "/value: 'soon' is no date"),
    ("an_annotated", 1, "/value: 1 is less than 2"),
    ("a_field", "abcd", "/value: 'abcd' has more than 3 characters"),
    ("a_model", {"name": "x"}, "/value/name: 'x' has fewer than 2 characters"),
    ("a_model", {"name": "xy", "price": -1}, "/value/price: -1 is less than 0"),
    ("a_recursive_model", {"items": [], "more": {"items": 3}}, "/value/more/items: 3 is no list"),
    ("a_typed_dict", {"title": "M", "year": "x"}, "/value/year: 'x' is no whole number"),
]

TOOLS = [value for value in vars(tool_types).values() if getattr(value, "__module__", "") == "tool_types" and inspect.isfunction(value) and value is not show]


@pytest.fixture(scope="module")
def host():
    with brig.ToolHost(TOOLS, preload=["tool_types"], timeout=60 * system.SLOW) as made:
        yield made


def schema(name):
    return make_tool(getattr(tool_types, name), None, None, {}).input_schema["properties"]["value"]


# ---- plain schemas ----


def test_schemas_of_types():
    point = {"type": "object", "description": "A place.", "required": ["x"], "additionalProperties": False, "properties": {
        "x": {"type": "integer", "description": "Steps to the right."},
        "y": {"type": "integer", "description": "Steps down.", "default": 0}}}
    color = {"type": "string", "enum": ["red", "blue"]}
    assert schema("an_enum") == color and schema("a_default") == {**color, "default": "blue"}
    assert schema("an_int_enum") == {"type": "integer", "enum": [1, 2]}
    assert schema("a_named_enum") == {"type": "string", "enum": ["ROUND", "FLAT"]}
    assert schema("a_dataclass") == point
    assert schema("a_mapping") == {"type": "object", "additionalProperties": point}
    assert schema("a_set") == {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
    assert schema("a_tuple") == {"type": "array", "prefixItems": [{"type": "integer"}, color], "minItems": 2, "maxItems": 2}
    assert schema("a_named_tuple")["properties"] == {"left": {"type": "integer"}, "right": {"type": "string", "default": "r"}}
    assert schema("a_typed_dict") == {"type": "object", "required": ["title"], "additionalProperties": False, "properties": {
        "title": {"type": "string"}, "year": {"type": "integer", "description": "when it was made"}, "color": color}}
    assert schema("a_date") == {"type": "string", "format": "date"}
    assert schema("an_annotated") == {"type": "integer", "description": "how many", "minimum": 2}
    assert schema("a_field") == {"type": "string", "description": "a word", "maxLength": 3}


def test_schema_of_a_class_that_contains_itself():
    whole = make_tool(tool_types.a_tree, None, None, {}).input_schema
    assert whole["properties"]["value"] == {"$ref": "#/$defs/Tree"}
    assert whole["$defs"]["Tree"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    json.dumps(whole)


def test_schema_of_a_pydantic_model():
    made = schema("a_model")
    assert made["required"] == ["name"] and made["description"] == "A thing to buy." and "title" not in made
    assert made["properties"]["name"] == {"description": "what it is", "minLength": 2, "type": "string"}
    assert made["properties"]["price"] == {"default": 0.5, "minimum": 0, "type": "number"}
    whole = make_tool(tool_types.a_recursive_model, None, None, {}).input_schema
    assert set(whole["$defs"]) >= {"Cart", "Item", "Color"}


def test_schema_of_a_model_without_one():
    class Odd(tool_types.pydantic.BaseModel):
        call: typing.Callable[[], int]

    def work(odd: Odd, more: typing.Optional[Odd] = None): ...
    assert make_tool(work, None, None, {}).input_schema["properties"]["odd"] == {"type": "object"}


def test_models_of_the_same_name_have_their_own_definitions():
    def model(kind):
        class Inner(tool_types.pydantic.BaseModel):
            value: kind

        class Outer(tool_types.pydantic.BaseModel):
            inner: Inner
        return Outer
    first, second = model(int), model(str)

    def work(a: first, b: second, c: first): ...
    whole = make_tool(work, None, None, {}).input_schema
    refs = [whole["properties"][name]["properties"]["inner"]["$ref"] for name in "abc"]
    assert refs == ["#/$defs/Inner", "#/$defs/Inner_", "#/$defs/Inner"]
    assert [whole["$defs"][name]["properties"]["value"]["type"] for name in ("Inner", "Inner_")] == ["integer", "string"]


# ---- values ----


@pytest.mark.parametrize("name, given, got", VALUES)
def test_arguments_arrive_as_their_types(host, name, given, got):
    answer = host.call(name, {"value": given})
    assert (answer.error, answer.output) == (None, show(got))


@pytest.mark.parametrize("name, given, words", FAULTS)
def test_arguments_of_the_wrong_form_start_nothing(host, name, given, words):
    answer = host.call(name, {"value": given})
    assert answer.denied and answer.error == f"{name}: arguments: {words}"


def test_constructors_run_in_the_guest(host):
    answer = host.call("an_even", {"value": {"number": 3}})
    assert (answer.kind, answer.denied) == ("raised", False) and answer.error == "ValueError: 3 is odd"
    assert host.call("an_even", {"value": {"number": 4}}).ok


def test_defaults_are_used_for_missing_arguments(host):
    assert host.call("a_default", {}).output == show(Color.BLUE)
    assert host.call("many", {"count": 1}).output == [1, ["a"], "a", 0.5, show(Point(1)), {}]


def test_classes_of_the_program_itself():
    """Neither the tool nor its types can be imported by the guest."""
    class Mood(enum.Enum):
        GOOD = "good"

    @dataclasses.dataclass
    class Note:
        text: str
        mood: Mood

    def keep(note: Note, twice: "typing.Optional[Note]" = None):
        return f"{note.text} {note.mood.name} {type(note).__name__} {twice and twice.text}"
    with brig.ToolHost([keep], timeout=30 * system.SLOW) as host:
        answer = host.call("keep", {"note": {"text": "x", "mood": "good"}})
        assert (answer.error, answer.output) == (None, "x GOOD Note None")


def test_types_without_parameters_and_names_that_do_not_exist(host):
    def bare(a: typing.List, b: typing.Dict, c: typing.Tuple, d: tuple, e: "Missing", f: "Color" = Color.RED): ...  # noqa: F821
    found = make_tool(bare, None, None, {}).input_schema["properties"]
    assert [found[name] for name in "abcd"] == [{"type": "array"}, {"type": "object"}, {"type": "array"}, {"type": "array"}]
    assert found["e"] == {} and found["f"] == {"type": "string", "enum": ["red", "blue"], "default": "red"}


def test_arguments_that_are_nested_too_deeply_start_nothing(host):
    tree = {"value": 1}
    for _ in range(5000):
        tree = {"value": 1, "children": [tree]}
    answer = host.call("a_tree", {"value": tree})
    assert answer.denied and answer.error == "a_tree: arguments: are nested too deeply"


# ---- docstrings ----


GOOGLE = """Does it.

    More words.

    Args:
        first (int): The first
            one: really.
        second (Optional[List[str]], optional): The second.
        *rest: Others.

    Returns:
        int: a number
    """

NUMPY = """Does it.

    More words.

    Parameters
    ----------
    first : int
        The first
        one: really.
    second, third : list of str, optional
        The second.

    Returns
    -------
    int
        a number
    """

SPHINX = """Does it.

    More words.

    :param first: The first
        one: really.
    :type first: int
    :param list second: The second.
    :returns: a number
    """


@pytest.mark.parametrize("doc, end", [(GOOGLE, "Returns:\n    int: a number"), (NUMPY, "Returns\n-------\nint\n    a number"), (SPHINX, ":returns: a number")])
def test_docstrings_describe_parameters(doc, end):
    def work(first: int, second: typing.Annotated[str, "annotated wins"] = "", third: int = 0): ...
    work.__doc__ = doc
    tool = make_tool(work, None, None, {})
    assert tool.description.startswith("Does it.\n\nMore words.\n") and tool.description.endswith(end)
    assert "really" not in tool.description
    found = tool.input_schema["properties"]
    assert found["first"]["description"] == "The first one: really."
    assert found["second"]["description"] == "annotated wins" and parameters_of(doc)[1]["second"] == "The second."


@pytest.mark.parametrize("doc", ["", "Args: are words.", "Args:\n    nothing here that names one", "Parameters\nof the day", "a: b\n  c: d", ":raises X: y"])
def test_docstrings_without_parameters_are_kept(doc):
    assert parameters_of(doc) == (inspect.cleandoc(doc), {})


# ---- strict ----


TYPES = {"string", "number", "boolean", "integer", "object", "array", "null"}
KEYWORDS = {"type", "description", "enum", "anyOf", "$ref", "$defs", "properties", "required", "additionalProperties", "items",
            "pattern", "format", "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "minItems", "maxItems"}
FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}


def strict_faults(root):
    """The violations of the rules that OpenAI publishes for strict mode ("Structured Outputs: supported schemas"): the
    root is an object and not anyOf; each object is closed and requires all of its properties; a list of keywords and
    formats; every schema has a type; nothing beside a $ref; at most 5,000 properties, 10 levels of nesting, 1,000 enum
    values, and 120,000 characters of names and enum values."""
    faults, counts = [], {"properties": 0, "enum": 0, "characters": 0}

    def look(one, where, depth):
        faults.extend(f"{where}: {key}" for key in one.keys() - KEYWORDS)
        if depth > 10:
            faults.append(f"{where}: nested too deeply")
        if "$ref" in one:
            if set(one) != {"$ref"} or one["$ref"].rpartition("/")[2] not in root.get("$defs", {}):
                faults.append(f"{where}: {one}")
            return
        kinds = one.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if not set(kinds) <= TYPES or not (kinds or one.get("anyOf")):
            faults.append(f"{where}: type {kinds}")
        if one.get("format", "date") not in FORMATS:
            faults.append(f"{where}: format")
        counts["enum"] += len(one.get("enum", ()))
        counts["characters"] += sum(len(text) for text in one.get("enum", ()) if isinstance(text, str))
        for index, choice in enumerate(one.get("anyOf", ())):
            look(choice, f"{where}/anyOf/{index}", depth)
        if "array" in kinds:
            look(one.get("items", {}), f"{where}/items", depth + 1)
        if "object" in kinds:
            properties = one.get("properties", {})
            if one.get("additionalProperties") is not False or set(one.get("required", ())) != set(properties):
                faults.append(f"{where}: open")
            counts["properties"] += len(properties)
            counts["characters"] += sum(map(len, properties))
            for name, inner in properties.items():
                look(inner, f"{where}/{name}", depth + 1)

    if root.get("type") != "object" or "anyOf" in root:
        faults.append("the root is no object")
    look(root, "", 1)
    for name, inner in root.get("$defs", {}).items():
        counts["characters"] += len(name)
        look(inner, f"$defs/{name}", 1)
    if counts["properties"] > 5000 or counts["enum"] > 1000 or counts["characters"] > 120000:
        faults.append(f"too large: {counts}")
    return faults


@pytest.mark.parametrize("function", TOOLS, ids=lambda function: function.__name__)
def test_strict_schemas_follow_the_rules(function):
    tool = make_tool(function, None, None, {})
    strict = tool.schema(strict=True)
    assert not strict_faults(strict), json.dumps(strict, indent=1)
    assert tool.schema() == tool.input_schema and json.loads(json.dumps(strict)) == strict


def test_the_checker_of_strict_rules_objects():
    """Each of these is refused by the API."""
    closed = {"type": "object", "additionalProperties": False}
    for wrong in (
        {"anyOf": [closed]},
        {"type": "object", "properties": {}, "required": []},
        {**closed, "properties": {"a": {"type": "string"}}, "required": []},
        {**closed, "properties": {"a": {}}, "required": ["a"]},
        {**closed, "properties": {"a": {"type": "array"}}, "required": ["a"]},
        {**closed, "properties": {"a": {"type": "string", "default": "x"}}, "required": ["a"]},
        {**closed, "properties": {"a": {"type": "string", "format": "color"}}, "required": ["a"]},
        {**closed, "properties": {"a": {"$ref": "#/$defs/X", "description": "x"}}, "required": ["a"], "$defs": {"X": closed}},
        {**closed, "properties": {"a": {"allOf": [{"type": "string"}]}}, "required": ["a"]},
    ):
        assert strict_faults(wrong), wrong
    plain = [make_tool(function, None, None, {}).input_schema for function in TOOLS]
    assert sum(1 for one in plain if strict_faults(one)) > 10


def test_parameters_without_a_strict_form_are_named():
    def anything(a: int, thing): ...
    def a_dict(thing: dict): ...
    def a_list(thing: list): ...
    def deep(thing: dict[str, list[typing.Any]]): ...
    def rest(**thing): ...
    for function, words in ((anything, "anything: /thing: has no type"), (a_dict, "a_dict: /thing: takes any member"), (a_list, "a_list: /thing/0: has no"),
                            (deep, "deep: /thing/[*]/0: has no type"), (rest, "rest: : takes any member")):
        with pytest.raises(brig.UsageError, match=words):
            make_tool(function, None, None, {}).schema(strict=True)


def test_strict_arguments_are_accepted(host):
    """null stands for a default, unless it is a value of its own; pairs stand for a mapping."""
    whole = {"count": 1, "names": None, "kind": None, "ratio": None, "point": None, "more": [{"key": "a", "value": 3}]}
    assert host.call("many", whole).output == [1, ["a"], "a", None, show(Point(1)), {"a": 3}]
    assert host.call("a_dataclass", {"value": {"x": 1, "y": None}}).output == show(Point(1))
    assert host.call("a_mapping", {"value": [{"key": "k", "value": {"x": 1, "y": None}}]}).output == show({"k": Point(1)})
    assert host.call("a_tree", {"value": {"value": 1, "children": None}}).output == show(Tree(1))
    assert host.call("a_model", {"value": {**ITEM, "tags": None, "color": None}}).output == show(Item(**ITEM))
    assert host.call("a_union", {"value": {"x": 1, "y": None}}).output == show(Point(1))
    assert host.call("many", {"count": None}).error == "many: arguments: /count: None is no whole number"
    twice = [{"key": "a", "value": 3}, {"key": "a", "value": 4}]
    assert "is no object" in host.call("many", {"count": 1, "more": twice}).error


@pytest.mark.parametrize("name, given, got", VALUES)
def test_values_by_the_strict_schema_are_those_of_the_plain_one(name, given, got):
    """A value that the plain schema accepts has a strict form, which means the same."""
    tool = make_tool(getattr(tool_types, name), None, None, {})
    strict = filled(tool.schema(strict=True), {"value": given}, tool.schema(strict=True))
    host = brig.ToolHost.__new__(brig.ToolHost)  # no guest: only the check of the arguments
    host._closed, host._tools = False, {tool.name: tool}
    call = brig._tool._Call(host, name, strict, None)
    plain = brig._tool._Call(host, name, {"value": given}, None)
    assert call.refused is None and plain.refused is None
    assert shown(call.arguments) == shown(plain.arguments)


def filled(schema, value, root):
    """A value with null for what is missing, and pairs for mappings."""
    if "$ref" in schema:
        return filled(root["$defs"][schema["$ref"].rpartition("/")[2]], value, root)
    if "anyOf" in schema:
        objects = [one for one in schema["anyOf"] if one.get("type") in ("object", "array") or "$ref" in one or "anyOf" in one]
        kinds = {dict: ("object", "array"), list: ("array",)}.get(type(value), ())
        for one in objects:
            inner = root["$defs"][one["$ref"].rpartition("/")[2]] if "$ref" in one else one
            if inner.get("type") in kinds:
                return filled(inner, value, root)
        return value
    if schema.get("type") == "object":
        return {name: filled(inner, value[name], root) if name in value else None for name, inner in schema["properties"].items()}
    if schema.get("type") == "array" and isinstance(value, dict):
        return [{"key": key, "value": filled(schema["items"]["properties"]["value"], one, root)} for key, one in value.items()]
    if schema.get("type") == "array":
        return [filled(schema["items"], one, root) for one in value]
    return value


def shown(value):
    """Arguments as they are sent, with their types."""
    if isinstance(value, brig._guest.Made):
        return (value.kind, value.method, shown(value.values))
    if isinstance(value, dict):
        # null may be the default itself, as in an Optional of pydantic 2
        return {name: shown(one) for name, one in value.items() if one is not None}
    if isinstance(value, (list, tuple)):
        return [type(value), *map(shown, value)]
    return show(value)
