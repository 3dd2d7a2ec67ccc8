# SPDX-License-Identifier: MIT
"""The memory file of a call: large buffers of its value, to which its JSON refers by offset and length.

The file is the caller's from the beginning, and sealed by the guest (brig_run_memory() of brig.h):
nobody can change it while it is read. Each buffer is read once, into memory of its own.
"""

from __future__ import annotations

import errno
import os
from typing import Any, Callable

from ._value import LARGE

Source = Callable[[], "tuple[int, int] | None"]


NONE = "bytes are in a memory file, and there is none"
FAULTS = {
    errno.EPERM: "the memory file of the result is not sealed",
    errno.EFBIG: "the result is larger than result_size",
}


class BadPlace(Exception):
    """The guest named a place that it has not filled."""


class TooLarge(BadPlace):
    """The file is larger than result_size, which an honest guest may exceed too."""


class Memory:
    """Reads the parts of the file that `source` opens, each at most once: call check() first."""

    def __init__(self, source: Source) -> None:
        self._source: Source | None = source
        self._fd = -1
        self._size = 0
        self._fault = NONE
        self._taken: list[tuple[int, int]] = []

    def read_bytes(self, offset: int, length: int) -> bytes:
        data = os.pread(self._fd, length, offset)
        while len(data) < length:  # one call reads at most 2 GiB
            data += self._more(os.pread(self._fd, length - len(data), offset + len(data)))
        return data

    def read_into(self, buffer: Any, offset: int) -> None:
        view = memoryview(buffer).cast("B")
        done = 0
        while done < len(view):
            done += self._more(os.preadv(self._fd, [view[done:]], offset + done))

    def close(self) -> None:
        fd, self._fd, self._source = self._fd, -1, None
        if fd >= 0:
            os.close(fd)

    __del__ = close

    def _more(self, part: Any) -> Any:
        if not part:
            raise BadPlace("the memory file ends too early")
        return part

    def check(self, offset: int, length: int) -> None:
        """Open the file before the first part, and refuse a part that lies outside of it or has been read: one file full
        of data must not become many in the caller."""
        self._open()
        if self._fd < 0:
            raise (TooLarge if self._fault == FAULTS[errno.EFBIG] else BadPlace)(self._fault)
        end = offset + length
        if length < LARGE or offset < 0 or end > self._size:
            raise BadPlace("bytes lie outside of the memory file")
        if any(begin < end and offset < stop for begin, stop in self._taken):
            raise BadPlace("bytes of the memory file are used twice")
        self._taken.append((offset, end))

    def _open(self) -> None:
        source, self._source = self._source, None
        if source is None:
            return
        try:
            opened = source()
        except OSError as error:
            self._fault = FAULTS.get(error.errno or 0, f"the memory file of the result: {error}")
            return
        if opened is not None:
            self._fd, self._size = opened


def hold(source: Source) -> Memory | None:
    """The memory file, opened now, because the run may be closed before its value is read; None if
    there is none."""
    memory = Memory(source)
    memory._open()
    return None if memory._fault == NONE and memory._fd < 0 else memory
