# SPDX-License-Identifier: MIT
"""Runs in the guest: an interpreter that forks for each call of a function and sends its result.

prepare() makes the interpreter like the caller's: its sys.path, and the modules to preload.
run_job() rebuilds the function of a job, calls it and sends one envelope on the result channel
(docs/TOOLS.md). serve() is the template: prepare() and freeze() once, then run_job() in each fork.

A job is pickled: it comes from the caller and is trusted. The answer is JSON. This file and
_value.py are imported without the rest of the package, and import as little as possible: a call can
see which modules are loaded, and each copied page is memory. Jobs made by _function.py refer to the
functions load_*, make_* and fill_* by name.
"""

from __future__ import annotations

import builtins
import marshal
import os
import sys
import types
from _pickle import Unpickler  # type: ignore[import]

if __package__:
    from . import _value
else:
    import _value  # type: ignore[import, no-redef]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Tuple, Union

    Job = Union[bytes, Tuple[Any, tuple[Any, ...], dict[str, Any]]]
    """The packed bytes, or (function, args, keywords) of a plain job."""

HEAD = b"brig-job 1 " + (sys.implementation.cache_tag or "none").encode() + b"\n"
HEAD_PLAIN = HEAD.replace(b"job", b"plain-job")
"""The first bytes of a job: code is valid only for the interpreter version that made it. A plain
job (_plain.h) is decoded before run_job() gets it."""

plain_answer: Callable[[str, Any], bytes | None] = lambda head, value: None
"""In a template, the function of _serve."""

SUCCESS = '{"status":"success","output":'
"""The beginning of the envelope of a value; a closing brace ends it."""

TEXT_MAX = 64 << 10
"""The maximum length of the text of an exception, and of its traceback."""

CUT = " ..."
"""Marks a text that was cut."""

CALCULATION_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")

MEMORY, SEAL_EXEC = 4, 0x20
"""The descriptor of the memory file, and the seal that it may have from the beginning."""

RAISED, SENT_NOTHING = 1, 70

REHEARSALS = 20


class Refused(Exception):
    """The reason why prepare() failed."""


# ---- before the first call ----


def prepare(settings: dict[str, Any]) -> None:
    """Make the interpreter ready: set sys.path to `path`, change to the directory `cwd`, and import
    the modules of `preload`. Raises Refused if an import fails or starts a thread: forks would not
    have the thread, and a lock that it holds would stay locked for ever. Shared memory is refused
    too: a call could leave data in it for the next."""
    sys.path[:] = settings["path"]
    sys.prefix, sys.exec_prefix = settings["prefix"]
    sys.path_importer_cache.clear()
    sys.argv[:] = [""]
    streams: Any = (sys.stdout, sys.stderr)
    for stream in streams:  # print() reaches a watcher at once
        stream.reconfigure(line_buffering=True, errors="backslashreplace")
    _add_exits()
    os.chdir(settings["cwd"])
    preload = settings["preload"]
    if preload:
        for name in CALCULATION_THREADS:  # numpy, for example, starts them on import
            os.environ.setdefault(name, "1")
        shared = _shared_mappings()
    for name in preload:
        try:
            __import__(name)
        except BaseException as error:
            raise Refused(f"preload: {name}: {describe(error)}") from error
        _refuse_threads(name)
        _refuse_shared_memory(name, shared)


def _add_exits() -> None:
    """Define exit() and quit(), which the site module would: this interpreter runs without it."""
    import _sitebuiltins

    for name in ("exit", "quit"):
        setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D"))


def _refuse_threads(module: str) -> None:
    count = len(os.listdir("/proc/self/task"))
    if count == 1:
        return
    threading = sys.modules.get("threading")
    known = threading.enumerate() if threading is not None else []
    names = sorted(one.name for one in known if one.native_id != os.getpid())
    raise Refused(
        f"preload: {module}: starts {count - 1} thread{'s' if count > 2 else ''} "
        f"({', '.join(names[:10]) or 'not of Python'}) when it is imported, "
        "which a fork would not have; import it in the function instead"
    )


