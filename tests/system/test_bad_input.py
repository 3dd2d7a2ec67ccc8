# SPDX-License-Identifier: MIT
"""Whatever is malformed is refused in one line that names what is wrong and where, with the exit
code that says whose fault it is; and nothing is started."""
import json
import os

import pytest
from conftest import SLOW, message


@pytest.fixture
def refused(brig, marker):
    """Run brig with options before a command that would leave a marker: refused(2, "--x", ...)
    checks everything that holds for every refusal and gives the message."""

    def check(code, *options, command=None, **kw):
        done = brig.run(*options, *(["--", "touch", marker] if command is None else command), **kw)
        text = message(done)
        assert done.returncode == code, text
        assert not marker.exists(), "the command was started"
        assert done.stdout == b""
        assert text.startswith("brig: ") and text.count("\n") == 1
        return text

    return check


# ---- options ---------------------------------------------------------------------------------

@pytest.mark.parametrize("options, named", [
    (["--memori", "1G"], "--memori"),
    (["--memori=1G"], "--memori"),
    (["--m", "1G"], "--m"),
    (["-x"], "-x"),
    (["-qv"], "-qv"),
    (["--json=yes"], "--json"),
    (["--no-json"], "--no-json"),
    (["---"], "---"),
    (["--=5"], "--=5"),
    (["-é"], "-"),
])
def test_unknown_option(refused, options, named):
    assert named in refused(2, *options)


@pytest.mark.parametrize("option", ["-m", "--memory", "--spec", "--events", "-e"])
def test_option_without_its_value(refused, option):
    assert option in refused(2, option, command=[])


SIZES = ["lots", "12Q", "", "-5", "0", "0K", "99999999999999999999", "9223372036854775808",
         "16777216T", "1e9", "0x10", " 5", "5 M", "5MM", "5.", ".5", "+5", "1,5M", "0.0001",
         "unlimitedd", "UNLIMITED", "M", "1G2M", "١"]
DURATIONS = ["soon", "5x", "", "-1s", "0", "0ms", "1m1h", "1h30", "5s5s", "99999999999h",
             "99999999999999999999", "1e3", "1 s", "ms", "101000d", "1s-1s"]
COUNTS = ["ten", "1.5", "", "-1", "0", "2147483648", "99999999999999999999", "1K", "1e2", " 1"]
CPUS = ["many", "", "-1", "0", "0.001", "100000", "1e3", "1,5", "0.5x", "1%"]


@pytest.mark.parametrize("option, value", [
    *[("--memory", v) for v in SIZES], *[("--output", v) for v in ["x", "-1", "0"]],
    *[("--timeout", v) for v in DURATIONS], *[("--kill-after", v) for v in ["x", "-1", "0"]],
    *[("--pids", v) for v in COUNTS], *[("--open-files", v) for v in ["x", "-1", "0", "unlimited"]],
    *[("--cpus", v) for v in CPUS], ("--kill-after", "unlimited"), ("--file-size", "unlimited"),
    ("--view", "all"), ("--network", "on"), ("--redact", ""), ("--cpu-priority", "lowest"), ("--on-output-limit", "Kill"),
    ("--on-pids-limit", "kill|fail"), ("--workdir", ""), ("--stdin", ""), ("--env", ""),
    ("--env", "=x"), ("--label", "x"), ("--label", "=x"), ("--label", ""),
])
def test_bad_value(refused, option, value):
    """As an option: the message has the option and the value."""
    text = refused(2, option, value)
    assert option in text
    assert f'"{value}"' in text


@pytest.mark.parametrize("variable, value", [
    ("BRIG_MEMORY", "lots"), ("BRIG_TIMEOUT", "-1s"), ("BRIG_KILL_AFTER", "0"),
    ("BRIG_CPUS", ""), ("BRIG_PIDS", "1.5"), ("BRIG_VIEW", "all"), ("BRIG_ON_PIDS_LIMIT", "x"),
])
def test_bad_variable(refused, variable, value):
    text = refused(2, env={**os.environ, variable: value})
    assert variable in text and f'"{value}"' in text


def test_variable_to_pass_on_is_not_set(refused):
    assert "NO_SUCH_VARIABLE" in refused(2, "-e", "NO_SUCH_VARIABLE")


