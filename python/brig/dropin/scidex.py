# SPDX-License-Identifier: MIT
"""Analyses with their own limits, like scidex's.

    >>> isolated_run(["echo", "hello"]).stdout
    'hello\
'
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Union

from .. import Result, Run, Usage, start
from .._keys import entries_of
from ._optional import start_without_refused
from ._python import outside, python_entries

__all__ = [
    "NOTEBOOK_COMMAND",
    "RESOURCE_LIMITS",
    "SETTINGS",
    "CgroupManager",
    "RuntimeResult",
    "analysis_limits",
    "cgroups",
    "cleanup_analysis_temp_dir",
    "create_analysis_temp_dir",
    "isolated_run",
    "run_notebook_isolated",
    "run_post_process_isolated",
    "run_tool_isolated",
]

Command = Union[str, Sequence[Union[str, "os.PathLike[str]"]]]
PathName = Union[str, "os.PathLike[str]"]
LimitValues = Mapping[str, Any]

RESOURCE_LIMITS: dict[str, dict[str, float]] = {
    "default": {"memory_mb": 2048, "cpus": 1, "pids": 100, "timeout_seconds": 1800},
    "notebook_execution": {"memory_mb": 2048, "cpus": 1, "pids": 100, "timeout_seconds": 600},
}

NOTEBOOK_COMMAND: tuple[str, ...] = (
    sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--inplace",
)  # fmt: skip
"""The command that executes a notebook; its path is appended."""

SETTINGS: dict[str, Any] = {"network": "host", "redact": False, "cpu_priority": "low"}
"""Keywords of brig.run() for every run. The network is the host's, because no parameter can ask for
it; {"network": "none"} removes it. Analyses have a low CPU priority, so that other services of the
machine are not affected; {"cpu_priority": "normal"} changes that. It is left out where there is no
cgroup, as are the CPUs of RESOURCE_LIMITS; a limit that a caller names is refused there."""

_PRIORITY = SETTINGS["cpu_priority"]

load_metadata: Callable[[str], Any] | None = None
"""Set by the application: maps the id of an analysis to its metadata."""


@dataclass(frozen=True)
class RuntimeResult:
    """The result of a command, with the fields of subprocess.CompletedProcess and some more.

    `completion_notes` is None on success, and names the limit in a sentence if one was exceeded.
    `returncode` is -1 after a timeout and -N after signal N. `details` is brig's own result.
    """

    args: Command
    returncode: int
    stdout: str
    stderr: str
    completion_notes: str | None
    timed_out: bool
    analysis_id: str | None
    details: Result = field(repr=False)

    def check_returncode(self) -> None:
        """Raise CalledProcessError if the code is not 0, as in subprocess."""
        if self.returncode:
            raise subprocess.CalledProcessError(
                self.returncode, self.args, self.stdout, self.stderr
            )


# ---- limits ----

_NAMES = {
    "memory_mb": "memory", "memory": "memory", "cpus": "cpus", "pids": "pids",
    "timeout_seconds": "timeout", "timeout": "timeout",
}  # fmt: skip


def analysis_limits(metadata: Any, kind: str = "default") -> dict[str, Any]:
    """RESOURCE_LIMITS[kind], overridden field by field by the limits in an analysis's metadata.

    Metadata is a mapping or JSON text, with the limits in `resource_limits` or `limits`; they have
    the names of RESOURCE_LIMITS or brig's own (memory="4G", timeout="10m").
    """
    return _overlay(RESOURCE_LIMITS[kind], _limits_in(metadata))


def _limits_in(metadata: Any) -> LimitValues:
    if isinstance(metadata, (str, bytes)):
        metadata = json.loads(metadata)
    metadata = metadata or {}
    own: LimitValues = metadata.get("resource_limits") or metadata.get("limits") or {}
    return own


def _named(limits: LimitValues | None) -> set[str]:
    """The keywords of brig.run() that these limits set."""
    return {_NAMES[name] for name, value in (limits or {}).items() if value is not None}


def _take_optional(keys: dict[str, Any], asked: set[str]) -> dict[str, Any]:
    """Remove the settings that nobody asked for and that only a cgroup can enforce; returns them."""
    optional: dict[str, Any] = {}
    if "cpus" in keys and "cpus" not in asked:
        optional["cpus"] = keys.pop("cpus")
    if "cpu_priority" not in asked and keys.get("cpu_priority") == _PRIORITY:
        optional["cpu_priority"] = keys.pop("cpu_priority")
    return optional


def _overlay(base: LimitValues, own: LimitValues | None) -> dict[str, Any]:
    """`own`, completed from `base`."""
    merged = dict(base)
    for name, value in (own or {}).items():
        if name not in _NAMES:
            raise ValueError(f"limits: {name!r} is none; there are {', '.join(_NAMES)}")
        if value is not None:
            merged = {n: v for n, v in merged.items() if _NAMES[n] != _NAMES[name]}
            merged[name] = value
    return merged


def _keys_of(limits: LimitValues) -> dict[str, Any]:
    """Limits as keywords of brig.run()."""
    return {
        _NAMES[name]: f"{value}M" if name == "memory_mb" else value
        for name, value in limits.items()
    }


# ---- groups ----


class _Group:
    def __init__(self, limits: dict[str, Any], asked: set[str], temporary: bool = False) -> None:
        self.limits = limits
        self.asked = asked  # limits that somebody named: they are enforced, or the run is refused
        self.temporary = temporary  # created by isolated_run(): removed with the last of its runs
        self.users = 0
        self.gone = False
        self.starting = 0  # runs without a handle yet
        self.runs: list[Run] = []
        self.now: dict[Run, tuple[int, float, int]] = {}
        self.finished = 0
        self.cpu_seconds = 0.0
        self.memory_peak = self.pids_peak = 0

    def add(self, usage: Usage) -> None:
        self.finished += 1
        self.cpu_seconds += usage.cpu_user_seconds + usage.cpu_system_seconds
        self.memory_peak = max(self.memory_peak, usage.memory_peak_bytes or 0)
        self.pids_peak = max(self.pids_peak, usage.pids_peak or 0)


class CgroupManager:
    """Groups of runs by name, one per analysis, with their limits.

    brig creates the cgroup of each run and removes it with the run, with any version of cgroups; a
    group here is only a name for several runs. The limits of a group apply to each of its runs. May
    be used by any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._groups: dict[str, _Group] = {}

    def create(self, name: str, limits: LimitValues | None = None) -> str:
        """Create a group; limits that are not given have their defaults. ValueError if the name
        exists."""
        group = _Group(_overlay(RESOURCE_LIMITS["default"], limits), _named(limits))
        with self._lock:
            if name in self._groups:
                raise ValueError(f"group {name!r} exists")
            self._groups[name] = group
        return name

    def __contains__(self, name: str) -> bool:
        with self._lock:
            return name in self._groups

    def limits(self, name: str, **changes: Any) -> dict[str, Any]:
        """Change some limits of a group, for the runs that follow; returns all of them."""
        with self._lock:
            group = self._groups[name]
            group.limits = _overlay(group.limits, changes)
            group.asked |= _named(changes)
            return dict(group.limits)

    def stats(self, name: str) -> dict[str, Any]:
        """The present usage of the group's runs, at most a second old, and their total usage."""
        with self._lock:
            group = self._groups[name]
            for run in group.runs:
                for event in run.events():
                    if event.type == "usage":
                        memory, pids = event.memory_bytes or 0, event.pids or 0
                        group.now[run] = memory, event.cpu_seconds or 0, pids
            now = list(group.now.values())
            return {
                "running": len(group.runs),
                "finished": group.finished,
                "memory_bytes": sum(one[0] for one in now),
                "pids": sum(one[2] for one in now),
                "cpu_seconds": group.cpu_seconds + sum(one[1] for one in now),
                "memory_peak_bytes": max([group.memory_peak, *(one[0] for one in now)]),
                "pids_peak": max([group.pids_peak, *(one[2] for one in now)]),
            }

    def kill(self, name: str) -> int:
        """End every run of a group at once and wait for that; returns their number."""
        with self._lock:
            group = self._groups.get(name)
            runs = self._runs_of(group) if group else []
        _kill(runs, name)
        return len(runs)

    def remove(self, name: str) -> None:
        """Kill all runs of a group and remove it. Does nothing if there is no such group."""
        with self._lock:
            group = self._groups.pop(name, None)
            if group is None:
                return
            group.gone = True
            runs = self._runs_of(group)
        _kill(runs, name)

    def _runs_of(self, group: _Group) -> list[Run]:
        """The runs of a group, including those being started: their processes may exist before
        their handle does. Called with the lock held."""
        self._lock.wait_for(lambda: group.starting == 0)
        return list(group.runs)

    def run(self, name: str, cmd: Command, **keys: Any) -> Result:
        """Run a command in a group: brig.run() with the limits of the group."""
        with self._lock:
            group = self._groups[name]
            keys = {**keys, **_keys_of(group.limits)}
            optional = _take_optional(keys, group.asked)
        return self._run(name, group, cmd, keys, optional)

    def _start(
        self, group: _Group, cmd: Command, keys: dict[str, Any], optional: dict[str, Any]
    ) -> Run:
        with self._lock:
            group.starting += 1
        run = None
        try:
            run = start_without_refused(start, optional, cmd, **keys)
        finally:
            with self._lock:
                group.starting -= 1
                if run is not None:
                    group.runs.append(run)
                self._lock.notify_all()
        return run

    def _run(
        self,
        name: str,
        group: _Group,
        cmd: Command,
        keys: dict[str, Any],
        optional: dict[str, Any],
    ) -> Result:
        with self._start(group, cmd, keys, optional) as run:
            with self._lock:
                gone = group.gone
            try:
                if gone:  # removed since it was looked up
                    _kill([run], name)
                result = run.wait()
            finally:
                with self._lock:
                    group.runs.remove(run)
                    group.now.pop(run, None)
            with self._lock:
                group.add(result.usage)
            return result

    def _join(self, name: str, limits: dict[str, Any], asked: set[str]) -> _Group:
        """The group of an analysis for one run; created if there is none."""
        with self._lock:
            group = self._groups.setdefault(name, _Group(limits, asked, temporary=True))
            group.users += 1
            return group

    def _leave(self, name: str, group: _Group) -> bool:
        """Note the end of a run; returns True if it was the last one."""
        with self._lock:
            group.users -= 1
            last = group.users == 0
            if last and group.temporary and self._groups.get(name) is group:
                del self._groups[name]
            return last


