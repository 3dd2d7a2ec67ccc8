# SPDX-License-Identifier: MIT
"""The command line: exit codes, where settings come from, what is refused, what is said."""
import json
import os
import pty
import shutil
import signal
import subprocess

import pytest
from conftest import (DEGRADED, PYTHON, ROOT, SLOW, STUBBORN, finish, has_cgroup, message, needs_confine,
                      wait_until)

# ---- exit codes ------------------------------------------------------------------------------

def test_exit_code_of_the_guest(brig):
    """All 256 of them, and nothing is said about any."""
    for code in range(256):
        done = brig.run("--", "sh", "-c", f"exit {code}")
        assert (done.returncode, done.stderr) == (code, b"")


# Ignored or stopping by default.
HARMLESS = {signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH, signal.SIGSTOP,
            signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}

DIE = """
import contextlib, os, signal, sys
number = int(sys.argv[1])
with contextlib.suppress(OSError):  # two belong to the C library, one cannot be changed
    signal.signal(number, signal.SIG_DFL)
os.kill(os.getpid(), number)
signal.pause()
"""


def name_of(number):
    if number >= 32:
        return f"signal {number}"
    return {29: "SIGPOLL"}.get(number, signal.Signals(number).name)  # Python says SIGIO


@pytest.mark.parametrize("number", sorted(set(range(1, 65)) - HARMLESS))
def test_signal_of_the_guest(brig, number):
    """128+N, the number in the result, and a sentence that names it."""
    done = brig.run("--result", brig.tmp / "r", "--", *PYTHON, DIE, number)
    result = json.loads((brig.tmp / "r").read_text())
    assert done.returncode == 128 + number
    assert (result["status"], result["signal"], result["exit_code"]) == ("signaled", number, None)
    assert name_of(number) in result["notes"]
    assert result["notes"] in message(done)


@pytest.mark.parametrize("code, options, guest", [
    (124, ["--timeout", "200ms"], "sleep 300"),
    (137, ["--output", "1K"], "yes"),
    (137, ["--pids", "10"], "for i in $(seq 50); do sleep 300 & done; wait"),
    (137, ["--cpu-time", "200ms"], "while :; do :; done"),
    (137, ["-m", "48M"], "head -c 200M /dev/zero | tail"),
], ids=["timeout", "output", "pids", "cpu", "memory"])
@pytest.mark.limits
def test_exit_code_of_a_limit(brig, code, options, guest):
    done = brig.run(*options, "--", "sh", "-c", guest)
    assert done.returncode == code
    assert "brig: " in message(done)


# ---- reading the command line ----------------------------------------------------------------

@pytest.mark.parametrize("args", [
    ["echo", "-n", "--json"], ["--", "echo", "-n", "--json"], ["-m64M", "echo", "-n", "--json"],
    ["--memory=64M", "--", "echo", "-n", "--json"],
])
def test_options_end_at_the_command(brig, args):
    assert brig.run(*args).stdout == b"--json"


def test_command_that_looks_like_an_option(brig):
    done = brig.run("--", "--help")
    assert done.returncode == 127
    assert "--help" in message(done)


def test_short_and_long_forms_are_the_same(brig):
    short = brig.result("-m", "64M", "-k", "2s", "--", "true")["limits"]
    long = brig.result("--memory", "64M", "--kill-after=2s", "--", "true")["limits"]
    assert short == long


@pytest.mark.parametrize("value, expected", [
    ("4096", 4096), ("512K", 512 << 10), ("512k", 512 << 10), ("1.5M", 3 << 19), ("2GiB", 2 << 30),
    ("1T", 1 << 40),
])
def test_sizes(brig, value, expected):
    assert brig.result("--file-size", value, "--", "true")["limits"]["file_size_bytes"] == expected


@pytest.mark.parametrize("value, expected", [
    ("500ms", 0.5), ("30s", 30), ("30", 30), ("5m", 300), ("1h30m", 5400), ("1.5h", 5400),
    ("1d", 86400), ("0.25", 0.25),
])
def test_durations(brig, value, expected):
    assert brig.result("--timeout", value, "--", "true")["limits"]["timeout_seconds"] == expected


