# SPDX-License-Identifier: MIT
"""Cases 10 to 16: output is bounded to the byte, exact, live, and never holds a run up."""
import base64
import hashlib
import json
import os
import signal
import subprocess
import time

import pytest
from conftest import (PYTHON, PYTHON_TIME, SHELL_TIME, SLOW, finish, message, wait_for_end_of_init,
                      wait_for_file)

BUDGET = 1000


def text_of(result, stream="stdout"):
    """The captured bytes of a stream, whatever their encoding in the result."""
    if result[stream + "_encoding"] == "base64":
        return base64.b64decode(result[stream])
    return result[stream].encode()


def read_events(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def data_of(event):
    if event["encoding"] == "base64":
        return base64.b64decode(event["data"])
    return event["data"].encode()


def joined(events, stream="stdout"):
    return b"".join(data_of(e) for e in events if e["type"] == stream)


# ---- 10 --------------------------------------------------------------------------------------

BOTH = "head -c 2M /dev/zero | tr '\\0' a & head -c 2M /dev/zero | tr '\\0' b >&2 & wait"


@pytest.mark.limits
@pytest.mark.parametrize("guest", [
    "head -c 2M /dev/zero", "head -c 2M /dev/zero >&2", BOTH,
    "yes & yes >&2", "head -c 1000 /dev/zero; echo x >&2; sleep 60",
], ids=["stdout", "stderr", "both at once", "for ever", "one byte over"])
def test_case_10_budget_kept_to_the_byte(brig, guest):
    result = brig.result("--output", BUDGET, "-k", "30s", "--", "sh", "-c", guest)
    assert result["status"] == "output_limit"
    assert result["stdout_bytes"] + result["stderr_bytes"] == BUDGET
    assert len(text_of(result)) + len(text_of(result, "stderr")) == BUDGET
    assert result["usage"]["wall_seconds"] < 1 * SLOW
    assert "--output" in result["notes"]
    assert not brig.survivors()


@pytest.mark.limits
def test_case_10_budget_kept_to_the_byte_live(brig):
    """Passed on instead of captured: the reader gets the same number of bytes."""
    done = brig.run("-q", "--output", BUDGET, "--", "sh", "-c", BOTH)
    assert done.returncode == 137
    assert len(done.stdout) + len(done.stderr) == BUDGET


@pytest.mark.limits
def test_case_10_exactly_the_budget_is_no_overrun(brig):
    result = brig.result("--output", BUDGET, "--", "head", "-c", BUDGET, "/dev/zero")
    assert (result["status"], result["exit_code"], result["notes"]) == ("exited", 0, None)
    assert (result["stdout_bytes"], result["stdout_truncated"]) == (BUDGET, False)


def test_case_10_truncate_keeps_both_ends(brig):
    """--on-output-limit truncate: the run goes on; head, tail, and how much is missing between."""
    result = brig.result("--output", "100", "--on-output-limit", "truncate", "--",
                         "sh", "-c", "seq 100000; exit 4")
    whole = "".join(f"{i}\n" for i in range(1, 100001))
    assert (result["status"], result["exit_code"]) == ("exited", 4)
    assert result["stdout"] == whole[:50] + whole[-50:]
    assert (result["stdout_bytes"], result["stdout_truncated"]) == (100, True)
    assert result["stdout_omitted_bytes"] == len(whole) - 100
    assert result["stdout_omitted_at"] == 50
    assert str(len(whole) - 100) in result["notes"]


def test_case_10_truncate_live_keeps_both_ends(brig):
    done = brig.run("-q", "--output", "100", "--on-output-limit", "truncate", "--", "seq", "100000")
    whole = b"".join(b"%d\n" % i for i in range(1, 100001))
    assert (done.returncode, done.stdout) == (0, whole[:50] + whole[-50:])


def test_case_10_truncate_a_large_budget(brig):
    """A kept end of many chunks is delivered at once, not at the timeout."""
    result = brig.result("--output", "1M", "--on-output-limit", "truncate", "--",
                         "head", "-c", "10M", "/dev/zero", timeout=10)
    assert (result["status"], result["stdout_bytes"]) == ("exited", 1 << 20)
    assert result["stdout_omitted_bytes"] == 9 << 20
    assert result["usage"]["wall_seconds"] < 2 * SLOW


def test_case_10_truncate_both_streams_share_the_budget(brig):
    result = brig.result("--output", BUDGET, "--on-output-limit", "truncate", "--",
                         "sh", "-c", BOTH)
    assert result["status"] == "exited"
    assert result["stdout_bytes"] + result["stderr_bytes"] == BUDGET
    omitted = result.get("stdout_omitted_bytes", 0) + result.get("stderr_omitted_bytes", 0)
    assert omitted == 2 * (2 << 20) - BUDGET


# ---- 11 --------------------------------------------------------------------------------------

def peak_memory(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


@pytest.mark.measured
@pytest.mark.timeout(300 * SLOW)
@pytest.mark.parametrize("options", [
    pytest.param([], id="live"),
    pytest.param(["--events", "/dev/null"], id="events", marks=pytest.mark.stress),
    pytest.param(["--on-output-limit", "truncate", "--output", "1M"], id="truncate"),
])
def test_case_11_gibibyte_of_output(brig, tmp_path, options):
    """1 GiB goes through; the supervisor's memory grows by less than 2 MiB."""
    gate, first, last = (tmp_path / name for name in ("gate", "first", "last"))
    os.mkfifo(gate)
    guest = (f"echo x; : >{first}; read x <{gate}; yes {'x' * 80} | head -c 1G; : >{last};"
             f" read x <{gate}")
    process = brig.start("--output", "unlimited", *options, "--", "sh", "-c", guest,
                         stdout=subprocess.DEVNULL)
    wait_for_file(first)
    before = peak_memory(process.pid)
    gate.write_text("go\n")
    wait_for_file(last, 200)  # how long it takes is the machine's matter
    after = peak_memory(process.pid)
    gate.write_text("go\n")
    assert finish(process, 60).returncode == 0
    assert after - before < 2 << 20


# ---- 12 --------------------------------------------------------------------------------------

def test_case_12_events_in_order(brig, tmp_path):
    """Every byte of each stream, in its order, with a running number and a time."""
    log = tmp_path / "events"
    done = brig.run("--events", log, "--", "sh", "-c",
                    "for i in $(seq 200); do echo out $i; echo err $i >&2; done; exit 3")
    events = read_events(log)
    assert [e["sequence"] for e in events] == list(range(1, len(events) + 1))
    assert (events[0]["type"], events[-1]["type"]) == ("started", "ended")
    assert joined(events) == done.stdout == b"".join(b"out %d\n" % i for i in range(1, 201))
    assert joined(events, "stderr") == done.stderr
    times = [e["elapsed_seconds"] for e in events]
    assert times == sorted(times)
    assert events[-1]["exit_code"] == 3


def test_case_12_events_are_live(brig):
    """An event is there while the run goes on, not only at its end."""
    read_end, write_end = os.pipe()
    process = brig.start("--events", f"fd:{write_end}", "--", "sh", "-c", "echo hi; sleep 300",
                         pass_fds=[write_end])
    os.close(write_end)
    with os.fdopen(read_end, "rb") as lines:
        kinds = [json.loads(lines.readline())["type"] for _ in range(2)]
        assert process.poll() is None
        process.terminate()
        rest = [json.loads(line)["type"] for line in lines]
    finish(process)
    assert kinds == ["started", "stdout"]
    assert rest[-1] == "ended"


def flood(brig, tmp_path, write_end, options=()):
    """Start a guest that fills every queue (20 MB), says so with a file, and waits for a word."""
    gate, full = tmp_path / "gate", tmp_path / "full"
    os.mkfifo(gate)
    guest = f"yes | head -c 20M; : >{full}; read x <{gate}; exit 6"
    process = brig.start("--output", "unlimited", "--events", f"fd:{write_end}", *options, "--",
                         "sh", "-c", guest, pass_fds=[write_end], stdout=subprocess.DEVNULL)
    os.close(write_end)
    wait_for_file(full)
    return process, gate


def test_case_12_slow_listener_is_told_what_it_missed(brig, tmp_path):
    """A listener that wakes up late finds the newest lines, and how many are gone."""
    read_end, write_end = os.pipe()
    process, gate = flood(brig, tmp_path, write_end)
    with os.fdopen(read_end, "rb") as lines:
        gate.write_text("go\n")
        events = [json.loads(line) for line in lines]
    assert finish(process).returncode == 6
    assert events[-1]["type"] == "ended"
    missing = events[-1]["sequence"] - len(events)
    assert missing > 0
    assert sum(e.get("dropped", 0) for e in events) == missing
    numbers = [e["sequence"] for e in events]
    assert numbers == sorted(set(numbers))


def test_case_12_stuck_listener_does_not_hold_the_run_up(brig, tmp_path):
    """Nobody ever reads: the run has its own end, in its own time, and brig says what was lost."""
    read_end, write_end = os.pipe()
    process, gate = flood(brig, tmp_path, write_end, ["--result", tmp_path / "r"])
    gate.write_text("go\n")
    done = finish(process)
    os.close(read_end)
    result = json.loads((tmp_path / "r").read_text())
    assert (done.returncode, result["status"], result["exit_code"]) == (6, "exited", 6)
    assert result["stdout_bytes"] == 20 << 20
    assert "--events" in message(done) and "dropped" in message(done)


def test_case_12_stuck_listener_does_not_cost_the_timeout(brig):
    """The timeout is the guest's: 20 MB to a stuck listener take no longer than to one that reads. Each twice, in
    turns, and the faster one of each: other work on the machine holds up both."""
    command = ["--output", "64M", "--timeout", f"{60 * SLOW}s", "--", "sh", "-c", "yes | head -c 20M"]
    seconds = {"stuck": [], "reads": []}
    for _ in range(2):
        read_end, write_end = os.pipe()
        stuck = brig.result("--events", f"fd:{write_end}", *command, pass_fds=[write_end])
        os.close(write_end)
        os.close(read_end)
        for kind, result in (("stuck", stuck), ("reads", brig.result("--events", "/dev/null", *command))):
            assert (result["status"], result["stdout_bytes"]) == ("exited", 20 << 20)
            seconds[kind].append(result["usage"]["wall_seconds"])
    assert min(seconds["stuck"]) < 2 * min(seconds["reads"]) + 0.5 * SLOW


def test_case_12_listener_that_went_away(brig):
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = brig.run("--events", f"fd:{write_end}", "--", "sh", "-c", "echo hi; exit 5",
                    pass_fds=[write_end])
    os.close(write_end)
    assert (done.returncode, done.stdout) == (5, b"hi\n")
    assert "dropped" in message(done)


def test_case_12_listener_with_a_full_disk(brig):
    done = brig.run("--events", "/dev/full", "--", "sh", "-c", "echo hi; exit 5")
    assert (done.returncode, done.stdout) == (5, b"hi\n")
    assert "dropped" in message(done)


def test_case_12_slow_reader_of_the_output_slows_only_the_guest(brig):
    """The reader of stdout is stuck: the guest waits for it, the timeout does not."""
    process = brig.start("--timeout", "500ms", "-k", "300ms", "--", "sh", "-c",
                         "yes; echo never")
    begin = time.monotonic()
    assert process.wait(20 * SLOW) == 124
    assert time.monotonic() - begin < 0.8 + 1 * SLOW
    finish(process)


# ---- 13 --------------------------------------------------------------------------------------

CHUNK = 65536  # what a pipe holds, and the most that brig reads at once

SPLIT = """
import os, sys
text, cut, marker = sys.argv[1].encode(), int(sys.argv[2]), sys.argv[3]
whole = b"a" * ({chunk} - cut) + text
os.write(1, whole[:{chunk}])
open(marker, "w").close()
os.write(1, whole[{chunk}:] + b"z")
""".format(chunk=CHUNK)


@pytest.mark.parametrize("text, cut", [
    ("é", 1), ("€", 1), ("€", 2), ("🦀", 1), ("🦀", 2), ("🦀", 3)])
def test_case_13_character_split_at_a_chunk(brig, tmp_path, marker, text, cut):
    """brig is stopped until the pipe is full, so its first read ends inside of the character."""
    log = tmp_path / "events"
    process = brig.start_stopped("--json", "--events", log, "--", *PYTHON, SPLIT, text, cut,
                                 marker)
    wait_for_file(marker)
    process.send_signal(signal.SIGCONT)
    result = brig.result_of(process)
    events = [e for e in read_events(log) if e["type"] == "stdout"]
    assert result["stdout"] == "a" * (CHUNK - cut) + text + "z"
    assert {e["encoding"] for e in events} == {"utf-8"}, "a character was cut"
    assert joined(events).decode() == result["stdout"]
    assert len(events) > 1, "the test did not split anything"


def test_case_13_character_in_single_bytes(brig, tmp_path):
    """A guest that writes byte by byte: live events never show half a character."""
    log = tmp_path / "events"
    code = "import os\nfor b in '€🦀é…'.encode() * 200: os.write(1, bytes([b]))"
    result = brig.result("--events", log, "--", *PYTHON, code)
    events = [e for e in read_events(log) if e["type"] == "stdout"]
    assert result["stdout"] == "€🦀é…" * 200
    assert {e["encoding"] for e in events} == {"utf-8"}
    assert joined(events).decode() == result["stdout"]


def test_case_13_half_a_character_at_the_end(brig, tmp_path):
    """What is held back for the rest of a character is given out when there is no rest."""
    log = tmp_path / "events"
    result = brig.result("--events", log, "--", "printf", "ok\\342\\202")
    assert text_of(result) == b"ok\xe2\x82"
    assert joined(read_events(log)) == b"ok\xe2\x82"


BIG_PIPE = """
import fcntl, os, sys
fcntl.fcntl(1, 1031, 1 << 20)  # F_SETPIPE_SZ
block = b"".join(b"%07d\\n" % i for i in range(1 << 17))
assert os.write(1, block) == 1 << 20
"""


def test_case_13_events_of_a_large_pipe_are_exact(brig, tmp_path):
    """A mebibyte left in the pipe by a guest that has ended: each event has its own bytes."""
    log = tmp_path / "events"
    process = brig.start_stopped("--json", "--events", log, "--", *PYTHON, BIG_PIPE)
    wait_for_end_of_init(process)
    process.send_signal(signal.SIGCONT)
    result = brig.result_of(process)
    assert result["stdout_bytes"] == 1 << 20
    assert joined(read_events(log)) == result["stdout"].encode()


# ---- 14 --------------------------------------------------------------------------------------

@pytest.mark.parametrize("code, encoding", [
    ("bytes(range(256)) * 10", "base64"),
    ("b'a\\0b\\0'", "utf-8"),
    ("b'\\xed\\xa0\\x80 surrogate'", "base64"),
    ("b'\\xc0\\xaf overlong'", "base64"),
    ("b'\\xf4\\x90\\x80\\x80 too far'", "base64"),
    ("b'\\xef\\xbb\\xbfbom \\xe2\\x80\\xae \\x7f \\xc2\\x9b'", "utf-8"),
    ("b'\\r\\n\\x1b[31m'", "utf-8"),
], ids=["all bytes", "nul", "surrogate", "overlong", "above", "odd text", "escapes"])
def test_case_14_output_is_kept_exactly(brig, tmp_path, code, encoding):
    """In the result, in the events, and passed on: the bytes that were written."""
    expected = eval(code)  # of the table above
    guest = ["--", *PYTHON, f"import os; os.write(1, {code})"]
    result = brig.result("--events", tmp_path / "events", *guest)
    assert (result["stdout_encoding"], text_of(result)) == (encoding, expected)
    assert joined(read_events(tmp_path / "events")) == expected
    assert brig.run(*guest).stdout == expected


def test_case_14_empty_output(brig):
    result = brig.result("--", "true")
    assert (result["stdout"], result["stdout_encoding"], result["stdout_bytes"]) == ("", "utf-8", 0)


@pytest.mark.parametrize("byte", [b"x", b"\xff"], ids=["text", "binary"])
def test_case_14_one_line_of_100_mb(brig, byte):
    size = 100_000_000
    code = (f"import os\nb = {byte!r} * 1000000\n"
            "for i in range(100): assert os.write(1, b) == len(b)")
    result = brig.result("--output", "200M", "--", *PYTHON, code)
    assert (result["status"], result["stdout_bytes"]) == ("exited", size)
    digest = hashlib.sha256(text_of(result)).digest()
    assert digest == hashlib.sha256(byte * size).digest()


# ---- 15 --------------------------------------------------------------------------------------

ESCAPE = "\x1b]0;owned\x07\x1b[31m\x9b31m"


def harmless(text):
    """No control character but the end of a line reaches a terminal."""
    return not any(c < " " and c != "\n" or "\x7f" <= c < "\xa0" for c in text)


def test_case_15_name_of_a_guest(brig):
    """The guest chooses its own name, and brig repeats it when a signal killed it."""
    code = ("import ctypes, os\nctypes.CDLL(None).prctl(15, b'\\x1b[31m\\x07evil')\n"
            "os.kill(os.getpid(), 11)")
    done = brig.run("-v", "--", *PYTHON, code)
    assert done.returncode == 128 + signal.SIGSEGV
    assert "evil" in message(done) and harmless(message(done))


def test_case_15_name_of_a_command(brig):
    done = brig.run("--", "/no/" + ESCAPE)
    assert done.returncode == 127
    assert "/no/" in message(done) and harmless(message(done))


def test_case_15_interpreter_of_a_script(brig, script):
    done = brig.run("--", script("script", f"#!/no/{ESCAPE}\n"))
    assert done.returncode == 126
    assert "/no/" in message(done) and harmless(message(done))


def test_case_15_guest_output_is_the_guests(brig):
    """What the guest itself writes is passed on as it is: only brig's own messages are clean."""
    done = brig.run("--", "printf", "\\033[31mred")
    assert done.stdout == b"\x1b[31mred"


# ---- 16 --------------------------------------------------------------------------------------

@pytest.mark.limits
def test_case_16_partial_output_at_the_timeout(brig):
    result = brig.result("--timeout", f"{SHELL_TIME}s", "--", "sh", "-c",
                         "echo out; echo err >&2; printf half; sleep 300")
    assert result["status"] == "timeout"
    assert (result["stdout"], result["stderr"]) == ("out\nhalf", "err\n")


@pytest.mark.limits
def test_case_16_partial_output_at_the_timeout_live(brig):
    done = brig.run("-q", "--timeout", f"{SHELL_TIME}s", "--", "sh", "-c",
                    "echo out; echo err >&2; printf half; sleep 300")
    assert (done.returncode, done.stdout, done.stderr) == (124, b"out\nhalf", b"err\n")


@pytest.mark.limits
def test_case_16_full_pipe_at_the_timeout(brig):
    """64 KiB that are still in the pipe when everything is killed are delivered."""
    code = ("import os, time\nos.write(1, b'x' * 65536)\nos.write(2, b'y' * 65536)\n"
            "while True: time.sleep(60)")
    result = brig.result("--timeout", f"{PYTHON_TIME}s", "--", *PYTHON, code)
    assert (result["stdout_bytes"], result["stderr_bytes"]) == (65536, 65536)
