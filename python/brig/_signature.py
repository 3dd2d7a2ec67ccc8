# SPDX-License-Identifier: MIT
"""The types of keywords, and how functions that take the settings of a run show them.

Such a function has **keys in its source. tools/python-keywords writes its whole signature, with one
parameter for each row of the library's table, to _keywords.py. @typed and @typed_method give it to
type checkers, to inspect.signature() and to help(). Explicit parameters, and not Unpack[TypedDict]:
mypy before 1.7 treats that as Any unless it is told otherwise.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Coroutine, Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Callable, Concatenate, ParamSpec, Protocol, TypeVar, Union

from ._keys import KEYS

if TYPE_CHECKING:
    from typing import Generic

    from ._keywords import ToolDecorator
    from ._outcome import Outcome
    from ._template import Call

Size = Union[int, float, str, None]
Duration = Union[int, float, str, timedelta, None]
Number = Union[int, float, str, None]
Count = Union[int, str, None]
Text = Union[str, None]
_PathLike = Union[str, "os.PathLike[str]"]
Path = Union[_PathLike, None]
Paths = Union[_PathLike, Iterable[_PathLike], None]
Env = Union[Mapping[str, Union[str, int, float, None]], None]
Labels = Union[Mapping[str, Union[str, int, float]], None]
Mounts = Union[
    _PathLike,
    Iterable[Union[_PathLike, "tuple[_PathLike, Union[_PathLike, None]]"]],
    Mapping[str, _PathLike],
    Mapping["os.PathLike[str]", _PathLike],
    None,
]
Sizes = Union[
    _PathLike,
    Iterable[Union[_PathLike, "tuple[_PathLike, Union[str, int, None]]"]],
    Mapping[str, Union[str, int]],
    Mapping["os.PathLike[str]", Union[str, int]],
    None,
]

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")
R_co = TypeVar("R_co", covariant=True)


class AsyncFunction(Protocol[P, R_co]):
    """A coroutine function. The guest awaits it, so the value of its call is that of the coroutine.
    """

    def __call__(self, *args: P.args, **keywords: P.kwargs) -> Coroutine[Any, Any, R_co]: ...


if TYPE_CHECKING:
    # An Outcome and a Call with the type of the value. These classes exist for type checkers only:
    # if Outcome itself had a parameter, each annotation in existing programs would need one.

    class OutcomeOf(Outcome, Generic[R]):
        def check(self) -> R: ...

    class CallOf(Call, Generic[R]):
        def outcome(self, timeout: float | None = None) -> OutcomeOf[R]: ...
        def value(self, timeout: float | None = None) -> R: ...


# ---- help ----

# The parameters that are not rows of the table.
_OTHERS = {
    "cmd": ("str or list", "a line for /bin/sh, or a program and its arguments"),
    "input": ("str or bytes", "sent to stdin"),
    "cwd": ("path", "the work directory, which the command can write to; same as workdir"),
    "check": ("bool; default False", "raise RunFailed unless the command exits with 0"),
    "capture": ("bool; default True", "keep the output in the result"),
    "preload": ("list of str", "modules that are imported once, for all calls"),
    "max_concurrent": ("int; default 4", "how many run in parallel; further ones wait in order"),
    "parked": ('int or "auto"; default "auto"', "how many calls are forked ahead"),
    "types": ("list of classes", "that values may have besides those of loaded modules"),
    "commands": ("iterable", "the commands, each as in run()"),
    "max_workers": ("int; default: the number of CPUs", "how many calls run in parallel"),
    "mp_context": ("None", "for ProcessPoolExecutor's signature; anything else is refused"),
    "initializer": ("function", "called before the function in each call"),
    "initargs": ("tuple", "the arguments of the initializer"),
    "max_tasks_per_child": ("int", "for ProcessPoolExecutor's signature; a process has one call"),
    "cold": ("bool; default False", "start an interpreter for each call, without a template"),
    "paths": ("list of paths", "where the guest may import from; default: sys.path"),
    "warm": ("int; default 0", "how many cells are built ahead"),
    "tools": ("list of functions", "with or without @brig.tool"),
    "template": ("Template", "the template to run on; default: an own one"),
    "name": ("str", "the name of the tool; default: that of the function"),
    "description": ("str", "the description for an agent; default: the docstring"),
}

_WORDS = {
    "size": "size",
    "duration": "duration",
    "count": "int or str",
    "cpus": "number or str",
    "path": "path",
    "text": "str",
    "list": "path, or a list of them",
    "map": "mapping",
}

_LEGEND = (
    'A size is a number of bytes or a str like "512M"; a duration is a number of seconds, a str\n'
    'like "1m30s" or a timedelta; a path is a str or os.PathLike. None stands for the default.'
)


def _words(name: str) -> str:
    """The type of a row of the table, and its default."""
    key = KEYS[name]
    if key.type == "choice":
        kind = " or ".join(f'"{choice}"' for choice in key.choices)
        kind = "bool" if set(key.choices) == {"on", "off"} else kind
    elif key.second:
        kind = f"path, list of paths and of pairs (path, {key.second}), or mapping of such pairs"
    elif name in ("redact_pattern", "require"):
        kind = "str, or a list of them"
    else:
        kind = _WORDS[key.type]
    return f"{kind}; default {key.default}" if key.default else kind


def describe(parameters: Iterable[str]) -> str:
    """Parameters as text for a docstring: type, default, and a line from the table."""
    lines = [_LEGEND, ""]
    for name in parameters:
        if name in KEYS:
            lines += [f"{name}: {_words(name)}", f"    {KEYS[name].help}"]
        elif name in _OTHERS:
            kind, text = _OTHERS[name]
            lines += [f"{name}: {kind}", f"    {text}"]
    return "\n".join(lines)


def _show(function: Any, shape: Callable[..., object], own: list[inspect.Parameter]) -> None:
    signature = inspect.signature(shape)
    parameters = [*own, *signature.parameters.values()]
    returned = function.__annotations__.get("return", inspect.Signature.empty)
    function.__signature__ = signature.replace(parameters=parameters, return_annotation=returned)
    if function.__doc__ is not None or function.__name__ == "__init__":  # not with -OO
        text = inspect.cleandoc(function.__doc__ or "")
        function.__doc__ = f"{text}\n\n{describe(signature.parameters)}\n".lstrip()


def typed(shape: Callable[P, object]) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """Give a function the signature of one in _keywords.py, and a docstring with its keywords."""

    def show(function: Callable[..., R]) -> Callable[P, R]:
        _show(function, shape, [])
        return function

    return show


def typed_method(
    shape: Callable[P, object]
) -> Callable[[Callable[..., R]], Callable[Concatenate[Any, P], R]]:
    """typed() for a method."""
    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)

    def show(function: Callable[..., R]) -> Callable[Concatenate[Any, P], R]:
        _show(function, shape, [itself])
        return function

    return show


def typed_decorator(shape: Callable[..., object]) -> Callable[[Any], ToolDecorator]:
    """typed() for brig.tool, which is called with a function, or with keywords."""
    marked = inspect.Parameter("function", inspect.Parameter.POSITIONAL_ONLY, default=None)

    def show(function: Any) -> ToolDecorator:
        _show(function, shape, [marked])
        decorator: ToolDecorator = function
        return decorator

    return show
