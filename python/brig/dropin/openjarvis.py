# SPDX-License-Identifier: MIT
"""Shell commands, as openjarvis runs them.

    >>> run_sandboxed("echo hello").stdout
    'hello\\n'
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import Error, Result, aio
from .._keys import entries_of
from ._model import find_original
from ._path import toolchains_of
from ._python import outside, python_entries

__all__ = ["SETTINGS", "SandboxResult", "build_safe_env", "kill_process_tree", "run_sandboxed"]

SETTINGS: dict[str, Any] = {
    "network": "host",
    "redact": False,
    "kill_after": 0.5,
    "output": "unlimited",
}
"""Keywords of brig.run() for every run. The network is the host's, because no parameter can ask for
it; {"network": "none"} removes it."""

SAFE_VARIABLES = (
    "PATH", "HOME", "USER", "LANG", "TERM", "SHELL", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ",
)  # fmt: skip
_ORIGINAL = ("openjarvis.security.subprocess_sandbox",)
_OF_THE_CELL = ("HOME", "TMPDIR")  # directories that each run has privately


@dataclass
class SandboxResult:
    """The result of a command. `killed`: it did not end by itself."""

    stdout: str = ""
    stderr: str = ""
    returncode: int = -1
    timed_out: bool = False
    killed: bool = False


if not TYPE_CHECKING:
    SandboxResult = find_original(_ORIGINAL, "SandboxResult") or SandboxResult


def build_safe_env(
    passthrough: Iterable[str] | None = None, extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The harmless variables that are set, then those named in `passthrough`, then `extra`."""
    names = [*SAFE_VARIABLES, *(passthrough or ())]
    env = {name: os.environ[name] for name in names if name in os.environ}
    env.update(extra or {})
    return env


def run_sandboxed(
    command: str,
    *,
    timeout: float | None = 30.0,
    working_dir: str | None = None,
    env_passthrough: Iterable[str] | None = None,
    env_extra: Mapping[str, str] | None = None,
    max_output_bytes: int = 102400,
) -> SandboxResult:
    """Run a command by the shell, in its own cell and session.

    The first `max_output_bytes` bytes of each stream are kept, and the rest is discarded; line ends
    become "\\n". HOME and TMPDIR are those of the cell unless they were asked for by name. If there
    is no such working_dir, the current one is used. Never raises for actions of the command or for
    failures to start it.
    """
    if timeout is not None and timeout <= 0:
        return SandboxResult(stdout="(timed out)", timed_out=True, killed=True)
    heads = {"stdout": _Head(max_output_bytes), "stderr": _Head(max_output_bytes)}
    try:
        keys = _keys_of(command, timeout, working_dir, list(env_passthrough or ()), env_extra)
        result = _wait_for(command, keys, heads)
    except (Error, OSError) as error:
        return SandboxResult(stderr=f"Execution error: {error}")
    if result.status == "timeout":
        return SandboxResult(stdout="(timed out)", timed_out=True, killed=True)
    ended = result.status not in ("exited", "signaled")
    stderr = heads["stderr"].text()
    if ended:
        stderr += f"{result.notes}\n"  # no other field could report it
    return SandboxResult(heads["stdout"].text(), stderr, result.returncode, killed=ended)


def _keys_of(
    command: str,
    timeout: float | None,
    working_dir: str | None,
    passthrough: list[str],
    extra: Mapping[str, str] | None,
) -> dict[str, Any]:
    """The keywords of the run."""
    env = build_safe_env(passthrough, extra)
    for name in _OF_THE_CELL:
        if name not in passthrough and name not in (extra or {}):
            env.pop(name, None)
    directory = working_dir if working_dir and os.path.isdir(working_dir) else None
    tools, variables = toolchains_of(command, env)
    shown = outside([*python_entries(), *tools], directory)
    return {
        **SETTINGS,
        "timeout": "unlimited" if timeout is None else timeout,
        "cwd": directory,
        "env": {**env, **variables},
        "ro": [*shown, *entries_of(SETTINGS.get("ro"))],
    }


class _Head:
    """The first bytes of a stream, up to the last complete character."""

    def __init__(self, most: int) -> None:
        self._left = max(most, 0)
        self._bytes = bytearray()

    def add(self, data: bytes) -> None:
        if len(data) <= self._left:
            self._bytes += data
            self._left -= len(data)
            return
        cut = self._left  # not in the middle of a character
        while cut > max(self._left - 3, 0) and 0x80 <= data[cut] < 0xC0:
            cut -= 1
        self._bytes += data[:cut]
        self._left = 0

    def text(self) -> str:
        text = self._bytes.decode(errors="backslashreplace")
        return text.replace("\r\n", "\n").replace("\r", "\n")


async def _watch(command: str, keys: dict[str, Any], heads: dict[str, _Head]) -> Result:
    # The loop steps the run only after it has taken the events of the last step: none is dropped or
    # queued.
    async with await aio.start(command, capture=False, **keys) as run:
        async for event in run:
            if event.data is not None:
                heads[event.type].add(event.data)
        return await run.wait()


def _wait_for(command: str, keys: dict[str, Any], heads: dict[str, _Head]) -> Result:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_watch(command, keys, heads))
    done: list[Result | BaseException] = []  # called from a coroutine, which blocks its loop

    def work() -> None:
        try:
            done.append(asyncio.run(_watch(command, keys, heads)))
        except BaseException as error:
            done.append(error)

    thread = threading.Thread(target=work, name="brig-openjarvis")
    thread.start()
    thread.join()
    if isinstance(done[0], BaseException):
        raise done[0]
    return done[0]


# ---- a tree that is not brig's ----


def kill_process_tree(pid: int) -> None:
    """Kill a process and all of its descendants, and wait until they are dead.

    This is for the caller's own processes; a run of brig does not need it. All of them are stopped
    before the first is killed, so that none can fork meanwhile. Members of a session or process
    group led by one of them are included, even if their parent is gone. Never raises.
    """
    if not isinstance(pid, int) or pid <= 1 or pid == os.getpid():
        return
    tree: dict[int, str] = {}
    while True:
        found = {p: s for p, s in _tree_of(pid, tree).items() if tree.get(p) != s}
        if not found:
            break
        for one in found:
            _send(one, signal.SIGSTOP)
        tree.update(found)
    for one, started in tree.items():
        if _started(one) == started:
            _send(one, signal.SIGKILL)
    deadline = time.monotonic() + 5
    while any(_started(p) == s for p, s in tree.items()) and time.monotonic() < deadline:
        time.sleep(0.002)


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the state on; None if it is dead or a zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return fields if len(fields) > 19 and fields[0] not in "ZX" else None


def _started(pid: int) -> str | None:
    """The start time, which identifies a process even if its PID is reused."""
    fields = _stat(pid)
    return fields[19] if fields else None


def _tree_of(pid: int, known: Mapping[int, str]) -> dict[int, str]:
    """All descendants of a process and of the known ones, including themselves, with their start
    times."""
    stats: dict[int, list[str]] = {}
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            fields = _stat(int(name)) if name.isdecimal() else None
            if fields:
                stats[int(name)] = fields
    members = {pid, *known}
    while True:  # fields 1, 2, 3: parent, group, session
        more = {p for p, f in stats.items() if p not in members and members & {int(n) for n in f[1:4]}}
        if not more:
            break
        members |= more
    return {p: stats[p][19] for p in members if p in stats and p != os.getpid()}
