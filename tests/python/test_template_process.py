# SPDX-License-Identifier: MIT
"""The process behind a Template: what a call shares with it and what not, its death and that of
others, and that nothing is left, however it ends."""
import asyncio
import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time

import brig
import pytest
from brig import _parked

from conftest import system

CALLS = int(os.environ.get("BRIG_TEMPLATE_CALLS", "300"))
KILLS = int(os.environ.get("BRIG_TEMPLATE_KILLS", "10"))


@pytest.fixture
def template(guest):
    with brig.Template(preload=["json", "random", "ssl"], parked=0, **guest) as made:
        yield made


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
        return [int(child) for child in children.read().split()]


def first_child_of(pid):
    """Of an init, the guest: a call that is made ahead while the test looks has none yet."""
    ends = time.monotonic() + 10 * system.SLOW
    while not children_of(pid):
        assert time.monotonic() < ends, f"{pid} has no child"
        time.sleep(0.001)
    return children_of(pid)[0]


def template_pid(template):
    """Of the interpreter, on the host."""
    return children_of(template._backend._template.run.pid)[0]


def test_modules_are_there_before_the_call(template):
    def look():
        import sys
        return "ssl" in sys.modules, "decimal" in sys.modules
    assert template.call(look) == [True, False] or template.call(look) == (True, False)


def test_nothing_of_a_call_is_there_for_the_next(template):
    def leave():
        import json
        import tempfile
        json.left = 1
        os.environ["LEFT"] = "1"
        with open(os.path.join(tempfile.gettempdir(), "left"), "w", encoding="ascii"):
            return os.getpid()

    def look():
        import json
        import tempfile
        return hasattr(json, "left"), "LEFT" in os.environ, os.listdir(tempfile.gettempdir())
    before = list(template.call(look))
    first = template.call(leave)
    assert list(template.call(look)) == before and before[:2] == [False, False] and "left" not in before[2]
    assert template.call(os.getpid) == first  # always the same: a namespace of its own


def test_each_call_draws_its_own_numbers(guest):
    """Also those of OpenSSL, which knows a fork by its number, and that is the same in each call."""
    def draw():
        import ssl
        return random.random(), ssl.RAND_bytes(8).hex(), os.urandom(8).hex()
    for parked in (0, 2):
        with brig.Template(preload=["random", "ssl"], parked=parked, **guest) as template:
            template.call(draw)  # and a template that has drawn some itself would not matter
            drawn = [template.call(draw) for _ in range(6)]
            for numbers in zip(*drawn):
                assert len(set(numbers)) == 6


def test_descriptors_of_the_template_are_not_the_calls(tmp_path, guest):
    (tmp_path / "opens.py").write_text("import os\nfile = open('/etc/passwd')\nfd = file.fileno()\n")
    def look():
        return sorted(int(name) for name in os.listdir("/proc/self/fd"))
    with brig.Template(preload=["opens"], paths=[tmp_path], **guest) as template:
        # Its streams, the result channel, the memory file of the result, and the directory that is listed.
        assert list(template.call(look)) == [0, 1, 2, 3, 4, 5]


def test_what_is_for_init_is_not_for_code_of_the_template(tmp_path, guest):
    """Handlers of a fork run before its job is there: they find the guest's own, and the job's socket."""
    (tmp_path / "looks.py").write_text(
        "import os\nseen = []\n"
        "def look():\n"
        "    seen.clear()  # the template has rehearsed it\n"
        "    for name in os.listdir('/proc/self/fd'):\n"
        "        try:\n            seen.append((int(name), os.readlink('/proc/self/fd/' + name)))\n"
        "        except OSError:\n            pass\n"
        "os.register_at_fork(after_in_child=look)\n")
    def look():
        import looks
        return [tuple(pair) for pair in looks.seen]
    for parked in (0, 1):
        with brig.Template(preload=["looks"], paths=[tmp_path], parked=parked, **guest) as template:
            seen = dict(template.call(look))
            assert sorted(seen)[:5] == [0, 1, 2, 3, 4] and len(seen) == 6, seen
            assert sum(name.startswith("socket:") for name in seen.values()) == 1
            assert not any("cgroup" in name or "pidfd" in name for name in seen.values())


