"""Plugins and scanners, as secuscan runs them.

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
"""Seconds that a callback has after the end of a run for what it has not yet taken."""

SETTINGS: dict[str, Any] = {"on_pids_limit": "fail"}
"""Keywords of brig.run() for every run."""

VIOLATIONS = ("timeout", "memory_limit", "output_limit")

_log = logging.getLogger(__name__)


@dataclass
class SandboxConfig:
    """The limits of one run. A timeout of 0 is none."""

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
    """The operator's: what holds where a plugin says nothing, and what no plugin gets more of.

    A maximum of None is none. The maxima of /etc/brig/limits.json hold besides. Without
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
    """The settings, overlaid with what a plugin sets, field by field; the operator's maximum wins.

    A plugin is a mapping or an object with the fields of SandboxConfig, or with them in `sandbox`.
    A network that the operator does not allow, no plugin gets.
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
    """A guess from the outside whether memory was the cause, for those who have no more to go by.

    sandbox_execute() does not guess: there, the kernel's own count decides.
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
    """Run a command; gives (stdout, stderr, exit_code, violation).

    `violation` is None, "timeout", "memory_limit" or "output_limit"; what was printed up to then is
    kept. The exit code is -N after signal N, and 127, 126 or 125, with the reason in stderr, if
    there is no such command, it cannot be executed, or brig cannot run it as asked.
    `broadcast_callback` gets what is printed as it comes, in chunks of at most 64 KiB; if it is slow
    or fails, that is its own affair. When the task is cancelled, nothing of the run is left before
    CancelledError goes on.
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
    """The result; the callback has a task of its own, which the run does not wait for."""
    listener = asyncio.create_task(_broadcast(run, callback))
    try:
        result = await run.wait()
        await asyncio.wait([listener], timeout=LISTENER_GRACE)
        return result
    finally:
        listener.cancel()
        await asyncio.wait([listener], timeout=0.1)  # what ignores that is left to its loop


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
    """The end state of a task and its message, None if all is well."""
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
        """Run a command; gives (output, exit_code, violation).

        The output is stdout, a newline and stderr, or stderr alone. Secrets are hidden in it, live
        as well as in the file raw_output_dir/TASK_ID.txt. A timeout of None is the setting's.
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
    """A callback of sandbox_execute() that passes text on for a task."""

    def __init__(self, task_id: str, send: TaskBroadcast) -> None:
        self._task_id = task_id
        self._send = send

    async def __call__(self, data: bytes, stream: str) -> None:
        await self._send(self._task_id, "output", data.decode(errors="backslashreplace"))


async def _execute_command(
    command: Command, task_id: str, timeout: float | None = 600
) -> tuple[str, int, str | None]:
    """TaskExecutor._execute_command() without anyone who listens."""
    return await TaskExecutor()._execute_command(command, task_id, timeout)


def _raw_path(task_id: str) -> str | None:
    """Where the output of a task goes; a name that leads elsewhere is refused before the run."""
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