def _read_file(path: str) -> list[bytes]:
    with open(path, "rb", buffering=0) as file:
        return file.read().splitlines()


def _shared_mappings() -> set[bytes]:
    return {line for line in _read_file("/proc/self/maps") if line.split()[1].endswith(b"s")}


def _refuse_shared_memory(module: str, before: set[bytes]) -> None:
    """Refuse writable shared mappings that forks inherit. /proc/self/smaps is slow, and is read
    only if there is a new shared mapping of any kind."""
    if _shared_mappings() <= before:
        return
    mapping = b""
    for line in _read_file("/proc/self/smaps"):
        name, *flags = line.split()
        if not name.endswith(b":"):
            mapping = line
        if name == b"VmFlags:" and b"sh" in flags and b"dc" not in flags:
            place = os.fsdecode(mapping.split(None, 5)[-1])
            raise Refused(
                f"preload: {module}: makes shared memory ({place}) when it is imported, "
                "in which calls would see each other; import it in the function instead"
            )


def freeze() -> None:
    """Exclude all present objects from garbage collection, so that forks of the template do not
    copy their pages."""
    import gc

    gc.collect()
    gc.freeze()


# ---- random numbers ----


def _seed(generator: Any) -> None:
    sys.modules["random"].Random.seed(generator)


def _seed_source(source: Any) -> None:
    """A bit generator of numpy. Setting its state would leave the seeds that it gives to others."""
    type(source).__init__(source)


def _seed_user(user: Any) -> None:
    """A RandomState of numpy keeps the second of two normal numbers; its source is seeded before.
    """
    if hasattr(user, "set_state"):
        user.set_state(user._bit_generator.state)


GENERATORS = {
    ("random", "Random"): _seed,
    ("numpy.random", "BitGenerator"): _seed_source,
    ("numpy.random", "Generator"): _seed_user,
    ("numpy.random", "RandomState"): _seed_user,
}
"""The base classes of random generators, and how one is seeded again."""


def kinds_of_generators() -> dict[type, Callable[[Any], None]]:
    """GENERATORS of the modules that are loaded."""
    found = [(getattr(sys.modules.get(module), name, None), seed)
             for (module, name), seed in GENERATORS.items()]  # fmt: skip
    return {kind: seed for kind, seed in found if kind is not None}


def find_generators() -> list[tuple[Callable[[Any], None], Any]]:
    """The generators that exist, each with the function that seeds it again."""
    import gc

    kinds = kinds_of_generators()
    found = [thing for thing in gc.get_objects() if issubclass(type(thing), tuple(kinds))]
    return [
        (seed, thing)
        for kind, seed in kinds.items()  # sources before their users
        for thing in found
        if issubclass(type(thing), kind)
    ]


# ---- a call ----


def run_job(job: Job, channel: int) -> int:
    """Call the function of a job and send the result; returns the exit code of the process.

    Output of the function goes to the streams of the process. Its exceptions are not raised here.
    The process ends afterwards: threads of the function are not joined, and atexit handlers, which
    may be the template's, are not run.
    """
    process = os.getpid()
    try:
        message, code = _call(job)
    except BaseException as error:  # its exception raised another one while it was described
        text = f"{type(error).__name__}, while its result was looked at"
        message, code = _error("raised", text), RAISED
    if os.getpid() != process:
        return 0  # a fork made by the function returned here too; only its parent sends a result
    try:
        _flush()
        _send(channel, message)
        os.close(channel)  # the reader of the result need not wait for the end of this process
        os.sched_yield()  # lets the caller run on this CPU
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # the caller closed the channel, and knows why
            os.write(2, f"brig: the result cannot be sent: {error}\n".encode())
        return SENT_NOTHING
    return code


