# SPDX-License-Identifier: MIT
"""brig.dropin.secuscan: each test cites its row of the request."""
import asyncio
import inspect
import os
import socket
import subprocess
import time
import venv

import pytest
from conftest import PACKAGE, system

from brig.dropin import secuscan
from brig.dropin.secuscan import (
    SandboxConfig,
    SandboxViolation,
    TaskExecutor,
    classify_memory_violation,
    resolve_sandbox_config,
    sandbox_execute,
    task_end,
)

HOG = ["python3", "-c", "bytearray(300 << 20)"]


@pytest.fixture
def execute(guest, monkeypatch):
    """sandbox_execute(), to its end; its processes are known by the test's token."""
    monkeypatch.setitem(secuscan.SETTINGS, "env", guest["env"])
    return lambda cmd, callback=None, **keys: asyncio.run(sandbox_execute(cmd, SandboxConfig(**keys), callback))


@pytest.fixture
def operator(monkeypatch):
    """Fresh settings, which the test may change."""
    monkeypatch.setattr(secuscan, "settings", secuscan.Settings())
    return secuscan.settings


# ---- sandbox_execute ----


def test_row_gives_stdout_stderr_exit_code_violation(execute):
    """await sandbox_execute(cmd, config, broadcast_callback=None) -> (stdout, stderr, exit_code, violation)"""
    assert execute(["sh", "-c", "echo out; echo err >&2; exit 3"]) == ("out\n", "err\n", 3, None)
    assert execute("echo $((6 * 7))") == ("42\n", "", 0, None)
    assert list(inspect.signature(sandbox_execute).parameters) == ["cmd", "config", "broadcast_callback"]


def test_row_violation_timeout_keeps_what_was_printed(execute):
    """violation "timeout" """
    stdout, _, code, violation = execute("echo begun; sleep 60", timeout_seconds=0.3)
    assert (stdout, violation) == ("begun\n", "timeout") and code != 0


def test_row_violation_memory_limit(execute):
    """violation "memory_limit": by the kernel's count"""
    assert execute(HOG, max_memory_mb=64)[3] == "memory_limit"
    assert execute("python3 -c 'bytearray(300 << 20)'; exit 0", max_memory_mb=64)[3] == "memory_limit"


@pytest.mark.parametrize("cmd", ["kill -SEGV $$", "echo MemoryError >&2; exit 1", "exit 139"])
def test_row_crash_is_no_memory_limit(execute, cmd):
    """sandbox_execute itself goes by the kernel's count (CASE 18)"""
    assert execute(cmd)[3] is None


def test_row_violation_output_limit_one_budget_to_the_byte(execute):
    """violation "output_limit"; one budget for both streams, to the byte (CASE 10)"""
    stdout, stderr, code, violation = execute("yes & yes >&2", max_output_bytes=1000)
    assert violation == "output_limit" and len(stdout) + len(stderr) == 1000 and code != 0
    just = execute("head -c 600 /dev/zero; head -c 400 /dev/zero >&2", max_output_bytes=1000)
    assert (len(just[0]), len(just[1]), just[3]) == (600, 400, None)


def test_row_config_defaults():
    """SandboxConfig(timeout_seconds=120, max_memory_mb=512, max_output_bytes=5242880, allow_network=True)"""
    assert SandboxConfig() == SandboxConfig(
        timeout_seconds=120, max_memory_mb=512, max_output_bytes=5242880, allow_network=True)


def test_row_timeout_0_is_none(execute):
    """timeout 0 is none"""
    assert execute("sleep 0.3; echo there", timeout_seconds=0) == ("there\n", "", 0, None)


def test_row_allow_network_false_really_denies(execute):
    """allow_network=False really denies"""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        connect = ["python3", "-c", f"import socket; socket.create_connection({address}, 5)"]
        assert execute(connect, allow_network=True)[2] == 0
        assert execute(connect, allow_network=False)[2] == 1


def test_row_violation_is_an_exception_with_a_reason():
    """SandboxViolation is an exception with .reason"""
    with pytest.raises(SandboxViolation) as caught:
        raise SandboxViolation("timeout")
    assert caught.value.reason == "timeout" and str(caught.value) == "timeout"