@pytest.mark.parametrize("command", [[], ["--"], [""], ["--", ""], ["--", "", "x"]])
def test_no_command(refused, command):
    assert "command" in refused(2, command=command)


@pytest.mark.parametrize("verb, args", [
    ("frobnicate", []), ("", []), ("Run", []), ("completion", []), ("completion", ["tcsh"]),
    ("completion", ["bash", "zsh"]), ("manual", ["x"]),
])
def test_bad_verb(brig, verb, args):
    done = brig.run(*args, verb=verb)
    assert (done.returncode, done.stdout) == (2, b"")
    assert f'"{verb}"' in message(done) or f"{verb}:" in message(done)


def test_explain_refuses_the_same(brig):
    done = brig.run("--memory", "lots", "--", "true", verb="explain")
    assert done.returncode == 2
    assert "--memory" in message(done)


# ---- spec ------------------------------------------------------------------------------------

def with_command(marker):
    return json.dumps({"command": ["touch", str(marker)]})


def spec_with(members):
    """A spec that would leave the marker, with these members in front, as JSON text."""
    return lambda marker: "{" + members + ', "command": ["touch", "%s"]}' % marker


SPECS = {
    "empty": (lambda m: "", "line 1"),
    "not JSON": (lambda m: "command: touch", "line 1"),
    "single quotes": (lambda m: "{'command': ['true']}", "line 1"),
    "a comment": (lambda m: "// x\n" + with_command(m), "line 1"),
    "cut off": (lambda m: with_command(m)[:-1], "line 1"),
    "third line": (lambda m: '{\n"memory": 1,\n"x" 2}', "line 3"),
    "an array": (lambda m: "[" + with_command(m) + "]", "object"),
    "a number": (lambda m: "3", "object"),
    "null": (lambda m: "null", "object"),
    "text behind": (lambda m: with_command(m) + " x", "line 1"),
    "an object behind": (lambda m: with_command(m) + with_command(m), "line 1"),
    "a NUL behind": (lambda m: with_command(m) + "\0", "line 1"),
    "deep array": (spec_with('"x": ' + "[" * 100000 + "]" * 100000), "line 1"),
    "deep object": (spec_with('"x": ' + '{"x":' * 50000 + "1" + "}" * 50000), "line 1"),
    "duplicate key": (spec_with('"memory": 1, "memory": 2'), "memory"),
    "duplicate command": (spec_with('"command": ["true"]'), "command"),
    "duplicate in env": (spec_with('"env": {"A": "1", "A": "2"}'), "A"),
    "unknown key": (spec_with('"memori": 1'), "memori"),
    "option spelling": (spec_with('"kill-after": "3s"'), "kill-after"),
    "key of metadata": (spec_with('"limits": {"memory": 1}'), "limits"),
    "empty key": (spec_with('"": 1'), "key"),
    "memory array": (spec_with('"memory": [1]'), "memory"),
    "memory true": (spec_with('"memory": true'), "memory"),
    "memory null": (spec_with('"memory": null'), "memory"),
    "memory object": (spec_with('"memory": {}'), "memory"),
    "memory words": (spec_with('"memory": "lots"'), "memory"),
    "memory negative": (spec_with('"memory": -1'), "memory"),
    "memory zero": (spec_with('"memory": 0'), "memory"),
    "memory zero real": (spec_with('"memory": 0.0'), "memory"),
    "memory minus zero": (spec_with('"memory": -0.0'), "memory"),
    "memory above 64 bits": (spec_with('"memory": 99999999999999999999'), "line 1"),
    "memory above all": (spec_with('"memory": 1e300'), "memory"),
    "memory above reals": (spec_with('"memory": 1e400'), "line 1"),
    "memory NaN": (spec_with('"memory": NaN'), "line 1"),
    "pids fraction": (spec_with('"pids": 1.5'), "pids"),
    "cpus zero": (spec_with('"cpus": 0'), "cpus"),
    "timeout negative": (spec_with('"timeout": "-3s"'), "timeout"),
    "view": (spec_with('"view": "all"'), "view"),
    "view number": (spec_with('"view": 1'), "view"),
    "workdir empty": (spec_with('"workdir": ""'), "workdir"),
    "env number": (spec_with('"env": 3'), "env"),
    "env string": (spec_with('"env": "A=1"'), "env"),
    "env of arrays": (spec_with('"env": {"A": []}'), "env.A"),
    "env of null": (spec_with('"env": {"A": null}'), "env.A"),
    "env no name": (spec_with('"env": {"": "x"}'), "env"),
    "env name with =": (spec_with('"env": {"A=B": "x"}'), "A=B"),
    "env list no name": (spec_with('"env": ["=x"]'), "env"),
    "labels list": (spec_with('"labels": ["x"]'), "labels"),
    "list of numbers": (spec_with('"env_file": [1]'), "env_file[0]"),
    "list as string": (spec_with('"require": "memory"'), "require"),
    "NUL in a value": (spec_with('"workdir": "/tmp\\u0000/x"'), "line 1"),
    "NUL in a key": (spec_with('"mem\\u0000ory": 1'), "line 1"),
    "NUL in env": (spec_with('"env": {"A": "x\\u0000y"}'), "line 1"),
    "NUL in a name": (spec_with('"env": {"A\\u0000B": "x"}'), "line 1"),
    "NUL in the command": (lambda m: '{"command": ["touch", "%s\\u0000"]}' % m, "line 1"),
    "lone surrogate": (spec_with('"workdir": "\\ud800"'), "line 1"),
    "escape": (spec_with('"workdir": "\\x"'), "line 1"),
    "control character": (spec_with('"workdir": "a\nb"'), "line 1"),
    "command string": (lambda m: '{"command": "touch %s"}' % m, "command"),
    "command empty": (lambda m: '{"command": []}', "command"),
    "command empty string": (lambda m: '{"command": [""]}', "command"),
    "command number": (lambda m: '{"command": ["touch", 3, "%s"]}' % m, "command[1]"),
    "command null": (lambda m: '{"command": ["touch", null, "%s"]}' % m, "command[1]"),
    "command object": (lambda m: '{"command": {}}', "command"),
    "no command": (lambda m: "{}", "command"),
}


