# SPDX-License-Identifier: MIT
"""brig started by an ordinary user: without cgroups, and in cgroups that were delegated to it."""
import contextlib
import ctypes
import os
import re
import shutil
import signal
import tempfile
import uuid

import pytest
from conftest import (BRIG, CONFINED, IS_ROOT, PYTHON, PYTHON_TIME, SHELL_TIME, SLOW, STUBBORN, Brig, children_of,
                      clean_up, finish, has_cgroup, init_of, is_alive, message, needs_confine, state_of, wait_until)

# As root, the tests become this user; an ordinary user is one already.
USER, GROUP = (65534, 65534) if IS_ROOT else (os.geteuid(), os.getegid())
DROP = ["setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups"] if IS_ROOT else []


class UserBrig(Brig):
    """brig as that user, in a directory that is theirs."""

    def __init__(self, directory):
        super().__init__(directory)
        self.binary = os.path.join(directory, "brig")
        self.enter = None  # to be called before it is executed

    def start(self, *args, before=(), **kw):
        return super().start(*args, before=[*before, *DROP], preexec_fn=self.enter, **kw)


@pytest.fixture
def user():
    """The directories of pytest are root's alone: this one can be entered by everybody."""
    if not IS_ROOT and has_cgroup():
        pytest.skip("optional: needs an ordinary user without a cgroup")
    with tempfile.TemporaryDirectory(prefix="brig-user-") as directory:
        shutil.copy(BRIG, os.path.join(directory, "brig"))
        os.chown(directory, USER, GROUP)
        os.chmod(directory, 0o755)
        user = UserBrig(directory)
        yield user
        user.assert_nothing_is_left()


# ---- without cgroups -------------------------------------------------------------------------

def test_user_is_told_what_is_missing(user):
    result = user.result("--", "true")
    isolation = result["isolation"]
    assert (result["status"], result["exit_code"]) == ("exited", 0)
    assert "cgroup" in isolation["degraded"]["cpus"]
    assert "sampling" in isolation["layers"]["memory"]
    assert "sampling" in isolation["layers"]["pids"]
    assert result["limits"]["cpus"] is None, "a limit that does not hold is none"


@pytest.mark.root("looks at the descriptors of init")
def test_user_init_does_not_hold_stdin(user):
    """What brig was given to read is not for anybody in the run, unless it is asked for."""
    with open(os.path.join(user.tmp, "input"), "w+b") as file:
        process = user.start("--", "sh", "-c", "echo started; sleep 30", stdin=file)
        assert process.stdout.readline() == b"started\n"
        init = init_of(process)
        held = [os.readlink(f"/proc/{init}/fd/{fd}") for fd in os.listdir(f"/proc/{init}/fd")]
        assert file.name not in held
    process.terminate()
    finish(process)


def test_user_is_told_what_is_missing_live(user):
    text = message(user.run("-v", "--", "true"))
    assert "not enforced" in text and "cpus" in text


@needs_confine
def test_user_is_told_which_namespace_cannot_be_made(user):
    done = user.run("--", "touch", "marker", before=CONFINED)
    assert done.returncode == 125
    assert "cannot make a user namespace" in message(done) and "--isolation auto" in message(done)
    assert not os.path.exists(os.path.join(user.tmp, "marker"))


@pytest.mark.parametrize("options", [["--cpus", "2"], ["--cpus", "0.5"], ["--require", "cpus"]])
def test_user_asks_for_cpus(user, options):
    """Asked for by name and not possible: refused, with the way to get it."""
    done = user.run(*options, "--", "touch", "marker")
    assert done.returncode == 125
    assert "cpus" in message(done) and "cgroup" in message(done)
    assert not os.path.exists(os.path.join(user.tmp, "marker"))


def test_user_asks_for_low_priority(user):
    done = user.run("--cpu-priority", "low", "--", "touch", "marker")
    assert done.returncode == 125
    assert 'cpu_priority: "low" needs a cgroup' in message(done)
    assert not os.path.exists(os.path.join(user.tmp, "marker"))
    assert user.run("--cpu-priority", "normal", "--", "true").returncode == 0


def test_user_does_not_ask_for_cpus(user):
    assert user.run("--cpus", "unlimited", "--", "true").returncode == 0


THREE = """
import os, time
for i in range(3):
    if os.fork() == 0:
        held = b"x" * (300 << 20)
        time.sleep(300)
for i in range(3):
    os.wait()
"""


