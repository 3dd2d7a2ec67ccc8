# SPDX-License-Identifier: MIT
"""brig.Template: functions of this program in guests. CASES 25 to 30 by their numbers.

Functions in the tests themselves go by value; those of guest_tools.py by reference.
"""
import asyncio
import functools
import json
import os
import pickle
import posixpath
import subprocess
import sys
import textwrap
import threading
import time

import guest_tools
import pytest
from conftest import system

import brig

CHANNEL = 3


@pytest.fixture
def template(guest):
    with brig.Template(timeout=30 * system.SLOW, **guest) as made:
        yield made


def failure(outcome):
    assert not outcome.ok and outcome.value is None
    return outcome.kind, outcome.error


# ---- results ----


@pytest.mark.parametrize("size", [0, 64 << 10, 200_000])
def test_case_25_results_of_any_size_come_back(template, size):
    assert template.call(lambda: b"x" * size) == b"x" * size
    assert template.call(lambda text: text, "y" * size) == "y" * size


def test_case_25_result_of_100_mb_comes_back(guest):
    template = brig.Template(result_size="200M", timeout=60, **guest)
    assert template.call(lambda: "z" * 100_000_000) == "z" * 100_000_000


def test_case_25_result_over_its_maximum_is_an_error(template):
    small = template.with_limits(result_size="100K")
    kind, error = failure(small.try_call(lambda: b"x" * 200_000))
    assert kind == "bad_result" and error == "the result is larger than result_size, which is 100 KiB"


def test_case_26_prints_are_no_results(template):
    envelope = '16\n{"status":"success","output":1}'

    def forge():
        print(envelope, flush=True)
        os.write(2, envelope.encode())
        return "mine"
    outcome = template.try_call(forge)
    assert outcome.value == "mine" and outcome.stdout == envelope + "\n" and outcome.stderr == envelope


FORGED = b'31\n{"status":"success","output":1}'


@pytest.mark.parametrize("sent, ends, words", [
    (b"junk", False, "does not begin with its length"),
    (FORGED, False, "more was sent after the result"),
    (FORGED[:20], True, "only a part of the result was sent"),
    (FORGED + FORGED, True, "more was sent after the result"),
    (b"2\n{}", True, "not the result of a function"),
    (b"0\n", True, "not the result of a function"),
    (b'9\n{"status"', True, "not JSON"),
    (b'50\n{"status":"success","output":{"$":"pickle","a":1}}', True, "'pickle' is not a type of a result"),
], ids=["junk", "before", "half", "twice", "empty", "nothing", "no-json", "tag"])
def test_case_26_forged_results_are_refused(template, sent, ends, words):
    def forge():
        os.write(CHANNEL, sent)
        if ends:
            os._exit(0)
        return 2
    kind, error = failure(template.try_call(forge))
    assert kind == "bad_result" and words in error


def send_and_exit(envelope):
    """The guest's own words on its channel, and nothing else."""
    sent = json.dumps(envelope).encode()
    sent = b"%d\n%b" % (len(sent), sent)
    while sent:
        sent = sent[os.write(CHANNEL, sent):]
    os._exit(0)


KINDS = ("signal", "timeout", "memory_limit", "pids_limit", "output_limit", "cpu_limit", "cancelled", "no_result", "bad_result",
         "template", "", None, 1, ["template"], {"template": 1})


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_review_e7_a_guest_cannot_forge_a_kind_that_is_brigs(template, monkeypatch, kind):
    """Least of all one that makes the caller look whether the template has ended, and wait for that."""
    looks = []
    monkeypatch.setattr(template._backend, "why_it_ended", lambda: looks.append(1))
    outcome = template.try_call(send_and_exit, {"status": "error", "error": "x", "metadata": {"kind": kind}})
    assert failure(outcome) == ("raised", "x") and not looks


def test_review_e7_the_loop_goes_on_whatever_a_guest_says(template):
    """It turns at least every 300 ms (it stood still for a second)."""
    async def longest():
        pauses, over = [], False

        async def watch():
            while not over:
                last = time.monotonic()
                await asyncio.sleep(0.005)
                pauses.append(time.monotonic() - last)
        watching = asyncio.create_task(watch())
        outcome = await template.atry_call(send_and_exit, {"status": "error", "error": "x", "metadata": {"kind": "template"}})
        over = True
        await watching
        return outcome.kind, max(pauses)
    kind, most = asyncio.run(longest())
    assert kind == "raised" and most < 0.3 * system.SLOW


