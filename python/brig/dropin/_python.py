# SPDX-License-Identifier: MIT
"""The location of this interpreter, for runs that start it.

The library shows the tool chain of the command itself. It does not know the interpreter that a
shell script or another program starts, so the drop-ins show the caller's own one in every run.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterable

from .._interpreter import SYSTEM, _homes, is_too_much, is_within

# Not the whole prefix: pip, npm and conda keep passwords beside these.
_PARTS = (
    "bin", "lib", "lib64", "libexec", "include", "share", "ssl", "conda-meta", "pyvenv.cfg",
)  # fmt: skip
_MARKERS = ("pyvenv.cfg", "conda-meta")
_PLACES = (  # directories in a home that hold nothing but tool chains
    ".pyenv/versions", ".nvm/versions", ".local/share/uv", ".local/share/pipx", ".local/pipx",
)  # fmt: skip

Entry = tuple[str, str]  # a path, and its place in the guest's view


def is_system(path: str) -> bool:
    return any(is_within(path, directory) for directory in SYSTEM)


def names_of_parts(prefix: str) -> tuple[str, ...]:
    """The parts of a prefix that are shown. In a home, a directory with a bin may be anything:
    ~/.local/share has the data of all programs."""
    home = next((home for home in _homes() if is_within(prefix, home)), None)
    if home is None or any(os.path.exists(os.path.join(prefix, marker)) for marker in _MARKERS):
        return _PARTS
    if any(is_within(prefix, os.path.join(home, place)) for place in _PLACES):
        return _PARTS
    return ("bin", "lib") if prefix == os.path.join(home, ".local") else ("bin",)


def parts_of(prefix: str, names: Iterable[str], place: str | None = None) -> list[Entry]:
    """Entries for those of the names that exist in a prefix, at its own place or another one."""
    found = [(os.path.join(prefix, name), os.path.join(place or prefix, name)) for name in names]
    return [entry for entry in found if os.path.exists(entry[0]) and not os.path.islink(entry[0])]


def _prefix(prefix: str) -> list[Entry]:
    """The parts of a prefix, at the path by which this process knows it."""
    real = os.path.realpath(prefix)
    if is_system(real):
        return []
    if not is_too_much(real):  # all of lib: libpython is there
        return parts_of(real, dict.fromkeys((*names_of_parts(real), "lib", "lib64")), prefix)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    return parts_of(real, (f"lib/{version}", f"lib64/{version}", "pyvenv.cfg", "bin"), prefix)


def _program(prefixes: list[str]) -> list[Entry]:
    """The program itself, if it is in none of the prefixes."""
    real = os.path.realpath(sys.executable)
    if not sys.executable or is_system(real) or any(is_within(real, one) for one in prefixes):
        return []
    return [(real, real)]


def outside(entries: list[Entry], workdir: str | os.PathLike[str] | None) -> list[Entry]:
    """The entries that are not in the work directory, where they are visible, and writable. A home
    is not shown as one."""
    try:
        real = os.path.realpath(workdir or ".")
    except OSError:  # the current directory was removed; the run says so
        return entries
    if is_too_much(real):
        return entries
    return [entry for entry in entries if not is_within(entry[1], real)]


def python_entries() -> list[Entry]:
    """Entries for the keyword ro: this interpreter and its packages, if they are not among the
    system's. A prefix behind a symlink is shown at both of its paths."""
    prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    paths = sorted(prefixes | {os.path.realpath(prefix) for prefix in prefixes})
    entries = [entry for prefix in paths for entry in _prefix(os.path.abspath(prefix))]
    return list(dict.fromkeys([*entries, *_program(paths)]))


def user_site() -> str | None:
    """The directory of the user's own packages, if this interpreter imports from it."""
    path = site.getusersitepackages()
    return path if site.ENABLE_USER_SITE and path in sys.path and os.path.isdir(path) else None


def editable_directories() -> list[str]:
    """The directories of packages that are installed in place: those that .pth files name, and
    those of setuptools' finders; never a home."""
    named: list[str] = []
    for directory in [*site.getsitepackages(), site.getusersitepackages()]:
        for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else ():
            if name.endswith(".pth"):
                named += _lines(os.path.join(directory, name), directory)
    for name, module in list(sys.modules.items()):
        mapping = getattr(module, "MAPPING", None) if name.startswith("__editable__") else None
        if isinstance(mapping, dict):
            named += [os.path.realpath(path) for path in mapping.values()]
    found = [path for path in dict.fromkeys(named) if os.path.exists(path)]
    return [path for path in found if not is_system(path) and not is_too_much(path)]


def _lines(file: str, directory: str) -> list[str]:
    try:
        with open(file, encoding="utf-8", errors="replace") as lines:
            texts = [line.strip() for line in lines]
    except OSError:
        return []
    paths = [text for text in texts if text and not text.startswith(("#", "import ", "import\t"))]
    return [os.path.realpath(os.path.join(directory, path)) for path in paths]