@pytest.mark.limits
def test_case_17_memory_of_the_whole_tree_by_sampling(user):
    """Three processes of 300 MB under 512 MB, without a cgroup; the notes say how it was found."""
    result = user.result("-m", "512M", "--timeout", f"{60 * SLOW}s", "--", *PYTHON, THREE)
    assert result["status"] == "memory_limit"
    assert "sampling" in result["notes"]
    assert not user.survivors()


@pytest.mark.limits
def test_user_memory_under_the_limit(user):
    result = user.result("-m", "512M", "--", *PYTHON, "held = b'x' * (100 << 20)")
    assert (result["status"], result["exit_code"]) == ("exited", 0)
    assert 100 << 20 <= result["usage"]["memory_peak_bytes"] < 512 << 20


@pytest.mark.limits
def test_user_shared_pages_count_once(user):
    """Four processes that share 200 MB with their parent have not 1,000 MB."""
    code = ("import os, time\nheld = b'x' * (200 << 20)\n"
            "for i in range(4):\n    if os.fork() == 0:\n        time.sleep(1); os._exit(0)\n"
            "for i in range(4): os.wait()")
    result = user.result("-m", "500M", "--", *PYTHON, code)
    assert (result["status"], result["exit_code"]) == ("exited", 0)


@pytest.mark.limits
def test_user_crash_is_no_memory_verdict(user):
    result = user.result("--", "sh", "-c", "kill -SEGV $$")
    assert (result["status"], result["signal"]) == ("signaled", signal.SIGSEGV)


@pytest.mark.limits
def test_user_pids_by_sampling(user):
    result = user.result("--pids", "30", "--timeout", f"{60 * SLOW}s", "--", "sh", "-c",
                         "for i in $(seq 60); do sleep 300 & done; wait")
    assert result["status"] == "pids_limit"
    assert "sampling" in result["notes"] and "30" in result["notes"]
    assert not user.survivors()


# They end when the kernel refuses them a process more, most often before a sample sees how many there are.
QUICK_BOMBS = {
    "fork": ["sh", "-c", "bomb() { bomb | bomb; }; bomb"],
    "python": [*PYTHON, "import os, time\nfor i in range(200):\n  if os.fork() == 0: time.sleep(60)"],
    "threads": [*PYTHON, "import threading, time\n"
                "for i in range(200): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"],
}


@pytest.mark.limits
@pytest.mark.parametrize("kind", QUICK_BOMBS)
def test_review_d10_bomb_that_no_sample_saw(user, kind):
    """The verdict, or a guess that is called one: never a failure without a word."""
    for _ in range(6):
        result = user.result("--pids", "50", "--timeout", f"{60 * SLOW}s", "--", *QUICK_BOMBS[kind])
        if result["status"] == "exited" and result["exit_code"] != 0:
            assert "may have reached its limit of 50 processes" in (result["notes"] or ""), result
            assert "a guess" in result["notes"], result
        else:
            assert result["status"] == "pids_limit", result
    assert not user.survivors()


@pytest.mark.limits
def test_review_d10_failure_after_many_processes_is_no_guess(user):
    """One after another: that is no bomb. On a machine so busy that a sample is late, brig cannot know it."""
    notes = []
    while None not in notes:
        result = user.result("--pids", "50", "--", "sh", "-c",
                             "i=0; while [ $i -lt 400 ]; do /bin/true; i=$((i+1)); done; exit 3")
        assert (result["status"], result["exit_code"]) == ("exited", 3), result
        notes.append(result["notes"])
        assert len(notes) < 10, notes


@pytest.mark.limits
def test_user_cpu_time_by_sampling(user):
    result = user.result("--cpu-time", "500ms", "--timeout", f"{60 * SLOW}s", "--", "sh", "-c",
                         "(while :; do :; done) & while :; do :; done")
    assert result["status"] == "cpu_limit"
    assert not user.survivors()


# Work that is done by one orphan after the other, none of which lives for long.
ORPHANS = """
import os, time
while True:
    read_end, write_end = os.pipe()
    if os.fork() == 0:
        if os.fork() == 0:
            while time.process_time() < 0.1:
                pass
            os.write(write_end, b"x")
        os._exit(0)
    os.wait()
    os.read(read_end, 1)
    os.close(read_end)
    os.close(write_end)
"""