def test_review_e7_texts_of_a_guest_are_cut(template):
    """It cuts them itself, as long as it is the one that brig started."""
    long = "a" * (1 << 20)
    outcome = template.try_call(send_and_exit, {"status": "error", "error": long, "metadata": {"kind": "raised", "type": long, "traceback": long}})
    assert outcome.kind == "raised"
    for text in (outcome.error, outcome.type, outcome.traceback):
        assert text.startswith("aaa") and text.endswith(" ...") and len(text) < 70_000


def test_case_27_the_caller_unpickles_nothing(template, monkeypatch):
    class Evil:
        def __reduce__(self):
            return os._exit, (7,)
    payload = pickle.dumps(Evil())

    def trap(*args, **kw):
        raise AssertionError("unpickled")
    for name in ("loads", "load", "Unpickler", "_Unpickler"):
        monkeypatch.setattr(pickle, name, trap)
    assert template.call(lambda: payload) == payload
    assert template.call(lambda: {"$": "pickle", "data": "x"}) == {"$": "pickle", "data": "x"}
    assert failure(template.try_call(Evil))[0] == "unserialisable"


def test_case_28_each_way_to_fail_has_its_own_words(template):
    class Odd(Exception):
        def __str__(self):
            raise ValueError

    def odd():
        raise Odd

    def crash():
        os.kill(os.getpid(), 11)
    outcomes = [template.try_call(function) for function in (
        crash, lambda: os._exit(3), odd, lambda: {"a": object()}, lambda: os._exit(0))]
    words = ["killed by SIGSEGV", "the process exited with 3, and no result was sent",
             "Odd, whose message cannot be shown (ValueError)", "object (result['a']) is not among the types",
             "the process exited with 0, and no result was sent"]
    assert [outcome.kind for outcome in outcomes] == ["signal", "exited", "raised", "unserialisable", "no_result"]
    for outcome, text in zip(outcomes, words):
        assert text in outcome.error
    assert len({outcome.error for outcome in outcomes}) == 5


@pytest.mark.parametrize("function, kind, words", [
    (lambda: sys.exit(3), "exited", "the function called sys.exit(3)"),
    (lambda: sys.exit(), "exited", "sys.exit()"),
    (lambda: exit("bye"), "exited", "the function called sys.exit('bye')"),
    (lambda: exit_with_text(), "raised", "NameError"),
    (lambda: [].pop(), "raised", "IndexError: pop from empty list"),
    (lambda: (_ for _ in ()).throw(KeyboardInterrupt), "raised", "KeyboardInterrupt"),
    (lambda: (_ for _ in ()).throw(asyncio.CancelledError("x")), "raised", "CancelledError: x"),
    (lambda: (lambda f: f(f))(lambda f: f(f)), "raised", "RecursionError"),
    (lambda: bytearray(1 << 60), "raised", "MemoryError"),
    (lambda: (i for i in ()), "unserialisable", "generator"),
    (lambda: os.fdopen(CHANNEL).close() or 1, "exited", "the result cannot be sent: [Errno 9]"),
])
def test_case_28_more_ways_to_fail(template, function, kind, words):
    outcome = template.try_call(function)
    assert outcome.kind == kind and words in outcome.error
    assert (outcome.traceback is not None) == (kind == "raised")


def test_failure_is_raised_with_all_there_is_to_know(template):
    def work():
        print("so far")
        raise KeyError("gone")
    with pytest.raises(brig.CallFailed, match="raised: KeyError: 'gone'") as caught:
        template.call(work)
    failed = caught.value
    assert (failed.kind, failed.type, failed.result.stdout) == ("raised", "KeyError", b"so far\n")
    assert failed.traceback.count("File") == 1 and "in work" in failed.traceback
    copy = pickle.loads(pickle.dumps(failed))
    assert (copy.kind, copy.error, str(copy)) == (failed.kind, failed.error, str(failed))


