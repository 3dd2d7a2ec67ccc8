# SPDX-License-Identifier: MIT
"""The signatures of functions that take the settings of a run. Written by tools/python-keywords from
the library's table and the source of these functions: do not edit. See _signature.py."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, TypeVar, Union, overload

from ._signature import (
    Count,
    Duration,
    Env,
    Labels,
    Mounts,
    Number,
    Path,
    Paths,
    Size,
    Sizes,
    Text,
)
from ._spec import Command, Input

if TYPE_CHECKING:
    from ._template import Template

Function = TypeVar("Function", bound=Callable[..., Any])


class Settings(TypedDict, total=False):
    """The settings of a run as a dict, for brig.run(cmd, **settings)."""

    memory: Size
    cpus: Number
    cpu_priority: Union[Literal["normal", "low"], None]
    pids: Count
    timeout: Duration
    kill_after: Duration
    cpu_time: Duration
    output: Size
    result_size: Size
    on_output_limit: Union[Literal["kill", "truncate"], None]
    on_pids_limit: Union[Literal["kill", "fail"], None]
    open_files: Count
    file_size: Size
    workdir: Path
    ro: Mounts
    rw: Mounts
    tmpfs: Sizes
    view: Union[Literal["minimal", "host"], None]
    env: Env
    env_file: Paths
    network: Union[Literal["none", "host"], None]
    isolation: Union[Literal["cell", "auto"], None]
    stdin: Path
    channel: Union[bool, Literal["off", "on"], None]
    redact: Union[bool, Literal["on", "off"], None]
    redact_set: Text
    redact_pattern: Paths
    labels: Labels
    require: Paths
    cwd: Path


def run(
    cmd: Command,
    *,
    timeout: Duration = None,
    memory: Size = None,
    cpus: Number = None,
    pids: Count = None,
    output: Size = None,
    input: Input | None = None,
    cwd: Path = None,
    env: Env = None,
    check: bool = False,
    capture: bool = True,
    cpu_priority: Union[Literal["normal", "low"], None] = None,
    kill_after: Duration = None,
    cpu_time: Duration = None,
    result_size: Size = None,
    on_output_limit: Union[Literal["kill", "truncate"], None] = None,
    on_pids_limit: Union[Literal["kill", "fail"], None] = None,
    open_files: Count = None,
    file_size: Size = None,
    workdir: Path = None,
    ro: Mounts = None,
    rw: Mounts = None,
    tmpfs: Sizes = None,
    view: Union[Literal["minimal", "host"], None] = None,
    env_file: Paths = None,
    network: Union[Literal["none", "host"], None] = None,
    isolation: Union[Literal["cell", "auto"], None] = None,
    stdin: Path = None,
    channel: Union[bool, Literal["off", "on"], None] = None,
    redact: Union[bool, Literal["on", "off"], None] = None,
    redact_set: Text = None,
    redact_pattern: Paths = None,
    labels: Labels = None,
    require: Paths = None,
) -> None: ...


def start(
    cmd: Command,
    *,
    timeout: Duration = None,
    memory: Size = None,
    cpus: Number = None,
    pids: Count = None,
    output: Size = None,
    input: Input | None = None,
    cwd: Path = None,
    env: Env = None,
    capture: bool = True,
    cpu_priority: Union[Literal["normal", "low"], None] = None,
    kill_after: Duration = None,
    cpu_time: Duration = None,
    result_size: Size = None,
    on_output_limit: Union[Literal["kill", "truncate"], None] = None,
    on_pids_limit: Union[Literal["kill", "fail"], None] = None,
    open_files: Count = None,
    file_size: Size = None,
    workdir: Path = None,
    ro: Mounts = None,
    rw: Mounts = None,
    tmpfs: Sizes = None,
    view: Union[Literal["minimal", "host"], None] = None,
    env_file: Paths = None,
    network: Union[Literal["none", "host"], None] = None,
    isolation: Union[Literal["cell", "auto"], None] = None,
    stdin: Path = None,
    channel: Union[bool, Literal["off", "on"], None] = None,
    redact: Union[bool, Literal["on", "off"], None] = None,
    redact_set: Text = None,
    redact_pattern: Paths = None,
    labels: Labels = None,
    require: Paths = None,
) -> None: ...


def pool(
    max_concurrent: int = 4,
    *,
    warm: int = 0,
    memory: Size = None,
    cpus: Number = None,
    cpu_priority: Union[Literal["normal", "low"], None] = None,
    pids: Count = None,
    timeout: Duration = None,
    kill_after: Duration = None,
    cpu_time: Duration = None,
    output: Size = None,
    result_size: Size = None,
    on_output_limit: Union[Literal["kill", "truncate"], None] = None,
    on_pids_limit: Union[Literal["kill", "fail"], None] = None,
    open_files: Count = None,
    file_size: Size = None,
    workdir: Path = None,
    ro: Mounts = None,
    rw: Mounts = None,
    tmpfs: Sizes = None,
    view: Union[Literal["minimal", "host"], None] = None,
    env: Env = None,
    env_file: Paths = None,
    network: Union[Literal["none", "host"], None] = None,
    isolation: Union[Literal["cell", "auto"], None] = None,
    stdin: Path = None,
    channel: Union[bool, Literal["off", "on"], None] = None,
    redact: Union[bool, Literal["on", "off"], None] = None,
    redact_set: Text = None,
    redact_pattern: Paths = None,
    labels: Labels = None,
    require: Paths = None,
    cwd: Path = None,
    input: Union[Input, None] = None,
    check: bool = False,
    capture: bool = True,
) -> None: ...


def pool_map(
    commands: Iterable[Command],
    *,
    memory: Size = None,
    cpus: Number = None,
    cpu_priority: Union[Literal["normal", "low"], None] = None,
    pids: Count = None,
    timeout: Duration = None,
    kill_after: Duration = None,
    cpu_time: Duration = None,
    output: Size = None,
    result_size: Size = None,
    on_output_limit: Union[Literal["kill", "truncate"], None] = None,
    on_pids_limit: Union[Literal["kill", "fail"], None] = None,
    open_files: Count = None,
    file_size: Size = None,
    workdir: Path = None,
    ro: Mounts = None,
    rw: Mounts = None,
    tmpfs: Sizes = None,
    view: Union[Literal["minimal", "host"], None] = None,
    env: Env = None,
    env_file: Paths = None,
    network: Union[Literal["none", "host"], None] = None,
    isolation: Union[Literal["cell", "auto"], None] = None,
    stdin: Path = None,
    channel: Union[bool, Literal["off", "on"], None] = None,
    redact: Union[bool, Literal["on", "off"], None] = None,
    redact_set: Text = None,
    redact_pattern: Paths = None,
    labels: Labels = None,
    require: Paths = None,
    cwd: Path = None,
    input: Union[Input, None] = None,
    check: bool = False,
    capture: bool = True,
) -> None: ...


def template(
    preload: Iterable[str] = (),
    *,
    max_concurrent: int = 4,
    parked: int | Literal['auto'] = 'auto',
    paths: Iterable[str | os.PathLike[str]] | None = None,
    types: Iterable[type] = (),
    memory: Size = None,
    cpus: Number = None,
    cpu_priority: Union[Literal["normal", "low"], None] = None,
    pids: Count = None,
    timeout: Duration = None,
    kill_after: Duration = None,
    cpu_time: Duration = None,
    output: Size = None,
    result_size: Size = None,
    on_output_limit: Union[Literal["kill", "truncate"], None] = None,
    on_pids_limit: Union[Literal["kill", "fail"], None] = None,
    open_files: Count = None,
    file_size: Size = None,
    workdir: Path = None,
    ro: Mounts = None,
    rw: Mounts = None,
    tmpfs: Sizes = None,
    view: Union[Literal["minimal", "host"], None] = None,
    env: Env = None,
    env_file: Paths = None,
    network: Union[Literal["none", "host"], None] = None,
    isolation: Union[Literal["cell", "auto"], None] = None,
    redact: Union[bool, Literal["on", "off"], None] = None,
    redact_set: Text = None,
    redact_pattern: Paths = None,
    labels: Labels = None,
    require: Paths = None,
    cwd: Path = None,
) -> None: ...


def limits(
    *,
    memory: Size = None,
    cpus: Number = None,
    pids: Count = None,
    timeout: Duration = None,
    kill_after: Duration = None,
    cpu_time: Duration = None,
    output: Size = None,
    result_size: Size = None,
    open_files: Count = None,
    file_size: Size = None,
    labels: Labels = None,
) -> None: ...


def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    memory: Size = None,
    cpus: Number = None,
    pids: Count = None,
    timeout: Duration = None,
    kill_after: Duration = None,
    cpu_time: Duration = None,
    output: Size = None,
    result_size: Size = None,
    open_files: Count = None,
    file_size: Size = None,
    labels: Labels = None,
) -> None: ...


def tool_host(
    tools: Iterable[Callable[..., Any]] = (),
    *,
    template: Template | None = None,
    preload: Iterable[str] = (),
    max_concurrent: int = 4,
    parked: int | Literal['auto'] = 'auto',
    paths: Iterable[str | os.PathLike[str]] | None = None,
    types: Iterable[type] = (),
    memory: Size = None,
    cpus: Number = None,
    cpu_priority: Union[Literal["normal", "low"], None] = None,
    pids: Count = None,
    timeout: Duration = None,
    kill_after: Duration = None,
    cpu_time: Duration = None,
    output: Size = None,
    result_size: Size = None,
    on_output_limit: Union[Literal["kill", "truncate"], None] = None,
    on_pids_limit: Union[Literal["kill", "fail"], None] = None,
    open_files: Count = None,
    file_size: Size = None,
    workdir: Path = None,
    ro: Mounts = None,
    rw: Mounts = None,
    tmpfs: Sizes = None,
    view: Union[Literal["minimal", "host"], None] = None,
    env: Env = None,
    env_file: Paths = None,
    network: Union[Literal["none", "host"], None] = None,
    isolation: Union[Literal["cell", "auto"], None] = None,
    redact: Union[bool, Literal["on", "off"], None] = None,
    redact_set: Text = None,
    redact_pattern: Paths = None,
    labels: Labels = None,
    require: Paths = None,
    cwd: Path = None,
) -> None: ...


def executor(
    max_workers: int | None = None,
    mp_context: None = None,
    initializer: Callable[..., object] | None = None,
    initargs: tuple[Any, ...] = (),
    *,
    max_tasks_per_child: int | None = None,
    template: Template | None = None,
    cold: bool = False,
    preload: Iterable[str] = (),
    parked: int | Literal['auto'] = 'auto',
    paths: Iterable[str | os.PathLike[str]] | None = None,
    types: Iterable[type] = (),
    memory: Size = None,
    cpus: Number = None,
    cpu_priority: Union[Literal["normal", "low"], None] = None,
    pids: Count = None,
    timeout: Duration = None,
    kill_after: Duration = None,
    cpu_time: Duration = None,
    output: Size = None,
    result_size: Size = None,
    on_output_limit: Union[Literal["kill", "truncate"], None] = None,
    on_pids_limit: Union[Literal["kill", "fail"], None] = None,
    open_files: Count = None,
    file_size: Size = None,
    workdir: Path = None,
    ro: Mounts = None,
    rw: Mounts = None,
    tmpfs: Sizes = None,
    view: Union[Literal["minimal", "host"], None] = None,
    env: Env = None,
    env_file: Paths = None,
    network: Union[Literal["none", "host"], None] = None,
    isolation: Union[Literal["cell", "auto"], None] = None,
    redact: Union[bool, Literal["on", "off"], None] = None,
    redact_set: Text = None,
    redact_pattern: Paths = None,
    labels: Labels = None,
    require: Paths = None,
    cwd: Path = None,
) -> None: ...


class ToolDecorator(Protocol):
    """The type of brig.tool, which marks a function or returns a function that does."""

    @overload
    def __call__(self, function: Function, /) -> Function: ...
    @overload
    def __call__(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        memory: Size = None,
        cpus: Number = None,
        pids: Count = None,
        timeout: Duration = None,
        kill_after: Duration = None,
        cpu_time: Duration = None,
        output: Size = None,
        result_size: Size = None,
        open_files: Count = None,
        file_size: Size = None,
        labels: Labels = None,
    ) -> Callable[[Function], Function]: ...
