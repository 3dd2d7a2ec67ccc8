"""brig killed with SIGKILL, at any moment: its run dies with it, and the next run sweeps what is
left."""
import os
import random
import shutil
import signal
import time

import pytest
from conftest import SLOW, STUBBORN, children_of, finish, is_alive, wait_until

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
    pid = int(process.stdout.readline())
    assert is_alive(pid) and len(brig.survivors()) >= 4
    process.kill()
    finish(process)
    assert_nothing_survives(brig, "killed while running")
    assert not is_alive(pid)


def test_killed_while_the_guest_writes(brig):
    """The pipes break as well: a guest that ignores that is killed all the same."""
    process = brig.start("--", "sh", "-c", "trap '' PIPE TERM; while :; do echo x; done 2>/dev/null")
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


def test_killed_with_a_child_that_holds_its_descriptors(brig, tmp_path):
    """The socket to init is not all that init watches: brig as a program that has forked."""
    process = brig.start(*GUEST)
    assert process.stdout.readline()
    held = [os.open(f"/proc/{process.pid}/fd/{fd}", os.O_PATH)
            for fd in os.listdir(f"/proc/{process.pid}/fd")]
    process.kill()
    finish(process)
    assert_nothing_survives(brig, "killed with descriptors held")
    for fd in held:
        os.close(fd)


def killed_at(brig, call, number=1):
    """Run brig and have SIGKILL come with the N-th of this system call; false if it never made
    that many. strace -D leaves brig our own child, and only brig is traced."""
    process = brig.start("--timeout", f"{SLOW}s", "-k", "1ms", *GUEST, before=[
        "strace", "-D", "-o", "/dev/null", "-e", f"trace={call}", "-e",
        f"inject={call}:signal=KILL:when={number}"])
    return finish(process, 10).returncode == -signal.SIGKILL


@needs_strace
@pytest.mark.limits
def test_sweep_of_a_group_that_was_never_used(brig):
    """Killed between making its groups and starting init: nobody else can remove them."""
    assert killed_at(brig, "clone3")
    if not brig.left_groups():
        pytest.skip("no cgroups here")
    assert_nothing_survives(brig, "before init")


@needs_strace
@pytest.mark.limits
@pytest.mark.parametrize("number", [1, 2, 3])
def test_sweep_of_half_made_groups(brig, number):
    """Killed between the hierarchies."""
    if not killed_at(brig, "mkdirat", number):
        pytest.skip(f"brig makes fewer than {number} groups here")
    assert_nothing_survives(brig, f"mkdirat {number}")


@needs_strace
@pytest.mark.stress
@pytest.mark.timeout(600 * SLOW)
def test_killed_at_every_system_call(brig):
    """One run for each call that brig makes, from its first to its last."""
    number = 1
    while killed_at(brig, "all", number):
        assert wait_until(lambda: not brig.survivors(), 1), f"survived a kill at call {number}"
        number += 1
    assert number > 50
    assert_nothing_survives(brig, f"{number} calls")


@pytest.mark.limits
def test_sweep_ends_what_outlived_supervisor_and_init(brig):
    """Both are killed at once, so nobody is left to end the guest: the next run does."""
    process = brig.start(*GUEST)
    assert process.stdout.readline()
    if not brig.left_groups():
        pytest.skip("no cgroups here")
    init, = children_of(process.pid)
    process.send_signal(signal.SIGSTOP)
    os.kill(init, signal.SIGKILL)
    process.kill()
    finish(process)
    assert brig.run("--", "true").returncode == 0
    assert not brig.survivors()
    assert not brig.left_groups()


@needs_strace
@pytest.mark.limits
def test_sweep_does_not_cost_the_caller_its_stdin(brig):
    """A run that finds something to sweep is like any other."""
    assert killed_at(brig, "clone3")
    done = brig.run("--stdin", "-", "--", "cat", input=b"hello")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"hello", b"")


@pytest.mark.limits
def test_sweep_leaves_the_living_alone(brig):
    """Twenty runs start and end beside one that goes on."""
    process = brig.start(*GUEST)
    pid = int(process.stdout.readline())
    for _ in range(20):
        assert brig.run("--", "true").returncode == 0
    assert is_alive(pid) and process.poll() is None
    process.kill()
    finish(process)
    assert_nothing_survives(brig, "beside others")
