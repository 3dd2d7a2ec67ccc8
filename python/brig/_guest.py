"""In the guest: an interpreter that forks for each call of a function, and sends what that gives.

prepare() makes the interpreter like the caller's: its sys.path, the modules that are wanted at
once. run_job() rebuilds the function of a job, calls it and sends one envelope on the result
channel (docs/TOOLS.md). serve() is the template: prepare() and freeze() once, and run_and_exit() in
each child that it forks.

A job comes from the caller and is trusted; it is pickled. What goes back is JSON. This file and
_value.py are imported without the rest of the package, and import as little as they can: a call may
see which modules there are, and its copy of a page is memory. The functions that a job is made with (load_* make_*
fill_*) are named in it by _function.py.
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
    """As it was packed; or if it was a plain one, (function, args, keywords)."""

HEAD = b"brig-job 1 " + (sys.implementation.cache_tag or "none").encode() + b"\n"
HEAD_PLAIN = HEAD.replace(b"job", b"plain-job")
"""What a job begins with: code is only understood by the interpreter version that made it. A plain one
(_plain.h) has been read before it comes to run_job()."""

plain_answer: Callable[[str, Any], bytes | None] = lambda head, value: None
"""In a template, _serve's."""

SUCCESS = '{"status":"success","output":'
"""What the envelope of a value begins with; a brace ends it."""

TEXT_MAX = 64 << 10
"""Of the text of an exception, and of its traceback."""

CALCULATION_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")

RAISED, SENT_NOTHING = 1, 70

REHEARSALS = 20


class Refused(Exception):
    """prepare(): why this interpreter cannot be what was asked for."""


# ---- before the first call ----


def prepare(settings: dict[str, Any]) -> None:
    """Make the interpreter ready: `path` becomes sys.path, `cwd` is where it works, the modules of
    `preload` are imported. Refused if one cannot be, or if it started a thread: a fork would not
    have that, and whatever lock it held would be held for ever. Neither may it have memory that
    forks would share: what one call writes to it, the next would find."""
    sys.path[:] = settings["path"]
    sys.prefix, sys.exec_prefix = settings["prefix"]
    sys.path_importer_cache.clear()
    sys.argv[:] = [""]
    streams: Any = (sys.stdout, sys.stderr)
    for stream in streams:  # what is printed is seen at once by who watches
        stream.reconfigure(line_buffering=True, errors="backslashreplace")
    _add_exits()
    os.chdir(settings["cwd"])
    preload = settings["preload"]
    if preload:
        for name in CALCULATION_THREADS:  # of numpy, for one: started when it is imported
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
    """exit() and quit() come from the site module, which this interpreter does without."""
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
    """What is mapped as shared, and could be written to; unless forks do not get it. To ask for that
    takes long, and most modules map nothing that is shared even for reading."""
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
    """For a template, before it forks: what is there now is not looked at by the garbage collector
    again, so that children do not copy its pages."""
    import gc

    gc.collect()
    gc.freeze()


# ---- a call ----


def run_job(job: Job, channel: int) -> int:
    """Call the function of a job, and send what came of it; gives the exit code of the process.

    The function's prints go to the streams of the process. Nothing of it is raised here. The process
    ends with this: threads that the function left do not go on, and handlers of the interpreter's
    end, which may be a template's, are not run.
    """
    process = os.getpid()
    try:
        message, code = _call(job)
    except BaseException as error:  # of a function that raises while it is asked what it raised
        text = f"{type(error).__name__}, while its result was looked at"
        message, code = _error("raised", text), RAISED
    if os.getpid() != process:
        return 0  # a fork that the function made came back as well: the result is not its to send
    try:
        _flush()
        _send(channel, message)
        os.close(channel)  # nothing follows: who waits for it need not wait for our end
        os.sched_yield()  # nor for this processor
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # the caller does not take it, and knows why
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
        value = function(*args, **keywords)
        if hasattr(type(value), "__await__"):
            value = _await(value)
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


def _await(value: Any) -> Any:
    import asyncio

    async def wait() -> Any:
        return await value

    return asyncio.run(wait())


def _new_randomness() -> None:
    """Children of one template would all draw the same numbers."""
    for name in ("random", "numpy.random"):
        seed = getattr(sys.modules.get(name), "seed", None)
        if seed is not None:
            seed()


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # closed or replaced by the function: it is its own
            pass


# ---- envelopes ----


