"""Where this interpreter is, for runs that start it."""

from __future__ import annotations

import sys


def python_folders() -> list[str]:
    """Where this interpreter and its packages are, if that is not among the system's folders."""
    folders = {sys.prefix, sys.base_prefix}
    return sorted(path for path in folders if path != "/usr" and not path.startswith("/usr/"))