# ---- precedence ------------------------------------------------------------------------------

@pytest.fixture
def layered(brig, tmp_path):
    """Run with the setting `pids` given in some ways; layered("spec", "option") gives its value."""
    values = {"spec": 11, "metadata": 12, "variable": 13, "option": 14}
    (tmp_path / "spec").write_text(json.dumps({"pids": values["spec"]}))
    (tmp_path / "metadata").write_text(json.dumps({"limits": {"pids": values["metadata"]}}))
    options = {"spec": ["--spec", tmp_path / "spec"], "option": ["--pids", values["option"]],
               "metadata": ["--metadata", tmp_path / "metadata"], "variable": []}

    def run(*ways):
        args = [arg for way in ways for arg in options[way]]
        env = {**os.environ, **({"BRIG_PIDS": "13"} if "variable" in ways else {})}
        pids = brig.result(*args, "--", "true", env=env)["limits"]["pids"]
        return next((way for way, value in values.items() if value == pids), pids)

    return run


def test_precedence(layered):
    """option > variable > metadata > spec > default, whatever their order."""
    assert layered() == 100
    assert layered("spec") == "spec"
    assert layered("spec", "metadata") == layered("metadata", "spec") == "metadata"
    assert layered("spec", "metadata", "variable") == "variable"
    assert layered("spec", "metadata", "variable", "option") == "option"
    assert layered("option", "variable", "metadata", "spec") == "option"
    assert layered("option", "spec") == "option"


def test_precedence_of_the_command(brig, tmp_path):
    (tmp_path / "spec").write_text('{"command": ["echo", "spec"]}')
    assert brig.run("--spec", tmp_path / "spec").stdout == b"spec\n"
    assert brig.run("--spec", tmp_path / "spec", "--", "echo", "option").stdout == b"option\n"


def test_precedence_of_a_variable_of_the_guest(brig, tmp_path):
    """The same variable in the spec and as an option: the option counts."""
    (tmp_path / "spec").write_text('{"env": {"A": "spec", "B": "spec"}}')
    guest = ["--", "sh", "-c", "echo $A $B"]
    spec, option = ["--spec", tmp_path / "spec"], ["-e", "A=option"]
    assert brig.run(*spec, *option, *guest).stdout == b"option spec\n"
    assert brig.run(*option, *spec, *guest).stdout == b"option spec\n"


def test_precedence_of_a_label(brig, tmp_path):
    (tmp_path / "spec").write_text('{"labels": {"a": "spec", "b": "spec"}}')
    result = brig.result("--label", "a=option", "--spec", tmp_path / "spec", "--", "true")
    assert result["labels"] == {"a": "option", "b": "spec"}


def all_keys(brig):
    """The table of keys, by the schema of a tools file, which lacks those that a tool cannot set."""
    schema = json.loads(brig.run("--schema", verb="tools").stdout)
    return {*schema["properties"]["defaults"]["properties"], "command", "stdin", "channel"}