@pytest.mark.parametrize("name", SPECS)
def test_bad_spec(refused, tmp_path, marker, name):
    """Each message names the file and the place in it."""
    make, named = SPECS[name]
    path = tmp_path / "bad-spec.json"
    path.write_text(make(marker))
    text = refused(2, "--spec", path, command=[])
    assert named in text
    assert name == "no command" or str(path) in text


@pytest.mark.parametrize("raw", [
    b'{"command": ["touch", "\xff"]}', b'{"command": ["\xc0\xaf"]}', b'{"\xe2\x82": 1}',
    b'\xff\xfe{\0}\0', b'{"workdir": "\xed\xa0\x80"}', b'\0',
], ids=["byte", "overlong", "cut", "utf-16", "surrogate", "nul"])
def test_spec_that_is_not_utf8(refused, tmp_path, raw):
    path = tmp_path / "bad-spec.json"
    path.write_bytes(raw)
    text = refused(2, "--spec", path, command=[])
    assert str(path) in text and "line 1" in text


def test_spec_of_100_mb(refused, tmp_path):
    """Refused by its size, without being read to its end."""
    path = tmp_path / "bad-spec.json"
    with open(path, "wb") as spec:
        spec.write(b'{"command": ["true"]' + b" " * 1000)
        spec.truncate(100_000_000)
    text = refused(2, "--spec", path, command=[], timeout=5)
    assert str(path) in text and "larger" in text


def test_endless_spec(refused):
    text = refused(2, "--spec", "/dev/zero", command=[], timeout=5)
    assert "/dev/zero" in text and "larger" in text


def test_spec_on_stdin_is_named(refused):
    assert "stdin" in refused(2, "--spec", "-", command=[], input=b"not json")


@pytest.mark.parametrize("option", ["--spec", "--metadata", "--env-file"])
def test_file_that_cannot_be_read(refused, tmp_path, option):
    (tmp_path / "directory").mkdir()
    for path in (tmp_path / "absent", tmp_path / "directory"):
        text = refused(2, option, path)
        assert str(path) in text and option.strip("-") in text


