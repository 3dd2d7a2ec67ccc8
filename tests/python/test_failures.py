# SPDX-License-Identifier: MIT
"""Failures as exceptions by kind, and results at a glance."""
import html.parser
import pickle
import re
import traceback

import brig
import pytest

from conftest import system

GREEDY = ["python3", "-c", "hoard = [bytearray(1 << 20) for _ in range(1000)]"]
TOKEN = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"


@pytest.mark.parametrize("command, keys, kind, also", [
    (["sleep", "60"], {"timeout": 0.3}, brig.Timeout, TimeoutError),
    (GREEDY, {"memory": "64M"}, brig.MemoryLimit, MemoryError),
    ("yes", {"output": 1000}, brig.OutputLimit, Exception),
])
def test_review_p5_a_run_fails_by_kind(command, keys, kind, also):
    keys.setdefault("timeout", 60 * system.SLOW)
    with pytest.raises(kind) as caught:
        brig.run(command, check=True, **keys)
    failed = caught.value
    assert isinstance(failed, brig.RunFailed) and isinstance(failed, also)
    assert not isinstance(failed, tuple({brig.Timeout, brig.MemoryLimit, brig.OutputLimit} - {kind}))
    copy = pickle.loads(pickle.dumps(failed))
    assert (type(copy), str(copy), copy.result) == (type(failed), str(failed), failed.result)
    assert type(failed).__name__ == kind.__name__


@pytest.mark.parametrize("function, keys, kind", [
    (lambda: __import__("time").sleep(60), {"timeout": 1.0 * system.SLOW}, brig.Timeout),
    (lambda: [bytearray(1 << 20) for _ in range(1000)], {"memory": "128M"}, brig.MemoryLimit),
    (lambda: print("x" * 5000), {"output": 1000}, brig.OutputLimit),
    (lambda: 1 // 0, {}, brig.GuestError),
])
def test_review_p5_a_call_fails_by_kind(guest, function, keys, kind):
    with brig.Template(parked=0, **{**guest, **keys}) as template:
        with pytest.raises(kind) as caught:
            template.call(function)
        assert isinstance(caught.value, brig.CallFailed)
        assert type(pickle.loads(pickle.dumps(caught.value))) is type(caught.value)


def test_review_p5_a_run_that_failed_shows_command_status_and_the_end_of_stderr():
    with pytest.raises(brig.RunFailed) as caught:
        brig.run(["sh", "-c", f"echo one >&2; echo \x1b]0;x >&2; echo {TOKEN} >&2; exit 7"], check=True)
    text = str(caught.value)
    assert text.startswith("sh -c ") and "exited with 7" in text and "one" in text
    assert TOKEN not in text and "\x1b" not in text
    with pytest.raises(brig.RunFailed) as caught:
        brig.run("x=" + "y" * 5000 + "; yes no 2>/dev/null | head -c 100000 >&2; exit 1", check=True)
    assert len(str(caught.value)) < 1000


def boom():
    raise KeyError("\x1b[31mno such thing")


def test_review_p5_the_guests_traceback_is_printed(guest):
    with brig.Template(parked=0, **guest) as template, pytest.raises(brig.GuestError) as caught:
        template.call(boom)
    failed = caught.value
    assert failed.type == "KeyError" and "in boom" in failed.traceback
    shown = "".join(traceback.format_exception(type(failed), failed, failed.__traceback__))
    assert "in boom" in shown and "no such thing" in shown and "\x1b" not in shown


def test_review_p5_reprs_are_short(guest):
    assert len(repr(brig.run("yes | head -c 3000000; exit 3", output="4M"))) < 120
    with brig.Template(parked=0, **guest) as template:
        assert len(repr(template.try_call(list, range(100000)))) < 120
        assert len(repr(template.try_call(boom))) < 120


def test_review_p5_notes_name_keywords():
    notes = brig.run(["sleep", "60"], timeout=0.2).notes
    assert "timeout=" in notes and "--" not in notes
    notes = brig.run("yes", output=1000).notes
    assert 'on_output_limit="truncate"' in notes and "--" not in notes
    assert "--output" in brig.run("yes", output=1000).to_dict()["notes"]  # that of brig run --json


class Markup(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags = set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        assert not attrs


def test_a_notebook_shows_a_result_and_nothing_of_a_guest_is_markup(guest):
    hostile = "<script>alert(1)</script><img src=x onerror=alert(1)>\x1b[2J"
    result = brig.run(["sh", "-c", 'printf %s "$0"; printf %s "$0" >&2; exit 3', hostile])
    with brig.Template(parked=0, **guest) as template:
        outcome = template.try_call(lambda text: (_ for _ in ()).throw(ValueError(text)), hostile)
    for shown in (result, outcome):
        markup = Markup()
        markup.feed(shown._repr_html_())
        assert markup.tags <= {"div", "code", "table", "tr", "th", "td", "b", "pre"}
        assert "alert(1)" in shown._repr_html_() and "\x1b" not in shown._repr_html_()
        assert re.search("isolation.*cell", shown._repr_html_())


def test_refused_has_a_short_name():
    assert brig.Refused is brig.RefusedError
