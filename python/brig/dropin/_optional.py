# SPDX-License-Identifier: MIT
"""Settings that a drop-in has by default and that need a cgroup.

An ordinary user often has none. There, the settings that the drop-in chose by itself are left out,
so that its runs start; memory and processes are limited by sampling, as the result says
(result.isolation). A setting that the caller asked for is refused, as everywhere.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from .. import RefusedError

_log = logging.getLogger(__name__)
_unavailable: set[str] = set()  # in this process; the library looks for a cgroup only once, too

T = TypeVar("T")


def available(optional: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that have not been refused before."""
    return {name: value for name, value in optional.items() if name not in _unavailable}


def is_refused(error: RefusedError, tried: Mapping[str, Any]) -> bool:
    """True if a run was refused because of one of these settings: it can be tried without it."""
    name = error.text.partition(":")[0]
    if name not in tried:
        return False
    _unavailable.add(name)
    _log.info("left out: %s", error.text)
    return True


def start_without_refused(
    start: Callable[..., T], optional: Mapping[str, Any], *args: Any, **keys: Any
) -> T:
    """Call start(*args, **keys) with those of the optional settings that this host can enforce."""
    while True:
        tried = available(optional)
        try:
            return start(*args, **{**tried, **keys})
        except RefusedError as error:
            if not is_refused(error, tried):
                raise
