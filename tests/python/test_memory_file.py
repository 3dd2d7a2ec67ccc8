# SPDX-License-Identifier: MIT
"""Review P8: large buffers of a value come back by a memory file, which the guest seals. A guest that seals too little, or
names a place that is not its own, has sent no result."""
import errno
import os
import time
from concurrent.futures import ProcessPoolExecutor

import numpy
import pytest

import brig
from brig._memory import BadPlace, Memory, hold
from brig._value import LARGE

MB = 1 << 20


@pytest.fixture(scope="module")
def template():
    with brig.Template(preload=["numpy"], memory="1G", result_size="512M", timeout=60) as made:
        yield made


def make_values(size):
    import array

    import numpy
    return {"array": numpy.arange(size // 8), "bytes": bytes(range(256)) * (size // 256), "bytearray": bytearray(b"ab") * (size // 2),
            "view": memoryview(b"xyz!" * (size // 4)), "typed": array.array("d", [0.5]) * (size // 8),
            "columns": numpy.arange(size // 8.0).reshape(2, -1).T, "texts": numpy.array(["abcd"] * (size // 16)), "small": b"small"}


def same(a, b):
    return type(a) is type(b) and (numpy.array_equal(a, b) and a.dtype == b.dtype if isinstance(a, numpy.ndarray) else a == b)


@pytest.mark.parametrize("size", [LARGE - 256, LARGE, 4 * MB])
def test_review_p8_large_values_arrive_as_they_are(template, size):
    expected = make_values(size)
    back = template.call(make_values, size)
    assert back.keys() == expected.keys() and all(same(back[name], expected[name]) for name in expected)
    assert back["array"].flags.writeable and back["array"].flags.owndata or back["array"].base is not None
    back["array"][0] = 7


@pytest.mark.parametrize("way", ["try_call", "start", "map", "acall"])
def test_review_p8_every_way_to_call(template, way):
    import asyncio
    if way == "acall":
        back = asyncio.run(template.acall(make_values, MB))
    elif way == "map":
        back, = template.map(make_values, [MB])
    elif way == "start":
        with template.start(make_values, MB) as call:
            call.wait()
        back = call.value()
    else:
        outcome = template.try_call(make_values, MB)
        assert outcome.result.output is None and outcome.result._memory is None
        back = outcome.value
    assert same(back["array"], numpy.arange(MB // 8))


def test_review_p8_no_descriptor_is_left(template):
    template.call(make_values, MB)
    before = sorted(os.listdir("/proc/self/fd"))
    for _ in range(3):
        template.call(make_array, 1)
        template.try_call(make_array, 1)
    time.sleep(0.2)  # the pool thread closes those of calls that were forked ahead
    assert len(os.listdir("/proc/self/fd")) <= len(before) + 2


def test_review_p8_value_larger_than_the_limit_is_refused_with_its_name(template):
    outcome = template.with_limits(result_size="1M").try_call(bytes, 3 * MB)
    assert outcome.kind == "bad_result" and outcome.error == "the result is larger than result_size", outcome
    with pytest.raises(brig.CallFailed, match="larger than result_size"):
        template.with_limits(result_size="1M").call(bytes, 3 * MB)


# ---- hostile guests ----

def forge(steps, places, size=MB):
    """Fill the memory file, do some of the steps, and send a value whose bytes are at these places."""
    import fcntl
    import json
    import mmap
    import os
    if "another" in steps:
        other = os.memfd_create("other", os.MFD_ALLOW_SEALING)
        os.dup2(other, 4)
    os.ftruncate(4, size)
    if "write" in steps:
        os.pwrite(4, b"guest" * 100, 0)
    all_of_them = {"shrink": fcntl.F_SEAL_SHRINK, "grow": fcntl.F_SEAL_GROW, "seal": fcntl.F_SEAL_WRITE}
    seals = 0
    for name, seal in all_of_them.items():
        seals |= seal if name in steps or "sealed" in steps else 0
    if "mapped" in steps:
        kept = mmap.mmap(4, size)
        try:
            fcntl.fcntl(4, fcntl.F_ADD_SEALS, seals)
            raise AssertionError("it can be sealed while it is mapped")
        except OSError:
            seals &= ~fcntl.F_SEAL_WRITE
        assert kept
    fcntl.fcntl(4, fcntl.F_ADD_SEALS, seals)
    if "sealed" in steps and "mapped" not in steps:
        for change in (lambda: os.pwrite(4, b"x", 0), lambda: os.ftruncate(4, 1), lambda: os.ftruncate(4, 2 * size)):
            try:
                change()
                raise AssertionError("a sealed file was changed")
            except PermissionError:
                pass
    value = [{"$": "bytes", "data": place} for place in places]
    text = json.dumps({"status": "success", "output": value}, separators=(",", ":")).encode()
    os.write(3, b"%d\n%b" % (len(text), text))
    os._exit(0)


WHOLE = [0, MB]


@pytest.mark.parametrize("steps, places, words", [
    ("", [WHOLE], "not sealed"), ("write", [WHOLE], "not sealed"), ("shrink grow", [WHOLE], "not sealed"), ("seal grow", [WHOLE], "not sealed"),
    ("seal shrink", [WHOLE], "not sealed"), ("sealed mapped", [WHOLE], "not sealed"), ("sealed another", [WHOLE], "there is none"),
    ("sealed", [[0, MB + 1]], "outside"), ("sealed", [[MB, LARGE]], "outside"), ("sealed", [[1 << 62, 1 << 62]], "outside"),
    ("sealed", [[0, 1 << 70]], "outside"), ("sealed", [[-1, LARGE]], "not at a place"), ("sealed", [[0, -LARGE]], "not at a place"),
    ("sealed", [[0, 10]], "outside"), ("sealed", [[0, 0]], "outside"), ("sealed", [WHOLE, WHOLE], "used twice"),
    ("sealed", [[0, LARGE], [LARGE - 1, LARGE]], "used twice"), ("sealed", [[0]], "not at a place"), ("sealed", [[0, MB, 0]], "not at a place"),
    ("sealed", [[True, MB]], "not at a place"), ("sealed", [[0.0, MB]], "not at a place"), ("sealed", [["0", MB]], "not at a place"),
], ids=str)
def test_hostile_memory_file_is_no_result(template, steps, places, words):
    outcome = template.try_call(forge, steps, places)
    assert outcome.kind == "bad_result" and words in outcome.error, outcome


def test_hostile_memory_file_is_no_answer(template):
    """call() does not wait for the end of the process."""
    with pytest.raises(brig.CallFailed, match="not sealed"):
        template.call(forge, "write", [WHOLE])


def test_hostile_memory_file_larger_than_the_limit(template):
    """Nothing of it is read: it takes no memory of the caller's."""
    outcome = template.with_limits(result_size="1M").try_call(forge, "sealed", [[0, 1 << 40]], 1 << 40)
    assert outcome.kind == "bad_result" and "result_size" in outcome.error, outcome


def test_memory_file_may_have_holes_and_more_than_is_used(template):
    back = template.call(forge, "write sealed", [[0, LARGE], [MB - LARGE, LARGE]])
    assert back[0].startswith(b"guestguest") and back[1] == bytes(LARGE)


def test_memory_file_is_written_to_the_guest_s_own_limit(template):
    """Its pages count as the guest's memory."""
    def fill():
        block = bytes(MB)
        for _ in range(400):
            os.write(4, block)
        return 1
    if template.try_call(int).result.usage.memory_peak_bytes is None:
        pytest.skip("the host does not count memory")
    outcome = template.with_limits(memory="100M").try_call(fill)
    assert outcome.kind in ("memory_limit", "signal", "raised"), outcome


def test_reader_of_a_file_that_ends_too_early(tmp_path):
    """The seals make it impossible; the reader would not loop for ever."""
    path = tmp_path / "short"
    path.write_bytes(b"x" * 10)
    memory = Memory(lambda: (os.open(path, os.O_RDONLY), MB))
    memory.check(0, LARGE)
    for read in (lambda: memory.read_bytes(0, LARGE), lambda: memory.read_into(bytearray(LARGE), 0)):
        with pytest.raises(BadPlace, match="too early"):
            read()


def test_fault_of_the_file_is_kept_until_it_is_read():
    def fail():
        raise OSError(errno.EPERM, "no")
    with pytest.raises(BadPlace, match="not sealed"):
        hold(fail).check(0, LARGE)
    assert hold(lambda: None) is None


# ---- speed ----

def make_array(megabytes):
    import numpy
    return numpy.ones(megabytes * 125_000)


def test_review_p8_one_copy_in_the_caller(script):
    done = script('''if True:
        import brig, numpy
        def make():
            import numpy
            return numpy.ones(12_500_000)
        def peak():
            with open("/proc/self/status") as status:
                return next(int(line.split()[1]) / 1000 for line in status if line.startswith("VmHWM"))
        with brig.Template(preload=["numpy"], memory="1G", result_size="200M", timeout=60) as template:
            template.call(abs, -1)
            before = peak()
            value = template.call(make)
            print(int(peak() - before), value.nbytes)
    ''', more={"PYTHONMALLOC": "malloc"}.items())
    grown, size = map(int, done.stdout.split() or (0, 0))
    assert size == 100_000_000 and 50 < grown < 130, (grown, done.stderr)


@pytest.mark.alone
def test_review_p8_as_fast_as_an_executor(template):
    """100 MB back: at most 1.3 times the time of ProcessPoolExecutor."""
    def seconds(call):
        began = time.perf_counter()
        assert call().nbytes == 100_000_000
        return time.perf_counter() - began
    with ProcessPoolExecutor(1) as pool:
        ways = (lambda: template.call(make_array, 100), lambda: pool.submit(make_array, 100).result())
        taken = [[seconds(way) for way in ways] for _ in range(6)][1:]
    brigs, pools = zip(*taken)
    assert min(brigs) <= 1.3 * min(pools), taken


