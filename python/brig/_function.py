# SPDX-License-Identifier: MIT
"""A function and its arguments as bytes: a job for an interpreter in a guest.

An object that the guest can import is sent by reference, if the import gives the same object.
Others are sent by value: functions as code with everything they refer to (global variables that
they name, closures, defaults, decorators), classes, and their instances. Modules are sent by name.
Jobs are pickled, because the guest trusts the caller; results never are.

Variables are sent with their values at the moment of the call. The function sees its own copy.
Random generators are an exception (_generators.py).
"""

from __future__ import annotations

import dataclasses
import dis
import enum
import functools
import io
import marshal
import pickle
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any, Callable, Dict, Tuple, TypeVar

from . import _brig, _guest
from ._generators import is_generator, reduce_generator
from ._interpreter import Interpreter

JOB_MAX = 256 << 20
"""The maximum size of a function and its arguments, in bytes."""

GLOBAL_NAMES = frozenset(("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"))

# Attributes that every class has on its own; abc's registry is valid in one process only.
OWN_OF_CLASSES = frozenset(
    ("__dict__", "__weakref__", "_abc_impl", "__module__", "__qualname__", "__doc__", "__slots__",
     "__orig_bases__", "__annotations__", "__abstractmethods__", "__static_attributes__",
     "__firstlineno__")
)  # fmt: skip

EXPLAIN_DEPTH = 6

FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)
NAMES_MAX = 256


class NotSendable(Exception):
    """Something cannot be sent to a guest. The text names it, and the variable that holds it."""


def pack(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    interpreter: Interpreter,
) -> bytes:
    """Make a job; NotSendable if that is not possible."""
    try:
        # The arguments first: a generator that is in both arrives in its state.
        packed = _pack((args, keywords, _Context(1), function), interpreter)
    except Exception as error:
        job = (function, args, keywords)
        raise NotSendable(_explain_job(job, interpreter, error)) from error
    if len(packed) > JOB_MAX:
        raise NotSendable(
            f"the function and its arguments take {len(packed) >> 20} MiB; "
            f"at most {JOB_MAX >> 20} can be sent"
        )
    return packed


class Names(Dict[Any, Tuple[Dict[str, Any], str, bytes]]):
    """Maps a function that the guest can import to the variables of its module, its name there, and
    the head of its plain jobs. Entries are added on lookup. The variables are empty for a function
    that is sent by value."""

    def __init__(self, interpreter: Interpreter) -> None:
        super().__init__()
        self._interpreter = interpreter

    def __missing__(self, function: Any) -> tuple[dict[str, Any], str, bytes]:
        module, name = function.__module__, function.__qualname__
        there = sys.modules.get(module) if isinstance(module, str) else None
        known = type(there) is types.ModuleType and self._interpreter.imports(module)
        if not known or not name.isidentifier() or vars(there).get(name) is not function:
            return {}, name, b""  # not cached: the cache would keep its closure alive
        head = b"%b%b\0%b\0" % (_guest.HEAD_PLAIN, module.encode(), name.encode())
        if len(self) >= NAMES_MAX:
            self.clear()
        self[function] = vars(there), name, head
        return self[function]


def pack_plain(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], names: Names
) -> bytes | None:
    """Pack a function that the guest can import, with arguments of plain types. Most calls are
    such, and this is much less work for both sides. None for any other call."""
    if type(function) not in FUNCTIONS:
        return None
    variables, name, head = names[function]
    return _brig.plain_job(head, args, keywords) if variables.get(name) is function else None


def _pack(value: Any, interpreter: Interpreter) -> bytes:
    file = io.BytesIO()
    file.write(_guest.HEAD)
    _Packer(file, interpreter).dump(value)
    return file.getvalue()


# ---- looking at code ----


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


