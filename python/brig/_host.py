"""The process's one handle of the library, made when it is first needed.

A fork of the process goes on with it: the library makes it the fork's own at the first start, and
the extension sees to it that no fork happens in the middle of one.
"""

from __future__ import annotations

import atexit
import os
import threading

from . import _brig

_lock = threading.Lock()
_host: _brig.Host | None = None


def get_host() -> _brig.Host:
    """Open the library, once per process. Sweeps what killed supervisors left behind."""
    global _host
    if _host is None:
        with _lock:
            if _host is None:
                _host = _brig.Host()
    return _host


def _new_lock() -> None:
    global _lock
    _lock = threading.Lock()


def _close() -> None:
    """At the end: cells that were built ahead are gone when this returns."""
    global _host
    host, _host = _host, None
    if host is not None:
        host.close()


os.register_at_fork(after_in_child=_new_lock)
atexit.register(_close)
