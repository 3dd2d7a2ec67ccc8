# SPDX-License-Identifier: MIT
"""Base classes of objects that are closed at the end of their with block."""

from __future__ import annotations

from types import TracebackType
from typing import TypeVar

T = TypeVar("T")


class Closing:
    """`with` for a class that has close()."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self: T) -> T:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class AsyncClosing(Closing):
    """`with` and `async with` for a class that has close()."""

    async def __aenter__(self: T) -> T:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
