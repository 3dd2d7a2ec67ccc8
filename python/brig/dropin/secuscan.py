# SPDX-License-Identifier: MIT
"""Plugins and scanners, run like secuscan's.

    stdout, stderr, exit_code, violation = await sandbox_execute(["nmap", "-V"], SandboxConfig())
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Union

from .. import Error, NotExecutableError, NotFoundError, RefusedError, Result, aio
from .._keys import entries_of
from ._optional import available, is_refused
from ._python import outside, python_entries
from ._secuscan_models import SandboxConfig, SandboxViolation, Settings, application_settings

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

CHUNK_SIZE = 64 * 1024

SETTINGS: dict[str, Any] = {"on_pids_limit": "fail"}
"""Keywords of brig.run() for every run. A fork over the limit on processes fails where there is a
cgroup; elsewhere the run is ended."""

_NEEDS_A_CGROUP = dict(SETTINGS)

VIOLATIONS = ("timeout", "memory_limit", "output_limit")

_log = logging.getLogger(__name__)


# ---- limits ----


settings = Settings()
"""Used where the application has no settings of its own; the maxima are used in every case."""


def _setting(name: str) -> Any:
    """A setting of the application, if it is installed, else of `settings`."""
    return getattr(application_settings(), name, getattr(settings, name))


def _given(value: Any, setting: str) -> Any:
    return _setting(setting) if value is None else value


def resolve_sandbox_config(plugin_sandbox: Any = None) -> SandboxConfig:
    """The settings, overridden field by field by a plugin's, up to the operator's maxima.

    A plugin is a mapping or an object with the fields of SandboxConfig, or with them in `sandbox`.
    No plugin gets a network that the operator does not allow.
    """
    own = _field(plugin_sandbox, "sandbox")
    plugin = plugin_sandbox if own is None else own

    def pick(name: str, setting: str) -> Any:
        return _given(_field(plugin, name), setting)

    timeout = pick("timeout_seconds", "sandbox_timeout")
    if settings.maximum_timeout is not None:
        timeout = min(timeout or settings.maximum_timeout, settings.maximum_timeout)
    memory = pick("max_memory_mb", "sandbox_memory_mb")
    output = pick("max_output_bytes", "sandbox_max_output_bytes")
    network = pick("allow_network", "sandbox_allow_network")
    return SandboxConfig(
        timeout_seconds=timeout,
        max_memory_mb=_at_most(memory, settings.maximum_memory_mb),
        max_output_bytes=_at_most(output, settings.maximum_output_bytes),
        allow_network=bool(network and _setting("sandbox_allow_network")),
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
    return rss_bytes >= limit_bytes * 95 // 100


# ---- running ----


class _Process:
    """A run with the methods of asyncio's processes, for _terminate_process()."""

    def __init__(self, run: aio.Run) -> None:
        self._run = run

    @property
    def returncode(self) -> int | None:
        return None if self._run.result is None else self._run.result.returncode

    def terminate(self) -> None:
        self._run.cancel()

    def kill(self) -> None:
        self._run.cancel()  # the second call does not wait

    async def wait(self) -> Result:
        return await self._run.wait()


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
    redact = isinstance(broadcast_callback, _Listener)  # of a task, whose output is stored
    try:
        async with await _started(cmd, config, redact) as run:
            process = _Process(run)
            reader_task = asyncio.create_task(_broadcast(run, broadcast_callback))
            try:
                result = await process.wait()
                await asyncio.wait([reader_task], timeout=LISTENER_GRACE)
            except asyncio.CancelledError:
                reader_task.cancel()
                raise
            finally:
                if process.returncode is None:
                    await _terminate_process(process)
                reader_task.cancel()
                # A callback that ignores the cancellation is left to its loop.
                await asyncio.wait([reader_task], timeout=0.1)
            return _outcome(result)
    except Error as error:
        return "", str(error), _shell_code(error), None