def _call(job: Job) -> tuple[bytes, int]:
    try:
        function, args, keywords = load(job) if type(job) is bytes else job
        if type(function) is tuple:
            function = getattr(load_module(function[0]), function[1])
    except BaseException as error:
        text = f"the function cannot be rebuilt in the guest: {describe(error)}"
        return _error("unsendable", text, "", _trace(error)), RAISED
    try:
        value = _awaited(function(*args, **keywords))
    except SystemExit as error:
        text = f"the function called sys.exit({_shown(error.code)})"
        return _error("exited", text, "SystemExit"), RAISED
    except BaseException as error:
        return _error("raised", describe(error), type(error).__name__, _trace(error)), RAISED
    try:
        return _success(value), 0
    except _value.NotSendable as error:
        return _error("unserialisable", str(error), type(value).__name__), RAISED
    except BaseException as error:
        text = f"the result cannot be looked at: {describe(error)}"
        return _error("unserialisable", text, type(value).__name__), RAISED


def call_each(function: Callable[..., Any], elements: list[tuple[Any, ...]]) -> list[Any]:
    """A call for several elements (Executor.map)."""
    return [_awaited(function(*element)) for element in elements]


def call_prepared(
    initializer: Callable[..., Any],
    initargs: tuple[Any, ...],
    function: Callable[..., Any],
    /,
    *args: Any,
    **keywords: Any,
) -> Any:
    """A call after the initializer of its Executor."""
    _awaited(initializer(*initargs))
    return function(*args, **keywords)


def _awaited(value: Any) -> Any:
    return _await(value) if hasattr(type(value), "__await__") else value


def _await(value: Any) -> Any:
    import asyncio

    async def wait() -> Any:
        return await value

    return asyncio.run(wait())


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # closed or replaced by the function
            pass


# ---- envelopes ----


def _success(value: Any) -> bytes:
    plain = plain_answer(SUCCESS, value)
    if plain is not None:
        return plain
    memory = _Memory()
    text = SUCCESS + _value.encode(value, memory.write) + "}"
    memory.seal()
    return _frame(text.encode())


class _Memory:
    """The memory file of the call (brig_template.h): takes large buffers of its value."""

    def __init__(self) -> None:
        self._size = -1  # until it is looked for

    def write(self, buffer: memoryview) -> int:
        """Returns the offset, or -1 if there is no such file."""
        if self._size < 0:
            self._size = 0 if self._is_there() else -2
        if self._size < 0 or not buffer.contiguous:
            return -1
        view, place = buffer.cast("B"), self._size
        while self._size < place + view.nbytes:
            self._size += os.write(MEMORY, view[self._size - place :])
        return place

    def seal(self) -> None:
        """From here on nobody can change it: the caller relies on that."""
        if self._size > 0:
            import fcntl

            seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
            fcntl.fcntl(MEMORY, fcntl.F_ADD_SEALS, seals | fcntl.F_SEAL_SEAL)

    def _is_there(self) -> bool:
        import fcntl

        try:
            seals = fcntl.fcntl(MEMORY, fcntl.F_GET_SEALS)
            return seals in (0, SEAL_EXEC) and os.fstat(MEMORY).st_size == 0
        except OSError:  # closed, or another file
            return False


def _error(kind: str, text: str, name: str = "", trace: str = "") -> bytes:
    metadata = {"kind": kind, "type": _cut(name), "traceback": _cut(trace)}
    envelope = {"status": "error", "error": _cut(text), "metadata": metadata}
    return _frame(_value.encode(envelope).encode())


def _frame(envelope: bytes) -> bytes:
    return str(len(envelope)).encode() + b"\n" + envelope


def _cut(text: str) -> str:
    text = text if len(text) <= TEXT_MAX else text[:TEXT_MAX] + CUT
    return text.encode(errors="backslashreplace").decode()


def _send(channel: int, message: bytes) -> None:
    sent = os.write(channel, message)
    while sent < len(message):
        sent += os.write(channel, memoryview(message)[sent:])


