# SPDX-License-Identifier: MIT
"""Fixtures of the system tests: brig as a real process, and a check that no process or cgroup survives.

The binary is $BRIG (default: build/brig). Each test gets a token that is put into the guest's
environment; when the test ends, no process on the machine may carry it, and no cgroup of the brig
processes that the test started may be left.

Tests wait for events, never for time to pass. A time limit that is under test is multiplied by SLOW, and a test
that failed while the machine stood still is run again (tests/stalls.py).
"""
import contextlib
import functools
import json
import os
import platform
import signal
import subprocess
import sys
import time
import uuid

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BRIG = os.path.abspath(os.environ.get("BRIG", os.path.join(ROOT, "build", "brig")))

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from stalls import pytest_runtest_protocol  # noqa: E402, F401: a hook

# Should nohup have started us, or a shell in the background: brig leaves alone what is ignored.
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())

WARM = ["--warm"] if os.environ.get("BRIG_TEST_WARM") else []  # in a cell that was built ahead

# Emulated machines are slow: every limit on time in a test is multiplied by this.
SLOW = float(os.environ.get("BRIG_TEST_SLOW", "1"))

# Timeouts for guests that have something to do before: start a shell, or Python, and say something.
SHELL_TIME = 0.4 + 0.1 * SLOW
PYTHON_TIME = 0.7 + 0.3 * SLOW

# A guest in Python: isolated from the caller's settings, and quick to start.
PYTHON = [sys.executable, "-I", "-S", "-c"]

# Runs a command where no namespace can be made, as in many containers: brig refuses there, unless it was asked to
# run with less. As text and not as a file: an ordinary user cannot read a checkout that is in the home of root.
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "probes", "confine.py"), encoding="ascii") as source:
    CONFINED = [sys.executable, "-I", "-S", "-c", source.read()]
DEGRADED = [*CONFINED, "env", "BRIG_ISOLATION=auto"]
needs_confine = pytest.mark.skipif(platform.machine() != "x86_64",
                                   reason="the filter of confine.py is for x86-64")

# For what strace looks at: the sanitizer's search for leaks cannot be done there.
TRACED = {**os.environ, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}

# A shell guest that is hard to get rid of: a process in a session of its own, its parent gone,
# SIGTERM ignored by it and by the main process. Prints the pid of that process, as it is in the
# cell, as its first line: Brig.host_pid() knows who that is on the host.
STUBBORN = "trap '' TERM; setsid sh -c 'sleep 300 & echo $!'; "


# Before a command that mounts something: a mount namespace, which an ordinary user has in a user namespace only.
IS_ROOT = os.geteuid() == 0
MOUNTS = ["unshare", "-m"] if IS_ROOT else ["unshare", "-r", "-m"]

# How many inits of a run processes_with() finds: root alone may read the environment of one.
INITS_SEEN = 1 if IS_ROOT else 0


@functools.cache
def has_cgroup():
    """Does brig find a cgroup that it may write? As root it has to; an ordinary user has one where one was delegated."""
    return IS_ROOT or subprocess.run([BRIG, "run", "-q", "--isolation", "auto", "--require", "cgroup", "--", "true"], cwd="/", check=False,
                                     stdin=subprocess.DEVNULL, capture_output=True, timeout=60 * SLOW).returncode == 0


def skip_what_needs_more(item):
    """As root every test runs. As an ordinary user, one marked root("why") does not, nor one marked cgroup("why") where there is
    no cgroup."""
    for name, need, missing in (("root", "root", not IS_ROOT), ("cgroup", "a cgroup", not has_cgroup())):
        for mark in item.iter_markers(name):
            why, = mark.args
            if missing:
                item.add_marker(pytest.mark.skip(reason=f"optional: needs {need}: {why}"))


def pytest_collection_modifyitems(items):
    """No test hangs: each gets a limit of its own unless it has set one."""
    for item in items:
        skip_what_needs_more(item)
        if not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(90 * SLOW))


# Once its limit has come, a test gets this long to end, again and again; so does its clean-up.
LAST_SECONDS = 30 * SLOW


