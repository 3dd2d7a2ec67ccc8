"""Many jobs: bounded, in order, each with one result, whatever happens to the batch."""
import contextlib
import fcntl
import json
import os
import pty
import random
import re
import signal
import struct
import subprocess
import termios
import time

import pytest
from conftest import BRIG, ROOT, SLOW, WARM, finish, message, wait_until

pytestmark = pytest.mark.skipif(bool(WARM), reason="brig batch has no --warm")

RUNS = int(os.environ.get("BRIG_STRESS_RUNS", "300"))
KILLS = int(os.environ.get("BRIG_BATCH_KILLS", "10"))


class Batch:
    """`brig batch` for one test: jobs carry its token, so that what survives is seen."""

    def __init__(self, brig):
        self.brig, self.tmp = brig, brig.tmp
        self.path = brig.tmp / "jobs.ndjson"

    def job(self, *command, **keys):
        env = {"BRIG_TEST_TOKEN": self.brig.token, **keys.pop("env", {})}
        return json.dumps({"command": [str(word) for word in command], "env": env, **keys})

    def shell(self, text, **keys):
        return self.job("sh", "-c", text, **keys)

    def write(self, *lines):
        """Lines are text, or bytes that are no text."""
        with open(self.path, "wb") as file:
            for line in lines:
                file.write((line if isinstance(line, bytes) else line.encode()) + b"\n")
        return self.path

    def start(self, *options, input=None, **kw):
        return self.brig.start(*options, input or self.path, verb="batch", **kw)

    def run(self, *options, timeout=60, feed=None, **kw):
        if feed is not None:
            kw.update(stdin=subprocess.PIPE, input="-")
        return finish(self.start(*options, **kw), timeout, feed)


@pytest.fixture
def batch(brig):
    return Batch(brig)


def results_of(done):
    """The results in their order; each line is whole, and one object."""
    text = done if isinstance(done, bytes) else done.stdout
    assert text.endswith(b"\n") or not text
    return [json.loads(line) for line in text.splitlines()]


def by_line(done):
    found = {result["line"]: result for result in results_of(done)}
    assert len(found) == len(results_of(done)), "a job has two results"
    return found


def journal_of(path):
    with open(path, "rb") as file:
        header, *records = file.read().splitlines()
    assert json.loads(header)["schema"] == "brig.batch/1"
    return [json.loads(record) for record in records]


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
    (b'{"command":["cat"],"stdin":"-"}', "stdin: - is not for a job"),
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
    (["second"], "one word too many"),
])
def test_bad_usage_is_refused(batch, options, text):
    batch.write(batch.job("touch", batch.tmp / "ran"))
    done = batch.brig.run(batch.path, *options, verb="batch")
    assert (done.returncode, done.stdout) == (2, b"")
    assert text in message(done)
    assert not (batch.tmp / "ran").exists()


@pytest.mark.parametrize("path, text", [("none", "No such file"), (".", "is a folder")])
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
@pytest.mark.parametrize("jobs, files, warm", [(4, 4 * 18 + 64, False), (4, 4 * 18 + 576, True), (40, 40 * 18 + 64, False)])
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
    assert b"SIGUSR1: how many jobs run at once cannot be changed" in process.stderr.readline()
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
    assert len(guests(process)) <= 4 + 4 + 1  # with the cells that were built ahead, and one being built
    gate.unlink()
    assert wait_until(lambda: len(seen()) == 24, 30)
    process.send_signal(signal.SIGINT)
    done = finish(process)
    order = list(map(int, seen()))
    assert all(abs(place - number) < 4 for place, number in enumerate(order))  # as they were written
    results = by_line(done)
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


# ---- disk full -----------------------------------------------------------------------------

def test_results_that_cannot_be_written(batch):
    batch.write(batch.job("true"), *[batch.job("sleep", 300)] * 20)
    with open("/dev/full", "wb") as full:
        done = batch.run(stdout=full)
    assert done.returncode == 125
    assert "stdout: cannot write the results: No space left on device" in message(done)
    assert not batch.brig.survivors()