@pytest.mark.limits
def test_user_cpu_time_of_orphans_counts(user):
    """No process of the run has used much when it is looked at, all of them together have."""
    result = user.result("--cpu-time", "1s", "--timeout", f"{10 * SLOW}s", "--", *PYTHON, ORPHANS)
    usage = result["usage"]
    assert result["status"] == "cpu_limit"
    assert 1 <= usage["cpu_user_seconds"] + usage["cpu_system_seconds"] < 2 * SLOW


# ---- the tree of a user ----------------------------------------------------------------------

def test_user_tree_after_normal_exit(user):
    process, pid = user.start_stubborn(rest="exit 3")
    assert finish(process).returncode == 3
    assert not is_alive(pid)
    assert not user.survivors()


def test_user_tree_after_timeout(user):
    result = user.result("--timeout", "300ms", "-k", "200ms", "--", "sh", "-c",
                         STUBBORN + "sleep 300")
    assert result["status"] == "timeout"
    assert result["usage"]["wall_seconds"] < 0.5 + 1 * SLOW
    assert not user.survivors()


def test_user_tree_after_cancel(user):
    process = user.start("-k", "200ms", "--", "sh", "-c", STUBBORN + "sleep 300")
    assert process.stdout.readline()
    process.terminate()
    assert finish(process).returncode == 128 + signal.SIGTERM
    assert not user.survivors()


def test_user_tree_after_supervisor_killed(user):
    process = user.start("--", "sh", "-c", STUBBORN + "sleep 300")
    assert process.stdout.readline()
    process.kill()
    finish(process)
    assert wait_until(lambda: not user.survivors(), 1)


# Four processes that are never the same for long: each forks and exits, so that a list of pids is
# old before it is used. They end by themselves when the directory is gone, or after a while.
HOPPERS = """
import os, sys, time
end = time.monotonic() + 60
def hop():
    while os.path.exists(sys.argv[1]) and time.monotonic() < end:
        if os.fork():
            os._exit(0)
    os._exit(0)
for i in range(4):
    if os.fork() == 0:
        hop()
time.sleep(float(sys.argv[2]))
"""


@pytest.mark.limits
@pytest.mark.parametrize("seconds, status", [(0.2, "exited"), (300, "timeout")])
def test_user_tree_that_forks_faster_than_it_is_listed(user, seconds, status):
    """Without a cgroup that holds it, brig has to stop it to catch it."""
    result = user.result("--timeout", f"{PYTHON_TIME}s", "-k", "100ms", "--", *PYTHON, HOPPERS,
                         user.binary, seconds)
    assert result["status"] == status
    assert not user.survivors()


@pytest.fixture
def shielded_tier(tier):
    """Both tiers, where the kernel can keep a guest without a pid namespace from signalling others
    of its user: landlock does so since its version 6."""
    create_ruleset, only_the_version = 444, 1
    if tier and ctypes.CDLL(None).syscall(create_ruleset, None, 0, only_the_version) < 6:
        pytest.skip("this kernel's landlock does not look at signals")
    return tier


@pytest.mark.parametrize("name", ["KILL", "STOP"])
def test_user_guest_signals_init(user, shielded_tier, name):
    """A guest of the same user as brig's init: it is not reached, and the result is exact."""
    process, pid = user.start_stubborn(rest=f"kill -{name} $PPID; echo $?; read x; exit 7",
                                       before=shielded_tier)
    assert process.stdout.readline() == b"1\n"
    init = init_of(process)
    assert wait_until(lambda: state_of(init) == "S"), "init is not waiting as it should"
    assert finish(process, 5, b"go\n").returncode == 7
    assert not is_alive(pid)
    assert not user.survivors()


@pytest.mark.parametrize("name", ["KILL", "STOP"])
def test_user_guest_signals_init_first_thing(user, shielded_tier, name):
    """Not even before brig has heard that it started; it ends at its timeout."""
    for _ in range(5):
        done = user.run("--timeout", f"{SHELL_TIME}s", "--", "sh", "-c",
                        f"kill -{name} $PPID; sleep 300", timeout=5, before=shielded_tier)
        assert done.returncode == 124
        assert not user.survivors()


def test_user_init_is_killed_from_outside(user, tier):
    """By its own user, outside of the cell, who may: nothing outlives the run by that, and the
    result does not claim to know how the guest ended."""
    process, pid = user.start_stubborn("--timeout", "20s", before=tier)
    init = init_of(process)
    os.kill(init, signal.SIGKILL)
    done = finish(process, 5)
    assert done.returncode == 125
    assert "init" in message(done)
    assert not is_alive(pid)
    assert not user.survivors()


