# SPDX-License-Identifier: MIT
"""Hints: what brig knows for certain about a command that failed, in the result and on stderr."""
import json
import os
import socket
import subprocess

import pytest
from conftest import PYTHON, SLOW, message

CONNECT = "import socket; socket.create_connection(({!r}, 80))"


def hints_of(brig, *args, **kw):
    return brig.result(*args, **kw)["hints"]


@pytest.fixture
def outside(tmp_path):
    """A directory of the host that no view has, beside the work directory."""
    directory = tmp_path / "outside"
    directory.mkdir()
    (directory / "data").write_text("there")
    (tmp_path / "work").mkdir()
    return directory


def test_review_u4_argument_outside_of_the_view(brig, outside, tmp_path):
    """Named, with the option that shows it; and that option does."""
    data = str(outside / "data")
    done = brig.run("--", "cat", data, cwd=tmp_path / "work")
    assert done.returncode == 1
    hint, = [line for line in message(done).splitlines() if line.startswith("brig: hint: ")]
    assert f"{data} exists" in hint and f"--ro {data} " in hint
    assert brig.run("--ro", data, "--", "cat", data, cwd=tmp_path / "work").stdout == b"there"


@pytest.mark.parametrize("form", ["{}", "--file={}", "../outside/data", "sh -c", "if={}", "../work/../outside/data"])
def test_review_u4_every_form_of_an_argument(brig, outside, tmp_path, form):
    data = str(outside / "data")
    command = ["sh", "-c", f"wc -c <'{data}'; exit 3"] if form == "sh -c" else ["false", form.format(data)]
    hint, = hints_of(brig, "--", *command, cwd=tmp_path / "work")
    assert data in hint


def test_review_u4_place_to_write_outside_of_the_view(brig, outside, tmp_path):
    """What was to be made does not exist yet: its directory is named, with --rw."""
    hint, = hints_of(brig, "--", "touch", outside / "new", cwd=tmp_path / "work")
    assert f"The directory {outside} exists" in hint and "--rw" in hint
    assert not (outside / "new").exists()


def test_review_u4_home_is_empty_by_design(brig, tmp_path):
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    (home / "settings").write_text("x")
    hint, = hints_of(brig, "--", "cat", home / "settings", cwd=work, env={**os.environ, "HOME": str(home)})
    assert str(home / "settings") in hint and "home is an empty one" in hint
    hint, = hints_of(brig, "--", "ls", home, cwd=work, env={**os.environ, "HOME": str(home)})
    assert f"--ro {home} " not in hint, "not all of a home"


@pytest.mark.parametrize("command", [
    ["cat", "/etc/hosts", "/etc/passwd", "/nonexistent"], ["ls", "/usr/bin/env", "/home", "/var", "/nothing/here"],
    ["cat", "/proc/1/environ", "/dev/kmsg", "/sys/kernel"], ["false", "/", "//", "/..", "--x=", "=/", ""],
    ["sh", "-c", "exit 1"]], ids=str)
def test_review_u4_no_hint_without_a_reason(brig, tmp_path, command):
    (tmp_path / "work").mkdir()
    assert hints_of(brig, "--", *command, cwd=tmp_path / "work") == []


def test_review_u4_no_hint_after_success(brig, outside, tmp_path):
    assert hints_of(brig, "--", "echo", outside / "data", cwd=tmp_path / "work") == []


def test_review_u4_links_and_odd_names_are_harmless(brig, outside, tmp_path):
    """A link that a guest left is not followed; control characters are escaped; nothing waits."""
    (tmp_path / "work" / "link").symlink_to(outside)
    work = tmp_path / "work"
    assert hints_of(brig, "--", "cat", work / "link" / "data", cwd=work) == []
    os.mkfifo(outside / "fifo")
    assert "fifo" in hints_of(brig, "--", "false", outside / "fifo", cwd=work, timeout=20)[0]
    odd = outside / "a\x1b[31mb\nc"
    odd.touch()
    hint, = hints_of(brig, "--", "false", odd, cwd=work)
    assert "\x1b" not in hint and "\n" not in hint and "\\x1b" in hint


@pytest.mark.parametrize("name", ["data", "missing", "data/below"])
def test_review_u4_planted_link_is_not_walked(brig, outside, tmp_path, name):
    """Behind it may be a mount that hangs. A symlink that is walked has another time of access."""
    work = tmp_path / "work"
    link = work / "link"
    link.symlink_to(outside)

    def is_walked(look):
        os.utime(link, ns=(10**18, 10**18), follow_symlinks=False)
        look()
        return os.lstat(link).st_atime_ns != 10**18
    if not is_walked((link / "data").read_text):
        pytest.skip("no times of access here")
    assert not is_walked(lambda: hints_of(brig, "--", "false", link / name, cwd=work))


