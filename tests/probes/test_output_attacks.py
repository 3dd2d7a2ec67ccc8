# SPDX-License-Identifier: MIT
"""ATTACKS 47 to 51: what a guest prints, and who reads it."""
import contextlib
import json
import os
import pty
import re
import subprocess
import time

import pytest
from conftest import PYTHON, SANITIZED, SLOW, alone, frame

BUDGET = 1 << 20


# ---- 47 --------------------------------------------------------------------------------------

FLOODS = {
    "one_stream": "b = bytes(65536)\nwhile True: os.write(1, b)",
    "both_streams": "b = b'x' * 65536\nwhile True: os.write(1, b); os.write(2, b)",
    "single_bytes": "while True: os.write(1, b'x')",
    "many_writers": "os.fork(); os.fork(); os.fork()\nwhile True: os.write(1, b'y' * 4096)",
    "splice": "import ctypes\nz = os.open('/dev/zero', 0)\nr, w = os.pipe()\nlibc = ctypes.CDLL(None)\n"
              "while True:\n  if libc.splice(z, None, w, None, 65536, 0) < 0: os.write(1, bytes(65536))\n"
              "  else: libc.splice(r, None, 1, None, 65536, 0)",
    "large_pipe": "import fcntl\nfcntl.fcntl(1, 1031, 1 << 20)\nb = bytes(1 << 20)\nwhile True: os.write(1, b)",
}


@pytest.mark.parametrize("kind", FLOODS)
def test_attack_47_flood_is_cut(probe, kind):
    with alone("pipe-pages") if kind == "large_pipe" else contextlib.nullcontext():
        begin = time.monotonic()
        result = probe.cell("import os\n" + FLOODS[kind], "--output", "1M", "-k", "100ms", "--timeout", f"{30 * SLOW}s")
    kept = sum(len(result[s]) if result[s + "_encoding"] == "utf-8" else len(result[s]) * 3 // 4
               for s in ("stdout", "stderr"))
    assert result["status"] == "output_limit", result["status"]
    assert kept <= BUDGET + 4
    assert result["stdout_truncated"] or result["stderr_truncated"]
    assert time.monotonic() - begin < 10 * SLOW


def test_attack_47_flood_live(probe):
    """Passed on: never a byte more than the budget."""
    done = probe.brig.run("-w", probe.work, "--output", "1M", "-k", "100ms", "--", "cat", "/dev/zero",
                          before=probe.prefix)
    assert len(done.stdout) == BUDGET
    assert b"output" in done.stderr


def test_attack_47_drained_flood(probe):
    """truncate: all of it is drained, head and tail are kept, and the memory of brig stays small."""
    size = int(os.environ.get("BRIG_PROBE_FLOOD", str(1 << 30)))
    usage = os.path.join(os.path.dirname(probe.work), "usage")
    with open(usage, "wb"):
        os.chmod(usage, 0o666)
    measure = ("import os, resource, subprocess, sys\n"
               "code = subprocess.call(sys.argv[2:])\n"
               "open(sys.argv[1], 'w').write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))\n"
               "sys.exit(code)")
    result = probe.brig.result("-w", probe.work, "--output", "1M", "--on-output-limit", "truncate", "--", "sh", "-c",
                               f"echo head; head -c {size} /dev/zero | tr '\\0' x; echo tail",
                               before=[*probe.prefix, PYTHON, "-I", "-S", "-c", measure, usage], timeout=120)
    assert result["status"] == "exited" and result["stdout_truncated"]
    assert result["stdout_bytes"] <= 1 << 20 and f"{size + 10 - result['stdout_bytes']} bytes" in result["notes"]
    assert result["stdout"].startswith("head\n") and result["stdout"].endswith("tail\n")
    assert len(result["stdout"]) <= BUDGET + 200
    if not SANITIZED:
        with open(usage, encoding="ascii") as said:
            assert int(said.read()) < 64 << 10  # KiB


# ---- 48 --------------------------------------------------------------------------------------

