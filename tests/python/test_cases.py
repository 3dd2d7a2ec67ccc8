# SPDX-License-Identifier: MIT
"""CASES 1 to 7 through the package: runs that are hard to end, ended in each way that it has."""
import time

import pytest
from conftest import system

import brig

STUBBORN = "trap '' TERM; setsid sh -c 'sleep 300 & echo $!'; "
SHORT = {"kill_after": 0.1}


def elapsed(function):
    began = time.monotonic()
    value = function()
    return value, time.monotonic() - began


def test_case_01_child_that_holds_the_pipe(guest):
    result, seconds = elapsed(lambda: brig.run("sleep 60 & echo hi", **guest))
    assert result.ok and result.stdout == b"hi\n" and seconds < 2 * system.SLOW


@pytest.mark.parametrize("end", ["exit", "timeout", "cancel", "limit", "leave"])
def test_case_02_stubborn_tree(guest, alive, end):
    rest = {"exit": "exit 0", "limit": "yes"}.get(end, "sleep 300")
    keys = {"timeout": 0.3} if end == "timeout" else {"output": 1000} if end == "limit" else {}
    with brig.start(STUBBORN + rest, **guest, **SHORT, **keys) as run:
        if end in ("cancel", "leave"):
            next(event for event in run if event.type == "stdout")
        if end == "cancel":
            run.cancel("enough")
        if end != "leave":
            run.wait(10)
    status = {"exit": "exited", "timeout": "timeout", "limit": "output_limit"}.get(end, "cancelled")
    assert run.result.status == status and alive() == 0


def test_case_03_session_leader_holds_the_pipe_at_the_timeout(guest):
    _, seconds = elapsed(lambda: brig.run("setsid sleep 300 & sleep 300", timeout=0.3, **SHORT, **guest))
    assert seconds < 1.4 * system.SLOW


def test_case_04_guest_that_closes_its_streams(guest):
    assert brig.run("exec >&- 2>&-; sleep 300", timeout=0.3, **guest).status == "timeout"


def test_case_05_guest_that_stops_itself(guest):
    result, seconds = elapsed(lambda: brig.run("kill -STOP $$", timeout=0.3, **SHORT, **guest))
    assert result.status == "timeout" and seconds < 2 * system.SLOW


@pytest.mark.cgroup("it counts the forks that it refused")
def test_case_06_fork_bomb(guest):
    result, seconds = elapsed(lambda: brig.run("f() { f | f & }; f; sleep 300", pids=30, timeout=20, **guest))
    assert result.status == "pids_limit" and seconds < 5 * system.SLOW


def test_case_07_cancel_within_a_second(guest, alive):
    run = brig.start("echo up; sleep 300", **guest)
    next(event for event in run if event.type == "stdout")
    began = time.monotonic()
    run.cancel("no longer wanted")
    result = run.wait(5)
    assert time.monotonic() - began < 1 * system.SLOW and alive() == 0
    assert result.status == "cancelled" and "no longer wanted" in result.notes


def test_case_07_second_cancel_does_not_wait(guest):
    run = brig.start("trap '' TERM; echo up; while :; do sleep 300; done", kill_after=60, **guest)
    next(event for event in run if event.type == "stdout")
    run.cancel()
    with pytest.raises(TimeoutError):
        run.wait(0.3)
    run.cancel()
    assert run.wait(5).status == "cancelled"