def _kill(runs: list[Run], name: str) -> None:
    for run in runs:
        run.cancel(f"the group {name} was killed")
        run.cancel()  # the second call does not wait
    for run in runs:
        run.wait()


cgroups = CgroupManager()
"""The groups of isolated_run(): a running analysis has a group of its name."""


# ---- running ----


def isolated_run(
    cmd: Command,
    cwd: PathName | None = None,
    env: Mapping[str, str] | None = None,
    timeout_seconds: float | None = None,
    limits: LimitValues | None = None,
    analysis_id: str | None = None,
    *,
    kind: str = "default",
    **settings: Any,
) -> RuntimeResult:
    """Run a command like subprocess.run(), with its own limits.

    The limits are RESOURCE_LIMITS[kind], then those of the analysis's metadata (load_metadata), or
    of its group if the caller has created one; then `limits`, then `timeout_seconds`, field by
    field.

    A list is a program and its arguments, a str is run by the shell; `cwd` is writable. A missing
    command raises FileNotFoundError. With `analysis_id`, the run is in the group of that name
    (cgroups); the temporary directory of the analysis is its TMPDIR, and is removed at its end in
    every case. Further keywords are those of brig.run().
    """
    metadata = load_metadata(analysis_id) if load_metadata and analysis_id is not None else None
    name = analysis_id or "a run without a name"
    manager = CgroupManager() if analysis_id is None else cgroups
    group = manager._join(name, analysis_limits(metadata, kind), _named(_limits_in(metadata)))
    try:
        merged = _overlay(group.limits, limits)
        merged = _overlay(merged, {"timeout_seconds": timeout_seconds})
        keys: dict[str, Any] = {**SETTINGS, **settings, "cwd": cwd, "env": dict(env or {})}
        keys.update(_keys_of(merged))
        optional = _take_optional(keys, group.asked | _named(limits) | set(settings))
        directory = _temp_dirs.path_of(analysis_id)
        if directory is not None:
            keys["rw"] = [*entries_of(keys.get("rw")), (directory, None)]
            keys["env"].setdefault("TMPDIR", str(directory))
        result = manager._run(name, group, cmd, keys, optional)
    finally:
        if manager._leave(name, group) and analysis_id is not None:
            cleanup_analysis_temp_dir(analysis_id)
    return _result_of(cmd, result, analysis_id)