def on_small_disk(batch, disk, shell):
    """Run a shell line where `disk` is a full-up file system; its files are copied out of it."""
    out = batch.tmp / "out"
    out.mkdir(exist_ok=True)
    script = f"mount -t tmpfs -o size=64k none {disk} && {{ {shell}; }}; code=$?; cp -a {disk}/. {out}; exit $code"
    process = subprocess.Popen(["unshare", "-m", "sh", "-c", script], cwd=batch.tmp, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return finish(process), out


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk")
def test_disk_full_under_the_output_leaves_whole_lines(batch):
    disk = batch.tmp / "disk"
    disk.mkdir()
    batch.write(*[batch.shell("head -c 3000 /dev/zero | tr '\\0' x")] * 60)
    done, out = on_small_disk(batch, disk, f"{BRIG} batch -j 2 {batch.path} >{disk}/results")
    assert done.returncode == 125
    assert "stdout: cannot write the results: No space left on device" in message(done)
    results = results_of((out / "results").read_bytes())  # every line is whole
    assert 5 < len(results) < 30


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk")
def test_disk_full_under_the_journal_and_on_with_more_room(batch):
    disk = batch.tmp / "disk"
    disk.mkdir()
    batch.write(*[batch.shell("head -c 3000 /dev/zero | tr '\\0' x", id=str(n)) for n in range(40)])
    done, out = on_small_disk(batch, disk, f"{BRIG} batch -j 2 --resume {disk}/journal {batch.path}")
    assert done.returncode == 125
    assert f"--resume: {disk}/journal: cannot be written: No space left on device" in message(done)
    journal = out / "journal"
    assert journal.read_bytes().endswith(b"}\n")
    first = journal_of(journal)
    assert 5 < len(first) < 30
    again = batch.run("--resume", journal)
    assert again.returncode == 0
    assert sorted(record["line"] for record in journal_of(journal)) == list(range(1, 41))
    assert len(results_of(again)) == 40 - len(first)


# ---- the journal ---------------------------------------------------------------------------

def test_what_the_journal_has_is_not_run_again(batch):
    log, journal = batch.tmp / "log", batch.tmp / "journal"
    lines = [batch.shell(f"echo {n} >>{log}; exit {int(n == 1)}", id=f"job {n}") for n in range(4)]
    batch.write(*lines)
    first = batch.run("--resume", journal)
    assert first.returncode == 1
    assert os.stat(journal).st_mode & 0o777 == 0o600
    assert first.stdout == b"".join(journal.read_bytes().splitlines(keepends=True)[1:])
    second = batch.run("--resume", journal)
    assert (second.returncode, second.stdout) == (1, b"")  # one did not succeed, then
    assert "4 jobs: 3 ok, 1 failed (4 of them before)" in message(second)
    third = batch.run("--resume", journal, "--replay")
    assert (third.returncode, third.stdout) == (1, first.stdout)
    batch.write(*lines, batch.shell(f"echo more >>{log}"))
    fourth = batch.run("--resume", journal)
    assert [result["line"] for result in results_of(fourth)] == [5]
    assert sorted(log.read_text().split()) == ["0", "1", "2", "3", "more"]


@pytest.mark.parametrize("way", ["file", "pipe"])
@pytest.mark.parametrize("change, number", [("edited", 2), ("shifted", 1), ("shorter", 3), ("blanked", 2)])
def test_an_edited_input_is_refused_by_line(batch, way, change, number):
    """From a file before anything runs; from a pipe as soon as it is seen."""
    journal, true = batch.tmp / "journal", batch.job("true")
    batch.write(true, true, true)
    assert batch.run("--resume", journal).returncode == 0
    before = journal.read_bytes()
    more = batch.shell(f"touch {batch.tmp}/ran")
    lines = {"edited": [true, batch.job("false"), true, more], "shifted": ["", true, true, true],
             "shorter": [true, true], "blanked": [true, "  ", true]}[change]
    batch.write(*lines)
    done = batch.run("--resume", journal, feed=batch.path.read_bytes() if way == "pipe" else None)
    assert (done.returncode, done.stdout) == (125, b"")
    assert f"line {number}: is not the job that --resume" in message(done)
    assert journal.read_bytes() == before
    assert not (batch.tmp / "ran").exists()


def test_another_spec_is_refused(batch):
    journal, spec = batch.tmp / "journal", batch.tmp / "spec"
    spec.write_text('{"pids":9}')
    batch.write(batch.job("true"))
    assert batch.run("--resume", journal, "--spec", spec).returncode == 0
    spec.write_text('{"pids":10}')
    done = batch.run("--resume", journal, "--spec", spec)
    assert done.returncode == 125 and "another --spec" in message(done)


@pytest.mark.parametrize("content", [b"some text\n", b"{}\n", b"no newline", b'{"schema":"brig.result/1"}\n'])
def test_a_file_that_is_no_journal_is_left_as_it_is(batch, content):
    journal = batch.tmp / "journal"
    journal.write_bytes(content)
    batch.write(batch.job("true"))
    done = batch.run("--resume", journal)
    assert (done.returncode, done.stdout) == (125, b"")
    assert "is not a journal of brig batch" in message(done)
    assert journal.read_bytes() == content


def test_links_folders_and_fifos_are_no_journals(batch):
    batch.write(batch.job("true"))
    (batch.tmp / "link").symlink_to(batch.tmp / "target")
    os.mkfifo(batch.tmp / "fifo")
    for name, text in (("link", "is a link"), ("fifo", "is not a file"), (".", "Is a directory")):
        done = batch.run("--resume", batch.tmp / name)
        assert done.returncode == 125 and text in message(done)
    assert not (batch.tmp / "target").exists()


def test_a_torn_last_line_is_cut_off_and_its_job_runs_again(batch):
    """At every byte of it, and of the header."""
    journal = batch.tmp / "journal"
    batch.write(batch.job("true", id="a"), batch.job("true", id="b"))
    assert batch.run("-j", "1", "--resume", journal).returncode == 0
    whole = journal.read_bytes()
    header, first, last = whole.splitlines(keepends=True)
    cuts = list(range(0, len(header), 9)) + list(range(len(header) + len(first), len(whole), 97)) + [len(whole) - 1]
    for cut in cuts:
        journal.write_bytes(whole[:cut])
        done = batch.run("-j", "1", "--resume", journal)
        assert done.returncode == 0, message(done)
        expected = [1, 2] if cut < len(header) else [2]
        assert [result["line"] for result in results_of(done)] == expected
        assert [record["line"] for record in journal_of(journal)] == [1, 2]


@pytest.mark.parametrize("tail", [b"\0" * 5000, b"junk\n", b'{"line":2,"hash":"0123456789abcdef","ok":true,"job":"b",}\n',
                                  b'{"line":2\n\0\0\n'])
def test_a_last_line_that_is_no_result_is_cut_off(batch, tail):
    """As a power cut may leave it."""
    journal = batch.tmp / "journal"
    batch.write(batch.job("true", id="a"), batch.job("true", id="b"))
    assert batch.run("-j", "1", "--resume", journal).returncode == 0
    header, first, _ = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(header + first + tail)
    assert batch.run("--resume", journal).returncode == 0
    assert [record["line"] for record in journal_of(journal)] == [1, 2]


def test_a_journal_that_is_damaged_in_its_middle_is_refused_by_line(batch):
    journal = batch.tmp / "journal"
    batch.write(batch.job("true"), batch.job("true"))
    assert batch.run("-j", "1", "--resume", journal).returncode == 0
    header, first, last = journal.read_bytes().splitlines(keepends=True)
    for content, text in ((header + b"junk\n" + last, "line 2: is damaged"),
                          (header + first + first, "line 3: is damaged: a second result")):
        journal.write_bytes(content)
        done = batch.run("--resume", journal)
        assert done.returncode == 125 and text in message(done)
        assert journal.read_bytes() == content


def test_two_batches_on_one_journal_the_second_is_refused(batch, marker):
    journal = batch.tmp / "journal"
    batch.write(batch.shell(f"while ! [ -e {marker} ]; do sleep 0.01; done"))
    first = batch.start("--resume", journal)
    assert wait_until(batch.brig.survivors)
    second = batch.run("--resume", journal)
    assert second.returncode == 125 and "another brig batch uses it" in message(second)
    marker.touch()
    assert finish(first).returncode == 0


def test_jobs_cut_short_by_an_interrupt_run_again(batch):
    """They are not in the journal, nor in the output: across restarts each has one result."""
    journal, marker = batch.tmp / "journal", batch.tmp / "second"
    batch.write(*[batch.shell(f"[ -e {marker} ] || [ $N -lt 2 ] || sleep 300", env={"N": str(n)}) for n in range(6)])
    process = batch.start("-j", "2", "--resume", journal)
    assert wait_until(lambda: journal.exists() and len(journal.read_bytes().splitlines()) == 3, 20)
    assert wait_until(lambda: len(batch.brig.survivors()) >= 2)
    process.send_signal(signal.SIGINT)
    first = finish(process)
    assert first.returncode == 130
    assert sorted(by_line(first)) == [1, 2]
    assert "--resume" in message(first)
    marker.touch()
    second = batch.run("--resume", journal)
    assert second.returncode == 0
    assert sorted(by_line(second)) == [3, 4, 5, 6]
    assert sorted(record["line"] for record in journal_of(journal)) == [1, 2, 3, 4, 5, 6]


@pytest.mark.stress
@pytest.mark.timeout((KILLS * 20 + 120) * SLOW)
def test_killed_at_any_moment_each_job_has_one_result(batch):
    """kill -9, again and again, until it comes to its end; what is in the journal stays."""
    count = KILLS * 25
    journal, output = batch.tmp / "journal", batch.tmp / "output"
    batch.write(*[batch.shell("sleep 0.0$((N % 7)); echo $N", id=f"j{n}", env={"N": str(n)}) for n in range(count)])
    kills = 0
    while True:
        before = journal.read_bytes() if journal.exists() else b""
        whole = before[:before.rfind(b"\n") + 1]
        with open(output, "ab") as out:
            process = batch.start("-j", "4", "--resume", journal, stdout=out)
        if kills < KILLS:
            time.sleep(random.uniform(0.0, 0.5) * SLOW)
            process.kill()
            kills += 1
        done = finish(process, 120)
        assert journal.exists() or done.returncode == -signal.SIGKILL
        assert not journal.exists() or journal.read_bytes().startswith(whole), "what was written has changed"
        if done.returncode != -signal.SIGKILL:
            break
    assert done.returncode == 0, message(done)
    records = journal_of(journal)
    assert sorted(record["line"] for record in records) == list(range(1, count + 1))
    assert all(record["stdout"] == f"{record['line'] - 1}\n" for record in records)
    lines = [json.loads(line)["line"] for line in output.read_bytes().splitlines() if line.endswith(b"}")]
    assert len(lines) == len(set(lines)), "the output has a job twice"
    assert wait_until(lambda: not batch.brig.survivors(), 10)
    print(f"{kills} kills, {count} jobs, {len(records)} results")


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


# ---- progress ------------------------------------------------------------------------------

class Terminal:
    """A pseudo terminal that is stderr of a batch."""

    def __init__(self, columns):
        self.leader, self.follower = pty.openpty()
        fcntl.ioctl(self.follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def read_to_end(self):
        os.close(self.follower)
        text = b""
        with contextlib.suppress(OSError):
            while piece := os.read(self.leader, 65536):
                text += piece
        os.close(self.leader)
        return text.decode()


def shown_on_terminal(batch, columns, *options, env=None, **kw):
    terminal = Terminal(columns)
    process = batch.start(*options, stdout=subprocess.DEVNULL, stderr=terminal.follower,
                          env={**os.environ, "TERM": "xterm", **(env or {})}, **kw)
    text = terminal.read_to_end()
    finish(process)
    return text


@pytest.mark.parametrize("columns", [20, 24, 40, 80, 200])
def test_progress_fits_the_terminal_and_is_gone_at_the_end(batch, columns):
    batch.write(*[batch.shell("sleep 0.05; exit $((N % 2))", env={"N": str(n)}) for n in range(30)])
    text = shown_on_terminal(batch, columns, "-j", "2")
    body, end = text.rsplit("\r\x1b[K", 1)
    drawn = [line for line in body.split("\r\x1b[K") if line]
    assert len(drawn) >= 3
    assert all(len(line) < columns for line in drawn)
    assert all("/30" in line for line in drawn)
    assert any("running" in line and "left" in line and "[" in line for line in drawn) == (columns >= 80)
    assert re.fullmatch(r"\x1b\[1mbrig:\x1b\[0m 30 jobs: 15 ok, 15 failed, in [\d.]+ s\r\n", end)


def test_progress_is_drawn_ten_times_a_second_at_most(batch):
    batch.write(*[batch.job("true")] * 60)
    start = time.monotonic()
    text = shown_on_terminal(batch, 80)
    assert text.count("\r\x1b[K") <= (time.monotonic() - start) * 10 + 3


def test_progress_of_a_pipe_has_no_total(batch):
    terminal = Terminal(80)
    process = batch.start(input="-", stdin=subprocess.PIPE, stderr=terminal.follower, env={**os.environ, "TERM": "xterm"})
    process.stdin.write(batch.job("sleep", "0.3").encode())
    process.stdin.close()
    process.stdin = None
    text = terminal.read_to_end()
    finish(process)
    assert "0 done, 1 running" in text and "left" not in text


def test_no_color_is_honoured(batch):
    batch.write(batch.job("true"))
    assert "\x1b[1m" not in shown_on_terminal(batch, 80, env={"NO_COLOR": "1"})


@pytest.mark.parametrize("options, env", [(["-q"], {}), ([], {"TERM": "dumb"}), ([], {"TERM": ""})])
def test_no_progress_where_it_is_not_wanted_or_cannot_be(batch, options, env):
    batch.write(*[batch.job("true")] * 5)
    text = shown_on_terminal(batch, 80, *options, env=env)
    assert "\x1b" not in text.replace("\x1b[1mbrig:\x1b[0m", "") and "\r\n" in text + "\r\n"
    assert ("5 jobs" in text) == (not options)


def test_no_escape_leaves_when_redirected(batch):
    batch.write(*[batch.job("true")] * 5)
    done = batch.run(env={**os.environ, "TERM": "xterm"})
    assert b"\x1b" not in done.stderr + done.stdout and b"\r" not in done.stderr


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


# ---- what a job can do to the batch ---------------------------------------------------------

def test_a_job_cannot_add_jobs_of_its_own(batch, tmp_path_factory):
    """The file of jobs may stand in the work folder: it was copied before the first one started."""
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret").write_text("topsecret")
    more = json.dumps({"view": "host", "rw": [str(outside)], "command": ["cat", str(outside / "secret")]})
    (batch.tmp / "more").write_text(more + "\n")
    batch.write(*[batch.shell(f"cat more >> {batch.path}; sed -i 's/true/false/' {batch.path}"), batch.job("true")])
    done = batch.run("-j", "1")
    assert [r["status"] for r in results_of(done)] == ["exited", "exited"] and done.returncode == 0
    assert b"topsecret" not in done.stdout
    assert batch.path.read_text().count("\n") > 2, "the job did write to it"


def test_a_link_that_a_job_left_is_not_followed(batch, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret").write_text("A=topsecret\n")
    (batch.tmp / "data").write_text("x\n")
    batch.write(batch.shell(f"rm data; ln -s {outside}/secret data"), batch.job("cat", stdin="data"),
                batch.job("env", env_file=["data"]))
    done = batch.run("-j", "1")
    assert b"topsecret" not in done.stdout
    assert [r["status"] for r in results_of(done)] == ["exited", "error", "error"]
    assert all("is a link" in r["notes"] for r in results_of(done)[1:])


def test_a_result_as_deep_as_may_be_is_whole_in_the_journal(batch):
    """The next start does not take it for a torn one."""
    code = "import os; t = b'[' * %d + b']' * %d; os.write(3, b'%%d\\n' %% len(t) + t)"
    batch.write(*[batch.job("/usr/bin/python3", "-I", "-S", "-c", code % (n, n), channel="on") for n in (490, 512)])
    journal = batch.tmp / "journal"
    first = by_line(batch.run("-j", "1", "--resume", journal))
    assert first[1]["output"] is not None and "too deeply" in first[2]["output_error"]
    assert results_of(batch.run("--resume", journal)) == []


def test_what_the_machine_could_not_do_is_tried_again_at_a_resume(batch):
    """An error of the line itself is a result for good; a folder that is missing now is not."""
    batch.write(batch.job("true", workdir=str(batch.tmp / "later")), '{"command": ["true"], "memory": "lots"}')
    journal = batch.tmp / "journal"
    assert [r["status"] for r in by_line(batch.run("--resume", journal)).values()] == ["error", "error"]
    assert [r["line"] for r in journal_of(journal)] == [2]
    (batch.tmp / "later").mkdir()
    done = by_line(batch.run("--resume", journal))
    assert list(done) == [1] and done[1]["status"] == "exited"
    assert sorted(r["line"] for r in journal_of(journal)) == [1, 2]


def test_stdout_is_not_the_journal(batch):
    batch.write(batch.job("true"))
    journal = batch.tmp / "journal"
    with open(journal, "ab") as out:
        done = batch.run("--resume", journal, stdout=out)
    assert done.returncode == 2 and "where stdout goes" in message(done)


def test_replay_to_a_pipe_that_does_not_wait(batch):
    batch.write(*[batch.shell("head -c 30000 /dev/zero | tr '\\0' x") for _ in range(12)])
    journal = batch.tmp / "journal"
    batch.run("--resume", journal)
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    process = batch.start("--resume", journal, "--replay", stdout=write_end)
    os.close(write_end)
    time.sleep(0.2)  # the pipe is full by then
    with os.fdopen(read_end, "rb") as reader:
        text = reader.read()
    process.communicate(timeout=20 * SLOW)
    assert process.returncode == 0 and len(results_of(text)) == 12