def describe(error: BaseException) -> str:
    """An exception in one line, even if its __str__ raises."""
    name = type(error).__name__
    try:
        text = str(error)
    except BaseException as second:  # its __str__ raises
        return f"{name}, whose message cannot be shown ({type(second).__name__})"
    return f"{name}: {text}" if text else name


def _shown(value: object) -> str:
    try:
        return "" if value is None else repr(value)
    except BaseException as error:
        return f"a {type(value).__name__} that cannot be shown ({type(error).__name__})"


def _trace(error: BaseException) -> str:
    """The traceback, starting at the function; empty if it cannot be formatted."""
    try:
        import traceback

        first = error.__traceback__
        while first is not None and first.tb_frame.f_globals is globals():
            first = first.tb_next
        return "".join(traceback.format_exception(type(error), error, first))[-TEXT_MAX:]
    except BaseException:
        return ""


# ---- tools ----


class Made:
    """Stands for an instance in the arguments of a tool, which is made here: the program's own
    classes may run code of the program. `method` is a method of the class that makes it of
    `values`; without it, they are the keywords of the class itself."""

    def __init__(self, kind: Any, method: str | None, values: Any) -> None:
        self.kind, self.method, self.values = kind, method, values

    def make(self) -> Any:
        values = _made(self.values)
        return self.kind(**values) if self.method is None else getattr(self.kind, self.method)(values)


def _made(value: Any) -> Any:
    if isinstance(value, Made):
        return value.make()
    if type(value) is dict:
        return {name: _made(one) for name, one in value.items()}
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(map(_made, value))
    return value


def call_tool(function: Callable[..., Any], keywords: dict[str, Any]) -> Any:
    """Call a tool whose arguments contain instances to be made."""
    return function(**_made(keywords))


# ---- what a job is made of ----


class _Reader(Unpickler):  # type: ignore[misc]
    """Maps brig._guest to this module, which is imported here under another name."""

    def find_class(self, module: str, name: str, /) -> Any:
        if module == "brig._guest":
            return globals()[name]
        return super().find_class(module, name)


def load(job: bytes) -> Any:
    """Unpickle a job: (function, args, keywords)."""
    import io

    if not job.startswith(HEAD):
        head = job[: len(HEAD) + 20].partition(b"\n")[0].decode(errors="replace")
        raise ValueError(f"{head!r} is not for this interpreter, {HEAD.decode().strip()!r}")
    file = io.BytesIO(job)
    file.seek(len(HEAD))
    args, keywords, _, function = _Reader(file).load()
    return function, args, keywords


def load_module(name: str) -> Any:
    __import__(name)
    return sys.modules[name]


def find_attribute(thing: Any, path: str) -> Any:
    for name in path.split("."):
        thing = getattr(thing, name, None)
    return thing


def load_attribute(module: str, path: str) -> Any:
    return find_attribute(load_module(module), path)


def load_code(data: bytes) -> types.CodeType:
    code = marshal.loads(data)
    assert isinstance(code, types.CodeType)
    return code


def make_cell() -> types.CellType:
    return types.CellType()


def make_function(
    code: types.CodeType,
    space: dict[str, Any],
    name: str,
    closure: tuple[types.CellType, ...] | None,
) -> types.FunctionType:
    """A function without the objects it refers to, so that they may refer to the function."""
    space.setdefault("__builtins__", builtins)
    return types.FunctionType(code, space, name, None, closure)


def fill_function(function: types.FunctionType, state: dict[str, Any]) -> None:
    del state["context"], state["end"]
    for name in state.pop("imports"):
        __import__(name)
    function.__globals__.update(state.pop("globals"))
    for cell, content in state.pop("cells"):
        cell.cell_contents = content
    function.__dict__.update(state.pop("dict"))
    for name, value in state.items():
        setattr(function, name, value)


def make_class(
    meta: Callable[..., Any], name: str, bases: tuple[type, ...], first: dict[str, Any]
) -> type:
    """A class without its methods, so that they may refer to the class."""
    made = types.new_class(name, bases, {"metaclass": meta}, lambda body: body.update(first))
    assert isinstance(made, type)
    return made