def test_spec_may_hold_everything(brig, tmp_path):
    """One file for a whole run, every key of the table."""
    (tmp_path / "in").write_text("input")
    (tmp_path / "env").write_text("F=file\n")
    spec = {
        "command": ["sh", "-c", "cat; echo $E $F $PWD; ulimit -n"], "memory": "64M", "cpus": 0.5, "cpu_priority": "low",
        "pids": 20, "timeout": "10s", "kill_after": 1.5, "cpu_time": "5s", "output": 1000,
        "on_output_limit": "truncate", "on_pids_limit": "fail", "open_files": 50,
        "file_size": "1M", "workdir": str(tmp_path), "env": {"E": "env"},
        "env_file": [str(tmp_path / "env")], "network": "host", "stdin": str(tmp_path / "in"),
        "redact": "on", "redact_set": "tokens", "redact_pattern": ["badge [0-9]+"], "labels": {"a": "b"},
        "require": ["memory,pids", "tree"], "isolation": "cell", "view": "minimal", "ro": ["/usr/share/doc:/docs"],
        "rw": [f"{tmp_path}:/out"], "tmpfs": ["/scratch:1M"], "result_size": "1M", "channel": "off",
    }
    assert set(spec) == all_keys(brig)
    if not has_cgroup():
        for key in ("cpus", "cpu_priority", "on_pids_limit"):
            del spec[key]
    (tmp_path / "spec").write_text(json.dumps(spec))
    result = brig.result("--spec", tmp_path / "spec")
    assert result["stdout"] == f"inputenv file {tmp_path}\n50\n"
    assert result["limits"] == {
        "memory_bytes": 64 << 20, "cpus": spec.get("cpus"), "pids": 20, "timeout_seconds": 10,
        "kill_after_seconds": 1.5, "cpu_time_seconds": 5, "output_bytes": 1000, "open_files": 50,
        "file_size_bytes": 1 << 20, "result_bytes": 1 << 20}
    assert result["labels"] == {"a": "b"}


def test_spec_on_stdin(brig):
    done = brig.run("--spec", "-", input=b'{"command": ["echo", "hi"]}')
    assert (done.returncode, done.stdout) == (0, b"hi\n")


# ---- what is refused -------------------------------------------------------------------------

@pytest.mark.parametrize("options", [["--network", "host"], ["--redact", "off"]])
def test_not_refused_what_is_true_anyway(brig, options):
    assert brig.run(*options, "--", "true").returncode == 0


@needs_confine
@pytest.mark.parametrize("options, named", [
    (["--ro", "/usr"], "ro"), (["--rw", "/var/tmp"], "rw"), (["--tmpfs", "/x"], "tmpfs"),
    (["--view", "host"], "view"), (["--view", "minimal"], "view"),
])
def test_refused_what_this_host_cannot_enforce(brig, options, named):
    """Where no namespace can be made, what only a cell can do is never silently left out: as an
    option, and as a variable where it is one."""
    ways = [(options, {})]
    if named == "view":
        ways.append(([], {"BRIG_" + named.upper(): options[1]}))
    for arguments, variables in ways:
        done = brig.run(*arguments, "--", "echo", "started", before=DEGRADED,
                        env={**os.environ, **variables})
        assert (done.returncode, done.stdout) == (125, b"")
        assert named in message(done) and "namespace" in message(done)


@pytest.mark.parametrize("layers", [
    "memory", "memory,pids,tree", pytest.param("memory,pids,cpus,tree", marks=pytest.mark.cgroup("it keeps the limit on processors")), "no_new_privs,descriptors", "seccomp", "landlock",
    "user,mount,pid,net,ipc,uts,view,capabilities",
])
def test_require_what_is_there(brig, layers):
    assert brig.run("--require", layers, "--", "true").returncode == 0


@pytest.mark.parametrize("options, named", [
    (["--require", "net", "--network", "host"], "net"),
    (["--require", "memory", "--require", "seccomp,net", "--network", "host"], "net"),
    (["--require", "memory", "--memory", "unlimited"], "memory"),
    (["--require", "memory,pids", "--pids", "unlimited"], "pids"),
])
def test_require_what_is_missing(brig, marker, options, named):
    done = brig.run(*options, "--", "touch", marker)
    assert done.returncode == 125
    assert "require" in message(done) and named in message(done)
    assert not marker.exists()


@needs_confine
@pytest.mark.parametrize("layer", ["user", "mount", "pid", "ipc", "uts", "view"])
def test_require_what_this_host_does_not_have(brig, layer):
    done = brig.run("--require", layer, "--", "echo", "started", before=DEGRADED)
    assert (done.returncode, done.stdout) == (125, b"")
    assert "require" in message(done) and layer in message(done) and "namespace" in message(done)


@needs_confine
@pytest.mark.parametrize("layers", ["seccomp,landlock", "no_new_privs,capabilities", "memory,tree",
                                    "net"])