@pytest.hookimpl(hookwrapper=True, optionalhook=True)
def pytest_timeout_set_timer(settings):
    """The limit comes again: what a test does in its end, after the limit came, may hang as well."""
    yield
    if signal.getitimer(signal.ITIMER_REAL)[0]:
        signal.setitimer(signal.ITIMER_REAL, settings.timeout, LAST_SECONDS)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown():
    """pytest-timeout takes the limit away at the first failure: the clean-up has one of its own."""
    def too_long(*_):
        pytest.fail(f"the clean-up takes longer than {2 * LAST_SECONDS:.0f} s")
    signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, 2 * LAST_SECONDS, LAST_SECONDS)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


def state_of(pid):
    """The letter that the kernel gives the state of a process; X if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return stat.read().rsplit(b")", 1)[1].split()[0].decode()
    except OSError:
        return "X"


def is_alive(pid):
    """Does a process with this pid exist, zombies not counted?"""
    return state_of(pid) not in "ZX"


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
        return [int(child) for child in children.read().split()]


def init_of(process):
    """The init of the run of a brig process. For a moment it has another child, which made the
    namespaces."""
    def is_init(pid):
        with open(f"/proc/{pid}/comm", encoding="ascii") as comm:
            return comm.read() == "brig-init\n"
    init, = filter(is_init, children_of(process.pid))
    return init


def processes_with(token):
    """Pids of live processes whose environment or command line holds the token."""
    found = []
    needle = token.encode()
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as environ:
                text = environ.read()
            with open(f"/proc/{entry}/cmdline", "rb") as cmdline:
                text += cmdline.read()
        except OSError:
            continue
        if needle in text and is_alive(entry):
            found.append(int(entry))
    return found


def namespace_pids(pid):
    """The pids of a process in our pid namespace and all below it, the innermost last."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status", encoding="utf-8") as status:
        for line in status:
            if line.startswith("NSpid:"):
                return [int(number) for number in line.split()[1:]]
    return []


def start_time(pid):
    """When a process was started, in ticks since boot: with its pid, it names it for ever."""
    with open(f"/proc/{pid}/stat", "rb") as stat:
        return stat.read().rsplit(b")", 1)[1].split()[19].decode()


def groups_of(makers):
    """Folders of cgroups that these supervisors made, given as {pid: start time}."""

    def is_theirs(name):
        parts = name.split(".")
        if parts[0] == "brig" and len(parts) >= 5:  # brig.PIDNS.PID.START.RANDOM-N
            return makers.get(parts[2]) == parts[3]
        return parts[0] == "brig-supervisor" and parts[-1] in makers

    return [os.path.join(root, name) for root, directories, _ in os.walk("/sys/fs/cgroup")
            for name in directories if is_theirs(name)]


def wait_until(condition, seconds=5.0):
    """Wait for a condition, looking often; returns its last value."""
    end = time.monotonic() + seconds * SLOW
    while True:
        value = condition()
        if value or time.monotonic() > end:
            return value
        time.sleep(0.002)


def wait_for_file(path, seconds=20.0):
    assert wait_until(lambda: os.path.exists(path), seconds), f"{path} was not made"


def wait_for_end_of_init(process):
    """Wait until all of a run but its stopped supervisor has ended."""
    init = init_of(process)
    assert wait_until(lambda: not is_alive(init), 60), "init has not ended"


def message(done):
    """What brig said on stderr, as text; every message is one or more whole lines of its own."""
    text = done.stderr.decode()
    assert text.endswith("\n") or not text
    return text