def test_memory_that_calls_would_share_is_refused(tmp_path, guest):
    """One that is mapped for reading can be made writable later."""
    for number, more in enumerate(("", ", prot=mmap.PROT_READ")):
        (tmp_path / f"shares{number}.py").write_text(f"import mmap\nmemory = mmap.mmap(-1, 4096{more})\n")
        with pytest.raises(brig.RefusedError, match=f"preload: shares{number}: makes shared memory .*zero"):
            brig.Template(preload=["json", f"shares{number}"], paths=[tmp_path], **guest)


def test_a_directory_that_was_replaced_is_not_taken_for_the_new_one(tmp_path, guest):
    """A template goes on in the one that it was started with, which nobody looks at any more."""
    directory = tmp_path / "work"
    for parked in (0, 1):
        directory.mkdir()
        with brig.Template(cwd=directory, parked=parked, **guest) as template:
            template.call(lambda: open("first", "w").close())
            directory.rename(tmp_path / f"old{parked}")
            directory.mkdir()
            with pytest.raises(brig.RefusedError, match="work: was replaced since the template was started"):
                template.call(lambda: open("second", "w").close())
            directory.rmdir()
        assert os.listdir(tmp_path / f"old{parked}") == ["first"]


def test_limits_of_calls_differ(template):
    def use(size):
        return len(bytearray(size))
    small = template.with_limits(memory="64M")
    assert small.try_call(use, 200 << 20).kind == "memory_limit"
    assert template.call(use, 200 << 20) == 200 << 20
    assert template.with_limits(timeout=0.3).try_call(time.sleep, 60).kind == "timeout"
    assert template.with_limits(pids=5).try_call(lambda: [os.fork() for _ in range(4)] and time.sleep(9)).kind == "pids_limit"


def test_a_template_that_dies_is_started_again(template):
    call = template.start(time.sleep, 60)
    first = template_pid(template)
    os.kill(first, signal.SIGKILL)
    outcome = call.outcome(30)
    assert outcome.kind == "template" and not outcome.ok
    assert template.call(len, "abc") == 3
    assert template_pid(template) != first


def test_calls_that_go_on_end_with_their_template(guest):
    with brig.Template(parked=0, **guest) as template:
        call = template.start(time.sleep, 60)
        template.close()
        assert call.outcome(30).kind in ("template", "signal")


def test_a_call_tells_that_its_template_died(template):
    import threading
    pid = template_pid(template)
    threading.Timer(0.3, os.kill, (pid, signal.SIGKILL)).start()
    outcome = template.try_call(time.sleep, 60)
    assert outcome.kind == "template" and "the template has ended" in outcome.error, outcome


def test_a_preload_that_takes_too_much_memory(tmp_path, guest, monkeypatch):
    (tmp_path / "hungry.py").write_text("memory = bytearray(3 << 30)\n")
    with pytest.raises(brig.RefusedError, match="memory|MemoryError"):
        brig.Template(preload=["hungry"], paths=[tmp_path], **guest)


def test_review_p4_memory_is_for_the_template_too(tmp_path, guest):
    """More than the default, if calls have more; not less, since a call may have less than the imports need."""
    (tmp_path / "filled.py").write_text("memory = bytes(200 << 20)\nlimit = 7\n")
    with brig.Template(preload=["filled"], paths=[tmp_path], memory="64M", **guest) as template:
        assert template._backend._template.run._raw.fileno() >= 0 and template.call(abs, -1) == 1
    for memory, limit in (("3G", 3 << 30), ("64M", 2 << 30), (None, 2 << 30), ("unlimited", None)):
        with brig.Template(memory=memory, **guest) as template:
            run = template._backend._template.run
        assert run.wait(10).limits.memory_bytes == limit


def test_review_p4_mapping_of_shown_directories(tmp_path, guest):
    with brig.Template(rw={tmp_path: "/shown"}, **guest) as template:
        template.call(lambda: open("/shown/new", "w").close())
    assert (tmp_path / "new").exists()


def test_review_p4_bad_number_of_calls_ahead():
    with pytest.raises(ValueError, match="^parked: -1 is less than 0$"):
        brig.Template(parked=-1)
    with pytest.raises(TypeError, match="^parked: '.*' is neither an int nor \"auto\"$"):
        brig.Template(parked="many")


