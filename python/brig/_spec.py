# SPDX-License-Identifier: MIT
"""Conversion of the arguments of run() and start() to a spec of the library."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Union

from . import _brig
from ._errors import UsageError
from ._keys import check_names, encode, settings_of

Command = Union[str, Sequence[Union[str, "os.PathLike[str]"]]]
Input = Union[str, bytes, bytearray, memoryview]

SHELL = ("/bin/sh", "-c")


def words_of(command: Command) -> list[bytes]:
    """A str is run by the shell; a list is a program and its arguments, taken literally."""
    if isinstance(command, str):
        return [encode("cmd", word) for word in (*SHELL, command)]
    if isinstance(command, (bytes, bytearray)) or not isinstance(command, Sequence):
        raise TypeError(f"cmd: {type(command).__name__} is neither a str nor a list of them")
    words = []
    for word in command:
        if not isinstance(word, (str, bytes, os.PathLike)):
            raise TypeError(f"cmd: {type(word).__name__} in it is neither a str nor a path")
        words.append(encode("cmd", os.fspath(word)))
    if not words:
        raise UsageError("command: is empty", "spec")
    return words


def input_of(data: Input | None) -> bytes | None:
    """The guest's stdin as bytes; a str is encoded as UTF-8."""
    if data is None or isinstance(data, bytes):
        return data
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, (bytearray, memoryview)):
        return bytes(data)
    raise TypeError(f"input: {type(data).__name__} is neither bytes nor a str")


def make_spec(
    command: Command, keys: dict[str, object], input: Input | None, capture: bool
) -> _brig.Spec:
    """Make a spec, and check everything that can be checked without a host."""
    if input is not None and keys.get("stdin") is not None:
        raise TypeError("input and stdin cannot be given together")
    return _brig.Spec(words_of(command), _checked(keys), capture)


def make_shape(keys: dict[str, object]) -> _brig.Spec:
    """A spec without a command, for cells that are built ahead."""
    return _brig.Spec([], _checked(keys))


def _checked(keys: dict[str, object]) -> list[_brig.Setting]:
    check_names((name for name in keys if name != "cwd"), ALSO)
    if keys.get("cwd") is not None and keys.get("workdir") is not None:
        raise TypeError("cwd and workdir are the same setting; give one of them")
    return settings_of(keys)


# Keywords of run() that are not in the table of keys; used for suggestions.
ALSO = ("input", "check", "capture")
