"""brig: run a command as if it will misbehave.

    >>> import brig
    >>> brig.run("echo hello").stdout_text
    'hello\\n'

Each run has its own view of the files, no network, limits on memory, processors, processes, time
and output, and nothing of it survives its end. See docs/PYTHON.md.
"""

from . import aio
from ._api import Run, run, start
from ._brig import version as __version__
from ._errors import (
    BrigSystemError,
    Error,
    NotExecutableError,
    NotFoundError,
    RefusedError,
    RunFailed,
    UsageError,
)
from ._events import Event
from ._keys import KEYS, Key
from ._outcome import CallFailed, Outcome
from ._pool import Pool
from ._result import Isolation, Limits, Result, Usage
from ._template import Call, Template
from ._tool import Tool, ToolHost, ToolResult, tool
from ._tool_watch import ToolEvent, Watch
from ._value import Array

__all__ = [
    "KEYS",
    "Array",
    "BrigSystemError",
    "Call",
    "CallFailed",
    "Error",
    "Event",
    "Isolation",
    "Key",
    "Limits",
    "NotExecutableError",
    "NotFoundError",
    "Outcome",
    "Pool",
    "RefusedError",
    "Result",
    "Run",
    "RunFailed",
    "Template",
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
