# SPDX-License-Identifier: MIT
"""Live events of the calls of a ToolHost."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ._closing import Closing
from ._events import QUEUE_BYTES, QUEUE_EVENTS, Event
from ._loop import make_turn

if TYPE_CHECKING:
    from ._tool import ToolResult


@dataclass(frozen=True)
class ToolEvent:
    """One event of one call. `event` is the event of the run (docs/RESULT.md). The last event of a
    call is "ended", with its `result`. `dropped` is the number of events before it that were not
    taken in time."""

    call_id: str
    tool: str
    type: str
    event: Event | None = None
    result: ToolResult | None = None
    dropped: int = 0

    @property
    def text(self) -> str:
        """The printed text, for stdout and stderr."""
        return self.event.text if self.event is not None else ""


class Watch(Closing):
    """Events in order, for `for` in a thread or `async for` in an event loop. A slow reader loses
    the oldest events, and never delays a tool."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._events: deque[ToolEvent] = deque()
        self._bytes = 0
        self._dropped = 0
        self._waiting: list[Any] = []
        self.closed = False

    def _put(self, event: ToolEvent) -> None:
        with self._changed:
            self._events.append(event)
            self._bytes += _size(event)
            while self._bytes > QUEUE_BYTES or len(self._events) > QUEUE_EVENTS:
                self._bytes -= _size(self._events.popleft())
                self._dropped += 1
            self._wake()

    def close(self) -> None:
        """No further events are added; queued ones can still be taken."""
        with self._changed:
            self.closed = True
            self._wake()

    def _wake(self) -> None:
        self._changed.notify_all()
        waiting, self._waiting = self._waiting, []
        for turn in waiting:
            try:
                turn.set()
            except RuntimeError:  # the loop is closed
                pass

    def _take(self) -> ToolEvent:
        event = self._events.popleft()
        self._bytes -= _size(event)
        dropped, self._dropped = self._dropped, 0
        return replace(event, dropped=dropped) if dropped else event

    def __iter__(self) -> Iterator[ToolEvent]:
        return self

    def __next__(self) -> ToolEvent:
        with self._changed:
            self._changed.wait_for(lambda: self._events or self.closed)
            if not self._events:
                raise StopIteration
            return self._take()

    def __aiter__(self) -> AsyncIterator[ToolEvent]:
        return self

    async def __anext__(self) -> ToolEvent:
        while True:
            with self._changed:
                if self._events:
                    return self._take()
                if self.closed:
                    raise StopAsyncIteration
                turn = make_turn()
                self._waiting.append(turn)
            await turn.wait()


def _size(event: ToolEvent) -> int:
    return len(event.event.data or b"") if event.event is not None else 0