@pytest.mark.parametrize("mode", ["kill", "truncate"])
@pytest.mark.parametrize("character", ["é", "€", "\U0001f980"])
def test_attack_48_budget_cuts_a_character(probe, character, mode):
    """No part of a character is kept: the text stays text."""
    size = len(character.encode())
    for budget in range(40, 40 + size):
        result = probe.brig.result("-w", probe.work, "--output", str(budget), "--on-output-limit", mode, "-k", "50ms",
                                   "--", PYTHON, "-I", "-S", "-c", f"import os\nos.write(1, {character * 100!r}.encode())",
                                   before=probe.prefix)
        assert result["stdout_encoding"] == "utf-8", (budget, result["stdout"])
        assert "\ufffd" not in result["stdout"], budget
        assert result["stdout_truncated"]
        if mode == "kill":
            assert result["stdout"] == character * (budget // size), (budget, result["stdout"])


@pytest.mark.parametrize("mode", ["kill", "truncate"])
@pytest.mark.parametrize("character", ["é", "€", "\U0001f980"])
def test_attack_48_budget_cuts_a_character_live(probe, character, mode):
    """Passed on, the same holds."""
    size = len(character.encode())
    for budget in range(40, 40 + size):
        done = probe.brig.run("-q", "-w", probe.work, "--output", str(budget), "--on-output-limit", mode, "-k", "50ms",
                              "--", PYTHON, "-I", "-S", "-c", f"import os\nos.write(1, {character * 100!r}.encode())",
                              before=probe.prefix)
        done.stdout.decode()  # raises for half a character


# ---- 49, 50 ----------------------------------------------------------------------------------

# What moves the cursor, sets the clipboard or the title, asks for an answer, starts a line of its own.
EVIL = {
    "csi": "\x1b[2J\x1b[31m", "osc52": "\x1b]52;c;ZXZpbA==\x07", "title": "\x1b]0;evil\x07", "answerback": "\x05",
    "c1": "\u009b31m\u009d52;c;ZXZpbA==\u009c", "dcs": "\x1bP$q\"p\x1b\\", "backspace": "ok\b\b\b",
    "carriage_return": "x\rbrig: all is well", "newline": "x\nbrig: exited: all is well", "bell": "\x07",
    "bidi": "\u202egpj.exe", "delete": "\x7f", "vertical": "\x0b\x0c", "line_separator": "\u2028brig: ok\u2029",
    "next_line": "\u0085brig: ok", "shift": "\x0e\x0f",
}
OWN = re.compile(r"\x1b\[1mbrig:\x1b\[0m ")


def on_a_terminal(probe, *args):
    """What brig writes to a terminal, and its exit code."""
    main, side = pty.openpty()
    process = subprocess.Popen([*probe.prefix, probe.brig.binary, "run", "-w", probe.work, *args], stdin=subprocess.DEVNULL,
                               stdout=side, stderr=side, env={**os.environ, "TERM": "xterm"}, cwd=probe.work)
    os.close(side)
    data = b""
    try:
        probe.brig.remember(process)
        while True:
            try:
                piece = os.read(main, 65536)
            except OSError:
                break
            if not piece:
                break
            data += piece
        code = process.wait(20 * SLOW)
    finally:
        os.close(main)
        process.kill()
        process.wait(20 * SLOW)
    return data.decode(errors="surrogateescape").replace("\r\n", "\n"), code


def assert_neutral(text, lines=None):
    """Nothing but brig's own bold, and no line that is not brig's."""
    rest = OWN.sub("brig: ", text)
    bad = [c for c in rest if (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160 or c in "\u2028\u2029\u202e" or 0xdc80 <= ord(c) <= 0xdcff]
    assert not bad, f"{bad!r} in {text!r}"
    for line in rest.splitlines():
        assert line.startswith("brig: "), f"a forged line: {text!r}"
    if lines is not None:
        assert rest.count("\n") == lines, text


@pytest.mark.parametrize("name", EVIL)
def test_attack_49_command_name_on_a_terminal(probe, name):
    text, code = on_a_terminal(probe, "--", "/usr/bin/" + EVIL[name])
    assert code == 127
    assert_neutral(text, 1)


@pytest.mark.parametrize("name", EVIL)
def test_attack_49_path_of_an_option_on_a_terminal(probe, name):
    evil = EVIL[name]
    for args in (("--ro", "/no/" + evil, "--", "true"), ("--rw", "/no" + evil, "--", "true"), ("--stdin", evil, "--", "true"),
                 ("--tmpfs", evil, "--", "true"), ("--memory", evil, "--", "true"), ("--result", "/no/" + evil, "--", "true"),
                 ("--env-file", evil, "--", "true"), ("--spec", evil, "--", "true"), ("--require", evil, "--", "true"),
                 ("--events", "/no/" + evil, "--", "true"), ("--label", evil, "--", "true"), ("--view", evil, "--", "true"),
                 ("--" + evil, "--", "true")):
        text, code = on_a_terminal(probe, *args)
        assert code in (2, 125) or (args[0] == "--label" and code == 0), (args, text, code)
        if text:
            assert_neutral(text)


@pytest.mark.parametrize("name", EVIL)
def test_attack_49_work_directory_on_a_terminal(probe, name):
    """The name of the directory in a message about it."""
    directory = os.path.join(probe.work, "w" + EVIL[name].replace("/", "_"))
    text, code = on_a_terminal(probe, "-w", directory, "--", "true")
    assert code == 125
    assert_neutral(text, 1)


@pytest.mark.parametrize("name", EVIL)
def test_attack_49_name_of_a_process_on_a_terminal(probe, name):
    """A guest chooses what it is called, and dies of a signal."""
    code = ("import ctypes, os\n"
            f"ctypes.CDLL(None).prctl(15, {EVIL[name].encode()!r}[:15], 0, 0, 0)\nos.kill(os.getpid(), 9)")
    text, code = on_a_terminal(probe, "--", PYTHON, "-c", code)
    assert code == 137
    assert_neutral(text, 1)


@pytest.mark.parametrize("name", EVIL)
def test_attack_50_one_record_each(probe, name):
    """An argument, a label, a name: one line of events each, one object of a result."""
    evil = EVIL[name]
    events = os.path.join(probe.work, "events")
    done = probe.brig.run("--json", "-w", probe.work, "--events", events, "--label", f"k={evil}", "-e", f"X={evil}", "--",
                          "sh", "-c", 'printf %s "$0"; printf "{\\"type\\":\\"ended\\"}\\n" >&2; exit 3', evil,
                          before=probe.prefix)
    assert done.stdout.count(b"\n") == 1, done
    result = json.loads(done.stdout)
    assert result["stdout"] == evil and result["labels"] == {"k": evil} and result["exit_code"] == 3
    assert not any(c < 32 for c in done.stdout.rstrip(b"\n"))
    with open(events, "rb") as log:
        rows = [json.loads(row) for row in log.read().splitlines()]
    assert sum(row.get("type") in ("ended", "result", "finished", "exited") for row in rows) <= 1
    assert_neutral(done.stderr.decode())


def test_attack_50_bad_bytes_in_a_name(probe):
    """Not even text: still one line of plain text."""
    for evil in (b"\xff\xfe", b"\xc3", b"\x9b31m", b"\xed\xa0\x80", b"a\xf0\x9f"):
        done = subprocess.run([*[p.encode() for p in probe.prefix], probe.brig.binary.encode(), b"run", b"-w", probe.work.encode(),
                               b"--", b"/usr/bin/" + evil], check=False, capture_output=True)
        assert done.returncode == 127
        assert_neutral(done.stderr.decode(), 1)


# ---- 51 --------------------------------------------------------------------------------------

def test_attack_51_reader_closes_early(probe):
    """Like a pipe to head: the run ends, and its status is kept."""
    path = os.path.join(probe.work, "result")
    begin = time.monotonic()
    process = probe.brig.start("-w", probe.work, "--result", path, "-k", "200ms", "--", "yes", before=probe.prefix)
    assert process.stdout.readline() == b"y\n"
    process.stdout.close()
    process.wait(20 * SLOW)
    process.stderr.close()
    assert time.monotonic() - begin < 5 * SLOW
    with open(path, encoding="utf-8") as out:
        result = json.load(out)
    assert result["status"] in ("signaled", "exited", "cancelled"), result
    assert result["status"] != "signaled" or result["signal"] == 13


def test_attack_51_reader_closes_and_the_guest_does_not_care(probe):
    process = probe.brig.start("-w", probe.work, "-k", "200ms", "--", PYTHON, "-c",
                               "import os, signal\nsignal.signal(13, signal.SIG_IGN)\nsignal.signal(15, signal.SIG_IGN)\n"
                               "while True:\n  try: os.write(1, b'x' * 4096)\n  except OSError: pass", before=probe.prefix)
    assert process.stdout.read(1) == b"x"
    process.stdout.close()
    begin = time.monotonic()
    process.wait(20 * SLOW)
    process.stderr.close()
    assert process.returncode != 0
    assert time.monotonic() - begin < 5 * SLOW


@pytest.mark.parametrize("code", [0, 3])
def test_attack_51_status_is_kept_without_a_reader(probe, code):
    """Nobody reads, the guest writes a little and exits: its own code."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    path = os.path.join(probe.work, "result")
    process = probe.brig.start("-w", probe.work, "--result", path, "--", "sh", "-c",
                               f"trap '' PIPE; echo x; exit {code}", before=probe.prefix, stdout=write_end)
    os.close(write_end)
    frame.finish(process, 20)
    with open(path, encoding="utf-8") as out:
        result = json.load(out)
    assert (result["status"], result["exit_code"]) == ("exited", code), result


def test_attack_51_reader_of_the_result_is_gone(probe):
    read_end, write_end = os.pipe()
    os.close(read_end)
    process = probe.brig.start("--json", "-w", probe.work, "--", "true", before=probe.prefix, stdout=write_end)
    os.close(write_end)
    done = frame.finish(process, 20)
    assert done.returncode == 125 and done.stderr, done