async def _started(cmd: Command, config: SandboxConfig, redact: bool) -> aio.Run:
    keys: dict[str, Any] = {
        "kill_after": SIGTERM_GRACE,
        "redact": redact,
        **SETTINGS,
        "timeout": _given(config.timeout_seconds, "sandbox_timeout") or "unlimited",
        "memory": f"{_given(config.max_memory_mb, 'sandbox_memory_mb')}M",
        "output": _given(config.max_output_bytes, "sandbox_max_output_bytes"),
        "network": "host" if config.allow_network else "none",
        "ro": [*outside(python_entries(), SETTINGS.get("cwd")), *entries_of(SETTINGS.get("ro"))],
    }
    optional = {name: keys.pop(name) for name in _NEEDS_A_CGROUP if _NEEDS_A_CGROUP[name] == keys.get(name)}
    while True:
        tried = available(optional)
        try:
            return await aio.start(cmd, **tried, **keys)
        except RefusedError as error:
            if not is_refused(error, tried):
                raise


def _shell_code(error: Error) -> int:
    if isinstance(error, NotFoundError):
        return 127
    return 126 if isinstance(error, NotExecutableError) else 125


def _outcome(result: Result) -> Outcome:
    violation = result.status if result.status in VIOLATIONS else None
    return result.stdout_text, result.stderr_text, result.returncode, violation


async def _broadcast(run: aio.Run, callback: Broadcast | None) -> None:
    async for event in run:
        if event.dropped:
            _log.debug("broadcast_callback was too slow for %d events", event.dropped)
        if event.data is None or callback is None:
            continue
        try:
            await callback(event.data, event.type)
        except Exception:
            _log.debug("broadcast_callback failed", exc_info=True)


# ---- for processes that are not brig's ----


async def _terminate_process(process: Any) -> None:
    """SIGTERM, SIGTERM_GRACE seconds, SIGKILL; the process is reaped."""
    try:
        process.terminate()
    except ProcessLookupError:
        return
    try:
        await asyncio.wait_for(process.wait(), SIGTERM_GRACE)
    except asyncio.TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _build_preexec_fn(config: SandboxConfig) -> Callable[[], None]:
    """A preexec_fn for a process of the caller's own: RLIMIT_AS. Runs of brig do not use it."""
    most = _given(config.max_memory_mb, "sandbox_memory_mb") * 1024 * 1024

    def limit_memory() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (most, most))

    return limit_memory


async def _read_stream(stream: Any, buffer: bytearray, state: dict[str, Any]) -> None:
    """Read a stream to its end, or up to the budget that `state` shares between streams:
    max_bytes, total_bytes, and limit_hit, which is set when there was more."""
    while chunk := await stream.read(CHUNK_SIZE):
        left = state["max_bytes"] - state["total_bytes"]
        if state["limit_hit"] or left <= 0:
            state["limit_hit"] = True
            return
        buffer += chunk[:left]
        state["total_bytes"] += min(len(chunk), left)
        if len(chunk) > left:
            state["limit_hit"] = True
            return


# ---- tasks ----


def task_end(exit_code: int, violation: str | None) -> tuple[str, str | None]:
    """The final state of a task and its message, None on success."""
    if violation is not None:
        return f"terminated:{violation}", f"Sandbox violation: {violation}"
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
        listener = _Listener(task_id, self._send)
        stdout, stderr, exit_code, violation = await sandbox_execute(command, config, listener)
        output = f"{stdout}\n{stderr}" if stdout and stderr else stdout or stderr
        if path is not None:
            _store(path, output)
        return output, exit_code, violation


class _Listener:
    """A callback of sandbox_execute() that publishes text for a task."""

    def __init__(self, task_id: str, send: TaskBroadcast | None) -> None:
        self._task_id = task_id
        self._send = send

    async def __call__(self, data: bytes, stream: str) -> None:
        if self._send is not None:
            await self._send(self._task_id, "output", data.decode(errors="backslashreplace"))


async def _execute_command(
    command: Command, task_id: str, timeout: float | None = 600
) -> tuple[str, int, str | None]:
    """TaskExecutor._execute_command() without listeners."""
    return await TaskExecutor()._execute_command(command, task_id, timeout)


def _raw_path(task_id: str) -> str | None:
    """The file for the output of a task; a name that leads elsewhere is refused before the run."""
    directory = _setting("raw_output_dir")
    if directory is None:
        return None
    if not task_id or "/" in task_id or "\0" in task_id or task_id.startswith("."):
        raise ValueError(f"task_id: {task_id!r} is no name of a file")
    return os.path.join(directory, f"{task_id}.txt")


def _store(path: str, output: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(output)
