# SPDX-License-Identifier: MIT
"""Streams that somebody outside of the tree has hold of: a writer that got the guest's stdout, a reader that
takes its time."""
import fcntl
import json
import os
import socket
import threading
import time

import pytest
from conftest import PYTHON, SLOW

PASSES_STDOUT = """
import array, os, socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [1]))])
s.recv(1)
"""


@pytest.mark.parametrize("options", [[], ["--redact", "off"]])
def test_writer_outside_does_not_keep_a_run_from_ending(brig, tmp_path, options):
    """A process outside got the guest's stdout and writes to it as fast as it can: the run is over when its
    tree is, and only what was in the pipe then is its output."""
    place = tmp_path / "s"
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(place))
    os.chmod(place, 0o777)
    server.listen(1)
    process = brig.start("--json", "--timeout", "20s", "--on-output-limit", "truncate", *options, "--", *PYTHON,
                         PASSES_STDOUT, place, cwd=tmp_path)
    client, _ = server.accept()
    _, fds, _, _ = socket.recv_fds(client, 1, 1)
    stop = threading.Event()

    def write():
        os.set_blocking(fds[0], False)
        while not stop.is_set():
            try:
                os.write(fds[0], b"password=hunter2xyz " * 3000)
            except BlockingIOError:
                pass
            except OSError:
                return

    writers = [threading.Thread(target=write, daemon=True) for _ in range(2)]
    for writer in writers:
        writer.start()
    begin = time.monotonic()
    client.send(b"x")
    try:
        result = brig.result_of(process, 15)
        assert result["status"] == "exited"
        assert time.monotonic() - begin < 5 * SLOW
    finally:
        stop.set()
        for writer in writers:
            writer.join(10)
        os.close(fds[0])


def test_events_of_the_end_are_what_was_delivered(brig, tmp_path):
    """A slow reader at the end: each chunk is told once, and is the one that was passed on."""
    text = b"".join(b"line %07d\n" % i for i in range(160_000))
    read_end, write_end = os.pipe()
    fcntl.fcntl(write_end, 1031, 1 << 20)  # F_SETPIPE_SZ
    process = brig.start("--events", tmp_path / "events", "--redact", "off", "--output", "unlimited", "--", *PYTHON,
                         "import sys\nfor i in range(160000): sys.stdout.write('line %07d\\n' % i)", stdout=write_end)
    os.close(write_end)
    time.sleep(0.5 * SLOW)  # the guest is over by then, and brig waits for its reader
    seen = b""
    with os.fdopen(read_end, "rb") as reader:
        seen = reader.read()
    process.communicate(timeout=20 * SLOW)
    with open(tmp_path / "events", encoding="utf-8") as lines:
        events = [json.loads(line) for line in lines]
    told = "".join(e["data"] for e in events if e["type"] == "stdout").encode()
    assert seen == text
    assert told == text or any("dropped" in e for e in events)
