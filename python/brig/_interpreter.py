"""The caller's interpreter as a guest has it: which program, which folders, which sys.path.

A guest imports what the caller can import, from folders that are shown to it read-only. A folder is
shown because it is the interpreter's own or on sys.path; but never a home, what holds homes, or a
root of other things ("/", "/tmp", "/var", ...), only because Python was started in it. What lies
there goes to the guest by value, or is named in an error. `paths` names the folders instead.

Only real paths are shown and handed over: the library refuses to follow a link on the way to what
it shows, since a guest of an earlier run might have made it.
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
"""Shown to every guest."""

ROOTS = (
    "/", "/home", "/root", "/var", "/run", "/opt", "/srv", "/tmp", "/var/tmp", "/etc", "/dev",
    "/proc", "/sys", "/boot", "/mnt", "/media",
)  # fmt: skip

START = "import sys; sys.path.insert(0, sys.argv[1]); import _guest; _guest.serve()"


def is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _homes() -> list[str]:
    homes = [os.path.expanduser("~")]
    try:
        homes.append(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        pass
    return [os.path.realpath(home) for home in homes if home and home != "/"]


def is_too_much(folder: str) -> bool:
    """Is a folder not to be shown unless it is named: all of a home, or what holds other things?"""
    parent = os.path.dirname(folder)
    return folder in ROOTS or parent == "/home" or any(is_within(home, folder) for home in _homes())


def _is_system(path: str) -> bool:
    return any(is_within(path, folder) for folder in SYSTEM)


class Interpreter:
    """What is shown and handed over, as it is now: sys.path may change later, this does not."""

    def __init__(self, paths: Iterable[str | os.PathLike[str]] | None = None) -> None:
        self._shown: list[str] = []
        self._known: dict[str, tuple[ModuleType, bool]] = {}  # what imports() has found out
        self.path: list[str] = []
        self.hidden: list[str] = []
        for prefix in (sys.base_prefix, sys.base_exec_prefix, sys.prefix):
            self._show_prefix(os.path.realpath(prefix))
        self._show(PACKAGE)
        self._add_paths(paths)
        self.executable = self._find_executable()

    @property
    def ro(self) -> list[str]:
        """For the keyword ro of a run."""
        return list(self._shown)

    def command(self) -> list[str]:
        """An interpreter that calls functions. Isolated from variables and user folders,
        and without the site module: what that would find is on the sys.path that is handed over."""
        return [self.executable, "-I", "-S", "-X", "utf8", "-c", START, PACKAGE]

    def shows(self, path: str) -> bool:
        """Does a file of the caller exist in the guest, at this real path?"""
        return _is_system(path) or any(is_within(path, folder) for folder in self._shown)

    def imports(self, name: str) -> bool:
        """Would the guest find the module that the caller has under this name?"""
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
        """All of an interpreter's own folder; of one that is a home, or /, only Python's parts."""
        if not is_too_much(prefix):
            self._show(prefix)
            return
        version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        for part in (f"lib/{version}", f"lib64/{version}", "pyvenv.cfg", "bin"):
            self._show(os.path.realpath(os.path.join(prefix, part)))

    def _add_paths(self, paths: Iterable[str | os.PathLike[str]] | None) -> None:
        """Those of the standard library in any case; of the others, all that may be shown, or
        those that are named."""
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
        """That of a virtual environment, if the guest can follow its links; else the real one."""
        if not sys.executable:
            raise UsageError("this Python does not know its own program (sys.executable)", "python")
        folder, name = os.path.split(sys.executable)
        program = path = os.path.join(os.path.realpath(folder), name)
        for _ in range(10):
            folder = os.path.dirname(path)
            if not self.shows(path) or os.path.realpath(folder) != folder:
                break
            if not os.path.islink(path):
                return program
            path = os.path.normpath(os.path.join(folder, os.readlink(path)))
        real = os.path.realpath(sys.executable)
        self._show(real)
        return real


def _named(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"paths: {type(text).__name__} is no str")
    real = os.path.realpath(text)
    if not os.path.exists(real):
        raise UsageError(f"paths: {text}: does not exist", "python")
    return real


def _refuse_colon(path: str) -> None:
    if ":" in path:
        raise UsageError(f"{path}: a path with a colon cannot be shown", "python")
