# SPDX-License-Identifier: MIT
"""The location of this interpreter, for runs that start it.

The library shows the tool chain of the command itself. It does not know the interpreter that a
shell script or another program starts, so the drop-ins show the caller's own one in every run.
"""

from __future__ import annotations

import os
import sys

from .._interpreter import SYSTEM, is_too_much, is_within

# Not the whole prefix: pip and conda keep passwords beside these.
_PARTS = ("bin", "lib", "lib64", "include", "share", "ssl", "conda-meta", "pyvenv.cfg")

Entry = tuple[str, str]  # a path, and its place in the guest's view


def _is_system(path: str) -> bool:
    return any(is_within(path, directory) for directory in SYSTEM)


def _parts(prefix: str) -> list[Entry]:
    """The parts of a prefix, at the path by which this process knows it."""
    real = os.path.realpath(prefix)
    if _is_system(real):
        return []
    if is_too_much(real):  # Python lies in a home: only what is surely Python's own
        names = [f"{lib}/python{sys.version_info[0]}.{sys.version_info[1]}" for lib in ("lib", "lib64")]
        names.append("pyvenv.cfg")
    else:
        names = list(_PARTS)
    found = [(os.path.join(real, name), os.path.join(prefix, name)) for name in names]
    return [(path, place) for path, place in found if os.path.exists(path) and not os.path.islink(path)]


def _program(prefixes: list[str]) -> list[Entry]:
    """The program itself, if it is not in one of the prefixes."""
    real = os.path.realpath(sys.executable)
    if not sys.executable or _is_system(real) or any(is_within(real, one) for one in prefixes):
        return []
    return [(real, real)]


def python_entries() -> list[Entry]:
    """Entries for the keyword ro: this interpreter and its packages, if they are not among the
    system's. A prefix behind a symlink is shown at both of its paths."""
    prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    paths = sorted(prefixes | {os.path.realpath(prefix) for prefix in prefixes})
    entries = [entry for prefix in paths for entry in _parts(os.path.abspath(prefix))]
    return list(dict.fromkeys([*entries, *_program(paths)]))


def python_directories() -> list[str]:
    """The same as paths, without those behind symlinks."""
    return [path for path, place in python_entries() if path == place]
