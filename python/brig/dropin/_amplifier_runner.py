# SPDX-License-Identifier: MIT
"""The child's side of amplifier.py: runs one session and sends its envelope.

    python3 -P _amplifier_runner.py PACKAGE.MODULE:FACTORY < configuration

This file needs only the standard library, because the cell may not have brig. The framing and the
form of the configuration are defined here, and amplifier.py imports them. The configuration comes
on stdin; the envelope goes to the result channel (BRIG_RESULT_FD) or, without one, as in a run by
hand, to stdout between the two markers.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import json
import os
import signal
import sys
import traceback
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

RESULT_START_MARKER = "<<<AMPLIFIER_RESULT_START>>>"
RESULT_END_MARKER = "<<<AMPLIFIER_RESULT_END>>>"

REQUIRED_KEYS = ("config", "prompt", "parent_id", "project_path")


# ---- the configuration ----


def serialize_subprocess_config(
    config: Mapping[str, Any],
    prompt: str,
    parent_id: str,
    project_path: str,
    session_id: str | None = None,
    module_paths: Mapping[str, str] | None = None,
    bundle_package_paths: Sequence[str] | None = None,
    sys_paths: Sequence[str] | None = None,
    mention_mappings: Mapping[str, str] | None = None,
) -> str:
    """The configuration of a session as JSON. TypeError for values without a form in JSON."""
    whole = {
        "config": config,
        "prompt": prompt,
        "parent_id": parent_id,
        "project_path": project_path,
        "session_id": session_id,
        "module_paths": dict(module_paths or {}),
        "bundle_package_paths": list(bundle_package_paths or ()),
        "sys_paths": list(sys_paths or ()),
        "mention_mappings": dict(mention_mappings or {}),
    }
    return json.dumps(whole)


def deserialize_subprocess_config(data: str) -> dict[str, Any]:
    """The dict of such a JSON; ValueError if a required key is missing."""
    whole = json.loads(data)
    if not isinstance(whole, dict):
        raise ValueError(f"Subprocess config is no object but {type(whole).__name__}")
    missing = [key for key in REQUIRED_KEYS if key not in whole]
    if missing:
        raise ValueError(f"Subprocess config is missing required keys: {missing}")
    defaults: dict[str, Any] = {
        "session_id": None,
        "module_paths": {},
        "bundle_package_paths": [],
        "sys_paths": [],
        "mention_mappings": {},
    }
    return {**defaults, **whole}


def validate_project_path(path: str | os.PathLike[str]) -> Path:
    """The resolved directory; ValueError if it does not exist."""
    resolved = Path(path).resolve()
    if not resolved.is_dir():
        raise ValueError(f"{os.fspath(path)!r} does not exist or is not a directory")
    return resolved


def add_paths(path: list[str], request: Mapping[str, Any]) -> None:
    """Put sys_paths and bundle_package_paths in front of sys.path, in the original's order: the
    last one comes first."""
    for entry in (*request["sys_paths"], *request["bundle_package_paths"]):
        if entry not in path:
            path.insert(0, entry)


# ---- amplifier's own session ----


def _attribute(module: str, name: str) -> Any:
    """An attribute of a package of amplifier; None if it is not installed."""
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        return None


def make_module_resolver(paths: Mapping[str, str], bundle_resolver: Any) -> Any:
    """The resolver of modules: the bundle's, with the application's settings behind it, where
    providers are found, if the application is installed."""
    resolver = bundle_resolver({name: Path(path) for name, path in paths.items()})
    wrap = _attribute("amplifier_app_cli.lib.bundle_loader", "AppModuleResolver")
    settings = _attribute("amplifier_app_cli.paths", "create_foundation_resolver")
    if wrap is None or settings is None:
        return resolver
    return wrap(bundle_resolver=resolver, settings_resolver=settings())


async def amplifier_session(request: dict[str, Any]) -> Any:
    """The default factory: amplifier's own session class."""
    core = importlib.import_module("amplifier_core")
    bundle = _attribute("amplifier_foundation.bundle", "BundleModuleResolver")
    return await make_session(request, core.AmplifierSession, bundle)


async def make_session(request: Mapping[str, Any], session_class: Any, bundle_resolver: Any) -> Any:
    """A session with the modules of its bundle mounted."""
    session = session_class(
        config=request["config"],
        parent_id=request["parent_id"],
        session_id=request["session_id"],
    )
    if request["module_paths"]:
        resolver = make_module_resolver(request["module_paths"], bundle_resolver)
        await session.coordinator.mount("module-source-resolver", resolver)
    return session


class _Namespace:
    """A directory for @NAMESPACE:PATH, in the place of a bundle."""

    def __init__(self, base: str) -> None:
        self._base = Path(base)

    def resolve_context_path(self, name: str) -> Path | None:
        found = (self._base / name, self._base / f"{name}.md")
        return next((path for path in found if path.exists()), None)


def _make_mention_resolver(mappings: Mapping[str, str], project: str) -> Any:
    of_app = _attribute("amplifier_app_cli.lib.mention_loading.app_resolver", "AppMentionResolver")
    if of_app is not None:
        return of_app(bundle_mappings={name: Path(path) for name, path in mappings.items()})
    base = _attribute("amplifier_foundation.mentions", "BaseMentionResolver")
    if base is None:
        return None
    bundles = {name: _Namespace(path) for name, path in mappings.items()}
    return base(bundles=bundles, base_path=Path(project))


