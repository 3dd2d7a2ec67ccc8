# SPDX-License-Identifier: MIT
"""Plugins and scanners, run like secuscan's.

    stdout, stderr, exit_code, violation = await sandbox_execute(["nmap", "-V"], SandboxConfig())
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

from .. import Error, NotExecutableError, NotFoundError, Result, aio

__all__ = [
    "SETTINGS",
    "SIGTERM_GRACE",
    "SandboxConfig",
    "SandboxViolation",
    "Settings",
    "TaskExecutor",
    "classify_memory_violation",
    "resolve_sandbox_config",
    "sandbox_execute",
    "settings",
    "task_end",
]

Command = Union[str, Sequence[str]]
Broadcast = Callable[[bytes, str], Awaitable[Any]]
TaskBroadcast = Callable[[str, str, str], Awaitable[Any]]
Outcome = tuple[str, str, int, Union[str, None]]

SIGTERM_GRACE = 3.0
"""Seconds between SIGTERM and SIGKILL."""

LISTENER_GRACE = 2.0
"""Seconds for a callback after the end of a run to take the remaining output."""

SETTINGS: dict[str, Any] = {"on_pids_limit": "fail"}
"""Keywords of brig.run() for every run."""

VIOLATIONS = ("timeout", "memory_limit", "output_limit")

_log = logging.getLogger(__name__)


@dataclass
class SandboxConfig:
    """The limits of one run. A timeout of 0 means none."""

    timeout_seconds: float = 120
    max_memory_mb: int = 512
    max_output_bytes: int = 5242880
    allow_network: bool = True


class SandboxViolation(Exception):
    """A run was ended at a limit: `reason` is "timeout", "memory_limit" or "output_limit"."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"Sandbox violation: {self.reason}"


# ---- limits ----


@dataclass
class Settings:
    """Set by the operator: the defaults of plugins, and their maxima.

    A maximum of None means none. The maxima of /etc/brig/limits.json apply in addition. Without
    raw_output_dir nothing is stored.
    """

    sandbox_timeout: float = 600
    sandbox_memory_mb: int = 512
    sandbox_max_output_bytes: int = 5242880
    sandbox_allow_network: bool = True
    maximum_timeout: float | None = None
    maximum_memory_mb: int | None = None
    maximum_output_bytes: int | None = None
    raw_output_dir: str | os.PathLike[str] | None = None


settings = Settings()


def resolve_sandbox_config(plugin: Any) -> SandboxConfig:
    """The settings, overridden field by field by a plugin's, up to the operator's maxima.

    A plugin is a mapping or an object with the fields of SandboxConfig, or with them in `sandbox`.
    No plugin gets a network that the operator does not allow.
    """
    own = _field(plugin, "sandbox")
    plugin = plugin if own is None else own

    def pick(name: str, default: Any) -> Any:
        value = _field(plugin, name)
        return default if value is None else value

    timeout = pick("timeout_seconds", settings.sandbox_timeout)
    if settings.maximum_timeout is not None:
        timeout = min(timeout or settings.maximum_timeout, settings.maximum_timeout)
    return SandboxConfig(
        timeout,
        _at_most(pick("max_memory_mb", settings.sandbox_memory_mb), settings.maximum_memory_mb),
        _at_most(
            pick("max_output_bytes", settings.sandbox_max_output_bytes),
            settings.maximum_output_bytes,
        ),
        bool(pick("allow_network", True)) and settings.sandbox_allow_network,
    )


def _field(holder: Any, name: str) -> Any:
    if isinstance(holder, Mapping):
        return holder.get(name)
    return getattr(holder, name, None)


def _at_most(value: int, maximum: int | None) -> int:
    return value if maximum is None else min(value, maximum)


def classify_memory_violation(
    exit_code: int | None, stderr_text: str, rss_bytes: int | None, limit_bytes: int | None
) -> bool:
    """Guess from outside whether memory was the cause, if there is no better information.

    sandbox_execute() does not guess: it uses the kernel's count.
    """
    if exit_code in (-11, 139):
        return True
    if "MemoryError" in stderr_text or "Cannot allocate memory" in stderr_text:
        return True
    if not exit_code or not rss_bytes or not limit_bytes:
        return False
    return rss_bytes * 100 >= limit_bytes * 95


# ---- running ----


async def sandbox_execute(
    cmd: Command, config: SandboxConfig, broadcast_callback: Broadcast | None = None
) -> Outcome:
    """Run a command; returns (stdout, stderr, exit_code, violation).

    `violation` is None, "timeout", "memory_limit" or "output_limit"; the output up to then is kept.
    The exit code is -N after signal N, and 127, 126 or 125, with the reason in stderr, if there is
    no such command, it cannot be executed, or brig cannot run it as asked. `broadcast_callback`
    gets the output as it arrives, in chunks of at most 64 KiB; the run does not wait for a callback
    that is slow or fails. If the task is cancelled, all processes of the run are gone before
    CancelledError propagates.
    """
    return await _execute(cmd, config, broadcast_callback, redact=False)