def test_refused_spec_is_the_same_with_options(refused, tmp_path):
    """A command and options on the command line do not make up for a bad spec."""
    path = tmp_path / "bad-spec.json"
    path.write_text('{"memory": "lots"}')
    assert str(path) in refused(2, "--spec", path, "-m", "1G")


# ---- metadata --------------------------------------------------------------------------------

@pytest.mark.parametrize("text, named", [
    ("", "line 1"),
    ("[]", "object"),
    ('{"limits": 3}', "limits"),
    ('{"limits": null}', "limits"),
    ('{"limits": {"memori": 1}}', "limits.memori"),
    ('{"limits": {"workdir": "/"}}', "limits.workdir"),
    ('{"limits": {"env": {"LD_PRELOAD": "x"}}}', "limits.env"),
    ('{"limits": {"command": ["true"]}}', "limits.command"),
    ('{"limits": {"memory": "lots"}}', "limits.memory"),
    ('{"limits": {"memory": 0}}', "limits.memory"),
    ('{"limits": {"memory": 1, "memory": 2}}', "memory"),
    ('{"limits": {}, "limits": {}}', "limits"),
    ('{"limits": {"timeout": []}}', "limits.timeout"),
    ('{"limits": {}} x', "line 1"),
    ('{"x": "\\u0000"}', "line 1"),
])
def test_bad_metadata(refused, tmp_path, text, named):
    path = tmp_path / "job.json"
    path.write_text(text)
    message_text = refused(2, "--metadata", path)
    assert str(path) in message_text and named in message_text


# ---- env-file, stdin -------------------------------------------------------------------------

@pytest.mark.parametrize("raw, named", [
    (b"A=1\nB\n", "line 2"), (b"\n\n=x\n", "line 3"), (b"A=1\nB=x\0y\n", "NUL"),
    (b"x" * (2 << 20), "larger"),
], ids=["no =", "no name", "nul", "large"])
def test_bad_env_file(refused, tmp_path, raw, named):
    path = tmp_path / "env"
    path.write_bytes(raw)
    text = refused(2, "--env-file", path)
    assert str(path) in text and named in text


def test_env_file_that_is_a_fifo(refused, tmp_path):
    """Not waited for."""
    os.mkfifo(tmp_path / "fifo")
    assert str(tmp_path / "fifo") in refused(2, "--env-file", tmp_path / "fifo", timeout=5)


def test_stdin_that_cannot_be_read(refused, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "absent", tmp_path, tmp_path / "fifo"):
        text = refused(125, "--stdin", path, timeout=5)
        assert "stdin" in text and str(path) in text


# ---- result and events -----------------------------------------------------------------------

@pytest.mark.parametrize("option", ["--result", "--events"])
@pytest.mark.parametrize("target", [
    "fd:57", "fd:0", "fd:", "fd:-1", "fd:x", "fd:1x", "fd:99999999999", "fd: 1", "",
    "/no/such/directory/file", "/", "/dev/null/x",
])
def test_target_that_cannot_be_written(refused, option, target):
    text = refused(2, option, target)
    assert option in text
    assert target.removeprefix("fd:") in text


@pytest.mark.parametrize("option", ["--result", "--events"])
@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_PATH])
def test_target_descriptor_is_read_only(refused, option, flags):
    fd = os.open("/dev/null", flags)
    text = refused(2, option, f"fd:{fd}", pass_fds=[fd])
    os.close(fd)
    assert option in text and str(fd) in text and "writing" in text


def test_target_is_a_link_to_nowhere(refused, tmp_path):
    (tmp_path / "link").symlink_to("/no/such/directory/file")
    assert str(tmp_path / "link") in refused(2, "--result", tmp_path / "link")


# ---- size of the input -----------------------------------------------------------------------

def test_long_value_does_not_make_a_long_message(refused):
    text = refused(2, "--memory", "x" * 100_000)
    assert "--memory" in text and len(text) < 600


def test_long_option_does_not_make_a_long_message(refused):
    text = refused(2, "--" + "x" * 100_000)
    assert "unknown option" in text and len(text) < 600


def test_many_options(brig):
    """A thousand settings of one thing: the last one counts, and it does not take long."""
    options = [word for i in range(1000) for word in ("--pids", str(i + 1))]
    result = brig.result(*options, "--", "true", timeout=10 * SLOW)
    assert result["limits"]["pids"] == 1000