def test_require_what_is_there_without_namespaces(brig, layers):
    done = brig.run("--require", layers, "--", "echo", "started", before=DEGRADED)
    assert (done.returncode, done.stdout) == (0, b"started\n")


@pytest.mark.parametrize("layers, named", [
    ("secomp", "secomp"), ("memory,nonsense", "nonsense"), ("Memory", "Memory"), ("", ""),
    ("memory,,pids", ""), (",", ""), ("memory pids", "memory pids"),
])
def test_require_what_does_not_exist(brig, marker, layers, named):
    """A typing error must not be taken for a layer that is there."""
    done = brig.run("--require", layers, "--", "touch", marker)
    assert done.returncode == 2
    assert "require" in message(done) and f'"{named}"' in message(done)
    assert not marker.exists()


# ---- dry-run, explain ------------------------------------------------------------------------

@pytest.fixture(params=["--dry-run", "explain"])
def plan(request, brig):
    """The plan of a run, both ways: plan("--pids", "5", "--", "true")"""

    def show(*args, **kw):
        if request.param == "explain":
            return brig.run(*args, verb="explain", **kw)
        return brig.run("--dry-run", *args, **kw)

    return show


def test_plan_starts_nothing(plan, marker):
    done = plan("--pids", "17", "-w", "/usr", "--", "touch", marker)
    text = done.stdout.decode()
    assert (done.returncode, done.stderr) == (0, b"")
    assert not marker.exists()
    assert str(marker) in text and "/usr" in text and "seccomp" in text


def test_plan_as_json(plan, marker):
    done = plan("--json", "--open-files", "33", "--", "touch", marker)
    shown = json.loads(done.stdout)
    assert not marker.exists()
    assert shown["schema"] == "brig.plan/1"
    assert shown["command"] == ["touch", str(marker)]
    assert shown["execute"] == shutil.which("touch")
    states = {layer["name"]: layer["state"] for layer in shown["layers"]}
    assert (states["no_new_privs"], states["seccomp"], states["net"]) == ("applied",) * 3
    assert any("33" in operation for operation in shown["operations"])


@pytest.mark.parametrize("code, args", [
    (2, ["-m", "lots", "--", "true"]), (125, ["--require", "net", "--network", "host", "true"]),
    (127, ["--", "no-such-command-here"]), (126, ["--", "/usr"]), (125, ["-w", "/no", "true"]),
    (125, ["--ro", "/no", "true"]), (127, ["--", "/root/no"]),
])
def test_plan_refuses_what_a_run_would(plan, code, args):
    done = plan(*args)
    assert (done.returncode, done.stdout) == (code, b"")
    assert message(done)


@pytest.mark.parametrize("before", [
    pytest.param([], id="cell"), pytest.param(DEGRADED, id="degraded", marks=needs_confine)])
@pytest.mark.parametrize("options", [[], ["--network", "host"], ["--memory", "unlimited"]],
                         ids=["plain", "network", "memory"])
def test_plan_names_the_same_layers_as_a_result(brig, plan, before, options):
    layers = json.loads(plan("--json", *options, "--", "true", before=before).stdout)["layers"]
    isolation = brig.result(*options, "--", "true", before=before)["isolation"]
    for state, name in (("applied", "layers"), ("missing", "degraded"), ("off", "off")):
        assert {x["name"]: x["how"] for x in layers if x["state"] == state} == isolation[name]


# ---- messages --------------------------------------------------------------------------------

def test_quiet_and_verbose(brig):
    guest = ["--timeout", "100ms", "--", "sleep", "300"]
    assert brig.run("-q", *guest).stderr == b""
    assert message(brig.run(*guest)).count("\n") == 1
    assert message(brig.run("-v", *guest)).count("\n") > 1


@needs_confine
def test_verbose_says_what_is_not_enforced(brig):
    """And only that: where all of it is, there is nothing to say."""
    said = [line for line in message(brig.run("-v", "--", "true")).splitlines() if "not enforced" in line]
    assert not said if has_cgroup() else len(said) == 1 and said[0].startswith("brig: not enforced: cgroup, cpus: "), said
    text = message(brig.run("-v", "--", "true", before=DEGRADED))
    assert "not enforced" in text and "mount" in text and "namespace" in text