def test_user_guest_cannot_look_into_init(user, tier):
    """Not its descriptors, not its memory: it could forge its own result."""
    guest = "ls /proc/$PPID/fd || cat /proc/$PPID/environ || head -c 1 /proc/$PPID/mem"
    done = user.run("--", "sh", "-c", guest, before=tier)
    assert done.returncode != 0
    assert done.stdout == b""
    assert len(re.findall(b"Permission denied|No such file", done.stderr)) == 3


def test_user_keeps_its_id(user):
    """And is nobody else in the cell: its own user is the only one there."""
    done = user.run("--", "sh", "-c", "id -u; id -g; id -G; id -un; cat /proc/self/uid_map")
    own, group = str(USER).encode(), str(GROUP).encode()
    assert done.stdout.split() == [own, group, group, b"brig", own, own, b"1"]


def test_user_as_root_of_a_user_namespace(user):
    """Root there, with no id but the user's own, as in a container without privileges: brig works
    as for the user, or says what it lacks."""
    process = Brig.start(user, "--json", "--", "true", before=[*DROP, "unshare", "-r"])
    result = user.result_of(process)
    if result["status"] == "error":
        assert process.returncode == 125
        assert "namespace" in result["notes"]
    else:
        assert result["exit_code"] == 0
        assert "user" in result["isolation"]["layers"] or "user" in result["isolation"]["degraded"]


def test_user_has_a_cell(user):
    isolation = user.result("--", "true")["isolation"]
    assert isolation["tier"] == "cell"
    assert set(isolation["degraded"]) == {"cgroup", "cpus"}


@pytest.mark.root("makes a pipe that the user may not open")
def test_user_output_through_a_pipe_of_root(user):
    """The user cannot open that pipe again, to have a way that does not wait: it works without."""
    done = user.run("--", "sh", "-c", "yes | head -c 1M")
    assert (done.returncode, len(done.stdout)) == (0, 1 << 20)


def test_user_files_belong_to_the_user(user):
    assert user.run("--", "touch", "file").returncode == 0
    assert os.stat(os.path.join(user.tmp, "file")).st_uid == USER


def test_user_workdir_that_cannot_be_entered(user):
    closed = os.path.join(user.tmp, "closed")
    os.mkdir(closed, 0o700 if IS_ROOT else 0)
    done = user.run("-w", closed, "--", "touch", os.path.join(user.tmp, "marker"))
    assert done.returncode == 125
    assert "workdir" in message(done) and closed in message(done)
    assert not os.path.exists(os.path.join(user.tmp, "marker"))


def test_user_command_that_may_not_be_executed(user):
    path = os.path.join(user.tmp, "secret")
    with open(path, "w", encoding="ascii") as script:
        script.write("#!/bin/sh\n")
    os.chmod(path, 0o700 if IS_ROOT else 0)
    done = user.run("--", path)
    assert done.returncode == 126
    assert path in message(done) and "permission" in message(done)


# ---- delegated cgroups -----------------------------------------------------------------------

def own_groups():
    """The directories of our own cgroup: {controllers: directory}, "" for v2."""
    found = {}
    with open("/proc/self/cgroup", encoding="ascii") as lines:
        for line in lines:
            _, names, path = line.rstrip("\n").split(":", 2)
            root = "/sys/fs/cgroup/" + names
            if os.path.exists(root + path + "/cgroup.procs"):
                found[names] = root + path
    return found


def delegated_directories(wanted):
    """Below which directories to delegate: one for v2, one for each of the wanted on v1."""
    own = own_groups()
    with contextlib.suppress(KeyError, OSError):
        with open(own[""] + "/cgroup.controllers", encoding="ascii") as controllers:
            if "memory" in controllers.read():
                return [own[""]]
    return [own[names] for names in own if set(names.split(",")) & set(wanted)]


class Delegation:
    """A cgroup of our own that belongs to the user."""

    def __init__(self, wanted):
        name = "brig-test-" + uuid.uuid4().hex[:12]
        self.directories = [os.path.join(parent, name) for parent in delegated_directories(wanted)]
        for directory in self.directories:
            os.mkdir(directory)
            os.chown(directory, USER, USER)
            for file in os.listdir(directory):
                os.chown(os.path.join(directory, file), USER, USER)

    def enter(self):
        """Move this process there; called between fork and exec."""
        for directory in self.directories:
            with open(os.path.join(directory, "cgroup.procs"), "w", encoding="ascii") as procs:
                procs.write("0")

    def remove(self):
        """Returns what brig left in it."""
        left = [os.path.join(path, name) for directory in self.directories
                for path, names, _ in os.walk(directory) for name in names]
        clean_up([], self.directories)
        return left