class Brig:
    """Starts brig processes for one test and remembers them."""

    binary = BRIG

    def __init__(self, tmp_path):
        self.token = "brigtest-" + uuid.uuid4().hex
        self.tmp = tmp_path
        self.makers = {}  # of cgroups: the brig processes of this test

    def command(self, *args, verb="run"):
        options = ["-e", f"BRIG_TEST_TOKEN={self.token}", *WARM] if verb == "run" else []
        return [self.binary, verb, *options, *map(str, args)]

    def start(self, *args, verb="run", before=(), **kw):
        """A Popen of `brig VERB ARGS`; stdout and stderr are pipes unless said otherwise. `before`
        is a command that executes brig: setpriv, unshare, ... The current directory, and so the work
        directory, is the test's own: guests can leave something in it."""
        kw.setdefault("cwd", self.tmp)
        kw.setdefault("stdout", subprocess.PIPE)
        kw.setdefault("stderr", subprocess.PIPE)
        kw.setdefault("stdin", subprocess.DEVNULL)
        process = subprocess.Popen([*before, *self.command(*args, verb=verb)], **kw)
        self.remember(process)
        return process

    def remember(self, process):
        self.makers[str(process.pid)] = start_time(process.pid)

    def run(self, *args, verb="run", timeout=60, input=None, **kw):
        """CompletedProcess of `brig VERB ARGS`, bytes in and out."""
        if input is not None:
            kw["stdin"] = subprocess.PIPE
        return finish(self.start(*args, verb=verb, **kw), timeout, input)

    def result(self, *args, **kw):
        """The result object of `brig run --json ARGS`."""
        done = self.run("--json", *args, **kw)
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def result_of(self, process, timeout=60):
        """The result object of a `brig run --json` that was started before."""
        done = finish(process, timeout)
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def start_stopped(self, *args, **kw):
        """Start brig, and stop it (SIGSTOP) before its guest does anything: from there on the guest
        runs alone. There must be a "--" before the command."""
        at = args.index("--") + 1
        gate = self.tmp / "stopped"
        os.mkfifo(gate)
        guest = ["sh", "-c", f'read x <{gate}; exec "$@"', "sh", *args[at:]]
        process = self.start(*args[:at], *guest, **kw)
        with open(gate, "w", encoding="ascii") as way_in:  # opens when the guest has opened it
            process.send_signal(signal.SIGSTOP)
            assert wait_until(lambda: state_of(process.pid) == "T")
            way_in.write("go\n")
        return process

    def host_pid(self, pid):
        """The pid here of the process of this test that has the given one in its cell; it is
        waited for, since a process that executes has no environment to know it by."""
        found = wait_until(lambda: [here for here in self.survivors()
                                    if namespace_pids(here)[-1:] == [pid]])
        assert len(found) == 1, f"{len(found)} processes are {pid} in a cell"
        return found[0]

    def start_stubborn(self, *args, rest="sleep 300", **kw):
        """Start a STUBBORN guest that goes on with `rest`; gives brig's process and the pid, on the
        host, of what is hard to get rid of: it has been seen alive."""
        process = self.start("--stdin", "-", *args, "--", "sh", "-c", f"{STUBBORN} read x; {rest}",
                             stdin=subprocess.PIPE, **kw)
        line = process.stdout.readline()
        assert line, process.stderr.read()
        pid = self.host_pid(int(line))
        process.stdin.write(b"go\n")
        process.stdin.flush()
        return process, pid

    def survivors(self):
        return processes_with(self.token)

    def left_groups(self):
        return groups_of(self.makers)

    def assert_nothing_is_left(self):
        """At the end of a test: no process and no cgroup of its runs. What it left is removed, so
        that it does not disturb the others."""
        survivors, groups = self.survivors(), self.left_groups()
        clean_up(survivors, groups)
        assert not survivors, "processes survived the run"
        assert not groups, "cgroups survived the run"


def finish(process, timeout=60, input=None):
    """Wait for a process that was started before; it is killed if it takes too long."""
    try:
        out, err = process.communicate(input=input, timeout=timeout * SLOW)
    except subprocess.TimeoutExpired:
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):  # the first says more
            process.communicate(timeout=20 * SLOW)  # what it started may have its output still
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def clean_up(pids, groups):
    """After a test that failed: what it left must not disturb the others."""
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    if groups:
        wait_until(lambda: not any(map(is_alive, pids)), 1)
    for group in groups:
        for directory, _, _ in os.walk(group, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(directory)


@pytest.fixture
def brig(tmp_path):
    """brig for one test; when the test ends, nothing of its runs may be left."""
    brig = Brig(tmp_path)
    yield brig
    brig.assert_nothing_is_left()


@pytest.fixture
def aside(tmp_path_factory):
    """A directory that no guest sees. Without a cell, brig writes nothing of its own where the guest may write."""
    return tmp_path_factory.mktemp("aside")


@pytest.fixture(params=["cell", pytest.param("degraded", marks=needs_confine)])
def tier(request):
    """What to put before brig to have its guests in a cell, or where no namespace can be made:
    there a guest is not alone with init, and still has no power over it."""
    return [] if request.param == "cell" else DEGRADED


@pytest.fixture
def marker(tmp_path):
    """A file that a guest makes to say that it has started, or come to some point."""
    return tmp_path / "marker"


@pytest.fixture
def script(tmp_path):
    """Write an executable file and return its path: script("name", "#!/bin/sh\\n...")"""

    def write(name, text, mode=0o755):
        path = tmp_path / name
        path.write_text(text)
        path.chmod(mode)
        return str(path)

    return write