def _result_of(cmd: Command, result: Result, analysis_id: str | None) -> RuntimeResult:
    timed_out = result.status == "timeout"
    return RuntimeResult(
        args=cmd,
        returncode=-1 if timed_out else result.returncode,
        stdout=result.stdout_text,
        stderr=result.stderr_text,
        completion_notes=result.notes,
        timed_out=timed_out,
        analysis_id=analysis_id,
        details=result,
    )


def _run_python(words: list[Any], cwd: PathName, keys: dict[str, Any]) -> RuntimeResult:
    keys["ro"] = [*outside(python_entries(), cwd), *entries_of(keys.get("ro"))]
    return isolated_run(words, cwd, **keys)


def run_notebook_isolated(
    notebook_path: PathName, cwd: PathName | None = None, **keys: Any
) -> RuntimeResult:
    """Execute a notebook in place, in its directory, with the limits of notebook_execution."""
    notebook = Path(notebook_path).resolve(strict=True)
    directory = notebook.parent if cwd is None else Path(cwd).resolve()
    if directory not in notebook.parents:
        keys["rw"] = [*entries_of(keys.get("rw")), (notebook, None)]
    keys = {"kind": "notebook_execution", **keys}
    return _run_python([*NOTEBOOK_COMMAND, notebook], directory, keys)


