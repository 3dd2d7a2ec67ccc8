# SPDX-License-Identifier: MIT
"""Tells a slow program from a machine that stood still.

Tests with a time limit fail if the host of a virtual machine takes its CPUs away, or if other work on them does.
A process of its own, the meter, sleeps in short intervals and adds up by how much it woke too late. A test that
failed while the meter lost at least STALL seconds is run once more, from its set-up on; the second run decides, and
tools/test names it. A test that fails while the meter ran on time has failed.

The hook of this file is a hook of the conftest that loads it.
"""
import atexit
import os
import struct
import subprocess
import sys
import tempfile

from _pytest.runner import runtestprotocol

STALL = 0.5  # seconds

# Ends with its stdin. Not a child of ours: tests wait for any child, and look at all of them.
METER = """
import os, select, struct, time
if os.fork():
    os._exit(0)
lost = 0.0
os.pwrite(1, struct.pack("q", os.getpid()), 8)
while True:
    begin = time.monotonic()
    if select.select([0], [], [], 0.02)[0]:
        break
    late = time.monotonic() - begin - 0.02
    if late > 0.1:
        lost += late
        os.pwrite(1, struct.pack("d", lost), 0)
"""


class Meter:
    def __init__(self):
        self.file = tempfile.TemporaryFile()
        self.file.write(struct.pack("dq", 0.0, 0))
        self.file.flush()
        inner, self.alive = os.pipe()  # close-on-exec
        plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        subprocess.run([sys.executable, "-I", "-S", "-c", METER], stdin=inner, stdout=self.file, env=plain, check=True)
        os.close(inner)
        atexit.register(os.close, self.alive)

    def pid(self):
        return struct.unpack("q", os.pread(self.file.fileno(), 8, 8))[0]

    def lost(self):
        return struct.unpack("d", os.pread(self.file.fileno(), 8, 0))[0]


_meter = None


def pytest_runtest_protocol(item, nextitem):
    global _meter
    if _meter is None:
        _meter = Meter()
    before = _meter.lost()
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    lost = _meter.lost() - before
    if any(report.failed for report in reports) and lost >= STALL:
        item.user_properties.append(("run again", f"the machine stood still for {lost:.1f} s in the first run"))
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
