# SPDX-License-Identifier: MIT
"""Random generators on their way into a guest.

A call never shares a generator with its caller or its siblings: a generator that a function refers
to is sent as a new one of the same kind, and the generators behind the functions of `random` and
`numpy.random` by name, so that the guest uses its own. Only a generator in the arguments is a value
like any other, and arrives in its state: its caller chose it for this call.
"""

from __future__ import annotations

import sys
from typing import Any

from . import _guest

# Generators that modules keep for their functions: `from random import randint` is a method of one.
HIDDEN = (
    ("random", "_inst"),
    ("numpy.random.mtrand", "_rand"),
    ("numpy.random.mtrand", "_rand._bit_generator"),
)


def is_generator(thing: Any) -> bool:
    """True for generators of random and numpy; never imports either."""
    return issubclass(type(thing), tuple(_guest.kinds_of_generators()))


def reduce_generator(thing: Any, exact: bool) -> Any:
    """For a pickler: a reference, a new generator, or, if `exact`, the state."""
    for module, name in HIDDEN:
        if _guest.find_attribute(sys.modules.get(module), name) is thing:
            return _guest.load_attribute, (module, name)
    kind = type(thing)
    random: Any = sys.modules.get("random")
    if random is not None and issubclass(kind, random.Random):
        if issubclass(kind, random.SystemRandom):
            return kind, ()  # it has no state
        own = kind.__reduce__ is not random.Random.__reduce__
        return NotImplemented if exact or own else (kind, ())
    if exact:
        return NotImplemented
    source = getattr(thing, "_bit_generator", None)  # None: it is one itself
    return (kind, ()) if source is None else (kind, (source,))