def run_post_process_isolated(
    script_path: PathName, args: Sequence[str] = (), cwd: PathName | None = None, **keys: Any
) -> RuntimeResult:
    """Run a Python script of an analysis, in its directory by default."""
    script = Path(script_path).resolve(strict=True)
    directory = script.parent if cwd is None else Path(cwd).resolve()
    if directory not in script.parents:
        keys["ro"] = [*entries_of(keys.get("ro")), (script, None)]
    return _run_python([sys.executable, script, *args], directory, keys)


def run_tool_isolated(cmd: Command, cwd: PathName | None = None, **keys: Any) -> RuntimeResult:
    """Run a tool: isolated_run() with the default limits."""
    return isolated_run(cmd, cwd, **keys)


# ---- temporary directories ----

_PREFIX = "brig-analysis-"


class _TempDirs:
    """The directories of this process. Each is locked while the process lives; an unlocked one is a
    leftover."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[str, tuple[Path, int]] = {}
        self._process = os.getpid()

    def make(self, analysis_id: str) -> Path:
        with self._lock:
            self._forget_parents()
            if analysis_id not in self._made:
                _sweep()
                self._made[analysis_id] = _make_locked()
            return self._made[analysis_id][0]

    def path_of(self, analysis_id: str | None) -> Path | None:
        with self._lock:
            self._forget_parents()
            return self._made[analysis_id][0] if analysis_id in self._made else None

    def remove(self, analysis_id: str) -> None:
        with self._lock:
            self._forget_parents()
            path, fd = self._made.pop(analysis_id, (None, -1))
        if path is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(fd)

    def remove_all(self) -> None:
        for analysis_id in list(self._made):
            self.remove(analysis_id)

    def _forget_parents(self) -> None:
        """In a fork: the directories belong to the parent."""
        if self._process != os.getpid():
            self._made, self._process = {}, os.getpid()


def _make_locked() -> tuple[Path, int]:
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(fd, fcntl.LOCK_EX)
        if path.is_dir():  # otherwise a sweep was faster than the lock
            return path, fd
        os.close(fd)


def _sweep() -> None:
    """Remove directories of callers that were killed."""
    for path in glob.glob(os.path.join(glob.escape(tempfile.gettempdir()), _PREFIX + "*")):
        with contextlib.suppress(OSError):
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(path, flags)
            try:
                if os.fstat(fd).st_uid == os.geteuid():
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(fd)


_temp_dirs = _TempDirs()
atexit.register(_temp_dirs.remove_all)


def create_analysis_temp_dir(analysis_id: str) -> Path:
    """A directory for an analysis, the same until it is removed: at the end of its next
    isolated_run(), by cleanup_analysis_temp_dir(), or at the end of the process; after a kill, by
    the next process."""
    return _temp_dirs.make(analysis_id)


def cleanup_analysis_temp_dir(analysis_id: str) -> None:
    """Remove the directory of an analysis. Does nothing if there is none."""
    _temp_dirs.remove(analysis_id)