def test_review_u4_number_and_length_are_bounded(brig, outside, tmp_path):
    names = []
    for i in range(20):
        (outside / f"{i}{'x' * 200}").touch()
        names.append(outside / f"{i}{'x' * 200}")
    hints = hints_of(brig, "--", "false", *names, *["/no" * 1000] * 50, cwd=tmp_path / "work")
    assert 1 <= len(hints) <= 8 and all(len(hint) < 512 for hint in hints)


@pytest.mark.parametrize("address", ["1.1.1.1", "2001:db8::1"])
def test_review_u4_attempt_to_leave_the_network(brig, address):
    hint, = hints_of(brig, "--", *PYTHON, CONNECT.format(address))
    assert "it has no network" in hint and "--network host" in hint


def test_review_u4_look_up_of_a_name(brig):
    hint, = hints_of(brig, "--", *PYTHON, CONNECT.format("example.org"))
    assert "no network and no name server" in hint and "--network host" in hint


def test_review_u4_loopback_is_not_the_network(brig):
    """A refused connection within the cell says nothing of the network."""
    assert hints_of(brig, "--", *PYTHON, CONNECT.format("127.0.0.1")) == []


def test_review_u4_no_hint_on_the_hosts_network(brig):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        code = f"import socket; socket.create_connection(('127.0.0.1', {closed.getsockname()[1]}))"
        assert hints_of(brig, "--network", "host", "--", *PYTHON, code) == []


def test_review_u4_quiet_and_json_say_nothing_on_stderr(brig, outside, tmp_path):
    for option in ("-q", "--json"):
        done = brig.run(option, "--", "sh", "-c", f"exec 2>&-; cat {outside / 'data'}", cwd=tmp_path / "work")
        assert (done.returncode, done.stderr) == (1, b"")


def test_review_u4_secrets_in_hints_are_hidden(brig, outside, tmp_path):
    secret = "ghp_" + "a1B2" * 9
    (outside / secret).touch()
    hint, = hints_of(brig, "--redact", "on", "--", "false", outside / secret, cwd=tmp_path / "work")
    assert secret not in hint and "[redacted:" in hint


def test_review_u4_hints_in_batch_and_calls(brig, outside, tmp_path):
    """In a batch as in a run; the answer of a call, which a model reads, does not tell of the host."""
    jobs = tmp_path / "jobs"
    jobs.write_text(json.dumps({"command": ["cat", str(outside / "data")]}) + "\n")
    done = brig.run(jobs, verb="batch", cwd=tmp_path / "work")
    assert str(outside / "data") in json.loads(done.stdout.splitlines()[0])["hints"][0]
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps({"tools": [{"name": "t", "description": "d", "input_schema": {"type": "object"},
                                            "command": ["cat", str(outside / "data")]}]}))
    done = brig.run("t", "--tools", tools, verb="call", cwd=tmp_path / "work")
    assert json.loads(done.stdout)["result"]["hints"] == []


def test_review_u4_error_has_an_empty_list(brig):
    assert brig.result("--", "no-such-command")["hints"] == []


# ---- scripts with carriage returns -----------------------------------------------------------

def test_review_u7_carriage_return_is_named(brig, tmp_path):
    (tmp_path / "script").write_bytes(b"#!/bin/sh\r\necho hi\r\n")
    (tmp_path / "script").chmod(0o755)
    done = brig.run("--", "./script")
    assert done.returncode == 126
    assert "carriage return" in message(done) and r"sed -i 's/\r$//' ./script" in message(done)
    subprocess.run(["sed", "-i", r"s/\r$//", "script"], cwd=tmp_path, check=True)
    assert brig.run("--", "./script").stdout == b"hi\n"


def test_review_u7_carriage_return_behind_env(brig, tmp_path):
    """The kernel finds env, which does not find "sh\\r": the command has run, so this is a hint."""
    (tmp_path / "script").write_bytes(b"#!/usr/bin/env sh\r\necho hi\r\n")
    (tmp_path / "script").chmod(0o755)
    result = brig.result("--", "./script")
    assert result["exit_code"] == 127
    assert "carriage return" in result["hints"][0] and "./script" in result["hints"][0]


def test_review_u7_script_that_became_something_else(brig, tmp_path):
    """Looked at after the run, when the guest may have replaced it: no FIFO is waited for."""
    (tmp_path / "script").write_text("#!/bin/sh\nrm script; mkfifo script; exit 1\n")
    (tmp_path / "script").chmod(0o755)
    assert brig.result("--", "./script", timeout=20 * SLOW)["hints"] == []