def test_row_missing_command_gives_a_result(execute, tmp_path):
    """A missing command gives a result, not an exception"""
    stdout, stderr, code, violation = execute(["/no/such/scanner"])
    assert (stdout, code, violation) == ("", 127, None) and "/no/such/scanner" in stderr
    (tmp_path / "data").write_text("no program")
    assert execute([str(tmp_path / "data")])[2] == 126


# ---- the callback ----


def test_row_chunks_as_they_come(execute):
    """64 KiB chunks to await broadcast_callback(bytes, "stdout"|"stderr"), as they come"""
    got = []

    async def listen(data, stream):
        got.append((time.monotonic(), data, stream))

    stdout, stderr, *_ = execute("echo first; sleep 0.5; echo e >&2; head -c 1000000 /dev/zero", listen)
    assert b"".join(data for _, data, stream in got if stream == "stdout").decode() == stdout
    assert b"".join(data for _, data, stream in got if stream == "stderr").decode() == stderr == "e\n"
    assert got[0][1:] == (b"first\n", "stdout") and got[-1][0] - got[0][0] > 0.4
    assert all(type(data) is bytes and len(data) <= 65536 + 3 for _, data, _ in got)


def test_row_callback_that_raises_does_no_harm(execute):
    """a callback that raises does no harm: it is called for the next chunk, too"""
    calls = []

    async def fail(data, stream):
        calls.append(data)
        raise RuntimeError("no")

    assert execute("echo a; sleep 0.2; echo b", fail) == ("a\nb\n", "", 0, None)
    assert calls == [b"a\n", b"b\n"]


def test_row_callback_that_is_slow_does_no_harm(execute, monkeypatch):
    """a callback that is slow does no harm, nor one that hangs"""
    monkeypatch.setattr(secuscan, "LISTENER_GRACE", 0.1)

    async def hang(data, stream):
        await asyncio.sleep(300)

    began = time.monotonic()
    stdout, _, code, violation = execute("head -c 3000000 /dev/zero", hang, timeout_seconds=20)
    assert (len(stdout), code, violation) == (3000000, 0, None)
    assert time.monotonic() - began < 5 * system.SLOW


# ---- ending ----


def test_row_sigterm_grace_sigkill(execute, monkeypatch, alive):
    """SIGTERM, 3 s (SIGTERM_GRACE), SIGKILL, always reaped"""
    assert secuscan.SIGTERM_GRACE == 3
    stdout = execute("trap 'echo asked; exit' TERM; sleep 60 & wait", timeout_seconds=0.3)[0]
    assert stdout == "asked\n"
    monkeypatch.setattr(secuscan, "SIGTERM_GRACE", 0.3)
    began = time.monotonic()
    assert execute("trap '' TERM; setsid sleep 60 & while :; do sleep 1; done", timeout_seconds=0.2)[3] == "timeout"
    assert 0.45 < time.monotonic() - began < 3 * system.SLOW and alive() == 0
    assert not zombies()


def zombies():
    """Children of this process that nobody has waited for."""
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        return [pid for pid in file.read().split() if state(pid) == "Z"]


