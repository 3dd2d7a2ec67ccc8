# SPDX-License-Identifier: MIT
"""The event loop that runs: asyncio's, or trio's (also under anyio). Neither is imported for this.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any, Callable, TypeVar

T = TypeVar("T")


def in_trio() -> bool:
    """True in a task of trio. It imports sniffio, which knows the library of the current task."""
    sniffio: Any = sys.modules.get("sniffio")
    if sniffio is None or "trio" not in sys.modules:
        return False
    try:
        return bool(sniffio.current_async_library() == "trio")
    except sniffio.AsyncLibraryNotFoundError:
        return False


class _Turn:
    """An event of asyncio that any thread may set, once."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[None] = self._loop.create_future()

    def set(self) -> None:
        self._loop.call_soon_threadsafe(self._resolve)

    def _resolve(self) -> None:
        if not self._future.done():
            self._future.set_result(None)

    async def wait(self) -> None:
        await self._future


def make_turn() -> Any:
    """An object with wait() for the current task, and set() for any thread. set() raises
    RuntimeError if the loop has ended."""
    if not in_trio():
        return _Turn()
    from . import _trio

    return _trio.Turn()


async def in_thread(function: Callable[..., T], *args: Any) -> T:
    """Call a function in a thread, not in the event loop."""
    if not in_trio():
        return await asyncio.get_running_loop().run_in_executor(None, function, *args)
    from . import _trio

    value: T = await _trio.in_thread(function, *args)
    return value


async def wait_readable(fd: int) -> None:
    if in_trio():
        await sys.modules["trio"].lowlevel.wait_readable(fd)
        return
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(fd, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)
