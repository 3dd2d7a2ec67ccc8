# SPDX-License-Identifier: MIT
"""Results and outcomes at a glance: one line for a terminal, a small table for a notebook.

All texts of a guest are escaped: nothing of them is markup, and nothing controls a terminal.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from ._failures import visible

if TYPE_CHECKING:
    from ._outcome import Outcome
    from ._result import Result

TEXT_MAX = 60
"""Characters of a text in a line."""

HTML_MAX = 4000
"""Characters of a stream in a notebook: its end."""


def _short(text: str) -> str:
    text = visible(text).replace("\n", "\\n")
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 3] + "..."


def _size(size: int) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size = size / 1024  # type: ignore[assignment]
    return f"{size:.1f} GiB"


def _ending(result: Result) -> str:
    if result.status == "exited":
        return f"exited {result.exit_code}"
    return f"signal {result.signal}" if result.status == "signaled" else result.status


def summary_of_result(result: Result) -> str:
    """The repr of a result."""
    parts = [_ending(result), f"{result.usage.wall_seconds:.3g} s"]
    if result.usage.memory_peak_bytes is not None:
        parts.append(_size(result.usage.memory_peak_bytes))
    for name, data in (("stdout", result.stdout), ("stderr", result.stderr)):
        if data:
            parts.append(f"{len(data)} bytes of {name}")
    return f"<brig.Result {', '.join(parts)}>"


def summary_of_outcome(outcome: Outcome) -> str:
    """The repr of an outcome. That of its value is the caller's class's, and cut."""
    if outcome.ok:
        return f"<brig.Outcome ok, value={_short(repr(outcome.value))}>"
    return f"<brig.Outcome {outcome.kind}: {_short(outcome.error or '')}>"


def html_of(head: str, texts: dict[str, str], result: Result | None) -> str:
    """A heading, the texts that are not empty, and the usage and isolation of a result."""
    rows: list[tuple[str, str]] = []
    if result is not None:
        usage, isolation = result.usage, result.isolation
        if result.notes:
            rows.append(("notes", result.notes))
        rows += [("hint", hint) for hint in result.hints]
        cpu = usage.cpu_user_seconds + usage.cpu_system_seconds
        rows.append(("time", f"{usage.wall_seconds:.3f} s, {cpu:.3f} s of CPU"))
        if usage.memory_peak_bytes is not None:
            limit = result.limits.memory_bytes
            of = f" of {_size(limit)}" if limit is not None else ""
            rows.append(("memory", _size(usage.memory_peak_bytes) + of))
        missing = f"; not enforced: {', '.join(isolation.degraded)}" if isolation.degraded else ""
        rows.append(("isolation", f"{isolation.tier}, {len(isolation.layers)} layers{missing}"))
    parts = [f"<code>{html.escape(head)}</code>"]
    if rows:
        cells = (f"<tr><th>{html.escape(a)}</th><td>{html.escape(visible(b))}</td></tr>" for a, b in rows)
        parts.append(f"<table>{''.join(cells)}</table>")
    for name, text in texts.items():
        if text:
            cut = "..." if len(text) > HTML_MAX else ""
            parts.append(f"<b>{name}</b><pre>{cut}{html.escape(visible(text[-HTML_MAX:]))}</pre>")
    return f"<div>{''.join(parts)}</div>"
