# SPDX-License-Identifier: MIT
"""Many jobs: bounded, in order, each with one result, whatever happens to the batch."""
import contextlib
import json
import os
import re
import signal
import subprocess
import time

import pytest
from batch_frame import RUNS, batch, by_line, results_of  # noqa: F401 (fixtures too)
from conftest import BRIG, ROOT, SLOW, WARM, finish, message, wait_until

pytestmark = pytest.mark.skipif(bool(WARM), reason="brig batch has no --warm")


# ---- jobs and results ----------------------------------------------------------------------

def test_each_job_has_a_result_with_its_id_and_line(batch):
    batch.write(batch.job("echo", "one", id="first", labels={"kind": "a"}), "", "  \t",
                batch.shell("exit 3"))
    done = batch.run()
    results = by_line(done)
    assert sorted(results) == [1, 4]
    assert (results[1]["job"], results[1]["stdout"], results[1]["ok"]) == ("first", "one\n", True)
    assert (results[1]["schema"], results[1]["labels"]) == ("brig.result/1", {"kind": "a"})
    assert (results[4]["job"], results[4]["exit_code"], results[4]["ok"]) == ("4", 3, False)
    assert "hash" not in results[1]
    assert done.returncode == 1
    assert re.fullmatch(r"brig: 2 jobs: 1 ok, 1 failed, in [\d.]+ s\n", message(done))


def test_jobs_from_stdin_that_all_succeed(batch):
    done = batch.run("-q", feed=(batch.job("true") + "\n" + batch.job("true")).encode())
    assert (done.returncode, done.stderr) == (0, b"")
    assert sorted(by_line(done)) == [1, 2]


@pytest.mark.parametrize("content", [b"", b"\n\n  \n"])
def test_no_jobs_are_all_of_them(batch, content):
    done = batch.run(feed=content)
    assert (done.returncode, done.stdout) == (0, b"")
    assert "0 jobs: 0 ok, 0 failed" in message(done)


