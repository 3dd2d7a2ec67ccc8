# SPDX-License-Identifier: MIT
"""The caller's interpreter as a guest sees it: its program, directories and sys.path.

A guest imports the same modules as the caller, from directories that it sees read-only. A directory
is shown if it belongs to the interpreter or is on sys.path. A home directory, a parent of homes, or
a top-level directory ("/", "/tmp", "/var", ...) is not shown merely because Python was started in
it. Objects from modules in such a directory are sent to the guest by value, or named in an error.
`paths` names the directories explicitly.

All paths are resolved: the library refuses to follow a symlink on the way to a path that it shows,
because a guest of an earlier run might have made it.
"""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Iterable
from types import ModuleType

from ._errors import UsageError

PACKAGE = os.path.dirname(os.path.realpath(__file__))

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")
"""Visible to every guest."""

ROOTS = (
    "/", "/home", "/root", "/var", "/run", "/opt", "/srv", "/tmp", "/var/tmp", "/etc", "/dev",
    "/proc", "/sys", "/boot", "/mnt", "/media",
)  # fmt: skip

SERVE, ONCE = (
    f"import sys; sys.path.insert(0, sys.argv[1]); import _guest; _guest.{name}()"
    for name in ("serve", "serve_once")
)
"""Programs of the interpreter: a template, and a single call."""


def is_within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _homes() -> list[str]:
    homes = [os.path.expanduser("~")]
    try:
        homes.append(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        pass
    return [os.path.realpath(home) for home in homes if home and home != "/"]


def is_too_much(directory: str) -> bool:
    """True if a directory must be named explicitly to be shown: a home, a parent of homes, or a
    top-level directory."""
    parent = os.path.dirname(directory)
    return directory in ROOTS or parent == "/home" or any(is_within(home, directory) for home in _homes())


def _is_system(path: str) -> bool:
    return any(is_within(path, directory) for directory in SYSTEM)


class Interpreter:
    """A snapshot of the visible directories and of sys.path; later changes of sys.path have no
    effect."""

    def __init__(self, paths: Iterable[str | os.PathLike[str]] | None = None) -> None:
        self._shown: list[str] = []
        self._known: dict[str, tuple[ModuleType, bool]] = {}  # the results of imports()
        self.path: list[str] = []
        self.hidden: list[str] = []
        for prefix in (sys.base_prefix, sys.base_exec_prefix, sys.prefix):
            self._show_prefix(os.path.realpath(prefix))
        self._show(PACKAGE)
        self._add_paths(paths)
        self.executable = self._find_executable()

    @property
    def ro(self) -> list[str]:
        """The value for the keyword ro of a run."""
        return list(self._shown)

    def command(self, program: str = SERVE) -> list[str]:
        """The command line of an interpreter that calls functions. It ignores environment variables
        and user directories, and runs without the site module: the directories that site would find
        are on the sys.path that it gets."""
        return [self.executable, "-I", "-S", "-X", "utf8", "-c", program, PACKAGE]

    def shows(self, path: str) -> bool:
        """True if this real path of the caller exists in the guest."""
        return _is_system(path) or any(is_within(path, directory) for directory in self._shown)

    def imports(self, name: str) -> bool:
        """True if the guest finds the module that the caller has under this name."""
        top = sys.modules.get(name.partition(".")[0])
        if name not in sys.modules or top is None or name == "__main__":
            return False
        known = self._known.get(name)
        if known is None or known[0] is not top:
            known = self._known[name] = (top, self._finds(top))
        return known[1]

    def _finds(self, top: ModuleType) -> bool:
        if top.__name__ in sys.builtin_module_names:
            return True
        spec = getattr(top, "__spec__", None)
        if spec is None:
            return False
        if spec.origin == "frozen":
            return True
        places = list(spec.submodule_search_locations or ()) or [spec.origin or ""]
        return any(os.path.dirname(os.path.realpath(place)) in self.path for place in places)

    # ---- what is shown ----

    def _show(self, path: str) -> None:
        if not self.shows(path) and os.path.exists(path):
            _refuse_colon(path)
            self._shown = [other for other in self._shown if not is_within(other, path)]
            self._shown.append(path)

    def _show_prefix(self, prefix: str) -> None:
        """Show an interpreter's whole prefix, or only the parts of Python if the prefix is a home
        or /."""
        if not is_too_much(prefix):
            self._show(prefix)
            return
        version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        for part in (f"lib/{version}", f"lib64/{version}", "pyvenv.cfg", "bin"):
            self._show(os.path.realpath(os.path.join(prefix, part)))

    def _add_paths(self, paths: Iterable[str | os.PathLike[str]] | None) -> None:
        """Show the directories of the standard library, and either the named ones or all of
        sys.path that may be shown."""
        if isinstance(paths, (str, os.PathLike)):
            paths = [paths]
        named = None if paths is None else [_named(path) for path in paths]
        for entry in [os.path.realpath(path) for path in (*(named or ()), *sys.path)]:
            if entry in self.path or not os.path.exists(entry):
                continue
            if named is None and not self.shows(entry):
                if is_too_much(entry) or ":" in entry:
                    self.hidden.append(entry)
                    continue
                self._show(entry)
            elif named is not None and entry in named:
                self._show(entry)
            if self.shows(entry):
                self.path.append(entry)

    def _find_executable(self) -> str:
        """The program of a virtual environment, if the guest can follow its symlinks; else the real
        one."""
        if not sys.executable:
            raise UsageError("this Python does not know its own program (sys.executable)", "python")
        directory, name = os.path.split(sys.executable)
        program = path = os.path.join(os.path.realpath(directory), name)
        for _ in range(10):
            directory = os.path.dirname(path)
            if not self.shows(path) or os.path.realpath(directory) != directory:
                break
            if not os.path.islink(path):
                return program
            path = os.path.normpath(os.path.join(directory, os.readlink(path)))
        real = os.path.realpath(sys.executable)
        self._show(real)
        return real


def _named(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"paths: {type(text).__name__} is not a str")
    real = os.path.realpath(text)
    if not os.path.exists(real):
        raise UsageError(f"paths: {text}: does not exist", "python")
    return real


def _refuse_colon(path: str) -> None:
    if ":" in path:
        raise UsageError(f"{path}: a path with a colon cannot be shown", "python")
