# SPDX-License-Identifier: MIT
"""Wrong uses of the package, each with a message that names the cause and the fix in Python's words."""
import dataclasses
import os

import pytest

import brig


@dataclasses.dataclass
class Acting:
    path: str = ""

    def __del__(self):
        pass


@pytest.mark.parametrize("use, kind, text", [
    (lambda: brig.Template(parked="many"), TypeError, "parked: 'many' is neither an int nor \"auto\""),
    (lambda: brig.Template(parked=2.5), TypeError, "parked: float is not an int"),
    (lambda: brig.Template(types=Acting), TypeError, "Acting'> is not a list of classes"),
    (lambda: brig.Template(types="x"), TypeError, "types: 'x' is not a list of classes"),
    (lambda: brig.Template(paths="/no/such"), brig.UsageError, "paths: /no/such: does not exist"),
    (lambda: brig.Executor(max_concurrent=3), TypeError, "'max_concurrent' of an executor is max_workers"),
    (lambda: brig.Executor(template=5), TypeError, "template: int is not a brig.Template"),
    (lambda: brig.Executor(cold=True, preload=["json"]), TypeError, "leave out either it or cold=True"),
    (lambda: brig.ToolHost([], template=5), TypeError, "template: int is not a brig.Template"),
    (lambda: brig.Pool().map("true"), TypeError, "commands: a str is one command"),
    (lambda: brig.run("true", memory=1.5), brig.UsageError, 'memory: 1.5 is no number of bytes; "1.5G" is one of GiB'),
    (lambda: brig.run("true", ro="/no/such"), brig.Error, "ro: /no/such: does not exist"),
])
def test_refused_in_words_of_python(use, kind, text):
    with pytest.raises(kind) as caught:
        use()
    assert text in str(caught.value) and "--" not in str(caught.value)


def test_shared_settings_are_no_limits_of_calls(guest):
    with brig.Template(**guest) as template:
        for name, value in {"cwd": "/", "workdir": "/", "types": (), "parked": 1, "preload": "json", "network": "host"}.items():
            with pytest.raises(TypeError, match=f"'{name}' is not a limit; set it for the whole template"):
                template.with_limits(**{name: value})


def test_class_with_an_end_of_its_own_is_not_made_here(guest):
    with brig.Template(**guest) as template:
        outcome = template.try_call(Acting, os.devnull)
    assert (outcome.kind, outcome.type) == ("unserialisable", "Acting")
    assert "has a __del__" in outcome.error and "return its values instead" in outcome.error
