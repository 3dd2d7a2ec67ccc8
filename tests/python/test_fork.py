# SPDX-License-Identifier: MIT
"""CASES 37: a fork of the host process. Each in a process of its own: what forks here is no test."""
import pytest

PRELUDE = """
import brig, os, sys, threading, time, asyncio, multiprocessing, warnings
TOKEN = sys.argv[1]
ENV = {"BRIG_TEST_TOKEN": TOKEN}
def in_child(function):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            function()
            code = 0
        finally:
            sys.stdout.flush()
            os._exit(code)
    return pid
def ended(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""


@pytest.fixture
def forks(guest, script):
    def run(code, *args):
        done = script(PRELUDE + code, guest["env"]["BRIG_TEST_TOKEN"], *args)
        assert done.returncode == 0 and not done.stderr, done.stderr
        return done.stdout
    return run


def test_case_37_the_fork_has_runs_of_its_own(forks):
    forks("""
first = brig.run("true", env=ENV)
assert first.ok
def child():
    assert brig.run("echo x", env=ENV).stdout == b"x\\n"
    assert asyncio.run(brig.aio.run("echo y", env=ENV)).stdout == b"y\\n"
    assert brig.start("echo z", env=ENV).wait(10).stdout == b"z\\n"
    assert ended(in_child(lambda: brig.run("true", env=ENV, check=True))) == 0
assert ended(in_child(child)) == 0
result = brig.run("true", env=ENV)
assert result.ok and result.isolation.degraded == first.isolation.degraded
""")


def test_case_37_the_parent_s_runs_go_on(forks):
    forks("""
run = brig.start("echo up; read line; echo $line; exit 7", env=ENV, input="late\\n", timeout=20)
slow = brig.start("sleep 0.5; echo done", env=ENV)
next(event for event in run if event.type == "stdout")
def child():
    for use in (run.wait, run.cancel, run.events, run.fileno, lambda: run.result, lambda: list(run)):
        try:
            use()
        except brig.UsageError as error:
            assert "fork" in str(error)
        else:
            assert False
    run.close()
    with slow:
        pass
    assert brig.run("true", env=ENV).ok
assert ended(in_child(child)) == 0          # leaves without and with clean-up
pid = os.fork()
if pid == 0:
    del run, slow
    sys.exit(0)                             # atexit, garbage collection, all of it
assert ended(pid) == 0
assert run.wait(10).exit_code == 7 and slow.wait(10).stdout == b"done\\n"
""")


def test_case_37_a_fork_does_not_hold_the_parent_s_stdin_open(forks):
    assert forks("""
for size in (1000, 2_000_000):
    run = brig.start("sleep 0.2; wc -c", env=ENV, input=b"x" * size)
    before = len(os.listdir("/proc/self/fd"))
    pid = in_child(lambda: (print(len(os.listdir("/proc/self/fd")) < before, flush=True), time.sleep(300)))
    assert int(run.wait(10).stdout) == size
    os.kill(pid, 9)
    ended(pid)
""") == "True\nTrue\n"


def test_case_37_a_fork_killed_with_its_runs_leaves_nothing(forks):
    forks("""
def child():
    run = brig.start("trap '' TERM; setsid sleep 300 & echo up; sleep 300", env=ENV)
    next(event for event in run if event.type == "stdout")
    os.kill(os.getpid(), 9)
assert brig.run("true", env=ENV).ok
assert ended(in_child(child)) == -9
""")


def test_case_37_forks_while_threads_start_runs(forks):
    forks("""
stop, problems = threading.Event(), []
def work():
    while not stop.is_set():
        try:
            brig.run("true", env=ENV, check=True)
        except BaseException as error:
            problems.append(error)
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for _ in range(20):
        assert ended(in_child(lambda: brig.run("true", env=ENV, check=True, timeout=20))) == 0
stop.set()
for thread in threads:
    thread.join()
assert not problems
""")


def test_case_37_multiprocessing_with_fork(forks):
    forks("""
def work(number):
    return brig.run(["echo", str(number)], env=ENV).stdout
brig.run("true", env=ENV)
with multiprocessing.get_context("fork").Pool(2) as workers:
    assert workers.map(work, range(6)) == [b"%d\\n" % i for i in range(6)]
    workers.close()
    workers.join()
""")


def test_case_37_a_pool_after_a_fork_is_empty(forks):
    forks("""
pool = brig.Pool(1, env=ENV, warm=1)
thread = threading.Thread(target=lambda: pool.run("sleep 0.5"))
thread.start()
while not pool.running:
    time.sleep(0.01)
assert ended(in_child(lambda: pool.run("true", check=True))) == 0
thread.join()
assert pool.running == 0
pool.close()
""")


def test_case_37_fork_in_an_event_loop(forks):
    forks("""
async def main():
    task = asyncio.create_task(brig.aio.run("sleep 0.3; echo mine", env=ENV))
    await asyncio.sleep(0.1)
    pid = in_child(lambda: brig.run("true", env=ENV, check=True))
    assert (await task).stdout == b"mine\\n"
    assert ended(pid) == 0
asyncio.run(main())
""")
