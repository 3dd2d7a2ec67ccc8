# SPDX-License-Identifier: MIT
"""Events of a run, and the bounded queue in which they wait for the caller."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from ._result import Result

QUEUE_BYTES = 4 << 20
QUEUE_EVENTS = 10_000


@dataclass(frozen=True)
class Event:
    """One event; docs/RESULT.md has the fields of each type.

    `data` is a chunk of stdout or stderr; no character is split. `dropped` is the number of events
    before this one that were dropped because they were not taken in time.
    """

    type: Literal["started", "stdout", "stderr", "usage", "limit", "ended"]
    sequence: int
    elapsed_seconds: float
    data: bytes | None = None
    pid: int | None = None
    limit: str | None = None
    memory_bytes: int | None = None
    cpu_seconds: float | None = None
    pids: int | None = None
    dropped: int = 0
    result: Result | None = None

    @property
    def text(self) -> str:
        """`data` as text; bytes that are not UTF-8 are shown as \\xNN."""
        return (self.data or b"").decode(errors="backslashreplace")


class Queue:
    """Events in order. Beyond its bound the oldest are dropped, and the next one has their number.
    """

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._bytes = 0
        self._dropped = 0

    def __len__(self) -> int:
        return len(self._events)

    def add(self, raw: tuple[Any, ...]) -> None:
        event = Event(*raw)
        self._events.append(event)
        self._bytes += len(event.data or b"")
        while self._bytes > QUEUE_BYTES or len(self._events) > QUEUE_EVENTS:
            self._bytes -= len(self._events.popleft().data or b"")
            self._dropped += 1

    def take(self, result: Result | None) -> Event:
        """Take the oldest event; the event "ended" gets the result."""
        event = self._events.popleft()
        self._bytes -= len(event.data or b"")
        if self._dropped:
            event = replace(event, dropped=self._dropped)
            self._dropped = 0
        return replace(event, result=result) if event.type == "ended" else event