def test_verbose_says_how_a_clean_run_went(brig):
    done = brig.run("-v", "--", "echo", "hi")
    assert done.stdout == b"hi\n"
    assert "exited" in message(done) and "3 bytes" in message(done)


def test_quiet_does_not_hide_errors(brig):
    assert "--memory" in message(brig.run("-q", "--memory", "lots", "--", "true"))
    assert "not found" in message(brig.run("-q", "--", "no-such-command-here"))


ESCAPE = "\x1b]0;owned\x07\x1b[31m\x9b31m\r"


@pytest.mark.parametrize("args", [
    ["--" + ESCAPE], ["-" + ESCAPE], ["--memory", ESCAPE], ["--view", ESCAPE], ["--label", ESCAPE],
    ["--env", ESCAPE, "--", "true"], ["--spec", "/no/" + ESCAPE], ["--metadata", "/no/" + ESCAPE],
    ["--result", "/no/" + ESCAPE, "--", "true"], ["--events", "fd:" + ESCAPE, "--", "true"],
    ["--workdir", "/no/" + ESCAPE, "--", "true"], ["--stdin", "/no/" + ESCAPE, "--", "true"],
    ["--env-file", "/no/" + ESCAPE, "--", "true"], ["--require", ESCAPE, "--", "true"],
    ["--", ESCAPE], ["-w", "/", "-e", "PATH=/no/" + ESCAPE, "--", "x"],
], ids=lambda args: args[0].encode("unicode_escape").decode())
def test_escapes_of_the_caller_are_not_repeated(brig, args):
    text = message(brig.run(*args))
    assert text.startswith("brig: ") and text.count("\n") == 1
    assert not any(c < " " and c != "\n" or "\x7f" <= c < "\xa0" for c in text)


def test_escapes_in_a_verb(brig):
    text = message(brig.run(verb=ESCAPE))
    assert "\\x1b" in text and "\x1b" not in text


def test_escapes_in_a_plan(brig):
    text = brig.run("--dry-run", "--", "true", ESCAPE).stdout.decode()
    assert "\\x1b" in text and "\x1b" not in text and "\x9b" not in text


def test_escapes_in_a_spec(brig, tmp_path):
    """Names and values in a file, and the name of the file."""
    path = tmp_path / "\x1b[31mspec"
    for text in ('{"\\u001b[31m": 1}', '{"memory": "\\u001b[31m"}', '{"env": {"\\u001b": []}}',
                 "x"):
        path.write_text(text)
        assert "\x1b" not in message(brig.run("--spec", path))


def on_terminal(brig, *args, **env):
    """What brig writes to a terminal that is its stderr."""
    ours, theirs = pty.openpty()
    brig.run(*args, stderr=theirs, env={**os.environ, "TERM": "xterm", **env})
    os.close(theirs)
    text = os.read(ours, 4096)
    os.close(ours)
    return text


def test_colour_only_on_a_terminal(brig):
    """NO_COLOR is honoured, and nothing is coloured off a terminal."""
    guest = ["--timeout", "50ms", "--", "sleep", "300"]
    assert b"\x1b[" in on_terminal(brig, *guest)
    assert b"\x1b[" not in on_terminal(brig, *guest, NO_COLOR="1")
    assert b"\x1b[" not in on_terminal(brig, *guest, TERM="dumb")
    assert b"\x1b[" not in brig.run(*guest, env={**os.environ, "TERM": "xterm"}).stderr


# ---- signals to brig -------------------------------------------------------------------------

def ready(brig, *args, **kw):
    process = brig.start(*args, **kw)
    assert process.stdout.readline()
    return process


