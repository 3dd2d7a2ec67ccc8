"""Agent sessions in child processes, as amplifier runs them.

    envelope = await run_session_in_subprocess(config, "Say hello.", "parent-1", "/srv/project")
    answer = json.loads(envelope)["output"]
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Union

from .. import Pool, Result
from . import _amplifier_runner
from ._amplifier_runner import (
    RESULT_END_MARKER,
    RESULT_START_MARKER,
    deserialize_subprocess_config,
    serialize_subprocess_config,
    validate_project_path,
)
from ._python import python_folders

__all__ = [
    "DEFAULT_MAX_SUBPROCESS",
    "RESULT_END_MARKER",
    "RESULT_START_MARKER",
    "SETTINGS",
    "build_child_env",
    "configure_session_command",
    "configure_session_factory",
    "configure_subprocess_limit",
    "deserialize_subprocess_config",
    "extract_framed_result",
    "run_session_in_subprocess",
    "sanitize_error",
    "serialize_subprocess_config",
    "validate_project_path",
]

PathName = Union[str, "os.PathLike[str]"]

DEFAULT_MAX_SUBPROCESS = 4

SETTINGS: dict[str, Any] = {
    "network": "host",
    "redact": False,
    "on_output_limit": "truncate",
}
"""Keywords of brig.run() for every session. The network is the host's: a session that cannot reach
its model is of no use; {"network": "none"} takes it away. What is in "env" is added to the
environment, what is in "ro" and "rw" to what is shown."""

_log = logging.getLogger(__name__)


# ---- what runs in the child ----

_RUNNER = os.path.realpath(_amplifier_runner.__file__)
_factory = ""
_command: list[str] = []


def configure_session_factory(name: str | None) -> None:
    """Name what makes a session, as "package.module:attribute"; None: amplifier's own class.

    It is looked for in the child, where sys_paths and bundle_package_paths are importable by then.
    It is called with one dict, that of deserialize_subprocess_config(), and gives an object with
    initialize(), execute(prompt) and cleanup(); any of these may be a coroutine function.
    """
    global _factory, _command
    module, colon, attribute = (name or "").partition(":")
    if name and not (module and colon and attribute):
        raise ValueError(f"{name!r} is not of the form 'package.module:attribute'")
    _factory, _command = name or "", []


def configure_session_command(command: Sequence[PathName]) -> None:
    """Have sessions run by a program of the application's own, instead of a factory.

    It reads the configuration on stdin and prints an envelope between the two markers. They are
    known to everybody: whatever else prints to its stdout could print them, too. More than one pair
    is an error therefore. The result of a factory's session has a descriptor of its own.
    """
    global _factory, _command
    words = [os.fspath(word) for word in command]
    if not words:
        raise ValueError("command: is empty")
    _factory, _command = "", words


# ---- how many at once ----

_pool = Pool(max_concurrent=DEFAULT_MAX_SUBPROCESS)
_configured: int | None = None
_configuring = threading.Lock()


def configure_subprocess_limit(max_concurrent: int) -> None:
    """How many sessions run at once, in the whole process; the rest wait in order.

    The same value again is fine, another raises RuntimeError. Takes effect at once.
    """
    global _configured
    with _configuring:
        if _configured is not None and _configured != max_concurrent:
            raise RuntimeError(
                f"already configured: at most {_configured} at once, not {max_concurrent}"
            )
        _pool.resize(max_concurrent)
        _configured = max_concurrent


# ---- what the child gets to see ----

_CERTIFICATES = (
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
)  # fmt: skip
_ALLOWED = frozenset((
    "PATH", "HOME", "USER", "LANG", "LC_ALL", "TERM", "SHELL", "TMPDIR", "TMP", "TEMP",
    "PYTHONPATH", "VIRTUAL_ENV", "CONDA_DEFAULT_ENV", *_CERTIFICATES,
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
    "http_proxy", "https_proxy", "all_proxy", "no_proxy",
))  # fmt: skip
_ALLOWED_PREFIXES = (
    "AMPLIFIER_", "ANTHROPIC_", "OPENAI_", "AZURE_", "GOOGLE_", "AWS_", "GITHUB_", "GH_",
)  # fmt: skip
_XDG_HOME = re.compile(r"XDG_[A-Z]+_HOME")
_FOLDERS = ("HOME", "TMPDIR", "TMP", "TEMP")


def build_child_env() -> dict[str, str]:
    """The caller's variables that a session may have, and UTF-8 for its streams.

    Of these, HOME, TMPDIR, TMP, TEMP and XDG_*_HOME reach it if it is shown what they name; else
    they are those of its cell.
    """
    env = {
        name: value
        for name, value in os.environ.items()
        if name in _ALLOWED or name.startswith(_ALLOWED_PREFIXES) or _XDG_HOME.fullmatch(name)
    }
    return {**env, "PYTHONUTF8": "1", "PYTHONIOENCODING": "utf-8"}


def _listed(paths: Any) -> list[str]:
    """A setting that is a path or a list of them."""
    single = isinstance(paths, (str, os.PathLike))
    return [os.fspath(path) for path in ([paths] if single else paths or ())]


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def _resolved(path: PathName, project: str) -> str:
    """What a path means: brig shows no links. One in the project may be a guest's, and stays."""
    absolute = os.path.abspath(path)
    return absolute if _is_below(absolute, [project]) else os.path.realpath(absolute)


