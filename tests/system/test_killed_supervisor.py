"""brig killed with SIGKILL, at any moment: its run dies with it, and the next run sweeps what is
left."""
import collections
import ctypes
import os
import random
import re
import shutil
import signal
import subprocess
import time

import pytest
from conftest import SLOW, STUBBORN, finish, init_of, is_alive, wait_until

GUEST = ["--", "sh", "-c", STUBBORN + "sleep 300"]

needs_strace = pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")


def assert_nothing_survives(brig, what):
    """Not a second later; an empty cgroup may be left for the next run to sweep."""
    assert wait_until(lambda: not brig.survivors(), 1), f"{what}: processes survived a second"
    assert brig.run("--", "true").returncode == 0
    assert not brig.left_groups(), f"{what}: the next run did not sweep"


@pytest.mark.parametrize("part", range(4))
def test_killed_at_random_moments(brig, part):
    """Four times fifty moments, 0 to 30 ms after the start."""
    seed = int(os.environ.get("BRIG_TEST_SEED", time.time_ns())) + part
    moments = random.Random(seed)
    for _ in range(50):
        process = brig.start(*GUEST)
        time.sleep(moments.uniform(0, 0.030 * SLOW))  # the moment is what is tested
        process.kill()
        finish(process)
    assert_nothing_survives(brig, f"BRIG_TEST_SEED={seed - part}")


def test_killed_while_running(brig):
    process = brig.start(*GUEST)
    pid = brig.host_pid(int(process.stdout.readline()))
    init = init_of(process)
    assert is_alive(pid) and is_alive(init) and len(brig.survivors()) >= 4
    process.kill()
    finish(process)
    assert_nothing_survives(brig, "killed while running")
    assert not is_alive(pid) and not is_alive(init)


def test_killed_while_the_guest_writes(brig):
    """The pipes break as well: a guest that ignores that is killed all the same."""
    process = brig.start("--", "sh", "-c",
                         "trap '' PIPE TERM; while :; do echo x; done 2>/dev/null")
    assert process.stdout.readline() == b"x\n"
    process.kill()
    finish(process)
    assert_nothing_survives(brig, "killed while the guest writes")


def test_killed_while_ending_the_run(brig):
    """After SIGTERM was sent, before SIGKILL would have been."""
    process = brig.start("-k", "60s", *GUEST)
    assert process.stdout.readline()
    process.terminate()
    wait_until(lambda: process.poll() is not None, 0.1 / SLOW)
    assert process.poll() is None
    process.kill()
    finish(process)
    assert_nothing_survives(brig, "killed while ending the run")


PIDFD_GETFD = 438


def copies_of_descriptors(pid):
    """All descriptors of another process, as a fork of it would have them."""
    pidfd = os.pidfd_open(pid)
    copies = [ctypes.CDLL(None).syscall(PIDFD_GETFD, pidfd, int(fd), 0)
              for fd in os.listdir(f"/proc/{pid}/fd")]
    os.close(pidfd)
    assert min(copies) >= 0
    return copies


def test_killed_while_somebody_holds_its_descriptors(brig):
    """The end of the socket to init is not all that init waits for: a program that embeds the
    library may have forked, and its child holds a copy."""
    process = brig.start(*GUEST)
    assert process.stdout.readline()
    copies = copies_of_descriptors(process.pid)
    process.kill()
    process.wait()
    survivors = not wait_until(lambda: not brig.survivors(), 1)
    for fd in copies:
        os.close(fd)
    finish(process)
    assert not survivors
    assert_nothing_survives(brig, "killed with descriptors held")


def killed_at(brig, call, number=1):
    """Run brig and have SIGKILL come with the N-th of this system call; false if it never made
    that many. strace -D leaves brig our own child, and only brig is traced. No pipes: strace may
    hold its end of them for longer than brig lives."""
    process = brig.start("--", "sh", "-c", STUBBORN, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL, before=[
                             "strace", "-D", "-o", "/dev/null", "-e", f"trace={call}", "-e",
                             f"inject={call}:signal=KILL:when={number}"])
    return process.wait(20 * SLOW) == -signal.SIGKILL


