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
from ._pool import Pool
from ._result import Isolation, Limits, Result, Usage

__all__ = [
    "KEYS",
    "BrigSystemError",
    "Error",
    "Event",
    "Isolation",
    "Key",
    "Limits",
    "NotExecutableError",
    "NotFoundError",
    "Pool",
    "RefusedError",
    "Result",
    "Run",
    "RunFailed",
    "UsageError",
    "Usage",
    "__version__",
    "aio",
    "run",
    "start",
]