def test_case_15_message_for_a_terminal_has_no_orders_for_it(template):
    def fail():
        raise ValueError("\x1b[2Jcl\u202eear\x07")
    with pytest.raises(brig.CallFailed) as caught:
        template.call(fail)
    assert str(caught.value) == r"raised: ValueError: \x1b[2Jcl\u202eear\x07"
    assert caught.value.error == "ValueError: \x1b[2Jcl\u202eear\x07"


def test_case_29_prints_are_captured(template, capfd):
    def noisy():
        print("out", end="")
        print("err", file=sys.stderr)
        os.system("echo child")
        sys.stdout.write("half \ud800")
    outcome = template.try_call(noisy)
    assert outcome.ok and outcome.stdout == "outchild\nhalf \\ud800" or outcome.stdout.endswith("half \\ud800")
    assert outcome.stderr == "err\n" and set(outcome.stdout) >= set("outchild")
    assert capfd.readouterr() == ("", "")


def test_case_30_closures_lambdas_decorated_and_coroutines(template):
    def twice(function):
        @functools.wraps(function)
        def wrapper(*args):
            return function(function(*args))
        return wrapper
    factor = 5

    @twice
    def scale(n):
        return n * factor

    async def later(n):
        await asyncio.sleep(0.01)
        return scale(n)
    assert template.call(scale, 2) == 50
    assert template.call(later, 1) == 25
    assert template.call(lambda: sorted([3, 1], key=lambda n: -n)) == [3, 1]
    assert template.call(functools.partial(later, 2)) == 50


def test_case_30_nothing_is_thrown_past_the_call(template):
    lock = threading.Lock()
    kind, error = failure(template.try_call(lambda: lock))
    assert kind == "unsendable" and "the variable 'lock' of" in error
    with pytest.raises(brig.CallFailed, match="argument 1 cannot be sent"):
        template.call(print, lock)
    with pytest.raises(brig.CallFailed, match="argument 1 cannot be sent"):
        template.start(print, lock)
    assert asyncio.run(template.atry_call(print, lock)).kind == "unsendable"
    with pytest.raises(TypeError, match="int cannot be called"):
        template.call(3)


def test_functions_by_reference(template):
    assert template.call(guest_tools.double, 4) == (8, 1, "guest_tools")
    assert template.call(guest_tools.double, 4) == (8, 1, "guest_tools"), "the first call was seen by the second"
    assert template.call(guest_tools.renamed, 1) == ("renamed", 1)
    assert template.call(guest_tools.Counter(5).up, by=2) == 7
    assert guest_tools.CALLS == []


def test_functions_of_the_main_program(guest, script):
    done = script("""
import brig, sys
LIMIT = 3
class Thing:
    def __init__(self): self.n = LIMIT
    def work(self, m): return helper(self.n * m)
def helper(n):
    return n + LIMIT
with brig.Template(env={"BRIG_TEST_TOKEN": sys.argv[1]}) as template:
    print(template.call(helper, 4), template.call(Thing().work, 2), list(template.map(lambda n: helper(n), range(3))))
""", guest["env"]["BRIG_TEST_TOKEN"])
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert done.stdout == "7 9 [3, 4, 5]\n"


# ---- what a call sees ----


def test_nothing_of_a_call_is_left_for_the_next(template):
    def leave():
        here = os.getcwd()
        for path in ("/tmp/left", "left", os.path.expanduser("~/left")):
            with open(path, "w") as file:
                file.write("x")
        os.environ["LEFT"] = "1"
        return here

    def look():
        return [os.path.exists(path) for path in ("/tmp/left", "left", os.path.expanduser("~/left"))], os.environ.get("LEFT")
    assert template.call(leave) == "/tmp"
    assert template.call(look) == ([False, False, False], None)


