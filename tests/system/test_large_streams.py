# SPDX-License-Identifier: MIT
"""A guest that writes much: every byte arrives, whoever reads it and however slowly, and no more of it is in
the supervisor's memory than a few chunks."""
import fcntl
import hashlib
import os
import pty
import socket
import subprocess
import threading
import time

import pytest
from conftest import PYTHON, SLOW, finish

SIZE = 24 << 20

# Lines of many lengths, with a secret now and then, in writes that fit no page; the same in each run.
GUEST = """
import os, random, sys
random.seed(5)
line = lambda: (b'%x ' % random.getrandbits(64)) * random.randrange(1, 9) + b'\\n'
lines = b''.join(line() + (b'' if i % 50 or not int(sys.argv[2]) else b'password=hunter2xyz ') for i in range(4000))
left = int(sys.argv[1])
while left:
    piece = lines[:min(left, random.choice((77, 4096, 30000, 65536, len(lines))))]
    left -= os.write(1, piece)
"""


def guest(secrets=False, size=SIZE):
    return [*PYTHON, GUEST, str(size), str(int(secrets))]


def digest_of(data):
    return hashlib.sha256(data).hexdigest()


@pytest.fixture(scope="module")
def expected():
    """What the guest writes, without brig."""
    done = subprocess.run([*guest()], stdout=subprocess.PIPE, check=True)
    assert len(done.stdout) == SIZE
    return digest_of(done.stdout)


def read_all(fd, pause):
    """Read to the end, now and then with a pause."""
    data, count = [], 0
    while True:
        try:
            piece = os.read(fd, 50000)
        except OSError:  # a terminal whose other end is closed
            break
        if not piece:
            break
        data.append(piece)
        count += 1
        if pause and count % 20 == 0:
            time.sleep(pause)
    os.close(fd)
    return b"".join(data)


def run_to(brig, write_end, read_end, options, pause=0.0):
    got = []
    reader = threading.Thread(target=lambda: got.append(read_all(read_end, pause)))
    process = brig.start("--output", "1G", *options, stdout=write_end)
    os.close(write_end)
    reader.start()
    done = finish(process, 60 * SLOW)
    reader.join(30 * SLOW)
    assert done.returncode == 0
    return got[0]


@pytest.mark.parametrize("redact", ["on", "off"])
@pytest.mark.parametrize("pause", [0, 0.002], ids=["fast", "slow"])
def test_every_byte_reaches_the_reader_of_a_pipe(brig, expected, redact, pause):
    read_end, write_end = os.pipe()
    data = run_to(brig, write_end, read_end, ["--redact", redact, "--", *guest()], pause)
    assert digest_of(data) == expected


@pytest.mark.parametrize("redact", ["on", "off"])
def test_every_byte_reaches_the_reader_of_a_socket(brig, expected, redact):
    ends = socket.socketpair()
    data = run_to(brig, ends[1].detach(), ends[0].detach(), ["--redact", redact, "--", *guest()])
    assert digest_of(data) == expected


def test_every_byte_reaches_the_reader_of_a_terminal(brig):
    master, slave = pty.openpty()
    subprocess.run(["stty", "raw", "-echo"], stdin=slave, check=True)
    size = 2 << 20
    plain = subprocess.run(guest(size=size), stdout=subprocess.PIPE, check=True).stdout
    data = run_to(brig, slave, master, ["--redact", "off", "--", *guest(size=size)])
    assert digest_of(data) == digest_of(plain)


@pytest.mark.parametrize("redact", ["on", "off"])
def test_every_byte_reaches_a_file(brig, tmp_path, expected, redact):
    with open(tmp_path / "out", "wb") as out:
        out.write(b"before\n")
        out.flush()
        done = brig.run("--output", "1G", "--redact", redact, "--", *guest(), stdout=out)
    assert done.returncode == 0
    data = (tmp_path / "out").read_bytes()
    assert data[:7] == b"before\n"
    assert digest_of(data[7:]) == expected


def test_secrets_are_hidden_alike_for_every_reader(brig, tmp_path):
    with open(tmp_path / "out", "wb") as out:
        assert brig.run("--redact", "on", "--output", "1G", "--", *guest(True), stdout=out).returncode == 0
    data = (tmp_path / "out").read_bytes()
    assert b"hunter2" not in data and data.count(b"[redacted:password]") > 1000
    for pause in (0, 0.002):
        read_end, write_end = os.pipe()
        assert run_to(brig, write_end, read_end, ["--redact", "on", "--", *guest(True)], pause) == data


@pytest.mark.parametrize("short", [0, 1, 70000, 3 << 20])
@pytest.mark.parametrize("redact", ["on", "off"])
def test_the_budget_of_a_large_stream_holds_to_the_byte(brig, short, redact):
    """The budget ends somewhere in what goes from pipe to pipe."""
    read_end, write_end = os.pipe()
    got = []
    reader = threading.Thread(target=lambda: got.append(read_all(read_end, 0)))
    process = brig.start("--output", str(SIZE - short), "--redact", redact, "--", *guest(), stdout=write_end)
    os.close(write_end)
    reader.start()
    done = finish(process, 60 * SLOW)
    reader.join(30 * SLOW)
    assert len(got[0]) == SIZE - short
    assert (done.returncode == 0) == (short == 0)


@pytest.mark.measured
@pytest.mark.parametrize("redact", ["on", "off"])
def test_a_reader_that_stops_costs_the_supervisor_no_memory(brig, redact):
    """The guest waits in its pipe: the supervisor holds a few chunks, however long it lasts."""
    read_end, write_end = os.pipe()
    process = brig.start("--output", "1G", "--redact", redact, "--", *guest(), stdout=write_end)
    os.close(write_end)
    os.read(read_end, 65536)
    time.sleep(0.5)

    def memory():
        with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))

    waiting = memory()
    reader = threading.Thread(target=read_all, args=(read_end, 0.001))
    reader.start()
    assert finish(process, 60 * SLOW).returncode == 0
    reader.join(30 * SLOW)
    assert waiting < 8 << 20


def test_a_pipe_whose_size_was_chosen_keeps_it(brig):
    read_end, write_end = os.pipe()
    fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 8192)
    keep = os.dup(read_end)
    run_to(brig, write_end, read_end, ["--redact", "off", "--", *guest(size=2 << 20)])
    assert fcntl.fcntl(keep, fcntl.F_GETPIPE_SZ) == 8192
    os.close(keep)
