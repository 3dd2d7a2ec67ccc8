# SPDX-License-Identifier: MIT
"""What a terminal shows of a batch while it runs."""
import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import time

import pytest
from batch_frame import batch  # noqa: F401 (fixtures too)
from conftest import WARM, finish

pytestmark = pytest.mark.skipif(bool(WARM), reason="brig batch has no --warm")


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