def test_the_caller_s_directories_and_secrets_are_not_there(template, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_OF_CALLER", "x")
    (tmp_path / "mine").write_text("x")
    package = os.path.dirname(brig.__file__)
    tools = os.path.dirname(guest_tools.__file__)

    def look(*paths):
        seen = [os.path.exists(path) for path in paths]
        wrote = []
        for directory in (package, tools, "/usr/lib", "/"):
            try:
                open(os.path.join(directory, "brig-left"), "w").close()
                wrote.append(directory)
            except OSError:
                pass
        return seen, wrote, "SECRET_OF_CALLER" in os.environ, sorted(os.listdir("/proc/self/fd"))
    seen, wrote, secret, open_files = template.call(look, str(tmp_path), os.path.join(tools, "guest_tools.py"))
    assert seen == [False, True] and wrote == [] and not secret
    assert open_files[:5] == ["0", "1", "2", "3", "4"] and len(open_files) <= 6


def test_work_directory_and_stdin(guest, tmp_path):
    def work():
        with open("made", "w") as file:
            file.write(sys.stdin.read() + os.getcwd())
    brig.Template(cwd=tmp_path, **guest).call(work)
    assert (tmp_path / "made").read_text() == str(tmp_path)


def test_all_of_the_host_with_a_work_directory_in_memory(guest, tmp_path):
    """The directories above one that is below /tmp are made anew in each call."""
    with brig.Template(view="host", cwd=tmp_path, **guest) as template:
        assert template.call(os.getcwd) == str(tmp_path)
        template.call(lambda: (open("left", "w").close(), open("/tmp/left", "w").close()) and None)
        assert template.call(os.path.exists, "left") and not template.call(os.path.exists, "/tmp/left")


def test_a_directory_in_memory_that_a_call_could_move_is_refused(guest, tmp_path):
    """It would choose what the next call mounts its own over."""
    (tmp_path / "above" / "in_memory").mkdir(parents=True)
    with pytest.raises(brig.RefusedError, match="which a call could change"):
        brig.Template(view="host", rw=[tmp_path], tmpfs=[f"{tmp_path}/above/in_memory:1M"], **guest)


def test_more_directories_below_tmp_than_a_call_can_have_are_refused(guest, tmp_path):
    directories = [tmp_path / str(number) for number in range(40)]
    for directory in directories:
        directory.mkdir()
    with pytest.raises(brig.RefusedError, match="more than 32 directories"):
        brig.Template(ro=directories, parked=0, **guest)


def test_a_fork_of_the_function_sends_nothing(template):
    def forks():
        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)
        return "parent" if pid else "child"

    def leaves_a_thread():
        threading.Thread(target=time.sleep, args=(300,)).start()
        subprocess.Popen(["sleep", "300"])
        return "done"
    assert template.call(forks) == "parent"
    assert template.call(leaves_a_thread) == "done"


# ---- limits ----


def test_limits_name_what_ended_the_call(template):
    def fork_bomb():
        while True:
            os.fork()

    def shout():
        print("x" * 100_000)

    def greedy():
        return len(bytearray(1 << 29))

    def wait():
        print("begun")
        time.sleep(300)
    short = template.with_limits(timeout=1.5 * system.SLOW, memory="64M", pids=20, output=1000, kill_after=0.1)
    outcomes = [short.try_call(function) for function in (fork_bomb, shout, greedy, wait)]
    assert [outcome.kind for outcome in outcomes] == ["pids_limit", "output_limit", "memory_limit", "timeout"]
    assert "its timeout of" in outcomes[3].error and outcomes[3].stdout == "begun\n"
    assert "memory" in outcomes[2].error
    assert template.call(len, "ab") == 2, "the template's own limits are as they were"


def test_settings_are_checked_when_a_template_is_made(guest):
    with pytest.raises(TypeError, match="'memroy' is no setting of a run; did you mean memory?"):
        brig.Template(memroy="1G")
    with pytest.raises(brig.UsageError, match='timeout: "soon" is not a number'):
        brig.Template(timeout="soon")
    for name in ("channel", "stdin", "input", "check", "capture"):
        with pytest.raises(TypeError, match=f"'{name}' is set by the template itself"):
            brig.Template(**{name: "x"})
    with pytest.raises(ValueError, match="max_concurrent: 0 is less than 1"):
        brig.Template(max_concurrent=0)
    template = brig.Template(**guest)
    with pytest.raises(TypeError, match="'network' is not a limit"):
        template.with_limits(network="host")
    with pytest.raises(TypeError, match="did you mean timeout"):
        template.with_limits(timeuot=3)