def make_enum(
    meta: Any,
    name: str,
    bases: tuple[type, ...],
    members: list[tuple[str, Any]],
    first: dict[str, Any],
) -> Any:
    body = meta.__prepare__(name, bases)
    for key, value in [*first.items(), *members]:
        body[key] = value
    return meta(name, bases, body)


def fill_attributes(thing: Any, attributes: dict[str, Any]) -> None:
    for name, value in attributes.items():
        setattr(thing, name, value)


def fill_class(made: type, state: tuple[Any, dict[str, Any], Any]) -> None:
    fill_attributes(made, state[1])
    if hasattr(made, "__abstractmethods__"):
        import abc

        abc.update_abstractmethods(made)


def make_method(function: Callable[..., Any], thing: Any) -> Any:
    return types.MethodType(function, thing)


def make_proxy(mapping: dict[Any, Any]) -> Any:
    return types.MappingProxyType(mapping)


def make_type_variable(name: str, constraints: tuple[Any, ...]) -> Any:
    """Without its bound, which only type checkers use."""
    import typing

    return typing.TypeVar(name, *constraints)


def make_cached(parameters: dict[str, Any], function: Callable[..., Any]) -> Any:
    import functools

    return functools.lru_cache(**parameters)(function)


# ---- a single call ----


def serve_once() -> None:
    """Without a template: read settings and one job from stdin, and call its function."""
    import _serve  # type: ignore[import]

    with open(0, "rb", closefd=False) as file:
        settings = marshal.load(file)
        job = file.read()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    channel = int(os.environ.pop("BRIG_RESULT_FD"))
    prepare(settings)
    os._exit(run_job(_serve.load(HEAD_PLAIN, job), channel))


# ---- the template ----


def serve() -> None:
    """The template: read settings from stdin, get ready, and fork for each call."""
    import _serve

    global plain_answer
    plain_answer = _serve.plain_answer
    socket = int(os.environ.pop("BRIG_TEMPLATE_FD"))
    expected = dict(os.environb)  # the environment of most calls
    channel = int(os.environ.pop("BRIG_RESULT_FD"))
    settings = _read_settings()
    try:
        prepare(settings)
    except Refused as error:
        _send(channel, _error("template", str(error), "", _trace(error.__cause__ or error)))
        os._exit(RAISED)

    generators = find_generators()

    def ready() -> None:
        """Runs in a fork before its job arrives: copies pages of the template that a call needs
        anyway."""
        os.chdir(settings["cwd"])
        for seed, generator in generators:  # all forks would draw the same numbers
            seed(generator)
        for trial in settings["trials"]:
            run_job(_serve.load(HEAD_PLAIN, trial), os.open(os.devnull, os.O_WRONLY))

    # The interpreter specializes code while it runs, which writes to the code. Rehearse until it
    # has done so: otherwise each fork would do it again, and copy the pages.
    for _ in range(REHEARSALS):
        _serve.rehearse()
        ready()
    as_expected = [b"%b=%b" % variable for variable in expected.items()]
    channel = _take_environment(expected)
    freeze()
    _serve.serve(socket, ready, run_job, HEAD_PLAIN, as_expected, channel, _take_words)


def _take_words(environment: list[bytes]) -> int:
    return _take_environment(dict(word.partition(b"=")[::2] for word in environment))


def _take_environment(wanted: dict[bytes, bytes]) -> int:
    """Replace the environment, and return the file descriptor of the result channel, which is
    removed from it. Only differences are written, because each one calls the C library."""
    there = os.environb
    channel = int(wanted.pop(b"BRIG_RESULT_FD"))
    for name in [name for name in there if name not in wanted]:
        del there[name]
    for name, value in wanted.items():
        if there.get(name) != value:
            there[name] = value
    return channel


def _read_settings() -> dict[str, Any]:
    with open(0, "rb", closefd=False) as file:
        return marshal.loads(file.read())  # type: ignore[no-any-return]