@pytest.fixture
def delegate(user):
    """delegate("memory", "pids", "cpu"): from here on the user's brig starts in such a group."""
    made = []

    def make(*wanted):
        made.append(Delegation(wanted))
        user.enter = made[0].enter
        return user

    yield make
    assert [delegation.remove() for delegation in made] == [[]] * len(made)


@pytest.fixture
def delegated(delegate):
    return delegate("memory", "pids", "cpu", "cpuacct")


@pytest.mark.limits
@pytest.mark.root("makes a cgroup and gives it to the user")
def test_delegated_limits_are_enforced_by_the_kernel(delegated):
    isolation = delegated.result("--require", "memory,pids,cpus", "--", "true")["isolation"]
    for name in ("memory", "pids", "cpus"):
        assert isolation["layers"][name].startswith("cgroup")
    assert "cpus" not in isolation["degraded"]


@pytest.mark.limits
@pytest.mark.root("makes a cgroup and gives it to the user")
def test_delegated_memory_of_the_whole_tree(delegated):
    result = delegated.result("-m", "512M", "--timeout", f"{60 * SLOW}s", "--", *PYTHON, THREE)
    assert result["status"] == "memory_limit"
    assert result["usage"]["memory_peak_bytes"] <= 512 << 20
    assert not delegated.survivors()


@pytest.mark.limits
@pytest.mark.root("makes a cgroup and gives it to the user")
def test_delegated_fork_bomb(delegated):
    result = delegated.result("--timeout", f"{60 * SLOW}s", "--", "bash", "-c",
                              "bomb() { bomb | bomb & }; bomb; sleep 300")
    assert result["status"] == "pids_limit"
    assert result["usage"]["wall_seconds"] < 2 * SLOW
    assert not delegated.survivors()


@pytest.mark.limits
@pytest.mark.root("makes a cgroup and gives it to the user")
def test_delegated_cpus(delegated):
    result = delegated.result("--cpus", "0.5", "--timeout", "2s", "--", "sh", "-c",
                              "while :; do :; done & while :; do :; done")
    usage = result["usage"]
    used = usage["cpu_user_seconds"] + usage["cpu_system_seconds"]
    assert used <= 0.5 * usage["wall_seconds"] * 1.1 + 0.1


@pytest.mark.limits
@pytest.mark.root("makes a cgroup and gives it to the user")
def test_delegated_tree_after_supervisor_killed(delegated):
    """init removes the group before it ends: there is nobody else in there to do it."""
    process = delegated.start("--", "sh", "-c", STUBBORN + "sleep 300")
    assert process.stdout.readline()
    assert children_of(process.pid)
    process.kill()
    finish(process)
    assert wait_until(lambda: not delegated.survivors() and not delegated.left_groups(), 1)


@pytest.mark.limits
@pytest.mark.root("makes a cgroup and gives it to the user")
def test_delegated_cpu_time_without_its_controller(delegate):
    """Memory, pids and cpu were delegated, the counter of processor time (v1: cpuacct) was not:
    the limit holds for the tree all the same, or the run is refused."""
    user = delegate("memory", "pids", "cpu")
    done = user.run("--cpu-time", "500ms", "--cpus", "unlimited", "--timeout", f"{10 * SLOW}s",
                    "--result", "result", "--", "sh", "-c",
                    "for i in 1 2 3 4; do (while :; do :; done) & done; wait")
    if done.returncode != 125:
        assert "cpu_limit" in message(done)
    else:
        assert "cpu" in message(done)


@pytest.mark.root("makes a cgroup and gives it to the user")
def test_delegated_without_cpu(delegate):
    """Only memory and pids: those are enforced, --cpus is refused."""
    user = delegate("memory", "pids")
    if len(delegated_directories(["memory", "pids"])) < 2:
        pytest.skip("v2 has one directory for all controllers")
    assert user.result("--", "true")["isolation"]["layers"]["memory"].startswith("cgroup")
    done = user.run("--cpus", "0.5", "--", "true")
    assert done.returncode == 125
    assert "cpus" in message(done)