def _resolve_named(env: dict[str, str], project: str) -> list[str]:
    """The files and folders behind variables that mean nothing without them."""
    named: list[str] = []
    for name in (*_CERTIFICATES, "PYTHONPATH"):
        paths = [path for path in env.get(name, "").split(os.pathsep) if os.path.exists(path)]
        if paths:
            paths = [_resolved(path, project) for path in paths]
            env[name] = os.pathsep.join(paths)
            named += paths
    return named


def _to_show(paths: Iterable[str], project: str) -> list[str]:
    """What is shown read-only: what exists. The project is shown already, to be written to."""
    shown: list[str] = []
    for path in paths:
        if not os.path.exists(path) or _is_below(path, [project, *shown]):
            continue
        if ":" in path:
            raise ValueError(f"{path!r} cannot be shown to a session: it has a colon in its name")
        shown.append(path)
    return shown


def _keys_of(project: str, paths: Iterable[str]) -> dict[str, Any]:
    """The keywords of a run in a project to which these paths are shown."""
    env = build_child_env()
    ro = _to_show([*python_folders(), *paths, *_resolve_named(env, project), _RUNNER], project)
    ro += _listed(SETTINGS.get("ro"))
    rw = _listed(SETTINGS.get("rw"))
    places = [project, *(entry.rpartition(":")[2] for entry in (*ro, *rw))]
    for name in [n for n in env if n in _FOLDERS or _XDG_HOME.fullmatch(n)]:
        if not _is_below(os.path.abspath(env[name]), places):
            del env[name]
    env.update(SETTINGS.get("env") or {})
    return {**SETTINGS, "cwd": project, "env": env, "ro": ro, "rw": rw}


# ---- what it says ----

_SECRETS = [
    re.compile(r"sk-[a-zA-Z0-9\-_]{10,}"),
    # Plain words that end in "key" are none.
    re.compile(r"(?<!mon)(?<!don)(?<!tur)(?<!hoc)(?<!joc)(?<!whis)key=\s*\S+", re.IGNORECASE),
    re.compile(r"(?:token|secret|password)=\s*\S+", re.IGNORECASE),
    re.compile(r"\bBearer\s+\S+", re.IGNORECASE),
]
_MOST_OF_STDERR = 8192  # characters of it that are put into a message


def sanitize_error(message: str) -> str:
    """A message with its credentials replaced by [REDACTED]."""
    for secret in _SECRETS:
        message = secret.sub("[REDACTED]", message)
    return message


def _sanitized(value: Any) -> Any:
    """The same for every text in a JSON value."""
    if isinstance(value, str):
        return sanitize_error(value)
    if isinstance(value, dict):
        return {sanitize_error(name): _sanitized(item) for name, item in value.items()}
    return [_sanitized(item) for item in value] if isinstance(value, list) else value