@pytest.mark.parametrize("end", [lambda: os._exit(5), lambda: os.kill(os.getpid(), 9)], ids=["exit", "kill"])
def test_review_p4_an_answer_counts_whatever_the_process_does_next(template, end):
    """call() does not wait for the end, so try_call() judges by the same: the answer."""
    def answer():
        os.sched_yield = end  # is called after the answer was sent
        return "answer"
    outcome = template.try_call(answer)
    assert outcome.ok and outcome.value == template.call(answer) == "answer"
    assert (outcome.result.exit_code, outcome.result.signal) in ((5, None), (None, 9))
    with template.start(answer) as call:
        assert call.value() == "answer"

    def fail():
        os.sched_yield = end
        raise KeyError("x")
    assert template.try_call(fail).kind in ("raised", "signal")


def test_calls_ahead_follow_the_rate_of_calls(guest, monkeypatch):
    monkeypatch.setattr(_parked, "RENEWAL", 30)  # one call in a few seconds would be enough for all of them
    monkeypatch.setattr(_parked, "QUIET", 0.2)
    with brig.Template(timeout=50, **guest) as template:
        parked = template._backend._template._parked
        assert parked.number == 1
        threads = [threading.Thread(target=lambda: [template.call(abs, -1) for _ in range(8)]) for _ in range(2)]
        for thread in threads:
            thread.start()
        assert system.wait_until(lambda: parked.number == _parked.PARKED_MOST, 30)
        for thread in threads:
            thread.join()
        assert system.wait_until(lambda: parked.number == 1, 30)  # no calls any more
        assert system.wait_until(lambda: template._backend._template.host.warm_ready(parked._spec) == 1, 30)
    with brig.Template(timeout=50, parked=2, **guest) as template:
        assert [template.call(abs, -n) for n in range(20)] == list(range(20))
        assert template._backend._template._parked.number == 2


def test_calls_ahead_are_taken_and_renewed(guest):
    with brig.Template(parked=2, **guest) as template:
        warm = 0
        for _ in range(20):
            warm += template.try_call(len, "abc").result.isolation.warm
            time.sleep(0.02 * system.SLOW)
        assert warm > 10


@pytest.mark.parametrize("who", ["guest", "init"])
def test_a_call_ahead_that_was_killed_is_not_used(guest, who):
    with brig.Template(parked=2, **guest) as template:
        for init in children_of(template_pid(template)):
            pid = init if who == "init" else first_child_of(init)
            os.kill(pid, signal.SIGKILL)
            while os.path.exists(f"/proc/{pid}"):
                time.sleep(0.001)
        assert [template.call(abs, -7), template.try_call(abs, -8).value] == [7, 8]


def test_case_27_and_a_value_before_the_end(guest, alive):
    """call() has its value while the process still ends; nothing of it is left soon after."""
    def answer():
        import atexit
        import threading
        threading.Thread(target=time.sleep, args=(60,)).start()
        atexit.register(time.sleep, 60)
        return "here"
    with brig.Template(parked=1, **guest) as template:
        began = time.monotonic()
        assert template.call(answer) == "here"
        assert time.monotonic() - began < 10 * system.SLOW
    assert alive() == 0


def test_output_over_its_budget_is_told_though_the_value_is_there(guest):
    with brig.Template(output=1000, parked=1, **guest) as template:
        with pytest.raises(brig.CallFailed) as failed:
            template.call(lambda: print("x" * 5000))
        assert failed.value.kind == "output_limit"


def memory_of(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as rows:
        return sum(int(row.split()[1]) for row in rows if row.startswith(("Private_Clean", "Private_Dirty")))


@pytest.mark.timeout(1800)
def test_many_calls_leave_memory_and_descriptors_flat(guest, alive):
    with brig.Template(preload=["json"], parked=2, **guest) as template:
        for number in range(50):
            assert template.call(abs, -number) == number
        gc.collect()
        pid = template_pid(template)
        before = memory_of(os.getpid()), memory_of(pid), len(os.listdir("/proc/self/fd")), len(os.listdir(f"/proc/{pid}/fd"))
        for number in range(CALLS):
            assert template.call(abs, -number) == number
        gc.collect()
        assert system.wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before[2] + 30, 10)
        after = memory_of(os.getpid()), memory_of(pid), len(os.listdir("/proc/self/fd")), len(os.listdir(f"/proc/{pid}/fd"))
        assert after[0] < before[0] + 3000 and after[1] < before[1] + 1000, (before, after)
        assert after[3] == before[3]
    assert alive() == 0


