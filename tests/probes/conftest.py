# SPDX-License-Identifier: MIT
"""Fixtures of the probes. Each probe tries one attack of ATTACKS.md from inside a cell.

A probe is Python code that prints a line "HELD ..." or "ESCAPED ..." at its end. probe.check() first
runs it without brig, where it must escape, so that a broken probe cannot pass; then in a cell, where it
must be held. A probe that must not be run without brig says so, with the reason.

Every probe runs as root and as an ordinary user; if an ordinary user starts the tests, only as that user. The last line
is a summary.
"""
import contextlib
import ctypes
import fcntl
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))


def load_system_frame():
    """The frame of the system tests, under a name of its own: both directories have a conftest."""
    path = os.path.join(HERE, "..", "system", "conftest.py")
    spec = importlib.util.spec_from_file_location("brig_system_frame", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


frame = load_system_frame()
pytest_runtest_protocol = frame.pytest_runtest_protocol
pytest_timeout_set_timer = frame.pytest_timeout_set_timer
pytest_runtest_teardown = frame.pytest_runtest_teardown
SLOW = frame.SLOW
CONFINED, DEGRADED = frame.CONFINED, frame.DEGRADED
SANITIZED = "asan" in frame.BRIG
PYTHON = "/usr/bin/python3"
# The ordinary user of these tests; as root, one to become.
NOBODY, NOBODY_GROUP = (65534, 65534) if frame.IS_ROOT else (os.geteuid(), os.getegid())

# Before brig, which then takes the kernel's landlock for that of Debian 12's own kernel, 6.1: version 2.
OLD_LANDLOCK = ["strace", "-qq", "-o", "/dev/null", "-e", "trace=landlock_create_ruleset",
                "-e", "inject=landlock_create_ruleset:retval=2"]


def suit_landlock(probe):
    """Without a cell, a guest in a directory of root's has root's id, which brig gives to nobody where landlock is older
    than version 6: there the directory is a user's."""
    version = ctypes.CDLL(None).syscall(444, None, 0, 1)  # landlock_create_ruleset
    if probe.user == "root" and 0 < version < 6:
        os.chown(probe.work, NOBODY, NOBODY_GROUP)


@contextlib.contextmanager
def alone(what):
    """Not while another test on this machine uses the same: what the kernel counts for all of a user."""
    with open(os.path.join(tempfile.gettempdir(), f"brig-probe-lock-{what}"), "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Probe:
    """One probe, run by one user."""

    def __init__(self, user, work):
        self.user = user
        self.work = work  # the work directory, owned by the user
        self.prefix = [] if user == "root" or not frame.IS_ROOT else [
            "setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY_GROUP), "--clear-groups"]
        self.brig = frame.Brig(work)

    def bare(self, code, timeout=60):
        """What the code says without brig. Its parent and its session are its own: some change what they
        find there, and must not find the test."""
        process = subprocess.Popen([*self.prefix, "/bin/sh", "-c", '"$@"; exit $?', "sh", PYTHON, "-u", "-c", code],
                                   cwd=self.work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True)
        try:
            out, err = process.communicate(timeout=timeout * SLOW)
        except BaseException:  # the limit of the test too
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=10 * SLOW)
            raise
        return (out + err).decode(errors="replace") or f"nothing, and ended with {process.returncode}"

    def cell(self, code, *options, before=(), **kw):
        """The result of the code in a cell."""
        return self.brig.result("-w", self.work, *options, "--", PYTHON, "-u", "-c", code,
                                before=[*self.prefix, *before], **kw)

    def check(self, code, *options, unsafe=None, **kw):
        """Escapes without brig (unless it is unsafe to try: say why), held in a cell."""
        if unsafe is None:
            said = self.bare(code)
            assert "ESCAPED" in said and "HELD" not in said, f"the probe does not work: {said}"
        result = self.cell(code, *options, **kw)
        said = (result["stdout"] or "") + (result["stderr"] or "")
        assert "HELD" in said and "ESCAPED" not in said, said
        assert result["isolation"]["tier"] == "cell", result["isolation"]
        assert result["isolation"]["warm"] == bool(frame.WARM), result["isolation"]
        return result


def unless_root(probe):
    """A reason not to try it without brig, for a user who could not do it there either."""
    return None if probe.user == "root" else "needs root to escape"


def is_meaningful(item):
    if item.get_closest_marker("not_emulated") and os.environ.get("BRIG_TEST_EMULATED"):
        return False
    return not item.get_closest_marker("root_only") or item.callspec.params.get("probe") != "user"


def pytest_collection_modifyitems(config, items):
    """What says nothing about an ordinary user is not run as one, nor what an emulator cannot do; BRIG_PROBE_PART=2/10 takes the
    second tenth; and no probe hangs: each gets a limit of its own unless it has set one."""
    part, parts = map(int, os.environ.get("BRIG_PROBE_PART", "1/1").split("/"))
    chosen = [item for item in items if is_meaningful(item)][part - 1::parts]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
    items[:] = chosen
    for item in items:
        frame.skip_what_needs_more(item)
        if not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(120 * SLOW))


@pytest.fixture(params=[pytest.param("root", marks=pytest.mark.root("the probe is root's")), "user"])
def probe(request):
    """A probe in its own work directory; nothing of it may be left at the end."""
    directory = tempfile.mkdtemp(prefix="brig-probe-")
    work = os.path.join(directory, "work")
    os.mkdir(work)
    os.chmod(directory, 0o755)
    probe = Probe(request.param, work)
    # An ordinary user must be able to read brig itself, wherever it was built.
    probe.brig.binary = shutil.copy(frame.BRIG, os.path.join(directory, "brig"))
    if request.param == "user" and frame.IS_ROOT:
        os.chown(work, NOBODY, NOBODY_GROUP)
    yield probe
    try:
        probe.brig.assert_nothing_is_left()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def pytest_terminal_summary(terminalreporter):
    passed = len(terminalreporter.stats.get("passed", []))
    failed = len(terminalreporter.stats.get("failed", []))
    broken = len(terminalreporter.stats.get("error", []))
    terminalreporter.write_line(f"{passed + failed} probes: {passed} held, {failed} escaped" + (f"; {broken} errors" if broken else ""))