async def _execute(
    cmd: Command, config: SandboxConfig, callback: Broadcast | None, redact: bool
) -> Outcome:
    keys: dict[str, Any] = {
        "kill_after": SIGTERM_GRACE,
        "redact": redact,
        **SETTINGS,
        "timeout": config.timeout_seconds or "unlimited",
        "memory": f"{config.max_memory_mb}M",
        "output": config.max_output_bytes,
        "network": "host" if config.allow_network else "none",
    }
    try:
        if callback is None:
            return _outcome(await aio.run(cmd, **keys))
        async with await aio.start(cmd, **keys) as run:
            return _outcome(await _watched(run, callback))
    except Error as error:
        return "", str(error), _shell_code(error), None


def _shell_code(error: Error) -> int:
    if isinstance(error, NotFoundError):
        return 127
    return 126 if isinstance(error, NotExecutableError) else 125


def _outcome(result: Result) -> Outcome:
    violation = result.status if result.status in VIOLATIONS else None
    return result.stdout_text, result.stderr_text, result.returncode, violation


async def _watched(run: aio.Run, callback: Broadcast) -> Result:
    """The result; the callback runs in its own task, for which the run does not wait."""
    listener = asyncio.create_task(_broadcast(run, callback))
    try:
        result = await run.wait()
        await asyncio.wait([listener], timeout=LISTENER_GRACE)
        return result
    finally:
        listener.cancel()
        await asyncio.wait([listener], timeout=0.1)  # a callback that ignores the cancellation is left to its loop


async def _broadcast(run: aio.Run, callback: Broadcast) -> None:
    async for event in run:
        if event.dropped:
            _log.debug("broadcast_callback was too slow for %d events", event.dropped)
        if event.data is None:
            continue
        try:
            await callback(event.data, event.type)
        except Exception:
            _log.debug("broadcast_callback failed", exc_info=True)


# ---- tasks ----


def task_end(exit_code: int, violation: str | None) -> tuple[str, str | None]:
    """The final state of a task and its message, None on success."""
    if violation is not None:
        return f"terminated:{violation}", str(SandboxViolation(violation))
    if exit_code == 0:
        return "completed", None
    return "failed", f"Exit code {exit_code}"


class TaskExecutor:
    """Runs the commands of tasks. `broadcast` is awaited with (task_id, "output", text)."""

    def __init__(self, broadcast: TaskBroadcast | None = None) -> None:
        self._send = broadcast

    async def _execute_command(
        self, command: Command, task_id: str, timeout: float | None = 600
    ) -> tuple[str, int, str | None]:
        """Run a command; returns (output, exit_code, violation).

        The output is stdout, a newline and stderr, or stderr alone. Secrets in it are hidden, live
        and in the file raw_output_dir/TASK_ID.txt. A timeout of None means that of the settings.
        """
        config = resolve_sandbox_config(None if timeout is None else {"timeout_seconds": timeout})
        path = _raw_path(task_id)
        stdout, stderr, exit_code, violation = await _execute(
            command, config, self._listener(task_id), redact=True
        )
        output = f"{stdout}\n{stderr}" if stdout and stderr else stdout or stderr
        if path is not None:
            _store(path, output)
        return output, exit_code, violation

    def _listener(self, task_id: str) -> Broadcast | None:
        return None if self._send is None else _Listener(task_id, self._send)


class _Listener:
    """A callback of sandbox_execute() that publishes text for a task."""

    def __init__(self, task_id: str, send: TaskBroadcast) -> None:
        self._task_id = task_id
        self._send = send

    async def __call__(self, data: bytes, stream: str) -> None:
        await self._send(self._task_id, "output", data.decode(errors="backslashreplace"))


async def _execute_command(
    command: Command, task_id: str, timeout: float | None = 600
) -> tuple[str, int, str | None]:
    """TaskExecutor._execute_command() without listeners."""
    return await TaskExecutor()._execute_command(command, task_id, timeout)


def _raw_path(task_id: str) -> str | None:
    """The file for the output of a task; a name that leads elsewhere is refused before the run."""
    if settings.raw_output_dir is None:
        return None
    if not task_id or "/" in task_id or "\0" in task_id or task_id.startswith("."):
        raise ValueError(f"task_id: {task_id!r} is no name of a file")
    return os.path.join(settings.raw_output_dir, f"{task_id}.txt")


def _store(path: str, output: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(output)