def extract_framed_result(stdout: str) -> str:
    """What stands between the markers; all else that was printed is ignored.

    RuntimeError if there is none, or if it cannot be known which of several is meant.
    """
    starts, ends = stdout.count(RESULT_START_MARKER), stdout.count(RESULT_END_MARKER)
    _, _, rest = stdout.partition(RESULT_START_MARKER)
    content, end, _ = rest.partition(RESULT_END_MARKER)
    if starts > 1 or ends > 1:
        raise RuntimeError("more than one result envelope; which of them is meant cannot be known")
    if not end:
        _log.debug("Unframed subprocess output: %s", stdout)
        raise RuntimeError("missing result envelope")
    return content.strip()


def _is_envelope(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.get("status") in ("success", "error")
        and "output" in value
    )


def _sent(result: Result) -> Any:
    """The envelope of a session of a factory, from its channel; nothing that was printed counts."""
    if result.output_error is not None:
        _log.debug("Unframed subprocess output: %s", result.stdout_text)
        raise RuntimeError(f"missing result envelope: {result.output_error}")
    if not _is_envelope(result.output):
        raise RuntimeError("missing result envelope: what was sent is none")
    return result.output


def _printed(result: Result) -> Any:
    """That of a program of the application's own: an envelope, or a text as older ones print it."""
    text = extract_framed_result(result.stdout_text)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if _is_envelope(value):
        return value
    if result.stdout_truncated:
        raise RuntimeError(f"missing result envelope: {result.notes}")
    return text


def _failure(result: Result, more: str) -> RuntimeError:
    said = sanitize_error(result.stderr_text).strip()[-_MOST_OF_STDERR:]
    words = " ".join(part for part in (result.notes, said, f"[{more}]") if part)
    return RuntimeError(f"Subprocess session failed (exit code {result.returncode}): {words}")


def _answer(result: Result, printed: bool) -> str:
    """The envelope of a session that has ended, as text."""
    try:
        value = _printed(result) if printed else _sent(result)
    except RuntimeError as error:
        if result.ok:
            raise
        raise _failure(result, str(error)) from error
    failed = isinstance(value, dict) and value["status"] == "error"
    if not result.ok and not (failed and result.status == "exited"):
        raise _failure(result, "it had sent a result before that")
    if failed:
        value = _sanitized(value)
    return value if isinstance(value, str) else json.dumps(value)


# ---- running ----


async def run_session_in_subprocess(
    config: dict[str, Any],
    prompt: str,
    parent_id: str,
    project_path: PathName,
    session_id: str | None = None,
    timeout: float | None = 1800,
    module_paths: Mapping[str, PathName] | None = None,
    bundle_package_paths: Sequence[PathName] | None = None,
    sys_paths: Sequence[PathName] | None = None,
    mention_mappings: Mapping[str, PathName] | None = None,
) -> str:
    """Run an agent session in a cell of its own; gives its envelope, as JSON text.

    {"output": ..., "status": "success", "turn_count": 1, "metadata": {}}, or with status "error"
    and an "error" without credentials. `project_path` is its work folder; the other paths are shown
    to it read-only, and sys_paths and bundle_package_paths are on sys.path before initialize(). The
    configuration is on no disk.

    Raises ValueError for a project that is no folder, TimeoutError, and RuntimeError if the session
    came to its end without an envelope. The timeout does not count while it waits for its turn.
    After any of these, and when the task is cancelled, nothing of its tree is left; cleanup() has
    had the time of kill_after.
    """
    project = str(validate_project_path(project_path))
    modules = {name: _resolved(path, project) for name, path in (module_paths or {}).items()}
    mentions = {name: _resolved(path, project) for name, path in (mention_mappings or {}).items()}
    bundles = [_resolved(path, project) for path in bundle_package_paths or ()]
    imports = [_resolved(path, project) for path in sys_paths or () if path]
    data = serialize_subprocess_config(
        config, prompt, parent_id, project, session_id, modules, bundles, imports, mentions
    )
    own = list(_command)
    keys = _keys_of(project, [*modules.values(), *mentions.values(), *bundles, *imports])
    keys["channel"] = not own
    keys["timeout"] = "unlimited" if timeout is None else timeout
    command = own or [sys.executable, "-P", _RUNNER, _factory]
    result = await _pool.arun(command, input=data, **keys)
    _log.debug("Subprocess stderr: %s", result.stderr_text)
    if result.status == "timeout":
        raise TimeoutError(f"Subprocess session timed out after {timeout}s")
    return _answer(result, printed=bool(own))
