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


# ---- the session ----


async def amplifier_session(request: dict[str, Any]) -> Any:
    """The default factory: amplifier's own session class."""
    core = importlib.import_module("amplifier_core")
    session = core.AmplifierSession(
        config=request["config"],
        parent_id=request["parent_id"],
        session_id=request["session_id"],
    )
    if request["module_paths"]:
        bundle = importlib.import_module("amplifier_foundation.bundle")
        paths = {name: Path(path) for name, path in request["module_paths"].items()}
        resolver = bundle.BundleModuleResolver(paths)
        await session.coordinator.mount("module-source-resolver", resolver)
    coordinator = getattr(session, "coordinator", None)
    if coordinator is not None:  # before initialize(), because modules use it while they are mounted
        coordinator.register_capability("session.working_dir", request["project_path"])
    return session


def find_factory(name: str) -> Any:
    """The callable behind "package.module:attribute"."""
    module, _, attribute = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    return found


async def _settled(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


async def _executed(session: Any, prompt: str) -> dict[str, Any]:
    """The envelope of a finished session; cleanup() is called in every case."""
    notes: dict[str, Any] = {}
    try:
        await _settled(session.initialize())
        output = await _settled(session.execute(prompt))
    finally:
        try:
            await _settled(session.cleanup())
        except Exception as error:  # an answer or an error is there already, and counts
            traceback.print_exc()
            notes["cleanup_error"] = describe(error)
    return {"output": output, "status": "success", "turn_count": 1, "metadata": notes}


async def run_session(factory_name: str, data: str) -> dict[str, Any]:
    """Run the session of a configuration and return its envelope; never raises."""
    try:
        request = deserialize_subprocess_config(data)
        imports = (*request["sys_paths"], *request["bundle_package_paths"])
        sys.path[:0] = [path for path in dict.fromkeys(imports) if path not in sys.path]
        os.chdir(validate_project_path(request["project_path"]))
        factory = find_factory(factory_name) if factory_name else amplifier_session
        session = await _settled(factory(request))
        envelope = await _executed(session, request["prompt"])
        json.dumps(envelope, allow_nan=False)  # now, while an error can still be sent instead
        return envelope
    except BaseException as error:  # also a SystemExit, so that the caller gets a reason
        traceback.print_exc()
        return {
            "output": "",
            "status": "error",
            "error": describe(error),
            "turn_count": 0,
            "metadata": {},
        }


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
