# SPDX-License-Identifier: MIT
"""The process's one handle of the library, opened at the first use.

A fork of the process can use it too: the library adopts it at the first start in the fork, and the
extension prevents a fork in the middle of a start.
"""

from __future__ import annotations

import atexit
import os
import threading

from . import _brig

_lock = threading.Lock()
_host: _brig.Host | None = None


def get_host() -> _brig.Host:
    """Open the library, once per process. This also removes leftovers of killed supervisors."""
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
    """At the end of the interpreter: remove the cells that were built ahead."""
    global _host
    host, _host = _host, None
    if host is not None:
        host.close()


os.register_at_fork(after_in_child=_new_lock)
atexit.register(_close)
