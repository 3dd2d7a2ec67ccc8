"""The frame of the probes: each tries one thing of ATTACKS.md from inside a cell.

A probe is Python code that prints a line "HELD ..." or "ESCAPED ..." at its end. probe.check() first
runs it without brig, where it has to escape, so that a broken probe cannot pass; then in a cell,
where it has to be held. What must not be run without brig says so and why.

Every probe runs as root and as an ordinary user. At the end one line sums up.
"""
import contextlib
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
    """The frame of the system tests, under a name of its own: both folders have a conftest."""
    path = os.path.join(HERE, "..", "system", "conftest.py")
    spec = importlib.util.spec_from_file_location("brig_system_frame", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


frame = load_system_frame()
pytest_timeout_set_timer = frame.pytest_timeout_set_timer
pytest_runtest_teardown = frame.pytest_runtest_teardown
SLOW = frame.SLOW
SANITIZED = "asan" in frame.BRIG
PYTHON = "/usr/bin/python3"
NOBODY = 65534


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
        self.work = work  # the work folder, owned by the user
        self.prefix = [] if user == "root" else [
            "setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
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

    def cell(self, code, *options, **kw):
        """The result of the code in a cell."""
        return self.brig.result("-w", self.work, *options, "--", PYTHON, "-u", "-c", code,
                                before=self.prefix, **kw)

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
        if not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(120 * SLOW))


@pytest.fixture(params=["root", "user"])
def probe(request):
    """A probe in its own work folder; nothing of it may be left at the end."""
    folder = tempfile.mkdtemp(prefix="brig-probe-")
    work = os.path.join(folder, "work")
    os.mkdir(work)
    os.chmod(folder, 0o755)
    probe = Probe(request.param, work)
    # An ordinary user must be able to read brig itself, wherever it was built.
    probe.brig.binary = shutil.copy(frame.BRIG, os.path.join(folder, "brig"))
    if request.param == "user":
        os.chown(work, NOBODY, NOBODY)
    yield probe
    try:
        probe.brig.assert_nothing_is_left()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def pytest_terminal_summary(terminalreporter):
    passed = len(terminalreporter.stats.get("passed", []))
    failed = len(terminalreporter.stats.get("failed", [])) + len(terminalreporter.stats.get("error", []))
    terminalreporter.write_line(f"{passed + failed} probes: {passed} held, {failed} escaped")
