# SPDX-License-Identifier: MIT
"""Agent sessions in child processes, as amplifier runs them.

    envelope = await run_session_in_subprocess(config, "Say hello.", "parent-1", "/srv/project")
    answer = json.loads(envelope)["output"]
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import site
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Union

from .. import Pool, Result
from .._keys import entries_of
from . import _amplifier_runner
from ._amplifier_runner import (
    RESULT_END_MARKER,
    RESULT_START_MARKER,
    deserialize_subprocess_config,
    serialize_subprocess_config,
    validate_project_path,
)
from ._model import find_original
from ._python import editable_directories, outside, python_entries, user_site
from .openjarvis import kill_process_tree

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
"""Keywords of brig.run() for every session. The network is the host's, because a session needs its
model; {"network": "none"} removes it. Entries of "env" are added to the environment, entries of
"ro" and "rw" to the view."""

_log = logging.getLogger(__name__)


# ---- what runs in the child ----

_RUNNER = os.path.realpath(_amplifier_runner.__file__)
_factory = ""
_command: list[str] = []


def configure_session_factory(name: str | None) -> None:
    """Set the factory of sessions, as "package.module:attribute"; None: amplifier's own class.

    It is imported in the child, where sys_paths and bundle_package_paths are already importable. It
    is called with one dict, that of deserialize_subprocess_config(), and returns an object with
    initialize(), execute(prompt) and cleanup(); each of these may be a coroutine function.
    """
    global _factory, _command
    module, colon, attribute = (name or "").partition(":")
    if name and not (module and colon and attribute):
        raise ValueError(f"{name!r} is not of the form 'package.module:attribute'")
    _factory, _command = name or "", []


def configure_session_command(command: Sequence[PathName]) -> None:
    """Run sessions by a program of the application instead of a factory.

    The program reads the configuration from stdin and prints an envelope between the two markers.
    The markers are no secret: anything else that prints to its stdout could print them too, so more
    than one pair is an error. With a factory, the result has its own file descriptor instead.
    """
    global _factory, _command
    words = [os.fspath(word) for word in command]
    if not words:
        raise ValueError("command: is empty")
    _factory, _command = "", words


# ---- how many at once ----

_pool = Pool(max_concurrent=DEFAULT_MAX_SUBPROCESS)
_semaphore_limit = DEFAULT_MAX_SUBPROCESS
_semaphore_configured = False
_configuring = threading.Lock()


def configure_subprocess_limit(max_concurrent: int) -> None:
    """Set the number of parallel sessions in the whole process; further ones wait in order.

    The same value may be set again; another one raises RuntimeError. Takes effect at once.
    """
    global _semaphore_configured, _semaphore_limit
    with _configuring:
        if _semaphore_configured and _semaphore_limit != max_concurrent:
            raise RuntimeError(
                f"already configured: at most {_semaphore_limit} at once, not {max_concurrent}"
            )
        _pool.resize(max_concurrent)
        _semaphore_limit, _semaphore_configured = max_concurrent, True


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

    HOME, TMPDIR, TMP, TEMP and XDG_*_HOME are passed only if the session sees the directories that
    they name; otherwise they are those of its cell.
    """
    env = {
        name: value
        for name, value in os.environ.items()
        if name in _ALLOWED or name.startswith(_ALLOWED_PREFIXES) or _XDG_HOME.fullmatch(name)
    }
    return {**env, "PYTHONUTF8": "1", "PYTHONIOENCODING": "utf-8"}


def _place_of(entry: Any) -> str:
    """The place of an entry of ro or rw in the guest's view."""
    if isinstance(entry, tuple):
        return str(os.fspath(entry[0] if entry[1] is None else entry[1]))
    path: str = os.fspath(entry)
    _, colon, place = path.rpartition(":/")
    return "/" + place if colon else place


def _is_below(path: str, directories: Iterable[str]) -> bool:
    return any(path == directory or path.startswith(directory.rstrip("/") + "/") for directory in directories)


def _resolved(path: PathName, project: str) -> str:
    """Resolve a path, because brig mounts no symlinks. A symlink in the project may be a guest's,
    and is not resolved."""
    absolute = os.path.abspath(path)
    return absolute if _is_below(absolute, [project]) else os.path.realpath(absolute)


def _resolve_named(env: dict[str, str], project: str) -> list[str]:
    """The files and directories that some variables refer to."""
    named: list[str] = []
    for name in (*_CERTIFICATES, "PYTHONPATH"):
        paths = [path for path in env.get(name, "").split(os.pathsep) if os.path.exists(path)]
        if paths:
            paths = [_resolved(path, project) for path in paths]
            env[name] = os.pathsep.join(paths)
            named += paths
    return named


def _to_show(paths: Iterable[str], project: str) -> list[str]:
    """The existing paths, read-only. The project is left out: it is visible already, and writable.
    """
    shown: list[str] = []
    for path in paths:
        if not os.path.exists(path) or _is_below(path, [project, *shown]):
            continue
        if ":" in path:
            raise ValueError(f"{path!r} cannot be shown to a session: it has a colon in its name")
        shown.append(path)
    return shown


