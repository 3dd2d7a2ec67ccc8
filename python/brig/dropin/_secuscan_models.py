# SPDX-License-Identifier: MIT
"""secuscan's models: those of the application, if it is installed, else ones of the same shape."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._model import Model, find_original

_PACKAGES = ("backend.secuscan", "secuscan")


def _original(module: str, name: str) -> Any:
    return find_original(tuple(f"{package}.{module}" for package in _PACKAGES), name)


@dataclass
class SandboxConfig(Model):
    """The limits of one run. A timeout of 0 means none."""

    timeout_seconds: float | None = 120
    max_memory_mb: int | None = 512
    max_output_bytes: int | None = 5242880
    allow_network: bool | None = True

    _fields = {
        "timeout_seconds": float,
        "max_memory_mb": int,
        "max_output_bytes": int,
        "allow_network": bool,
    }
    _optional = frozenset(_fields)


class SandboxViolation(Exception):
    """A run was ended at a limit: `reason` is "timeout", "memory_limit" or "output_limit"."""

    def __init__(self, reason: str, output: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.output = output


@dataclass
class Settings:
    """Set by the operator: the defaults of plugins, and their maxima.

    A maximum of None means none. The maxima of /etc/brig/limits.json apply in addition. Without
    raw_output_dir nothing is stored.
    """

    sandbox_timeout: float = 600
    sandbox_memory_mb: int = 512
    sandbox_max_output_bytes: int = 5242880
    sandbox_allow_network: bool = True
    maximum_timeout: float | None = None
    maximum_memory_mb: int | None = None
    maximum_output_bytes: int | None = None
    raw_output_dir: str | os.PathLike[str] | None = None


if not TYPE_CHECKING:
    SandboxConfig = _original("models", "SandboxConfig") or SandboxConfig
    SandboxViolation = _original("models", "SandboxViolation") or SandboxViolation


def application_settings() -> Any:
    """The application's settings, looked up at each call: it may replace them. None without it."""
    return _original("config", "settings")
