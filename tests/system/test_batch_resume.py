# SPDX-License-Identifier: MIT
"""A batch that is started again: the journal, full disks, and what a job can do to its batch."""
import json
import os
import random
import signal
import subprocess
import time

import pytest
from batch_frame import KILLS, batch, by_line, journal_of, results_of  # noqa: F401 (fixtures too)
from conftest import BRIG, MOUNTS, SLOW, WARM, finish, message, wait_until

pytestmark = pytest.mark.skipif(bool(WARM), reason="brig batch has no --warm")


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
    process = subprocess.Popen([*MOUNTS, "sh", "-c", script], cwd=batch.tmp, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return finish(process), out


def test_disk_full_under_the_output_leaves_whole_lines(batch):
    disk = batch.tmp / "disk"
    disk.mkdir()
    batch.write(*[batch.shell("head -c 3000 /dev/zero | tr '\\0' x")] * 60)
    done, out = on_small_disk(batch, disk, f"{BRIG} batch -j 2 {batch.path} >{disk}/results")
    assert done.returncode == 125
    assert "stdout: cannot write the results: No space left on device" in message(done)
    results = results_of((out / "results").read_bytes())  # every line is whole
    assert 5 < len(results) < 30


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


def test_links_directories_and_fifos_are_no_journals(batch):
    batch.write(batch.job("true"))
    (batch.tmp / "link").symlink_to(batch.tmp / "target")
    os.mkfifo(batch.tmp / "fifo")
    for name, text in (("link", "is a symlink"), ("fifo", "is not a file"), (".", "Is a directory")):
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


# ---- what a job can do to the batch ---------------------------------------------------------

def test_a_job_cannot_add_jobs_of_its_own(batch, tmp_path_factory):
    """The file of jobs may stand in the work directory: it was copied before the first one started."""
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
    assert all("is a symlink" in r["notes"] for r in results_of(done)[1:])


def test_a_result_as_deep_as_may_be_is_whole_in_the_journal(batch):
    """The next start does not take it for a torn one."""
    code = "import os; t = b'[' * %d + b']' * %d; os.write(3, b'%%d\\n' %% len(t) + t)"
    batch.write(*[batch.job("/usr/bin/python3", "-I", "-S", "-c", code % (n, n), channel="on") for n in (490, 512)])
    journal = batch.tmp / "journal"
    first = by_line(batch.run("-j", "1", "--resume", journal))
    assert first[1]["output"] is not None and "too deeply" in first[2]["output_error"]
    assert results_of(batch.run("--resume", journal)) == []


def test_what_the_machine_could_not_do_is_tried_again_at_a_resume(batch):
    """An error of the line itself is a result for good; a directory that is missing now is not."""
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
    assert done.returncode == 2 and "is also the stdout" in message(done)


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


# ---- what a job cannot forge ------------------------------------------------------------------

@pytest.mark.parametrize("place", ["journal", "below/journal"])
def test_review_e3_no_job_writes_the_journal(batch, place):
    """As BATCH.md shows it, in the directory of the jobs: one forged that the other was done."""
    journal = batch.tmp / place
    journal.parent.mkdir(exist_ok=True)
    forge = (f'sed "s/\\"line\\":1/\\"line\\":2/" {place} >fake; cat fake >>{place}; mv fake {place}; rm -f {place};'
             f'mv below z; echo x >{place}; test -s {place}')
    batch.write(batch.shell(forge, workdir=str(batch.tmp)), batch.shell("echo done >second", workdir=str(batch.tmp)))
    with open(batch.tmp / "results", "ab") as results:
        done = batch.run("-j", "1", "--resume", journal, stdout=results)
    assert done.returncode == 0, done.stderr
    assert [record["line"] for record in journal_of(journal)] == [1, 2]
    assert (batch.tmp / "second").read_text() == "done\n"
    assert len(results_of((batch.tmp / "results").read_bytes())) == 2


def test_review_e3_a_journal_behind_a_planted_link_is_refused(batch, tmp_path_factory):
    """Only the last part was looked at: a job turned its directory into a link to another one."""
    outside = tmp_path_factory.mktemp("outside")
    (batch.tmp / "out").mkdir()
    batch.write(batch.shell(f"mv out away; ln -s {outside} out", workdir=str(batch.tmp)))
    assert batch.run().returncode == 0 and (batch.tmp / "out").is_symlink()
    done = batch.run("--resume", batch.tmp / "out" / "journal")
    assert done.returncode == 125 and "is a symlink, or goes through one" in message(done)
    assert not list(outside.iterdir())
    (batch.tmp / "out").unlink()
    (batch.tmp / "out").mkdir()
    assert batch.run("--resume", batch.tmp / "out" / "journal").returncode == 0


@pytest.mark.parametrize("of", ["job", "spec"])
def test_review_e3_no_job_writes_the_env_file_that_it_shares(batch, of):
    """The next job has its environment from the same file."""
    (batch.tmp / "vars").write_text("A=kept\n")
    shared = {"env_file": ["vars"]} if of == "job" else {}
    spec = []
    if of == "spec":
        (batch.tmp / "spec.json").write_text(json.dumps({"env_file": ["vars"]}))
        spec = ["--spec", batch.tmp / "spec.json"]
    forge = "echo A=forged >vars; mv vars z; rm -f vars; echo A=forged >vars; echo mine >mine"
    batch.write(batch.shell(forge, workdir=str(batch.tmp), **shared), batch.shell("echo $A", workdir=str(batch.tmp), **shared))
    done = by_line(batch.run("-j", "1", *spec))
    assert done[2]["stdout"] == "kept\n" and (batch.tmp / "mine").exists()