def test_results_come_while_jobs_are_still_being_written(batch):
    """A pipe: a result does not wait for the end of the input."""
    process = batch.start("-", input="-q", stdin=subprocess.PIPE)
    for number in range(3):
        process.stdin.write(batch.job("echo", number).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["stdout"] == f"{number}\n"
    process.stdin.close()
    assert process.wait(20 * SLOW) == 0
    process.stdout.close()
    process.stderr.close()


BAD_LINES = [
    (b"{", "line 1, column 2: "),
    (b"[1]", "line 1: is not a JSON object"),
    (b"nonsense", "line 1, column 1: "),
    (b'{"command":["true"],"command":["true"]}', 'duplicate object key "command"'),
    (b'{"command":["true"]} {"command":["true"]}', "line 1, column 22: "),
    (b'{"command":["tr\0ue"]}', "line 1, column 16: control character"),
    (b'{"command":["tr\\u0000ue"]}', "\\u0000 is not allowed"),
    (b'{"command":["\xff"]}', "line 1, column 14: invalid UTF-8"),
    (b"\xef\xbb\xbf{}", "line 1, column 1: "),
    (b"\0", "line 1, column 1: "),
    (b"{}", "command"),
    (b'{"command":[]}', "line 1: command: is not an array"),
    (b'{"command":"true"}', "line 1: command: is not an array"),
    (b'{"command":["true"],"memory":"lots"}', 'line 1: memory: "lots"'),
    (b'{"command":["true"],"colour":"red"}', "line 1: colour: is not a key"),
    (b'{"command":["true"],"id":7}', "line 1: id: is not a string"),
    (b'{"command":["true"],"id":""}', "id: has 0 bytes; 1 to 128"),
    (b'{"command":["true"],"id":"' + b"x" * 129 + b'"}', "id: has 129 bytes"),
    (b'{"command":["cat"],"stdin":"-"}', "stdin: a job cannot read brig's stdin"),
    (b'{"command":["/no/such"]}', "/no/such: no such file"),
    (b"[" * 5000, "maximum parsing depth"),
    (b'{"command":["' + b"x" * (1 << 20) + b'"]}', "line 1: is longer than 1048576 bytes"),
    (b"x" * 3_000_000, "line 1: is longer than 1048576 bytes"),
]


@pytest.mark.parametrize("line, text", BAD_LINES, ids=range(len(BAD_LINES)))
def test_a_line_that_is_no_job_has_an_error_and_the_others_go_on(batch, line, text):
    done = batch.run("-j", "1", feed=line + b"\n" + batch.job("echo", "next").encode())
    wrong, right = results_of(done)
    assert (wrong["line"], wrong["job"], wrong["status"], wrong["ok"]) == (1, "1", "error", False)
    assert text in wrong["notes"] and wrong["error"]["text"] == wrong["notes"]
    assert (right["line"], right["stdout"]) == (2, "next\n")
    assert done.returncode == 1


def test_an_error_has_the_id_if_it_could_be_read(batch):
    done = batch.run(feed=b'{"id":"mine","command":["true"],"memory":"lots"}')
    assert results_of(done)[0]["job"] == "mine"


def test_a_secret_in_a_refused_value_is_hidden(batch):
    secret = "sk-" + "abcdefgh12345678" * 2
    done = batch.run(feed=b'{"command":["true"],"view":"%s"}' % secret.encode())
    assert results_of(done)[0]["status"] == "error"
    assert secret.encode() not in done.stdout + done.stderr


def test_the_longest_line_is_a_job(batch):
    head, tail = batch.job("echo", "long").rsplit("}", 1)
    line = head + " " * ((1 << 20) - len(head) - 1) + "}" + tail
    assert len(line) == 1 << 20
    assert results_of(batch.run(feed=line.encode()))[0]["stdout"] == "long\n"


def test_ids_may_repeat_the_line_tells_them_apart(batch):
    batch.write(*[batch.job("true", id="same")] * 3)
    results = by_line(batch.run())
    assert [results[line]["job"] for line in (1, 2, 3)] == ["same"] * 3


def test_ids_come_back_as_they_were(batch):
    ids = ['"quoted"', "\u00e4\u4e2d\U0001f600", "a\nb\tc", "\\", "x" * 128, "\x7f"]
    batch.write(*[batch.job("true", id=name) for name in ids])
    results = by_line(batch.run())
    assert [results[line + 1]["job"] for line in range(len(ids))] == ids


def test_settings_of_the_spec_hold_unless_a_job_sets_them(batch):
    spec = batch.tmp / "spec.json"
    spec.write_text(json.dumps({"memory": "64M", "pids": 7, "command": ["echo", "default"]}))
    batch.write(json.dumps({"memory": "96M"}), batch.job("echo", "own", pids=9))
    results = by_line(batch.run("--spec", spec))
    assert [results[line]["stdout"] for line in (1, 2)] == ["default\n", "own\n"]
    assert [results[line]["limits"]["memory_bytes"] for line in (1, 2)] == [96 << 20, 64 << 20]
    assert [results[line]["limits"]["pids"] for line in (1, 2)] == [7, 9]


def test_variables_go_before_what_a_job_says_as_in_run(batch):
    batch.write(batch.job("true", pids=9))
    done = batch.run(env={**os.environ, "BRIG_PIDS": "11"})
    assert by_line(done)[1]["limits"]["pids"] == 11


def test_stdin_is_empty_or_a_file(batch):
    (batch.tmp / "in").write_text("from a file")
    batch.write(batch.job("cat"), batch.job("cat", stdin=str(batch.tmp / "in")))
    with open(batch.path, "rb") as stdin:
        done = finish(batch.start(input="-", stdin=stdin))
    results = by_line(done)
    assert [results[line]["stdout"] for line in (1, 2)] == ["", "from a file"]


def test_ends_of_every_kind(batch):
    batch.write(batch.job("sleep", "300", timeout="100ms"), batch.job("yes", output="1K"),
                batch.shell("kill -SEGV $$"), batch.shell("echo $((6 * 7))"))
    results = by_line(batch.run())
    assert [results[n]["status"] for n in (1, 2, 3, 4)] == ["timeout", "output_limit", "signaled", "exited"]


# ---- the command line ----------------------------------------------------------------------

@pytest.mark.parametrize("options, text", [
    (["-j", "0"], '--jobs: "0" is not a number from 1 to 1024'),
    (["-j", "x"], '--jobs: "x" is not'),
    (["-j", "-1"], '--jobs: "-1" is not'),
    (["-j", "1025"], '--jobs: "1025" is not'),
    (["-j"], "--jobs: "),
    (["--jobs=1", "--colour"], "unknown option"),
    (["--spec", "/no/such"], "/no/such"),
    (["--replay"], "only with --resume"),
    (["second"], "one argument too many"),
])
def test_bad_usage_is_refused(batch, options, text):
    batch.write(batch.job("touch", batch.tmp / "ran"))
    done = batch.brig.run(batch.path, *options, verb="batch")
    assert (done.returncode, done.stdout) == (2, b"")
    assert text in message(done)
    assert not (batch.tmp / "ran").exists()


@pytest.mark.parametrize("path, text", [("none", "No such file"), (".", "is a directory")])
def test_input_that_cannot_be_read(batch, path, text):
    done = batch.brig.run(path, verb="batch")
    assert done.returncode == 2 and text in message(done)
    done = batch.brig.run(verb="batch")
    assert done.returncode == 2 and "no jobs" in message(done)


def test_more_at_once_than_open_files_allow_is_refused(batch):
    batch.write(batch.job("true"))
    done = batch.run("-j", "1000", before=["prlimit", "--nofile=1024"])
    assert done.returncode == 125 and "ulimit -n" in message(done)


@pytest.mark.stress
@pytest.mark.parametrize("jobs, files, warm", [(4, 4 * 19 + 64, False), (4, 4 * 19 + 576, True), (40, 40 * 19 + 64, False)])
def test_the_open_files_that_are_said_to_be_needed_are_enough(batch, jobs, files, warm):
    batch.write(*[batch.job("true")] * RUNS)
    done = batch.run("-v", "-j", jobs, before=["prlimit", f"--nofile={files}"], timeout=60 + RUNS, stdout=subprocess.DEVNULL)
    assert done.returncode == 0
    assert (f"brig: 0 of {RUNS} runs were warm" in message(done)) == (not warm)


def test_help_says_that_the_number_cannot_be_changed(batch):
    done = batch.brig.run("--help", verb="batch")
    assert done.returncode == 0 and b"cannot be changed while they run" in done.stdout.replace(b"\n", b" ")


def test_trying_to_change_the_number_is_an_error_that_is_said(batch, marker):
    """SIGUSR1 and SIGUSR2 do that in xargs."""
    batch.write(batch.shell(f"while ! [ -e {marker} ]; do sleep 0.01; done"))
    process = batch.start("-j", "1")
    assert wait_until(batch.brig.survivors)
    process.send_signal(signal.SIGUSR1)
    assert b"SIGUSR1: the number of parallel jobs cannot be changed" in process.stderr.readline()
    marker.touch()
    done = finish(process)
    assert (done.returncode, len(results_of(done))) == (0, 1)


# ---- concurrency ---------------------------------------------------------------------------

COUNTED = """
exec 9>{lock}; flock 9; echo + >>{log}; flock -u 9
{body}
flock 9; echo - >>{log}; flock -u 9
"""


def most_at_once(log):
    now = most = 0
    for mark in log.read_text().split():
        now += 1 if mark == "+" else -1
        most = max(most, now)
    assert now == 0
    return most


@pytest.mark.parametrize("jobs", [1, 3])
def test_at_most_so_many_at_once_seen_from_inside(batch, jobs):
    log = batch.tmp / "log"
    text = COUNTED.format(lock=batch.tmp / "lock", log=log, body="sleep 0.05")
    batch.write(*[batch.shell(text)] * 12)
    done = batch.run("-j", jobs)
    assert done.returncode == 0
    assert most_at_once(log) == jobs


def test_case_36_a_thousand_queued_in_order_and_interrupted(batch):
    """At most N at once, seen from outside; they start in order; what waits is never started, what
    runs is cancelled, and each job has one result at most."""
    gate, started = batch.tmp / "gate", batch.tmp / "started"
    gate.touch()
    text = "echo $N >>{0}; while [ -e {1} ]; do sleep 0.02; done; [ $N -lt 20 ] || exec sleep 300"
    batch.write(*[batch.shell(text.format(started, gate), env={"N": str(number)}) for number in range(1000)])
    process = batch.start("-j", "4")
    seen = lambda: started.read_text().split() if started.exists() else []
    assert wait_until(lambda: len(seen()) == 4, 20)
    assert sorted(map(int, seen())) == [0, 1, 2, 3]
    # With the cells that were built ahead; while one is built, it has helpers beside it.
    assert wait_until(lambda: len(guests(process)) <= 4 + 4, 20), guests(process)
    assert len(seen()) == 4
    gate.unlink()
    assert wait_until(lambda: len(seen()) == 24, 30)
    process.send_signal(signal.SIGINT)
    done = finish(process)
    assert sorted(map(int, seen())) == list(range(24))
    results = by_line(done)
    begun = [results[line]["started_at"] for line in sorted(results)]
    assert begun == sorted(begun)  # as they were written; when a guest gets to run is the kernel's choice
    assert done.returncode == 128 + signal.SIGINT
    assert sorted(results) == list(range(1, 25))
    assert [results[line]["status"] for line in range(1, 21)] == ["exited"] * 20
    assert [results[line]["status"] for line in range(21, 25)] == ["cancelled"] * 4
    assert "brig got SIGINT" in results[24]["notes"]
    assert "24 jobs: 20 ok, 0 failed, 4 cancelled, 976 not started" in message(done)
    assert not batch.brig.survivors()


def guests(process):
    """What the process has started, by any of its threads."""
    pids = []
    for thread in os.listdir(f"/proc/{process.pid}/task"):
        with contextlib.suppress(OSError), open(f"/proc/{process.pid}/task/{thread}/children", encoding="ascii") as listing:
            pids += listing.read().split()
    return pids


def test_case_24_waiting_for_a_place_does_not_count_against_the_timeout(batch):
    """Each takes most of its timeout; the last one waits for several of them."""
    batch.write(*[batch.shell("sleep 0.4", timeout=f"{2 * SLOW}s")] * 8)
    done = batch.run("-j", "1")
    results = by_line(done)
    assert done.returncode == 0
    assert all(result["status"] == "exited" for result in results.values())
    assert sum(result["usage"]["wall_seconds"] for result in results.values()) > 2


def test_slow_jobs_do_not_hold_others_up(batch, marker):
    batch.write(batch.shell(f"while ! [ -e {marker} ]; do sleep 0.01; done; echo slow"),
                *[batch.job("true")] * 20, batch.shell(f"touch {marker}"))
    results = results_of(batch.run("-j", "2"))
    assert len(results) == 22
    assert "slow\n" in [result["stdout"] for result in results[-2:]]  # with the one that let it go on


def test_jobs_of_one_shape_run_in_cells_that_were_built_ahead(batch):
    batch.write(*[batch.shell("sleep 0.05")] * 12)
    done = batch.run("-v", "-j", "1")
    warm = int(re.search(r"(\d+) of 12 runs were warm", message(done))[1])
    assert warm >= 6
    assert warm == sum(result["isolation"]["warm"] for result in results_of(done))


def test_cells_follow_the_shape_that_most_jobs_have(batch):
    batch.write(*[batch.job("true", pids=50)] * 2, *[batch.shell("sleep 0.03", pids=60)] * 40)
    results = by_line(batch.run("-j", "1"))
    assert not any(results[line]["isolation"]["warm"] for line in range(3, 10))
    assert sum(results[line]["isolation"]["warm"] for line in range(25, 43)) > 9


# ---- ending early --------------------------------------------------------------------------

STUBBORN = "trap '' TERM; setsid sleep 300 & echo up; while :; do sleep 1; done"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_cancels_what_runs_and_all_is_written(batch, number):
    batch.write(*[batch.shell(f"touch {batch.tmp}/up{n}; exec sleep 300") for n in range(50)])
    process = batch.start("-j", "3")
    assert wait_until(lambda: all((batch.tmp / f"up{n}").exists() for n in range(3)), 20)
    process.send_signal(number)
    done = finish(process)
    assert done.returncode == 128 + number
    results = by_line(done)
    assert len(results) == 3
    assert {result["status"] for result in results.values()} == {"cancelled"}
    assert not batch.brig.survivors()


def test_a_second_signal_does_not_wait(batch):
    batch.write(*[batch.shell(f"touch {batch.tmp}/up{n}; " + STUBBORN, kill_after="60s") for n in range(2)])
    process = batch.start("-j", "2")
    assert wait_until(lambda: (batch.tmp / "up0").exists() and (batch.tmp / "up1").exists(), 20)
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)  # or it may not be seen as two
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    done = finish(process)
    assert time.monotonic() - start < 10 * SLOW
    assert done.returncode == 130
    assert [result["status"] for result in results_of(done)] == ["cancelled"] * 2