def test_labels_and_result_of_the_run(template):
    outcome = template.with_limits(labels={"job": "7"}, memory="300M").try_call(len, "x")
    assert outcome.result.labels == {"job": "7"} and outcome.result.limits.memory_bytes == 300 << 20
    assert outcome.result.output is None and "seccomp" in outcome.result.isolation.layers


def test_secrets_are_hidden_if_asked_for(guest):
    def leak():
        print("token=abcdefghijklmnop1234")
        return {"header": "Authorization: Bearer abcdefghijklmnop1234"}
    assert "abcdefghijklmnop" in str(brig.Template(**guest).call(leak))
    outcome = brig.Template(redact=True, **guest).try_call(leak)
    assert "abcdefghijklmnop" not in str(outcome.value) + outcome.stdout


# ---- preload ----


def test_preload_is_imported_before_the_function(guest):
    template = brig.Template(preload=["fractions", "guest_tools"], **guest)
    assert template.call(lambda: [name in sys.modules for name in ("fractions", "guest_tools", "decimal")])[:2] == [True, True]


@pytest.fixture
def modules(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_preload_that_starts_threads_is_refused(guest, modules):
    (modules / "brig_threads.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(9,), name='ticker', daemon=True).start()\n")
    (modules / "brig_raises.py").write_text("1 / 0\n")
    (modules / "brig_exits.py").write_text("import os\nos._exit(4)\n")
    with pytest.raises(brig.RefusedError, match="preload: the process exited with 4"):
        brig.Template(preload="brig_exits", **guest)
    with pytest.raises(brig.RefusedError, match=r"preload: brig_threads: starts 1 thread \(ticker\)"):
        brig.Template(preload=["json", "brig_threads"], **guest)
    with pytest.raises(brig.RefusedError, match="preload: brig_raises: ZeroDivisionError"):
        brig.Template(preload="brig_raises", **guest)
    with pytest.raises(brig.RefusedError, match="preload: no_such_module: ModuleNotFoundError"):
        brig.Template(preload=["no_such_module"], **guest)
    for names, error in ((["a b"], ValueError), ([3], TypeError), (["os;x"], ValueError)):
        with pytest.raises(error, match="preload"):
            brig.Template(preload=names)


# ---- many, watched, ended ----


def test_map_is_ordered_and_bounded(guest):
    template = brig.Template(max_concurrent=2, **guest)
    taken = []

    def numbers():
        for number in range(6):
            taken.append(number)
            yield number
    results = template.map(lambda n: n * n, numbers())
    assert next(results) == 0 and len(taken) <= 3
    assert list(results) == [1, 4, 9, 16, 25]
    assert list(template.map(lambda a, b: a + b, "ab", "xyz")) == ["ax", "by"]
    outcomes = list(template.map(lambda n: 1 // n, [1, 0, 1], outcomes=True))
    assert [outcome.ok for outcome in outcomes] == [True, False, True]
    with pytest.raises(brig.CallFailed, match="ZeroDivisionError"):
        list(template.map(lambda n: 1 // n, [1, 0, 1]))
    assert system.wait_until(lambda: template._pool.running == 0, 5)


def test_map_that_is_left_ends_its_calls(guest, alive):
    with brig.Template(kill_after=0.1, parked=0, **guest) as template:
        before = alive()
        results = template.map(lambda n: time.sleep(n), [0, 300, 300, 300])
        next(results)
        assert system.wait_until(lambda: alive() >= before + 2, 10)
        results.close()
        assert alive() == before and system.wait_until(lambda: template._pool.running == 0, 5)


def test_amap_and_acall(template):
    async def main():
        squares = [n async for n in template.amap(lambda n: n * n, range(5))]
        both = await asyncio.gather(template.acall(len, "abc"), template.acall(lambda: 1 + 1))
        with pytest.raises(brig.CallFailed, match="ZeroDivision"):
            async for _ in template.amap(lambda n: 1 // n, [0]):
                pass
        return squares, both
    assert asyncio.run(main()) == ([0, 1, 4, 9, 16], [3, 2])


def test_cancelled_acall_leaves_nothing(guest, alive):
    async def main(template):
        before = alive()
        call = asyncio.create_task(template.acall(time.sleep, 300))
        while alive() == before:
            await asyncio.sleep(0.02)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert alive() == before
    with brig.Template(kill_after=0.1, parked=0, **guest) as template:
        asyncio.run(main(template))


def test_start_gives_events_and_can_be_cancelled(template):
    def count():
        for number in range(3):
            print(number)
            time.sleep(0.05)
        return "counted"
    call = template.start(count)
    texts = [event.text for event in call if event.type == "stdout"]
    assert texts[0] == "0\n" and call.value() == "counted" and call.outcome().ok
    with template.with_limits(kill_after=0.1).start(time.sleep, 300) as call:
        call.cancel("enough")
        outcome = call.outcome(20)
    assert outcome.kind == "cancelled" and "enough" in outcome.error
    with pytest.raises(TimeoutError), template.start(time.sleep, 300) as call:
        call.value(0.05)
    assert system.wait_until(lambda: template._pool.running == 0, 5)


def test_closed_template_says_so(guest):
    with brig.Template(**guest) as template:
        limited = template.with_limits(timeout=5)
    for closed in (template, limited):
        with pytest.raises(brig.UsageError, match="the template is closed"):
            closed.call(len, "")

    async def main():
        async with brig.Template(**guest) as other:
            assert await other.acall(len, "ab") == 2
        with pytest.raises(brig.UsageError):
            await other.acall(len, "")
    asyncio.run(main())


def test_case_37_loops_threads_and_forks(guest, script):
    done = script("""
import asyncio, brig, os, sys, threading
template = brig.Template(max_concurrent=2, env={"BRIG_TEST_TOKEN": sys.argv[1]})
values = []
def in_thread(n):
    values.append(template.call(lambda: n))
def in_loop(n):
    async def main():
        return await asyncio.gather(template.acall(lambda: n), template.acall(lambda: -n))
    values.extend(asyncio.run(main()))
threads = [threading.Thread(target=target, args=(n,)) for n, target in enumerate([in_thread, in_thread, in_loop, in_loop], 1)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert sorted(values) == [-4, -3, 1, 2, 3, 4], values
call = template.start(lambda: "parent's")
pid = os.fork()
if pid == 0:
    ok = template.call(lambda: "child's") == "child's"
    del template, call
    os._exit(0 if ok else 1)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert call.value() == "parent's" and template.call(len, "ab") == 2
""", guest["env"]["BRIG_TEST_TOKEN"])
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_interrupt_ends_the_call_first(guest, script, alive):
    process = script("""
import brig, sys, time
template = brig.Template(parked=0, env={"BRIG_TEST_TOKEN": sys.stdin.readline().strip()})
print("open", flush=True)
sys.stdin.readline()
try:
    template.call(time.sleep, 300)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.stdin.read()
""", start=True, stdin=subprocess.PIPE)
    with process:
        process.stdin.write(guest["env"]["BRIG_TEST_TOKEN"] + "\n")
        process.stdin.flush()
        assert process.stdout.readline() == "open\n"
        before = alive()
        process.stdin.write("go\n")
        process.stdin.flush()
        assert system.wait_until(lambda: alive() > before, 20)
        process.send_signal(2)
        assert process.stdout.readline() == "interrupted\n"
        assert alive() == before
        process.stdin.close()
        assert process.wait(10) == 0


# ---- plain calls (test_plain.py) ----

def test_plain_and_not_plain_calls(template):
    assert template.call(abs, -7) == 7
    assert template.call(max, 1, 2.5) == 2.5
    assert template.call(max, [1, 2]) == 2
    assert template.call(posixpath.join, "é", "x") == "é/x"
    assert template.call(textwrap.shorten, "one two three", 8, placeholder="…") == "one two…"
    assert template.call(len, "x" * 100_000) == 100_000
    assert template.call(int, "12") == 12
    assert template.call(ascii, "\ud800") == r"'\ud800'"


def test_a_plain_call_of_what_is_not_imported_yet(template):
    import colorsys
    assert template.call(colorsys.rgb_to_hsv, 0.0, 0.0, 1.0) == (2 / 3, 1.0, 1.0)


def test_a_plain_call_that_fails(template):
    with pytest.raises(brig.CallFailed, match="raised: TypeError: bad operand type for abs"):
        template.call(abs, "x")