def state(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return None


@pytest.mark.parametrize("listens", [False, True])
def test_row_cancellation_leaves_no_orphan(guest, alive, monkeypatch, listens):
    """cancellation raises CancelledError, no orphan"""
    monkeypatch.setitem(secuscan.SETTINGS, "env", guest["env"])

    async def listen(data, stream):
        pass

    async def main():
        command = sandbox_execute("setsid sleep 60 & sleep 60", SandboxConfig(), listen if listens else None)
        task = asyncio.create_task(command)
        while alive() < 2:
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert alive() == 0

    asyncio.run(main())


# ---- limits ----


def test_row_classify_memory_violation():
    """classify_memory_violation(exit_code, stderr_text, rss_bytes, limit_bytes)"""
    assert classify_memory_violation(-11, "", 0, 0) and classify_memory_violation(139, "", 0, 0)
    assert classify_memory_violation(1, "x MemoryError: y", 0, 100)
    assert classify_memory_violation(1, "fork: Cannot allocate memory", 0, 100)
    assert classify_memory_violation(1, "", 95, 100) and not classify_memory_violation(1, "", 94, 100)
    assert not classify_memory_violation(0, "", 100, 100) and not classify_memory_violation(1, "", 0, 0)
    assert not classify_memory_violation(1, "", None, 100)


def test_row_settings_are_the_defaults(operator):
    """settings sandbox_timeout 600, sandbox_memory_mb 512, sandbox_max_output_bytes 5 MB, sandbox_allow_network"""
    for plugin in (None, {}, {"name": "x"}, {"sandbox": {}}, object()):
        assert resolve_sandbox_config(plugin) == SandboxConfig(600, 512, 5242880, True)


def test_row_plugin_overlays_field_by_field(operator):
    """what a plugin does not set keeps the setting"""
    assert resolve_sandbox_config({"max_memory_mb": 64}) == SandboxConfig(600, 64, 5242880, True)
    assert resolve_sandbox_config({"sandbox": {"timeout_seconds": 5}}) == SandboxConfig(5, 512, 5242880, True)
    operator.sandbox_timeout = 7

    class Plugin:
        sandbox = SandboxConfig(max_output_bytes=10, timeout_seconds=None, max_memory_mb=None, allow_network=False)

    assert resolve_sandbox_config(Plugin()) == SandboxConfig(7, 512, 10, False)


def test_row_operators_maximum_wins(operator):
    """the operator's maximum wins"""
    operator.maximum_timeout, operator.maximum_memory_mb, operator.maximum_output_bytes = 60, 256, 1000
    operator.sandbox_allow_network = False
    plugin = {"timeout_seconds": 900, "max_memory_mb": 4096, "max_output_bytes": 9999, "allow_network": True}
    assert resolve_sandbox_config(plugin) == SandboxConfig(60, 256, 1000, False)
    assert resolve_sandbox_config({"timeout_seconds": 0}).timeout_seconds == 60
    assert resolve_sandbox_config({"timeout_seconds": 5, "max_memory_mb": 8}) == SandboxConfig(5, 8, 1000, False)


# ---- tasks ----


def command(cmd, task_id="t-1", broadcast=None, **keys):
    return asyncio.run(TaskExecutor(broadcast)._execute_command(cmd, task_id, **keys))


def test_row_execute_command_joins_the_streams(execute, operator):
    """_execute_command: stderr after stdout and a newline, alone if stdout is empty"""
    assert command("echo err >&2; echo out; exit 2") == ("out\n\nerr\n", 2, None)
    assert command("echo err >&2") == ("err\n", 0, None)
    assert command("echo out") == ("out\n", 0, None)
    assert asyncio.run(secuscan._execute_command(["echo", "x"], "t-1")) == ("x\n", 0, None)
    parameters = inspect.signature(secuscan._execute_command).parameters
    assert list(parameters) == ["command", "task_id", "timeout"] and parameters["timeout"].default == 600


def test_row_execute_command_broadcasts(execute, operator):
    """chunks broadcast as (task_id, "output", text)"""
    got = []

    async def broadcast(*args):
        got.append(args)

    command("echo a; sleep 0.2; echo é >&2", broadcast=broadcast)
    assert got == [("t-1", "output", "a\n"), ("t-1", "output", "é\n")]


def test_row_execute_command_redacts_then_stores(execute, operator, tmp_path):
    """output redacted, then stored under raw_output_dir; live, too (CASE 34)"""
    operator.raw_output_dir = tmp_path / "raw"
    live = []

    async def broadcast(task_id, kind, text):
        live.append(text)

    output, *_ = command("echo found password=hunter2secret", broadcast=broadcast)
    stored = tmp_path / "raw" / "t-1.txt"
    assert stored.read_text() == output and stored.stat().st_mode & 0o777 == 0o600
    assert "found" in output and "hunter2" not in output + "".join(live)
    with pytest.raises(ValueError, match="task_id"):
        command("true", task_id="../elsewhere")


def test_row_execute_command_timeout_none_takes_the_setting(execute, operator):
    """None takes the setting"""
    operator.sandbox_timeout = 0.3
    assert command("sleep 60", timeout=None)[2] == "timeout"
    assert command("sleep 0.5; echo done", timeout=20) == ("done\n", 0, None)


def test_row_execute_command_violations(execute, operator):
    """violation timeout | memory_limit | output_limit"""
    operator.sandbox_memory_mb, operator.sandbox_max_output_bytes = 64, 1000
    assert command("sleep 60", timeout=0.2)[2] == "timeout"
    assert command(HOG)[2] == "memory_limit"
    output, code, violation = command("yes")
    assert (len(output), violation) == (1000, "output_limit") and code != 0


@pytest.mark.parametrize("reason", ["timeout", "memory_limit", "output_limit"])
def test_row_end_state_of_a_task(reason):
    """A task's end state terminated:REASON, message "Sandbox violation: REASON" """
    assert task_end(-9, reason) == (f"terminated:{reason}", f"Sandbox violation: {reason}")
    assert task_end(0, None) == ("completed", None) and task_end(2, None)[0] == "failed"


# ---- the review ----


def test_review_n2_the_caller_s_interpreter_runs(tmp_path):
    """As the original's tests start it: [sys.executable, ...]"""
    directory = tmp_path / "venv"
    venv.create(directory, symlinks=True)
    (next(directory.glob("lib/python*/site-packages")) / "brig.pth").write_text(PACKAGE)
    (tmp_path / "work").mkdir()
    code = """
import asyncio, sys
from brig.dropin.secuscan import SandboxConfig, sandbox_execute
print(asyncio.run(sandbox_execute([sys.executable, "-c", "import sys; print(sys.prefix)"], SandboxConfig())))
print(asyncio.run(sandbox_execute(["sh", "-c", f"{sys.executable} -c 'import brig; print(7)'"], SandboxConfig())))
"""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([directory / "bin/python3", "-W", "error", "-c", code], cwd=tmp_path / "work", env=env, text=True,
                          capture_output=True, timeout=50, check=False)
    assert not done.stderr and done.stdout.splitlines()[0] == repr((f"{directory}\n", "", 0, None))
    assert "No module named" in done.stdout.splitlines()[1], "only the interpreter is shown"


def test_review_n3_resolve_takes_the_plugin_by_name(operator):
    assert resolve_sandbox_config() == resolve_sandbox_config(plugin_sandbox=None)
    assert resolve_sandbox_config(plugin_sandbox=SandboxConfig(timeout_seconds=9)).timeout_seconds == 9


def test_review_n3_str_of_a_violation_is_its_reason():
    assert str(SandboxViolation("timeout")) == "timeout" == SandboxViolation("timeout").reason


def test_review_n3_classified_at_95_percent_rounded_down():
    assert classify_memory_violation(1, "", 95, 101) and not classify_memory_violation(1, "", 94, 101)


class Process:
    """A process of asyncio that ends at a signal, or is gone already."""

    def __init__(self, ends_at):
        self.ends_at, self.calls, self.ended = ends_at, [], asyncio.Event()

    def _signal(self, name):
        self.calls.append(name)
        if self.ends_at == "gone":
            raise ProcessLookupError
        if name == self.ends_at:
            self.ended.set()

    def terminate(self):
        self._signal("terminate")

    def kill(self):
        self._signal("kill")

    async def wait(self):
        await self.ended.wait()


@pytest.mark.parametrize(("ends_at", "calls"), [
    ("terminate", ["terminate"]), ("kill", ["terminate", "kill"]), ("gone", ["terminate"])])
def test_review_n3_terminate_process(monkeypatch, ends_at, calls):
    monkeypatch.setattr(secuscan, "SIGTERM_GRACE", 0.05)

    async def main():
        process = Process(ends_at)
        await asyncio.wait_for(secuscan._terminate_process(process), 20)
        return process.calls
    assert asyncio.run(main()) == calls


def test_review_n3_preexec_fn_limits_memory():
    limit = secuscan._build_preexec_fn(SandboxConfig(max_memory_mb=512))
    done = subprocess.run(["sh", "-c", "ulimit -v"], preexec_fn=limit, capture_output=True, text=True, check=True)
    assert done.stdout == f"{512 * 1024}\n"


def test_review_n3_read_stream_keeps_one_budget():
    async def main():
        state = {"max_bytes": 150000, "total_bytes": 0, "limit_hit": False}
        buffers = [bytearray(), bytearray()]
        for buffer in buffers:
            stream = asyncio.StreamReader()
            stream.feed_data(b"x" * 100000)
            stream.feed_eof()
            await secuscan._read_stream(stream, buffer, state)
        return [len(buffer) for buffer in buffers], state
    assert asyncio.run(main()) == ([100000, 50000], {"max_bytes": 150000, "total_bytes": 150000, "limit_hit": True})


def test_review_n3_raw_sockets_need_a_capability(execute):
    """A guest has none, with any network: the scanner is told EPERM, as for an ordinary user"""
    code = "import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)"
    _, stderr, exit_code, _ = execute(["python3", "-c", code], allow_network=True)
    assert exit_code == 1 and "PermissionError" in stderr


def test_review_n1_config_has_the_methods_of_a_model():
    config = SandboxConfig.model_validate({"timeout_seconds": "5", "max_memory_mb": 64.0, "other": 1})
    assert config.model_dump() == {
        "timeout_seconds": 5, "max_memory_mb": 64, "max_output_bytes": 5242880, "allow_network": True}
    assert config.model_copy(update={"allow_network": False}).model_dump(include={"allow_network"}) == {"allow_network": False}
    assert SandboxConfig.model_validate_json(config.model_dump_json()) == config
    assert "timeout_seconds" not in SandboxConfig(timeout_seconds=None).model_dump(exclude_none=True)
    for bad in ({"timeout_seconds": "soon"}, {"max_memory_mb": 1.5}, {"allow_network": "perhaps"}, {"max_output_bytes": []}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            SandboxConfig(**bad)


ORIGINAL = """
import asyncio, importlib
from backend.secuscan.models import SandboxConfig, SandboxViolation
from backend.secuscan import config
from brig.dropin import secuscan

assert secuscan.SandboxConfig is SandboxConfig and secuscan.SandboxViolation is SandboxViolation
resolved = secuscan.resolve_sandbox_config()
assert type(resolved) is SandboxConfig and (resolved.timeout_seconds, resolved.max_memory_mb) == (42, 256)
class Other(config.Settings):
    sandbox_timeout = 7
config.settings = Other()
assert secuscan.resolve_sandbox_config(plugin_sandbox=None).timeout_seconds == 7
assert secuscan.resolve_sandbox_config(SandboxConfig(max_memory_mb=99)).max_memory_mb == 99
config.settings.sandbox_allow_network = False
assert not secuscan.resolve_sandbox_config(SandboxConfig()).allow_network
secuscan.settings.maximum_timeout = 3
assert secuscan.resolve_sandbox_config().timeout_seconds == 3
assert importlib.reload(secuscan).SandboxConfig is SandboxConfig
assert asyncio.run(secuscan.sandbox_execute(["echo", "hi"], SandboxConfig())) == ("hi\\n", "", 0, None)
"""


def test_review_n1_and_n3_an_installed_application_is_used(guest, script, tmp_path):
    package = tmp_path / "app" / "backend" / "secuscan"
    package.mkdir(parents=True)
    (package / "models.py").write_text("""
class SandboxConfig:
    def __init__(self, timeout_seconds=120, max_memory_mb=512, max_output_bytes=5242880, allow_network=True):
        self.__dict__.update(timeout_seconds=timeout_seconds, max_memory_mb=max_memory_mb,
                             max_output_bytes=max_output_bytes, allow_network=allow_network)

class SandboxViolation(Exception):
    pass
""")
    (package / "config.py").write_text("""
class Settings:
    sandbox_timeout, sandbox_memory_mb, sandbox_max_output_bytes, sandbox_allow_network = 42, 256, 5242880, True

settings = Settings()
""")
    done = script(ORIGINAL, more={"PYTHONPATH": f"{PACKAGE}:{tmp_path / 'app'}"}.items())
    assert done.returncode == 0, done.stderr