def test_fail_fast_ends_the_others(batch):
    batch.write(batch.job("true"), batch.job("sleep", 300), batch.shell("exit 7"), *[batch.job("sleep", 300)] * 20)
    done = batch.run("--fail-fast", "-j", "3")
    results = by_line(done)
    assert done.returncode == 1
    assert results[3]["exit_code"] == 7
    rest = [results[line] for line in results if line not in (1, 3)]
    assert rest and all(result["status"] == "cancelled" for result in rest)
    assert "another job of the batch failed" in rest[0]["notes"]
    assert len(results) <= 5


def test_fail_fast_at_a_line_that_is_no_job(batch):
    batch.write(batch.job("true"), "{", *[batch.job("touch", batch.tmp / "ran")] * 3)
    done = batch.run("--fail-fast", "-j", "1")
    assert (done.returncode, sorted(by_line(done))) == (1, [1, 2])
    assert not (batch.tmp / "ran").exists()


def test_a_reader_that_goes_away_ends_the_batch(batch):
    batch.write(batch.job("true"), *[batch.job("sleep", 300)] * 100)
    process = batch.start("-j", "4")
    assert process.stdout.readline()
    assert wait_until(batch.brig.survivors)
    process.stdout.close()
    process.stdout = None
    done = finish(process)
    assert done.returncode == 125
    assert "stdout: cannot write the results: Broken pipe" in message(done)
    assert not batch.brig.survivors()