def _success(value: Any) -> bytes:
    return plain_answer(SUCCESS, value) or _frame((SUCCESS + _value.encode(value) + "}").encode())


def _error(kind: str, text: str, name: str = "", trace: str = "") -> bytes:
    metadata = {"kind": kind, "type": _cut(name), "traceback": _cut(trace)}
    envelope = {"status": "error", "error": _cut(text), "metadata": metadata}
    return _frame(_value.encode(envelope).encode())


def _frame(envelope: bytes) -> bytes:
    return str(len(envelope)).encode() + b"\n" + envelope


def _cut(text: str) -> str:
    text = text if len(text) <= TEXT_MAX else text[:TEXT_MAX] + " ..."
    return text.encode(errors="backslashreplace").decode()


def _send(channel: int, message: bytes) -> None:
    sent = os.write(channel, message)
    while sent < len(message):
        sent += os.write(channel, memoryview(message)[sent:])


def describe(error: BaseException) -> str:
    """An exception in one line, also one that cannot say what it is."""
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
    """The traceback from the function on; empty if it cannot be shown."""
    try:
        import traceback

        first = error.__traceback__
        while first is not None and first.tb_frame.f_globals is globals():
            first = first.tb_next
        return "".join(traceback.format_exception(type(error), error, first))[-TEXT_MAX:]
    except BaseException:
        return ""


# ---- what a job is made of ----


class _Reader(Unpickler):  # type: ignore[misc]
    """This module is not what its name says here, unless the package was imported as well."""

    def find_class(self, module: str, name: str, /) -> Any:
        if module == "brig._guest":
            return globals()[name]
        return super().find_class(module, name)


def load(job: bytes) -> Any:
    """(function, args, keywords) of a job."""
    import io

    if not job.startswith(HEAD):
        head = job[: len(HEAD) + 20].partition(b"\n")[0].decode(errors="replace")
        raise ValueError(f"{head!r} is not for this interpreter, {HEAD.decode().strip()!r}")
    file = io.BytesIO(job)
    file.seek(len(HEAD))
    return _Reader(file).load()


def load_module(name: str) -> Any:
    __import__(name)
    return sys.modules[name]


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
    """A function without what it refers to, so that this may refer to the function."""
    space.setdefault("__builtins__", builtins)
    return types.FunctionType(code, space, name, None, closure)


def fill_function(function: types.FunctionType, state: dict[str, Any]) -> None:
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
    """A class without its methods, so that these may refer to the class."""
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


def fill_class(made: type, attributes: dict[str, Any]) -> None:
    fill_attributes(made, attributes)
    if hasattr(made, "__abstractmethods__"):
        import abc

        abc.update_abstractmethods(made)


def make_method(function: Callable[..., Any], thing: Any) -> Any:
    return types.MethodType(function, thing)


def make_proxy(mapping: dict[Any, Any]) -> Any:
    return types.MappingProxyType(mapping)


def make_type_variable(name: str, constraints: tuple[Any, ...]) -> Any:
    """Its bound is for type checkers, who are not here."""
    import typing

    return typing.TypeVar(name, *constraints)


def make_cached(parameters: dict[str, Any], function: Callable[..., Any]) -> Any:
    import functools

    return functools.lru_cache(**parameters)(function)


# ---- the template ----


def serve() -> None:
    """A template: reads its settings from stdin, makes itself ready, and forks for each call."""
    import _serve  # type: ignore[import]

    global plain_answer
    plain_answer = _serve.plain_answer
    socket = int(os.environ.pop("BRIG_TEMPLATE_FD"))
    expected = dict(os.environb)  # by most calls
    channel = int(os.environ.pop("BRIG_RESULT_FD"))
    settings = _read_settings()
    try:
        prepare(settings)
    except Refused as error:
        _send(channel, _error("template", str(error), "", _trace(error.__cause__ or error)))
        os._exit(RAISED)

    def ready() -> None:
        """In a fork, which is not waited for yet: what a call copies of the template's pages, and
        can be copied before, is."""
        os.chdir(settings["cwd"])
        _new_randomness()
        for trial in settings["trials"]:
            run_job(_serve.load(HEAD_PLAIN, trial), os.open(os.devnull, os.O_WRONLY))

    # Until the interpreter has adapted the code of a call to it: it writes to the code when it does,
    # and each fork would do that again, in pages that it would have to copy for it.
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
    """Make it ours, but for the result channel, which is for us alone. Only what differs: each
    change is a call of the C library."""
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
