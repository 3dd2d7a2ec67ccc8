# SPDX-License-Identifier: MIT
"""brig: run a command as if it will misbehave.

    >>> import brig
    >>> brig.run("echo hello").stdout_text
    'hello\\n'

Each run has its own view of the files, no network, limits on memory, CPU, processes, time
and output. When it ends, all of its processes are gone. See docs/PYTHON.md.
"""

from . import aio
from ._api import Run, run, start
from ._brig import version as __version__
from ._errors import (
    BrigSystemError,
    DegradedWarning,
    Error,
    NotExecutableError,
    NotFoundError,
    Refused,
    RefusedError,
    UsageError,
)
from ._events import Event
from ._executor import Executor
from ._failures import CallFailed, GuestError, MemoryLimit, OutputLimit, RunFailed, Timeout
from ._keys import KEYS, Key
from ._keywords import Settings
from ._outcome import Outcome
from ._pool import Pool
from ._result import Isolation, Limits, Result, Usage
from ._template import Call, Template
from ._tool import Tool, ToolHost, ToolResult, tool
from ._tool_watch import ToolEvent, Watch
from ._decode import Array

__all__ = [
    "KEYS",
    "Array",
    "BrigSystemError",
    "Call",
    "CallFailed",
    "DegradedWarning",
    "Error",
    "Event",
    "Executor",
    "GuestError",
    "Isolation",
    "Key",
    "Limits",
    "MemoryLimit",
    "NotExecutableError",
    "NotFoundError",
    "Outcome",
    "OutputLimit",
    "Pool",
    "Refused",
    "RefusedError",
    "Result",
    "Run",
    "RunFailed",
    "Settings",
    "Template",
    "Timeout",
    "Tool",
    "ToolEvent",
    "ToolHost",
    "ToolResult",
    "UsageError",
    "Usage",
    "Watch",
    "__version__",
    "aio",
    "run",
    "start",
    "tool",
]