def test_a_reader_that_does_not_read_holds_no_job_and_no_timeout_up(batch):
    """The pipe is full; what runs still ends on time, and nothing is lost."""
    batch.write(*[batch.shell("head -c 300000 /dev/zero | tr '\\0' x", id=str(n)) for n in range(12)],
                batch.job("sleep", 300, timeout="200ms", id="late"))
    process = batch.start("-j", "8")
    assert wait_until(lambda: not batch.brig.survivors() and len(guests(process)) <= 9, 20)
    done = finish(process)
    results = {result["job"]: result for result in results_of(done)}
    assert len(results) == 13 and results["late"]["status"] == "timeout"
    assert results["late"]["usage"]["wall_seconds"] < 5 * SLOW


def test_a_stuck_reader_is_given_up_when_told_twice(batch):
    batch.write(*[batch.shell("head -c 300000 /dev/zero | tr '\\0' x")] * 50)
    process = batch.start("-j", "2")
    time.sleep(1 * SLOW)  # nobody reads: it stands still
    process.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20 * SLOW) == 128 + signal.SIGTERM
    process.stdout.close()
    process.stderr.close()


def test_nothing_survives_the_kill_of_the_batch(batch):
    batch.write(*[batch.shell("trap '' TERM; setsid sleep 300 & sleep 300")] * 20)
    process = batch.start("-j", "4")
    assert wait_until(lambda: len(batch.brig.survivors()) >= 8, 20)
    process.kill()
    finish(process)
    assert wait_until(lambda: not batch.brig.survivors(), 10)
    batch.write(batch.job("true"))
    assert batch.run().returncode == 0  # and its groups are swept by the next


