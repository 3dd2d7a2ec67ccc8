# SPDX-License-Identifier: MIT
"""brig killed with SIGKILL, at any moment: its run dies with it, and the next run sweeps what is
left."""
import collections
import contextlib
import ctypes
import os
import random
import re
import shutil
import signal
import subprocess
import time

import pytest
from conftest import INITS_SEEN, SLOW, STUBBORN, TRACED, finish, init_of, is_alive, message, wait_until

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
    assert is_alive(pid) and is_alive(init)
    # A process that executes a program just now has no environment to be known by.
    assert wait_until(lambda: len(brig.survivors()) >= 3 + INITS_SEEN, 5 * SLOW)
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
    done = brig.run("--", "true", before=["strace", "-o", trace], env=TRACED)
    assert done.returncode == 0
    seen = collections.Counter()
    for name in re.findall(r"^(\w+)\(", trace.read_text(), re.MULTILINE):
        seen[name] += 1
        yield name, seen[name]


def leave_a_group(brig, without=None):
    """Make groups as those of a run whose brig is dead, but for the hierarchy `without`. A run of another test may
    sweep them, or some of them, at any moment: try again until all were seen. Returns how many there were."""
    process = brig.start(*GUEST)
    assert process.stdout.readline()
    groups = brig.left_groups()
    process.kill()
    finish(process)
    assert groups
    assert wait_until(lambda: not brig.left_groups(), 5)
    wanted = [group for group in groups if not (without and without in group)]
    for _ in range(20):
        for group in wanted:
            with contextlib.suppress(FileExistsError):
                os.mkdir(group)
        if len(brig.left_groups()) == len(wanted):
            return len(wanted)
    pytest.fail("no group was left to sweep")


def last_clone(brig):
    """Which clone is that of init, the last process that brig starts."""
    return max(number for name, number in system_calls(brig) if name == "clone3")


@needs_strace
@pytest.mark.limits
def test_review_d11_killed_before_init_has_the_groups(brig):
    """At the making of each group, and when all are made: the guard removes what there is of them."""
    moments = [("clone3", last_clone(brig)), *(("mkdirat", number) for number in range(1, 5))]
    for call, number in moments:
        if killed_at(brig, call, number):
            assert wait_until(lambda: not brig.left_groups(), 5), (call, number)
    assert_nothing_survives(brig, "before init has the groups")


@pytest.mark.limits
@pytest.mark.timeout(3600 * SLOW)
def test_review_d11_kills_at_random_moments_leave_no_group(brig):
    """Not even for the next start to sweep. BRIG_TEST_KILLS=1000 is the long form."""
    left = []
    for _ in range(int(os.environ.get("BRIG_TEST_KILLS", "40"))):
        process = brig.start(*GUEST, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(random.uniform(0, 0.015 * SLOW))  # the moment is what is tested
        process.kill()
        process.wait()
        if not wait_until(lambda: not brig.left_groups(), 5):
            left += brig.left_groups()
    assert not left
    assert_nothing_survives(brig, "kills at random moments")


@pytest.mark.limits
@pytest.mark.cgroup("it is what is swept")
def test_sweep_of_a_group_that_was_never_used(brig):
    leave_a_group(brig)
    assert_nothing_survives(brig, "before init")


@needs_strace
@pytest.mark.limits
@pytest.mark.cgroup("it is what is swept")
def test_sweep_of_half_made_groups(brig):
    """Killed at the making of each of its groups: between hierarchies, on v1."""
    number = 1
    while killed_at(brig, "mkdirat", number):
        assert_nothing_survives(brig, f"mkdirat {number}")
        number += 1
    assert number > 1


@needs_strace
@pytest.mark.limits
@pytest.mark.cgroup("it is what is swept")
def test_sweep_where_the_first_hierarchy_has_nothing_left(brig):
    """A program that ends a cgroup with supervisor and init in it also removes the cgroups below: on v1 that is the
    part of one hierarchy."""
    if leave_a_group(brig, without="/memory") == 0:
        pytest.skip("optional: one hierarchy has all controllers here")
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
@pytest.mark.cgroup("it is what is swept")
def test_sweep_ends_what_outlived_supervisor_and_init(brig, tier):
    """Both are killed at once: in a cell the kernel ends the guest; where there is none, nobody is
    left to do it, and the next run does."""
    process = brig.start(*GUEST, before=tier)
    first = process.stdout.readline()
    if not first and "landlock of version 6" in message(done := finish(process)):
        assert done.returncode == 125
        pytest.skip("optional: without a cell, root's own directory needs the landlock of Linux 6.12")
    pid = brig.host_pid(int(first))
    assert brig.left_groups()
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
@pytest.mark.cgroup("it is what is swept")
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
