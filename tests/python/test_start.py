# SPDX-License-Identifier: MIT
"""brig.start(): the handle of a run."""
import select
import threading
import time

import pytest
from conftest import system

import brig


def test_events_in_order(guest):
    run = brig.start("echo a; echo b >&2; exit 3", **guest)
    events = list(run)
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert events[0].type == "started" and events[0].pid == 2
    assert events[-1].type == "ended" and events[-1].result.exit_code == 3
    assert {event.type: event.text for event in events if event.data} == {"stdout": "a\n", "stderr": "b\n"}
    assert run.result is events[-1].result and run.wait() is run.result


def test_events_come_while_it_runs(guest, tmp_path):
    for event in brig.start("echo first; until [ -e go ]; do sleep 0.01; done; echo second", **guest):
        if event.type == "stdout" and event.text == "first\n":
            (tmp_path / "go").touch()
    assert (tmp_path / "go").exists()


def test_limit_and_usage_events(guest):
    types = [(e.type, e.limit) for e in brig.start("sleep 60", timeout=1.3, **guest)]
    assert ("limit", "timeout") in types and ("usage", None) in types


def test_case_12_slow_listener_holds_nothing_up(guest):
    """16 MB at full speed while nobody listens: the run ends on its own, and says what was lost."""
    run = brig.start("head -c 16M /dev/zero", output="20M", capture=False, **guest)
    while run.result is None:
        time.sleep(0.01)
    events = list(run)
    assert run.result.ok
    assert events[0].dropped > 0 and events[-1].type == "ended"
    assert events[0].dropped + len(events) == events[-1].sequence
    assert sum(len(event.data or b"") for event in events) <= 4 << 20


def test_the_timeout_counts_though_nobody_looks(guest, alive):
    run = brig.start("echo $$; sleep 300", timeout=0.3, **guest)
    assert system.wait_until(lambda: alive() > 0)
    assert system.wait_until(lambda: alive() == 0, 3), "only the caller's look ends it"
    assert run.wait(1).status == "timeout"


def test_wait_with_a_timeout(guest):
    with brig.start("sleep 300", **guest) as run:
        with pytest.raises(TimeoutError):
            run.wait(0.05)
        assert run.result is None


def test_with_ends_it_after_an_exception(guest, alive):
    with pytest.raises(KeyError):
        with brig.start("sleep 300", **guest) as run:
            raise KeyError
    assert alive() == 0 and run.result.status == "cancelled" and "with block" in run.result.notes


def test_fileno(guest):
    run = brig.start("echo a; sleep 0.2; echo b", **guest)
    seen = []
    while run.result is None or not seen or seen[-1].type != "ended":
        assert select.select([run], [], [], 10)[0]
        seen += run.events()
    assert b"".join(event.data or b"" for event in seen) == b"a\nb\n"
    assert select.select([run], [], [], 0)[0], "readable at its end"
    assert run.events() == []


def test_many_threads_on_one_run(guest):
    run = brig.start("for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.02; done; sleep 300", **guest)
    results, seen = [], []
    threads = [threading.Thread(target=lambda: results.append(run.wait())) for _ in range(4)]
    threads += [threading.Thread(target=lambda: seen.extend(run)) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert system.wait_until(lambda: sum(event.text.count("\n") for event in seen) == 8)
    for _ in range(2):
        threading.Thread(target=run.cancel).start()
    for thread in threads:
        thread.join(10)
    assert len(results) == 4 and len({id(result) for result in results}) == 1
    assert sorted(event.sequence for event in seen) == list(range(1, len(seen) + 1))


def test_many_runs_share_one_thread_that_ends(guest):
    runs = [brig.start("sleep 0.2", **guest) for _ in range(8)]
    names = [thread.name for thread in threading.enumerate()]
    assert names.count("brig-stepper") == 1
    assert all(run.wait(10).ok for run in runs)
    assert system.wait_until(lambda: "brig-stepper" not in [t.name for t in threading.enumerate()])
    assert brig.start("true", **guest).wait(10).ok, "and comes back"


def test_runs_from_many_threads_at_once(guest):
    results = []

    def work(number):
        for _ in range(5):
            results.append(brig.run(["echo", str(number)], **guest).stdout == b"%d\n" % number)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 30


def test_case_34_events_of_output_that_is_not_kept(guest):
    """Kept nowhere, and told in events: secrets are hidden in these as well."""
    run = brig.start("echo password=hunter2xyz", capture=False, redact=True, **guest)
    told = b"".join(event.data or b"" for event in run)
    assert told == b"password=[redacted:password]\n" and run.result.stdout_redacted == 1