def system_calls(brig):
    """The calls that brig makes in one run: (name, which one of that name), in their order."""
    trace = brig.tmp / "trace"
    # The search for leaks of an instrumented binary does not work while it is traced.
    options = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
    done = brig.run("--", "true", before=["strace", "-o", trace],
                    env={**os.environ, "ASAN_OPTIONS": options})
    assert done.returncode == 0
    seen = collections.Counter()
    for name in re.findall(r"^(\w+)\(", trace.read_text(), re.MULTILINE):
        seen[name] += 1
        yield name, seen[name]


def leave_a_group(brig):
    """Have brig killed between making its groups and starting init, the last process it starts. A
    run of another test may sweep them before we see them: try again."""
    if "cgroup" not in brig.result("--", "true")["isolation"]["layers"]:
        pytest.skip("no cgroups here")
    last = max(number for name, number in system_calls(brig) if name == "clone3")
    for _ in range(20):
        assert killed_at(brig, "clone3", last)
        if brig.left_groups():
            return
    pytest.fail("no group was left to sweep")


@needs_strace
@pytest.mark.limits
def test_sweep_of_a_group_that_was_never_used(brig):
    leave_a_group(brig)
    assert_nothing_survives(brig, "before init")


@needs_strace
@pytest.mark.limits
def test_sweep_of_half_made_groups(brig):
    """Killed at the making of each of its groups: between hierarchies, on v1."""
    number = 1
    while killed_at(brig, "mkdirat", number):
        assert_nothing_survives(brig, f"mkdirat {number}")
        number += 1
    assert number > 1


@needs_strace
@pytest.mark.limits
def test_sweep_where_the_first_hierarchy_has_nothing_left(brig):
    """Who ends a group with all that is in it, supervisor and init, removes what is below it: on v1
    that is the part of one hierarchy."""
    leave_a_group(brig)
    groups = brig.left_groups()
    if len(groups) < 2:
        pytest.skip("one hierarchy has all controllers here")
    os.rmdir(next(group for group in groups if "/memory" in group))
    assert_nothing_survives(brig, "without its first group")


@needs_strace
@pytest.mark.stress
@pytest.mark.timeout(600 * SLOW)
def test_killed_at_every_system_call(brig):
    """One run for each call that brig makes, from its first to its last."""
    killed = 0
    for name, number in list(system_calls(brig)):
        killed += killed_at(brig, name, number)
        assert wait_until(lambda: not brig.survivors(), 1), f"survived {name} {number}"
    assert killed > 100
    assert_nothing_survives(brig, "every system call")


@pytest.mark.limits
def test_sweep_ends_what_outlived_supervisor_and_init(brig, tier):
    """Both are killed at once: in a cell the kernel ends the guest; where there is none, nobody is
    left to do it, and the next run does."""
    process = brig.start(*GUEST, before=tier)
    pid = brig.host_pid(int(process.stdout.readline()))
    if not brig.left_groups():
        pytest.skip("no cgroups here")
    init = init_of(process)
    process.send_signal(signal.SIGSTOP)
    os.kill(init, signal.SIGKILL)
    process.kill()
    finish(process)
    assert brig.run("--", "true").returncode == 0
    assert not is_alive(pid)
    assert not brig.survivors()
    assert not brig.left_groups()


@needs_strace
@pytest.mark.limits
def test_sweep_does_not_cost_the_caller_its_stdin(brig):
    """A run that finds something to sweep is like any other."""
    leave_a_group(brig)
    done = brig.run("--stdin", "-", "--", "cat", input=b"hello")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"hello", b"")


@pytest.mark.limits
def test_sweep_leaves_the_living_alone(brig):
    """Ten runs start and end beside one that goes on."""
    process = brig.start(*GUEST)
    pid = brig.host_pid(int(process.stdout.readline()))
    for _ in range(10):
        assert brig.run("--", "true").returncode == 0
    assert is_alive(pid) and process.poll() is None
    process.kill()
    finish(process)
    assert_nothing_survives(brig, "beside others")