@functools.lru_cache(maxsize=512)
def _global_names(code: types.CodeType) -> frozenset[str]:
    """The global variables that a function, and functions inside it, may use."""
    return frozenset(
        step.argval
        for part in _codes(code)
        for step in dis.get_instructions(part)
        if step.opname in GLOBAL_NAMES
    )


def _globals_of(function: types.FunctionType) -> dict[str, Any]:
    there = function.__globals__
    names = sorted(_global_names(function.__code__))
    return {name: there[name] for name in names if name in there}


def _cells_of(function: types.FunctionType) -> Iterator[tuple[str, types.CellType, Any]]:
    """Name, cell and content of each variable of the closure; empty cells are skipped."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            yield name, cell, cell.cell_contents
        except ValueError:
            pass


def _imports_of(function: types.FunctionType, variables: dict[str, Any]) -> list[str]:
    """Submodules to import: `import a.b` binds only a, but code that uses a.b needs both."""
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    modules = [value for value in variables.values() if isinstance(value, types.ModuleType)]
    packages = [module.__name__ for module in modules if hasattr(module, "__path__")]
    return sorted(
        name
        for name in list(sys.modules)
        for package in packages
        if name.startswith(package + ".") and names.issuperset(name[len(package) + 1 :].split("."))
    )


# ---- by reference, or not ----


def _lookup(module: Any, qualname: str) -> Any:
    found = module
    for part in qualname.split("."):
        if part == "<locals>":
            return None
        found = getattr(found, part, None)
    return found


class _Context:
    """Stands in a pickle where the context of a function begins (1) or ends (-1): everything that
    it refers to, as opposed to arguments."""

    def __init__(self, step: int) -> None:
        self.step = step


class _Packer(pickle.Pickler):
    """A pickler that can also send functions, classes and modules."""

    def __init__(self, file: io.BytesIO, interpreter: Interpreter) -> None:
        super().__init__(file, protocol=5)
        self._interpreter = interpreter
        # One namespace in the guest per namespace here, so that functions of one module share their
        # variables. Kept alive here, because pickle identifies objects by their address.
        self._spaces: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}
        self._contexts = 0  # the depth of contexts here

    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, type):
            return NotImplemented if self._is_known(thing) else self._class(thing)
        if isinstance(thing, types.ModuleType):
            return self._module(thing)
        make = _MAKERS.get(type(thing))
        if make is not None:
            return make(self, thing)
        return reduce_generator(thing, not self._contexts) if is_generator(thing) else NotImplemented

    def _context(self, mark: _Context) -> Any:
        self._contexts += mark.step
        return tuple, ()

    def _is_known(self, thing: Any) -> bool:
        """True if the guest finds this very object under its name."""
        name = getattr(thing, "__module__", None)
        if name in ("builtins", _guest.__name__):  # every guest has these
            return True
        if not isinstance(name, str):
            return False
        found = _lookup(sys.modules.get(name), thing.__qualname__)
        return found is thing and self._interpreter.imports(name)

    # ---- functions ----

    def _function(self, function: types.FunctionType) -> Any:
        if self._is_known(function):
            return NotImplemented
        variables = _globals_of(function)
        state = {
            "context": _Context(1),
            "globals": variables,
            "imports": _imports_of(function, variables),
            "cells": [(cell, content) for _, cell, content in _cells_of(function)],
            "dict": {k: v for k, v in vars(function).items() if not k.startswith("__brig_")},
            "__defaults__": function.__defaults__,
            "__kwdefaults__": function.__kwdefaults__,
            "__qualname__": function.__qualname__,
            "__module__": function.__module__,
            "__doc__": function.__doc__,
            "__annotations__": self._annotations(function.__annotations__),
            "end": _Context(-1),
        }
        space = self._space(function)
        skeleton = (function.__code__, space, function.__name__, function.__closure__)
        return _guest.make_function, skeleton, state, None, None, _guest.fill_function

    def _space(self, function: types.FunctionType) -> dict[str, Any]:
        there = function.__globals__
        if id(there) not in self._spaces:
            name = there.get("__name__")
            space = {"__name__": name if isinstance(name, str) else "__main__"}
            self._spaces[id(there)] = (there, space)
        return self._spaces[id(there)][1]

    def _annotations(self, annotations: Mapping[str, Any]) -> dict[str, Any]:
        """The annotations that can be sent; the function works without the others."""

        def arrives(value: Any) -> bool:
            plain = value is None or isinstance(value, str)
            return plain or (isinstance(value, type) and self._is_known(value))

        return {name: value for name, value in annotations.items() if arrives(value)}

    # ---- classes ----

    def _class(self, thing: type) -> Any:
        if isinstance(thing, enum.EnumMeta):
            return self._enum(thing)
        state = (_Context(1), self._attributes(thing), _Context(-1))
        skeleton = (type(thing), thing.__name__, thing.__bases__, self._first(thing))
        return _guest.make_class, skeleton, state, None, None, _guest.fill_class

    def _first(self, thing: type) -> dict[str, Any]:
        """The attributes that are needed when the class is created."""
        first = {name: getattr(thing, name) for name in ("__module__", "__qualname__", "__doc__")}
        for name in ("__slots__", "__orig_bases__"):
            if name in vars(thing):
                first[name] = vars(thing)[name]
        return first

    def _attributes(self, thing: type) -> dict[str, Any]:
        own = vars(thing)
        kept = {
            name: value
            for name, value in own.items()
            if name not in OWN_OF_CLASSES and not isinstance(value, types.MemberDescriptorType)
        }
        if "__annotations__" in own:
            kept["__annotations__"] = self._annotations(own["__annotations__"])
        return kept

    def _enum(self, thing: Any) -> Any:
        members = [(name, member._value_) for name, member in thing.__members__.items()]
        skip = {*thing.__members__, "_generate_next_value_", "__new__"}
        kinds = (types.FunctionType, property, staticmethod, classmethod)
        functions = {
            name: value
            for name, value in self._attributes(thing).items()
            if name not in skip
            and isinstance(value, kinds)
            and vars(enum.Enum).get(name) is not value
        }
        skeleton = (type(thing), thing.__name__, thing.__bases__, members, self._first(thing))
        state = (_Context(1), functions, _Context(-1))
        return _guest.make_enum, skeleton, state, None, None, _guest.fill_class

    # ---- the rest ----

    def _module(self, module: types.ModuleType) -> Any:
        if self._interpreter.imports(module.__name__):
            return _guest.load_module, (module.__name__,)
        raise pickle.PicklingError(
            f"module {module.__name__!r} cannot be imported in the guest: {_why_not(module)}"
        )

    def _method(self, method: types.MethodType) -> Any:
        return _guest.make_method, (method.__func__, method.__self__)

    def _cached_property(self, thing: Any) -> Any:
        state = {"attrname": thing.attrname}
        return functools.cached_property, (thing.func,), state, None, None, _guest.fill_attributes

    def _view(self, view: memoryview) -> Any:
        if view.format != "B" or view.ndim != 1:
            raise pickle.PicklingError("memoryview of anything but bytes in a row")
        data = view.tobytes()
        return memoryview, (data if view.readonly else bytearray(data),)

    def _type_variable(self, thing: Any) -> Any:
        if _lookup(sys.modules.get(thing.__module__), thing.__name__) is thing:
            if self._interpreter.imports(thing.__module__):
                return NotImplemented
        return _guest.make_type_variable, (thing.__name__, thing.__constraints__)

    def _cached(self, thing: Any) -> Any:
        if self._is_known(thing):
            return NotImplemented
        return _guest.make_cached, (thing.cache_parameters(), thing.__wrapped__)


_MAKERS: dict[type, Callable[[_Packer, Any], Any]] = {
    _Context: _Packer._context,
    types.FunctionType: _Packer._function,
    types.MethodType: _Packer._method,
    memoryview: _Packer._view,
    types.CodeType: lambda packer, code: (_guest.load_code, (marshal.dumps(code),)),
    types.CellType: lambda packer, cell: (_guest.make_cell, ()),
    types.MappingProxyType: lambda packer, proxy: (_guest.make_proxy, (dict(proxy),)),
    staticmethod: lambda packer, thing: (staticmethod, (thing.__func__,)),
    classmethod: lambda packer, thing: (classmethod, (thing.__func__,)),
    property: lambda packer, thing: (property, (thing.fget, thing.fset, thing.fdel, thing.__doc__)),
    functools.cached_property: _Packer._cached_property,
    functools._lru_cache_wrapper: _Packer._cached,
    TypeVar: _Packer._type_variable,
    # Markers that dataclasses compare by identity.
    type(dataclasses.MISSING): lambda packer, thing: (getattr, (dataclasses, "MISSING")),
    type(dataclasses._FIELD): lambda packer, thing: (  # type: ignore[attr-defined]
        getattr,
        (dataclasses, thing.name),
    ),
}


# ---- saying what is wrong ----


def _why_not(module: types.ModuleType) -> str:
    file = getattr(module, "__file__", None)
    if module.__name__ == "__main__":
        return "it is the running program"
    if not file:
        return "it has no file"
    return (
        f"{file} is not in a directory of sys.path that the guest sees; "
        "see the argument paths of Template"
    )


def _explain_job(
    job: tuple[Any, tuple[Any, ...], dict[str, Any]], interpreter: Interpreter, error: Exception
) -> str:
    """Name the argument or variable that cannot be sent. Only after a failure: each part is packed
    alone."""
    function, args, keywords = job
    pieces = [("the function", function)]
    pieces += [(f"argument {index + 1}", value) for index, value in enumerate(args)]
    pieces += [(f"argument {name!r}", value) for name, value in keywords.items()]
    for label, value in pieces:
        found = _explain(label, value, interpreter, EXPLAIN_DEPTH)
        if found:
            return found
    return f"the function and its arguments cannot be sent: {_guest.describe(error)}"


def _explain(label: str, value: Any, interpreter: Interpreter, depth: int) -> str | None:
    """A sentence about the part of a value that cannot be sent; None if all can."""
    try:
        _pack(value, interpreter)
        return None
    except RecursionError:
        return f"{label} is nested too deeply"
    except Exception as error:
        for inner, part in _parts(label, value) if depth else ():
            found = _explain(inner, part, interpreter, depth - 1)
            if found:
                return found
        return f"{label} cannot be sent to a guest: {_guest.describe(error)}"


def _parts(label: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The parts of a value, with names that its author knows."""
    if isinstance(value, types.FunctionType):
        shown = value.__qualname__
        for name, _, content in _cells_of(value):
            if content is not value:
                yield f"the variable {name!r} of {shown}", content
        for name, content in _globals_of(value).items():
            if content is not value:
                yield f"the global variable {name!r} of {shown}", content
        for default in (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()):
            yield f"a default of {shown}", default
    elif isinstance(value, types.MethodType):
        yield f"{label}: the object of the method {value.__func__.__qualname__}", value.__self__
    elif isinstance(value, functools.partial):
        yield from _parts(label, [value.func, *value.args, *value.keywords.values()])
    elif isinstance(value, dict):
        yield from ((f"{label}[{key!r:.40}]", part) for key, part in value.items())
    elif isinstance(value, (list, tuple)):
        yield from ((f"{label}[{index}]", part) for index, part in enumerate(value))
    elif isinstance(value, type):
        for name, part in vars(value).items():
            if isinstance(part, types.FunctionType):
                yield f"{value.__qualname__}.{name}", part
    elif isinstance(getattr(value, "__dict__", None), dict):
        yield from ((f"{label}.{name}", part) for name, part in vars(value).items())