def test_second_interrupt_does_not_wait(brig):
    """SIGTERM is ignored and kill-after is long: a second SIGINT ends it at once."""
    process = ready(brig, "-k", "60s", "--", "sh", "-c", STUBBORN + "sleep 300")
    process.send_signal(signal.SIGINT)
    assert not wait_until(lambda: process.poll() is not None, 0.2 / SLOW)
    process.send_signal(signal.SIGINT)
    done = finish(process, 20)
    assert done.returncode == 128 + signal.SIGINT
    assert not brig.survivors()


def test_first_signal_gives_the_exit_code(brig):
    process = ready(brig, "-k", "60s", "--", "sh", "-c", STUBBORN + "sleep 300")
    process.send_signal(signal.SIGTERM)
    wait_until(lambda: process.poll() is not None, 0.1 / SLOW)
    process.send_signal(signal.SIGINT)
    assert finish(process, 20).returncode == 128 + signal.SIGTERM


def test_interrupt_of_the_terminal_does_not_reach_the_guest(brig):
    """Ctrl-C goes to a process group; the guest is not in brig's, and gets SIGTERM from brig."""
    process = ready(brig, "--", "sh", "-c",
                    "trap 'echo INT; exit 1' INT; trap 'echo TERM; exit 2' TERM; echo ready;"
                    " while :; do sleep 0.01; done", start_new_session=True)
    os.killpg(process.pid, signal.SIGINT)
    done = finish(process)
    assert (done.returncode, done.stdout) == (128 + signal.SIGINT, b"TERM\n")


@pytest.mark.parametrize("number", [signal.SIGQUIT, signal.SIGUSR1, signal.SIGABRT, signal.SIGALRM])
def test_other_signals_end_brig_and_its_run(brig, number):
    """brig dies of them as any program does; what it ran dies with it."""
    process = ready(brig, "--", "sh", "-c", STUBBORN + "sleep 300")
    process.send_signal(number)
    assert finish(process).returncode == -number
    assert wait_until(lambda: not brig.survivors() and not brig.left_groups(), 1)


def test_ignored_hangup_stays_ignored(brig, tmp_path):
    """nohup brig run: a hang-up does not end it."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    process = ready(brig, "--", "sh", "-c", f"echo ready; read x <{gate}; exit 6",
                    preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    process.send_signal(signal.SIGHUP)
    wait_until(lambda: process.poll() is not None, 0.2 / SLOW)
    assert process.poll() is None, "ended by a signal that its caller ignores"
    gate.write_text("go\n")
    assert finish(process).returncode == 6


# ---- readers that go away --------------------------------------------------------------------

def test_reader_closes_early(brig):
    """brig run -- yes | head -1"""
    process = brig.start("--", "yes")
    head = subprocess.run(["head", "-1"], stdin=process.stdout, capture_output=True, check=True)
    process.stdout.close()
    process.stdout = None
    done = finish(process, 5)
    assert head.stdout == b"y\n"
    assert done.returncode == 128 + signal.SIGPIPE
    assert "SIGPIPE" in message(done)


def test_reader_closes_early_and_the_guest_does_not_mind(brig, tmp_path):
    """A guest that stops writing and exits by itself keeps its status."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    process = ready(brig, "--", "sh", "-c",
                    f"trap '' PIPE; echo ready; read x <{gate}; echo lost; exit 3")
    process.stdout.close()
    process.stdout = None
    gate.write_text("go\n")
    assert finish(process, 5).returncode == 3


def test_reader_closes_early_and_the_guest_goes_on_for_ever(brig):
    """Ignoring SIGPIPE does not keep a run alive whose output nobody reads."""
    process = ready(brig, "-k", "300ms", "--", "sh", "-c",
                    "trap '' PIPE TERM; echo ready;"
                    " while :; do echo x 2>/dev/null || sleep 0.01; done")
    process.stdout.close()
    process.stdout = None
    done = finish(process, 5)
    assert done.returncode == 137
    assert "cancelled" in message(done) and "stdout" in message(done)
    assert not brig.survivors()