# ---- memory --------------------------------------------------------------------------------

def resident(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next((int(line.split()[1]) for line in status if line.startswith("VmRSS")), 0)
    return 0


@pytest.mark.stress
@pytest.mark.measured
@pytest.mark.timeout((RUNS * 2 + 120) * SLOW)
@pytest.mark.parametrize("journal", [False, True], ids=["", "journal"])
def test_memory_is_flat(batch, journal):
    """After the first few hundred jobs nothing grows, neither memory nor descriptors."""
    count = RUNS * 4
    batch.write(*[batch.job("true")] * count)
    options = ["--resume", batch.tmp / "journal"] if journal else []
    process = batch.start("-q", "--fail-fast", *options)
    early = late = files = 0
    for number, line in enumerate(process.stdout):
        assert json.loads(line)["ok"], line
        if number == count // 4:
            early, files = resident(process.pid), len(os.listdir(f"/proc/{process.pid}/fd"))
        if number == count - 10:
            late = resident(process.pid)
    assert finish(process).returncode == 0
    print(f"{count} jobs: VmRSS {early} KiB at {count // 4}, {late} KiB at the end, {files} descriptors")
    assert early and late - early < 512


@pytest.mark.measured
def test_the_input_is_read_only_as_there_is_room(batch):
    """A writer of jobs that never ends is held up, and costs no memory."""
    process = batch.start("-q", "-j", "1", input="-", stdin=subprocess.PIPE)
    os.set_blocking(process.stdin.fileno(), False)
    line = batch.job("sleep", 300).encode() + b" " * 1000 + b"\n"
    written, quiet = 0, 0
    while quiet < 20:
        try:
            written += os.write(process.stdin.fileno(), line * 50)
            quiet = 0
        except BlockingIOError:
            quiet += 1
            time.sleep(0.02)
    assert written < 1 << 20
    assert resident(process.pid) < 16384
    process.send_signal(signal.SIGINT)
    finish(process)


# ---- what the manual shows -----------------------------------------------------------------

def test_the_examples_of_the_manual_show_what_is_printed(batch):
    """docs/BATCH.md: each shell block with the block of its output after it, one after the other."""
    with open(os.path.join(ROOT, "docs", "BATCH.md"), encoding="utf-8") as file:
        blocks = re.findall(r"^```(sh)?\n(.*?)^```$", file.read(), re.M | re.S)
    assert [kind for kind, _ in blocks] == ["sh", ""] * 2
    env = {**os.environ, "PATH": os.path.dirname(BRIG) + ":" + os.environ["PATH"]}
    for (_, script), (_, output) in zip(blocks[::2], blocks[1::2]):
        done = subprocess.run(["sh", "-c", script], cwd=batch.tmp, env=env, capture_output=True, timeout=60 * SLOW)
        assert done.stdout.decode() == output, done.stderr.decode()
