# SPDX-License-Identifier: MIT
"""P1: a call never shares a random generator with its caller or its siblings, wherever its function was defined."""
import functools
import random
import secrets
import sys
import types

import pytest

import brig
from brig import _guest
from brig._function import pack
from brig._interpreter import Interpreter

numpy = pytest.importorskip("numpy")

LARGE = 1 << 60
OWN = random.Random(42)
ARRAYS = numpy.random.default_rng(42)
OLD = numpy.random.RandomState(42)
HELD = {"inside": [random.Random(7)]}

# As a program or a notebook has them: nothing here can be imported by the guest.
PROGRAM = """
import random, secrets
from random import randint, random as uniform
import numpy as np
from numpy.random import rand
from numpy import random as npr

LARGE = 1 << 60
own = random.Random(42)
held = {"inside": [random.Random(7)]}
rng = np.random.default_rng(42)
old = np.random.RandomState(42)
source = np.random.PCG64(5)
both = np.random.Generator(source)

def by_module(): return random.randint(0, LARGE)
def by_method(): return randint(0, LARGE)
def by_builtin(): return uniform()
def by_instance(): return own.randint(0, LARGE)
def by_content(): return held["inside"][0].randint(0, LARGE)
def by_numpy(): return float(np.random.rand())
def by_numpy_function(): return float(rand())
def by_numpy_module(): return float(npr.rand())
def by_generator(): return float(rng.random())
def by_seeds(): return int(rng.bit_generator._seed_seq.entropy)
def by_old(): return float(old.normal())
def by_source(): return float(both.random())
def by_default(rng=random.Random(3)): return rng.randint(0, LARGE)
def make():
    rng = random.Random(9)
    return lambda: rng.randint(0, LARGE)
by_closure = make()
class Simulation:
    shared = random.Random(4)
    def __init__(self): self.rng = random.Random(5)
    def step(self): return self.rng.randint(0, LARGE)
    def other(self): return self.shared.randint(0, LARGE)
by_object = Simulation().step
by_class = Simulation().other
by_bound = random.Random(6).random
by_system = lambda: secrets.randbelow(LARGE)
"""
WAYS = [line.split("(")[0].split(" =")[0].removeprefix("def ") for line in PROGRAM.splitlines()
        if line.startswith(("def by_", "by_"))]  # fmt: skip


def program():
    module = types.ModuleType("__main__")
    exec(compile(PROGRAM, "program", "exec"), vars(module))
    return module


@pytest.fixture(scope="module")
def template():
    with brig.Template(["random", "numpy", "numpy.random"], timeout=50, memory="1G") as made:
        yield made


@pytest.fixture(scope="module")
def bare():
    """Its calls import the modules."""
    with brig.Template(timeout=50, memory="1G") as made:
        yield made


def draws(template, function):
    """The numbers of three calls."""
    return [template.call(function) for _ in range(3)]


@pytest.mark.parametrize("way", WAYS)
def test_review_p1_each_call_draws_its_own(template, way):
    made = program()
    function = getattr(made, way)
    drawn = draws(template, function)
    assert len({*drawn, function()}) == 4  # the fourth is the caller's next number


@pytest.mark.parametrize("way", ["by_module", "by_method", "by_builtin", "by_object", "by_numpy_function"])
def test_review_p1_without_preload(bare, way):
    test_review_p1_each_call_draws_its_own(bare, way)


def test_review_p1_seeded_callers_stay_unknown(template):
    """The caller's hidden generators have a known state, which no guest gets."""
    def both():
        return random.random(), float(numpy.random.rand()), random.gauss(0, 1), float(numpy.random.normal())

    random.seed(1)
    numpy.random.seed(1)
    numpy.random.normal()  # the second of the pair is kept
    drawn = {number for _ in range(3) for number in template.call(both)}
    assert len(drawn) == 12 and not drawn & set(both())


MODULE = """
import random
import numpy
from random import randint
GENERATORS = {
    "random": random.Random(1),
    "numpy": numpy.random.default_rng(1),
    "philox": numpy.random.Generator(numpy.random.Philox(1)),
    "old": numpy.random.RandomState(1),
    "old sfc": numpy.random.RandomState(numpy.random.SFC64(1)),
}
for old in ("old", "old sfc"):
    GENERATORS[old].normal()
class Strict(random.Random):
    def seed(self, a, version=2): super().seed(a)
strict = Strict(5)
def all_of_them():
    drawn = [GENERATORS[name].random() for name in ("random", "numpy", "philox")]
    drawn += [GENERATORS[name].normal() for name in ("old", "old sfc")]
    drawn += [strict.random(), randint(0, 1 << 60), random.gauss(0, 1), numpy.random.rand()]
    drawn += [numpy.random.Generator(type(GENERATORS["numpy"].bit_generator)(seed)).random()
              for seed in GENERATORS["numpy"].bit_generator._seed_seq.spawn(1)]
    return [float(number) for number in drawn]
"""


@pytest.mark.parametrize("parked", [0, 2])
def test_review_p1_generators_made_at_import(tmp_path, monkeypatch, parked):
    (tmp_path / "made_at_import.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "made_at_import", raising=False)
    import made_at_import

    with brig.Template(["made_at_import"], timeout=50, paths=[tmp_path], parked=parked) as template:
        drawn = [number for _ in range(3) for number in template.call(made_at_import.all_of_them)]
    assert len({*drawn, *made_at_import.all_of_them()}) == 40


def test_a_generator_in_the_arguments_is_a_value(template):
    for generator in (random.Random(1), numpy.random.default_rng(1), numpy.random.RandomState(1)):
        drawn = template.call(lambda rng, held: [float(rng.random()), rng is held["rng"]], generator, {"rng": generator})
        assert drawn == [generator.random(), True]


def test_a_hidden_generator_in_the_arguments_is_the_guests():
    for function in (random.random, random.randint, numpy.random.rand, secrets.SystemRandom().random):
        _, (sent,), _ = _guest.load(pack(print, (function,), {}, Interpreter()))
        assert sent.__self__ is function.__self__ or isinstance(sent.__self__, random.SystemRandom)


def test_functions_in_the_arguments_bring_no_state():
    def function():
        return OWN.random(), ARRAYS.random(), OLD.random(), HELD["inside"][0].random()

    class Nowhere(Interpreter):
        def imports(self, name):
            return name != __name__ and super().imports(name)

    _, (sent, after), _ = _guest.load(pack(print, (function, OWN), {}, Nowhere()))
    drawn, here = sent(), function()
    assert not set(drawn[1:]) & set(here[1:])
    assert sent.__globals__["OWN"] is after  # one object in both, as it is here


def test_a_generator_is_one_object_in_the_guest(template):
    rng = random.Random(1)
    twice = functools.partial(lambda a, b: a is b, rng, rng)
    assert template.call(twice)