def test_reader_that_never_reads(brig):
    """The guest has ended, its output is stuck: brig gives up at the timeout, and says so."""
    process = brig.start("--timeout", "500ms", "-k", "100ms", "--", "sh", "-c", "seq 400000; exit 0")  # more than a pipe holds
    assert process.wait(5 * SLOW) != 0
    done = finish(process)
    assert "stdout" in message(done)


def test_full_disk_is_not_a_success(brig):
    """Output that could not be delivered: the exit code or a message says so."""
    with open("/dev/full", "wb") as full:
        done = brig.run("--", "echo", "hi", stdout=full)
    assert "stdout" in message(done) and "No space" in message(done)
    assert done.returncode != 0


# ---- help, completion, manual ----------------------------------------------------------------

def test_help(brig):
    for args, verb in (([], "--help"), ([], "-h"), ([], "help"), (["--help"], "run"),
                       (["-h"], "run"), (["--help"], "explain")):
        done = brig.run(*args, verb=verb)
        assert (done.returncode, done.stderr) == (0, b"")
        assert b"brig run" in done.stdout


def test_help_of_run_names_every_option(brig):
    text = brig.run("--help").stdout.decode()
    keys = {key.replace("_", "-") for key in all_keys(brig) - {"command", "labels"}}
    for option in {*keys, "label", "spec", "json", "result", "events", "dry-run", "quiet", "verbose"}:
        assert f"--{option}" in text


def test_seed_of_the_fuzz_target_names_every_key(brig):
    with open(os.path.join(ROOT, "fuzz", "corpus", "spec", "all"), encoding="utf-8") as file:
        assert set(json.load(file)) == all_keys(brig)


def test_no_verb(brig):
    done = subprocess.run([brig.binary], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"brig run" in done.stderr


def test_version(brig):
    done = brig.run(verb="--version")
    assert done.returncode == 0
    assert done.stdout.startswith(b"brig ") and done.stdout.count(b".") == 2


@pytest.mark.parametrize("shell, check", [
    ("bash", ["bash", "-n"]), ("zsh", ["zsh", "-n"]), ("fish", ["fish", "--no-execute"])])
def test_completion_parses(brig, tmp_path, shell, check):
    done = brig.run(shell, verb="completion")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"on-output-limit" in done.stdout and b"explain" in done.stdout
    (tmp_path / "script").write_bytes(done.stdout)
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    checked = subprocess.run([*check, tmp_path / "script"], capture_output=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, b"")


@pytest.mark.parametrize("words, expected", [
    (["brig", "r"], ["run"]), (["brig", "run", "--mem"], ["--memory"]),
    (["brig", "run", "--network", ""], ["none", "host"]),
    (["brig", "completion", "z"], ["zsh"]),
])
def test_completion_of_bash_completes(brig, tmp_path, words, expected):
    (tmp_path / "script").write_bytes(brig.run("bash", verb="completion").stdout)
    code = (f"source {tmp_path}/script; COMP_WORDS=({' '.join(repr(w) for w in words)}); "
            f"COMP_CWORD={len(words) - 1}; _brig; printf '%s\\n' \"${{COMPREPLY[@]}}\"")
    done = subprocess.run(["bash", "-c", code], capture_output=True, check=True)
    assert done.stdout.decode().split() == expected


def test_manual_is_clean(brig):
    done = brig.run(verb="manual")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b".SH OPTIONS" in done.stdout and b"on\\-output\\-limit" in done.stdout
    if not shutil.which("mandoc"):
        pytest.skip("mandoc is not installed")
    checked = subprocess.run(["mandoc", "-Tlint", "-Wwarning"], input=done.stdout,
                             capture_output=True, check=False)
    assert (checked.returncode, checked.stdout) == (0, b"")


@pytest.mark.parametrize("verb, args", [("manual", []), ("completion", ["bash"]),
                                        ("--version", []), ("explain", ["--", "true"])])
def test_text_that_cannot_be_written_is_an_error(brig, verb, args):
    with open("/dev/full", "wb") as full:
        assert brig.run(*args, verb=verb, stdout=full).returncode != 0