def _keys_of(project: str, paths: Iterable[str]) -> dict[str, Any]:
    """The keywords of a run in a project with these visible paths."""
    env = build_child_env()
    named = [*editable_directories(), *paths, *_resolve_named(env, project), _RUNNER]
    user = user_site()
    if user is not None:  # it is found by HOME, which is another one in the cell
        named.append(os.path.realpath(user))
        env.setdefault("PYTHONUSERBASE", os.path.realpath(site.getuserbase()))
    ro = [*outside(python_entries(), project), *_to_show(named, project), *entries_of(SETTINGS.get("ro"))]
    rw = entries_of(SETTINGS.get("rw"))
    places = [project, *map(_place_of, (*ro, *rw))]
    for name in [n for n in env if n in _FOLDERS or _XDG_HOME.fullmatch(n)]:
        if not _is_below(os.path.abspath(env[name]), places):
            del env[name]
    env.update(SETTINGS.get("env") or {})
    return {**SETTINGS, "cwd": project, "env": env, "ro": ro, "rw": rw}


# ---- what it says ----

_SECRETS = [
    re.compile(r"sk-[a-zA-Z0-9\-_]{10,}"),
    # Plain words that end in "key" are not credentials.
    re.compile(r"(?<!mon)(?<!don)(?<!tur)(?<!hoc)(?<!joc)(?<!whis)key=\s*\S+", re.IGNORECASE),
    re.compile(r"(?:token|secret|password)=\s*\S+", re.IGNORECASE),
    re.compile(r"\bBearer\s+\S+", re.IGNORECASE),
]
_MOST_OF_STDERR = 8192  # characters of it in a message


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
    """The text between the markers; all other output is ignored.

    RuntimeError if there is none, or if several make it ambiguous.
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
    """The envelope of a factory's session, from its channel; printed output does not count."""
    if result.output_error is not None:
        _log.debug("Unframed subprocess output: %s", result.stdout_text)
        raise RuntimeError(f"missing result envelope: {result.output_error}")
    if not _is_envelope(result.output):
        raise RuntimeError("missing result envelope: what was sent is none")
    return result.output


def _printed(result: Result) -> Any:
    """The envelope of an application's program: an envelope, or a plain text as older ones print.
    """
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
    """The envelope of a finished session, as text."""
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
    """Run an agent session in its own cell; returns its envelope as JSON text.

    The envelope is {"output": ..., "status": "success", "turn_count": 1, "metadata": {}}, or has
    status "error" and an "error" without credentials. `project_path` is the work directory; the
    other paths are visible read-only, and sys_paths and bundle_package_paths are on sys.path before
    initialize(). The configuration is not written to disk.

    Raises ValueError if the project is not a directory, TimeoutError, and RuntimeError if the
    session ended without an envelope. The timeout does not count while the session waits for its
    turn. After each of these, and when the task is cancelled, all of its processes are gone;
    cleanup() has had the time of kill_after.
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


# ---- the original's private names ----

AmplifierSession: Any = find_original(("amplifier_core",), "AmplifierSession")
BundleModuleResolver: Any = find_original(("amplifier_foundation.bundle",), "BundleModuleResolver")

_build_child_env = build_child_env
_extract_framed_result = extract_framed_result
_sanitize_error = sanitize_error
_validate_project_path = validate_project_path
_kill_subprocess_tree = kill_process_tree


async def _run_child_session(config_path: PathName) -> Any:
    """Run the session of a configuration file in this process, and return its output.

    This is the original's entry point of the child, for callers that start one by themselves.
    Modules are resolved by the bundle and, where amplifier_app_cli is installed, by its
    AppModuleResolver with create_foundation_resolver(); an ImportError leaves the bundle's resolver
    alone. The capabilities session.working_dir, self_delegation_depth, mention_resolver and
    mention_deduplicator are registered. Errors of the session are raised after its cleanup().
    """
    with open(config_path, encoding="utf-8") as file:
        request = deserialize_subprocess_config(file.read())
    _amplifier_runner.add_paths(sys.path, request)
    os.chdir(validate_project_path(request["project_path"]))
    if AmplifierSession is None:
        raise ModuleNotFoundError("No module named 'amplifier_core'")
    session = await _amplifier_runner.make_session(request, AmplifierSession, BundleModuleResolver)
    output, _ = await _amplifier_runner.execute(session, request)
    return output


def _main() -> None:
    """python3 -m brig.dropin.amplifier CONFIGURATION: the same, with an envelope on stdout."""
    if len(sys.argv) != 2:
        print("Usage: python -m brig.dropin.amplifier <config_path>", file=sys.stderr)
        sys.exit(1)
    try:
        envelope = _amplifier_runner.success(asyncio.run(_run_child_session(sys.argv[1])))
    except Exception as error:
        envelope = _amplifier_runner.failure(error)
        print(f"Subprocess session error: {sanitize_error(envelope['error'])}", file=sys.stderr)
    sys.stdout.write(_amplifier_runner.frame(envelope))
    if envelope["status"] == "error":
        sys.exit(1)


if __name__ == "__main__":
    _main()
