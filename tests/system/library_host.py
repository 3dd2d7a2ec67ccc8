# SPDX-License-Identifier: MIT
"""A host process of libbrig, through ctypes: what an embedding program would be.

    library_host.py LIBRARY TOKEN row RUNS          one run after the other
    library_host.py LIBRARY TOKEN beside SECONDS    eight at once, all polled in one loop
    library_host.py LIBRARY TOKEN warm RUNS         from cells built ahead; then four are parked
    library_host.py LIBRARY TOKEN kill RUNS         the same, without waiting for the four

Runs guests that end in every way, checks each end, and prints as JSON what it has open and holds in
memory after a warm-up and at its end. Started by test_stress.py.
"""
import ctypes
import json
import os
import select
import sys
import time

FROM_OPTION = 4
AT_ONCE = 8
WARM_UP = 50


class Error(ctypes.Structure):
    _fields_ = [("fault", ctypes.c_int), ("errnum", ctypes.c_int), ("stage", ctypes.c_char_p),
                ("key", ctypes.c_char_p), ("reserved", ctypes.c_void_p * 3), ("text", ctypes.c_char * 512)]


class Library:
    """brig.h, as far as it is needed here; a failure is an exception with the error's text."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.brig_run_result.restype = ctypes.c_void_p
        self.host = ctypes.c_void_p()
        self.warm = 0
        self.check("brig_open", ctypes.byref(self.host))

    def check(self, name, *args):
        error = Error()
        if getattr(self.lib, name)(*args, ctypes.byref(error)) < 0:
            raise RuntimeError(self.lib.brig_error_exit_code(ctypes.byref(error)),
                               error.text.decode())

    def start(self, command, settings):
        spec, run = ctypes.c_void_p(), ctypes.c_void_p()
        self.check("brig_spec_new", ctypes.byref(spec))
        try:
            argv = (ctypes.c_char_p * len(command))(*[word.encode() for word in command])
            self.check("brig_spec_set_command", spec, argv, ctypes.c_size_t(len(command)))
            for key, value in settings.items():
                self.check("brig_spec_set", spec, key.encode(), value.encode(), FROM_OPTION, None)
            self.check("brig_start", self.host, spec, ctypes.byref(run))
        finally:
            self.lib.brig_spec_free(spec)
        return run

    def keep_warm(self, cells, wait=False):
        spec = ctypes.c_void_p()
        self.check("brig_spec_new", ctypes.byref(spec))
        self.check("brig_warm", self.host, spec, ctypes.c_uint(cells))
        while wait and self.lib.brig_warm_ready(self.host, spec) < cells:
            time.sleep(0.01)
        self.lib.brig_spec_free(spec)

    def end(self, run):
        """The exit code of a run that is over; frees it."""
        self.warm += self.lib.brig_run_was_warm(run) & 1
        result = ctypes.c_void_p(self.lib.brig_run_result(run))
        code = self.lib.brig_result_exit_code(result)
        self.lib.brig_run_free(run)
        return code

    def close(self):
        self.lib.brig_close(self.host)


# Guests that end in every way: command, settings, exit code.
GUESTS = [
    (["true"], {}, 0),
    (["sh", "-c", "echo hi; sleep 300 & exit 3"], {}, 3),
    (["sleep", "300"], {"timeout": "20ms"}, 124),
    (["sh", "-c", "trap '' TERM; setsid sleep 300 & sleep 300"],
     {"timeout": "20ms", "kill_after": "20ms"}, 124),
    (["yes"], {"output": "1K"}, 137),
    (["sh", "-c", "kill -SEGV $$"], {}, 139),
    (["bash", "-c", "for i in 1 2 3 4 5 6 7 8 9; do sleep 300 & done; wait"], {"pids": "5"}, 137),
    (["/no/such/command"], {}, 127),
    (["true"], {"require": "net", "network": "host"}, 125),
    (["true"], {"require": "nonsense"}, 2),
    (["sh", "-c", "head -c 1M /dev/zero"], {}, 0),
]


class Tally:
    """What was seen: the number of runs, and each that ended otherwise than it should have."""

    def __init__(self, token):
        self.token = token
        self.runs, self.wrong = 0, []

    def next(self, library):
        """Start the next guest: (run or None if it was refused, the exit code it should have)."""
        command, settings, code = GUESTS[self.runs % len(GUESTS)]
        self.runs += 1
        try:
            run = library.start(command, {**settings, "env": f"BRIG_TEST_TOKEN={self.token}"})
            return run, code
        except RuntimeError as error:
            self.add(error.args[0], code, error.args[1])
            return None, code

    def add(self, code, expected, text=""):
        if code != expected:
            self.wrong.append([code, expected, text])


def run_one(library, tally):
    run, code = tally.next(library)
    if not run:
        return
    if tally.runs % 7 == 0:  # freed while it runs: that ends it
        library.lib.brig_run_free(run)
        return
    library.lib.brig_run_wait(run, -1)
    tally.add(library.end(run), code)


def run_beside(library, tally, seconds):
    """Keep eight of them going until the time is up, then let them end."""
    poll = select.poll()
    going = {}
    until = time.monotonic() + seconds
    while going or time.monotonic() < until:
        while len(going) < AT_ONCE and time.monotonic() < until:
            run, code = tally.next(library)
            if run:
                fd = library.lib.brig_run_fd(run)
                poll.register(fd, select.POLLIN)
                going[fd] = run, code
        for fd, _ in poll.poll():
            run, code = going[fd]
            if library.lib.brig_run_step(run):
                poll.unregister(fd)
                del going[fd]
                tally.add(library.end(run), code)


def footprint():
    ctypes.CDLL(None).malloc_trim(0)  # what was freed and kept for later is no leak
    with open("/proc/self/status", encoding="ascii") as status:
        resident = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
        count = len(mounts.readlines())
    return {"resident_kib": resident, "descriptors": len(os.listdir("/proc/self/fd")),
            "mounts": count, "children": children()}


def children():
    pids = []
    for thread in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{thread}/children", encoding="ascii") as listing:
            pids += listing.read().split()
    return pids


def cool_down(library):
    """No cells any more, and what was over is removed."""
    library.keep_warm(0)
    until = time.monotonic() + 10
    while children() and time.monotonic() < until:
        time.sleep(0.01)


def run_warm(library, tally, amount):
    library.keep_warm(4)
    for _ in range(amount):
        run_one(library, tally)
    cool_down(library)


def main():
    path, token, mode, amount = sys.argv[1:]
    library, tally = Library(path), Tally(token)
    for _ in range(WARM_UP):
        run_one(library, tally)
    if mode == "beside":
        run_beside(library, tally, 1)
    if mode in ("warm", "kill"):
        run_warm(library, tally, WARM_UP)
    before = footprint()
    if mode == "row":
        for _ in range(int(amount)):
            run_one(library, tally)
    elif mode in ("warm", "kill"):
        run_warm(library, tally, int(amount))
    else:
        run_beside(library, tally, float(amount))
    after = footprint()
    if mode in ("warm", "kill"):
        library.keep_warm(4, wait=mode == "warm")
    else:
        library.close()
    print(json.dumps({"before": before, "after": after, "runs": tally.runs, "wrong": tally.wrong,
                      "warm": library.warm}), flush=True)
    if mode in ("warm", "kill"):
        time.sleep(600)


main()
