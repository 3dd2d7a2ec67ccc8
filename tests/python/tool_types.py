# SPDX-License-Identifier: MIT
"""Tools with parameters of every kind, which guests import; for test_tool_types.py."""
import dataclasses
import datetime
import decimal
import enum
import pathlib
import typing
import uuid
from typing import Annotated, Literal, NamedTuple, Optional, TypedDict, Union

import pydantic


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Shape(enum.Enum):
    ROUND = (1, 2)
    FLAT = (3, 4)


@dataclasses.dataclass
class Point:
    """A place.

    Attributes:
        x: Steps to the right.
        y: Steps down.
    """

    x: int
    y: int = 0


@dataclasses.dataclass
class Line:
    points: list[Point]
    color: Color = Color.RED
    kinds: set[Level] = dataclasses.field(default_factory=set)


@dataclasses.dataclass
class Tree:
    value: int
    children: list["Tree"] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Even:
    number: int

    def __post_init__(self):
        if self.number % 2:
            raise ValueError(f"{self.number} is odd")


class Movie(TypedDict):
    title: str
    year: typing.NotRequired[Annotated[int, "when it was made"]]
    color: typing.NotRequired[Color]


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Item(pydantic.BaseModel):
    """A thing to buy."""

    name: str = pydantic.Field(description="what it is", min_length=2)
    price: float = pydantic.Field(0.5, ge=0)
    tags: list[str] = []
    color: Color = Color.BLUE


class Cart(pydantic.BaseModel):
    items: list[Item]
    more: Optional["Cart"] = None


(getattr(Cart, "model_rebuild", None) or Cart.update_forward_refs)()


class Least:
    """A constraint as annotated_types has it."""

    def __init__(self, ge):
        self.ge = ge


def show(value):
    return f"{type(value).__name__} {value!r}"


def a_text(value: str): return show(value)
def a_number(value: float): return show(value)
def a_flag(value: bool): return show(value)
def a_literal(value: Literal["a", 2, None]): return show(value)
def an_enum(value: Color): return show(value)
def an_int_enum(value: Level): return show(value)
def a_named_enum(value: Shape): return show(value)
def an_enum_literal(value: Literal[Color.RED]): return show(value)
def an_optional(value: Optional[Color] = Color.BLUE): return show(value)
def a_default(value: Color = Color.BLUE): return show(value)
def a_union(value: Union[int, Point, list[Color]]): return show(value)
def a_list(value: list[Color]): return show(value)
def a_set(value: set[int]): return show(value)
def a_frozenset(value: frozenset[Color]): return show(value)
def a_tuple(value: tuple[int, Color]): return show(value)
def a_long_tuple(value: tuple[int, ...]): return show(value)
def a_mapping(value: dict[str, Point]): return show(value)
def a_keyed_mapping(value: dict[int, Color]): return show(value)
def a_limited_option(value: Annotated[Optional[int], Least(2)]): return show(value)
def an_int(value: int): return show(value)
def a_dataclass(value: Point): return show(value)
def a_nested_dataclass(value: Line): return show(value)
def a_tree(value: Tree): return show(value)
def an_even(value: Even): return show(value)
def a_typed_dict(value: Movie): return show(value)
def a_named_tuple(value: Pair): return show(value)
def a_model(value: Item): return show(value)
def a_list_of_models(value: list[Item]): return show(value)
def a_recursive_model(value: Cart): return show(value)
def a_date(value: datetime.date): return show(value)
def a_datetime(value: datetime.datetime): return show(value)
def a_uuid(value: uuid.UUID): return show(value)
def a_decimal(value: decimal.Decimal): return show(value)
def a_path(value: pathlib.PurePath): return show(value)
def an_annotated(value: Annotated[int, "how many", Least(2)]): return show(value)
def a_field(value: Annotated[str, pydantic.Field(description="a word", max_length=3)]): return show(value)


def many(count: int, names: list[str] = ["a"], kind: Literal["a", "b"] = "a", ratio: Optional[float] = 0.5,
         point: Point = Point(1), more: dict[str, int] = {}):
    return [count, names, kind, ratio, show(point), more]