CALLER = """
import sys, time, brig
template = brig.Template(preload=["json"], parked=2, env={"BRIG_TEST_TOKEN": sys.argv[1]})
print("ready", flush=True)
while True:
    template.call(sum, [1, 2])
    list(template.map(len, ["a", "b", "c"]))
"""


def test_killed_caller_leaves_nothing(script, guest, alive):
    """At random moments, from the start of its template on."""
    token = guest["env"]["BRIG_TEST_TOKEN"]
    chance = random.Random(7)
    for number in range(KILLS):
        caller = script(CALLER, token, start=True)
        if number % 3:
            assert caller.stdout.readline() == "ready\n", caller.stderr.read()
        time.sleep(chance.random() * 0.3)
        caller.kill()
        caller.communicate(timeout=30)
        assert system.wait_until(lambda: alive() == 0, 10), f"round {number}"


def test_killed_template_and_children_leave_nothing(guest, alive):
    """Whatever is killed at random moments, calls give an outcome, and the next ones work."""
    token = guest["env"]["BRIG_TEST_TOKEN"]
    chance = random.Random(8)
    with brig.Template(parked=1, **guest) as template:
        for _ in range(KILLS):
            calls = [template.start(time.sleep, 0.2) for _ in range(2)]
            time.sleep(chance.random() * 0.2)
            victims = system.processes_with(token)
            if victims:
                try:
                    os.kill(chance.choice(victims), signal.SIGKILL)
                except ProcessLookupError:
                    pass
            for call in calls:
                assert call.outcome(30).kind in (None, "template", "signal")
        assert template.call(len, "abc") == 3
    assert system.wait_until(lambda: alive() == 0, 5)


def test_a_result_of_too_many_values_is_refused(guest):
    """Each takes some fifty bytes in the caller; commas in a text do not count."""
    with brig.Template(**guest) as template:
        outcome = template.try_call(lambda: [[] for _ in range(3_000_000)])
        assert outcome.kind == "bad_result" and "more than 2000000 values" in outcome.error
        with pytest.raises(brig.CallFailed, match="more than 2000000 values"):
            template.call(lambda: [[] for _ in range(3_000_000)])
        assert len(template.call(lambda: "a,[{\"" * 800_000)) == 4_000_000


@pytest.mark.root("mounts over /etc; in a user namespace for that there is no template")
def test_operators_maxima_hold_for_a_template_too(tmp_path, guest):
    """It has no timeout of its own, unless the operator has set one: then it has that."""
    limits = tmp_path / "limits.json"
    limits.write_text('{"maximum": {"timeout": "20m", "pids": 64}}')
    limits.chmod(0o644)
    setup = ("mount -t tmpfs -o mode=755 tmpfs /etc && mkdir /etc/brig && "
             'cp "$0" /etc/brig/limits.json && exec "$@"')
    code = ("import brig, sys\n"
            "with brig.Template(env={'BRIG_TEST_TOKEN': sys.argv[1]}) as template:\n"
            "    assert template.call(len, 'abc') == 3\n"
            "    print(template.try_call(len, '').result.limits.timeout_seconds)")
    done = subprocess.run(["unshare", "-m", "sh", "-c", setup, limits, sys.executable, "-c", code,
                           guest["env"]["BRIG_TEST_TOKEN"]], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "1200\n", done.stderr


def test_a_loop_goes_on_while_a_template_is_started_again(template):
    async def main():
        os.kill(template_pid(template), signal.SIGKILL)
        assert system.wait_until(lambda: not template._backend.is_open(), 10)
        ticks, call = 0, asyncio.create_task(template.acall(len, "abc"))
        while not call.done():
            ticks += 1
            await asyncio.sleep(0.005)
        return ticks, call.result()
    ticks, value = asyncio.run(main())
    assert value == 3 and ticks > 3
