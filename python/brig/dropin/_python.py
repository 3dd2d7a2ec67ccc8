# SPDX-License-Identifier: MIT
"""The location of this interpreter, for runs that start it."""

from __future__ import annotations

import sys


def python_directories() -> list[str]:
    """The directories of this interpreter and its packages that are not among the system's."""
    directories = {sys.prefix, sys.base_prefix}
    return sorted(path for path in directories if path != "/usr" and not path.startswith("/usr/"))