def register_capabilities(coordinator: Any, request: Mapping[str, Any]) -> None:
    """Register what a session in the parent's process would have, after initialize(), as the
    original does."""
    coordinator.register_capability("session.working_dir", request["project_path"])
    coordinator.register_capability("self_delegation_depth", 0)
    if request["mention_mappings"]:
        resolver = _make_mention_resolver(request["mention_mappings"], request["project_path"])
        if resolver is not None:
            coordinator.register_capability("mention_resolver", resolver)
    deduplicator = _attribute("amplifier_foundation.mentions", "ContentDeduplicator")
    if deduplicator is not None:
        coordinator.register_capability("mention_deduplicator", deduplicator())


async def expand_mentions(coordinator: Any, prompt: str) -> str:
    """The prompt with the files that its @mentions name."""
    expand = _attribute("amplifier_foundation.mentions", "expand_mentions_in_instruction")
    get: Any = getattr(coordinator, "get_capability", lambda name: None)
    resolver = get("mention_resolver")
    if expand is None or resolver is None:
        return prompt
    directory = get("session.working_dir")
    expanded: str = await expand(
        prompt,
        resolver=resolver,
        deduplicator=get("mention_deduplicator"),
        relative_to=Path(directory) if directory else None,
    )
    return expanded


async def prepare(session: Any, request: Mapping[str, Any]) -> str:
    """Register the capabilities of an initialized session; returns its prompt. A session of another
    class has no coordinator."""
    coordinator: Any = getattr(session, "coordinator", None)
    if not callable(getattr(coordinator, "register_capability", None)):
        return str(request["prompt"])
    register_capabilities(coordinator, request)
    prompt = await expand_mentions(coordinator, request["prompt"])
    origin = {"version": 1, "input_id": str(uuid.uuid4()), "origin": "delegation"}
    coordinator.register_capability("execution.input.v1", origin)  # last: it is for execute() alone
    return prompt


# ---- any session ----


def find_factory(name: str) -> Any:
    """The callable behind "package.module:attribute"."""
    module, _, attribute = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    return found


async def _settled(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


async def execute(session: Any, request: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The output of a session, and notes; cleanup() is called in every case."""
    notes: dict[str, Any] = {}
    try:
        await _settled(session.initialize())
        output = await _settled(session.execute(await prepare(session, request)))
    finally:
        try:
            await _settled(session.cleanup())
        except Exception as error:  # an answer or an error is there already, and counts
            traceback.print_exc()
            notes["cleanup_error"] = describe(error)
    return output, notes


def success(output: Any, notes: dict[str, Any] | None = None) -> dict[str, Any]:
    """The envelope of an answer."""
    return {"output": output, "status": "success", "turn_count": 1, "metadata": notes or {}}


def failure(error: BaseException) -> dict[str, Any]:
    """The envelope of an error."""
    text = message_of(error)
    return {"output": "", "status": "error", "error": text, "turn_count": 0, "metadata": {}}


async def run_session(factory_name: str, data: str) -> dict[str, Any]:
    """Run the session of a configuration and return its envelope; never raises."""
    try:
        request = deserialize_subprocess_config(data)
        add_paths(sys.path, request)
        os.chdir(validate_project_path(request["project_path"]))
        factory = find_factory(factory_name) if factory_name else amplifier_session
        session = await _settled(factory(request))
        envelope = success(*await execute(session, request))
        json.dumps(envelope, allow_nan=False)  # now, while an error can still be sent instead
        return envelope
    except BaseException as error:  # also a SystemExit, so that the caller gets a reason
        traceback.print_exc()
        return failure(error)


def message_of(error: BaseException) -> str:
    """The text of an exception, as the original gives it; its class if it has none, or if it is no
    error, such as SystemExit."""
    try:
        text = str(error)
    except Exception:
        text = ""
    return text if text and isinstance(error, Exception) else describe(error)


def describe(error: BaseException) -> str:
    """An exception in one line, even if its __str__ raises."""
    name = type(error).__name__
    try:
        text = str(error)
    except Exception as second:
        return f"{name}, whose message cannot be shown ({type(second).__name__})"
    return f"{name}: {text}" if text else name


# ---- the way out ----


def frame(envelope: dict[str, Any]) -> str:
    """An envelope between the markers. `<` is escaped, so no text in it can look like a marker."""
    text = json.dumps(envelope).replace("<", "\\u003c")
    return f"{RESULT_START_MARKER}\n{text}\n{RESULT_END_MARKER}\n"


def _take_channel() -> int | None:
    """The file descriptor of the result channel, not inherited by programs that the session starts.
    """
    number = os.environ.pop("BRIG_RESULT_FD", None)
    if number is None:
        return None
    os.set_inheritable(int(number), False)
    return int(number)


def _send(channel: int | None, envelope: dict[str, Any]) -> None:
    if channel is None:
        sys.stdout.write(f"\n{frame(envelope)}")
        return
    text = json.dumps(envelope).encode()
    with os.fdopen(channel, "wb") as file:
        file.write(b"%d\n" % len(text) + text)


def main() -> None:
    channel = _take_channel()
    loop = asyncio.new_event_loop()
    session = loop.create_task(run_session(sys.argv[1], sys.stdin.read()))
    loop.add_signal_handler(signal.SIGTERM, session.cancel)  # leaves time for cleanup()
    envelope = loop.run_until_complete(session)
    _send(channel, envelope)
    with contextlib.suppress(Exception):  # a session may have closed file descriptors that it did not open
        sys.stdout.flush()
        sys.stderr.flush()
    # A thread that the session left would keep the interpreter alive, and delay the answer.
    os._exit(0 if envelope["status"] == "success" else 1)


if __name__ == "__main__":
    main()
