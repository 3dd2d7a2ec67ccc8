# SPDX-License-Identifier: MIT
"""The result object and the event stream: complete, alone, and where they were asked for."""
import base64
import json
import os
import re
import signal
import subprocess

import pytest
from conftest import DEGRADED, PYTHON, SLOW, finish, has_cgroup, message, needs_confine

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")

KEYS = {
    "schema", "id", "status", "exit_code", "signal", "notes", "hints", "stdout", "stdout_encoding",
    "stdout_bytes", "stdout_truncated", "stderr", "stderr_encoding", "stderr_bytes",
    "stderr_truncated", "stdout_redacted", "stderr_redacted", "output", "usage", "limits", "isolation", "labels", "started_at", "finished_at",
    "error",
}
USAGE = {"wall_seconds", "cpu_user_seconds", "cpu_system_seconds", "memory_peak_bytes",
         "pids_peak", "read_bytes", "write_bytes"}


def strict(text):
    """JSON that may not have a name twice."""

    def pairs(items):
        names = [name for name, _ in items]
        assert len(names) == len(set(names)), f"a name is there twice: {names}"
        return dict(items)

    return json.loads(text, object_pairs_hook=pairs)


# ---- --json, --result ------------------------------------------------------------------------

def test_json_is_alone(brig):
    """One line on stdout, nothing on stderr, whatever the guest writes and however it ends."""
    for guest in ("echo out; echo err >&2; exit 3", "kill -SEGV $$", "true"):
        done = brig.run("--json", "--", "sh", "-c", guest)
        assert done.stdout.count(b"\n") == 1 and done.stdout.endswith(b"\n")
        assert done.stderr == b""
        assert set(strict(done.stdout)) == KEYS


def test_json_of_an_ordinary_run(brig):
    result = strict(brig.run("--json", "--", "sh", "-c", "echo out; echo err >&2; exit 3").stdout)
    assert result["schema"] == "brig.result/1"
    assert (result["status"], result["exit_code"], result["signal"]) == ("exited", 3, None)
    assert (result["stdout"], result["stderr"]) == ("out\n", "err\n")
    assert (result["stdout_bytes"], result["stderr_bytes"]) == (4, 4)
    assert result["notes"] is None and result["error"] is None
    assert set(result["usage"]) == USAGE
    assert TIME.fullmatch(result["started_at"]) and TIME.fullmatch(result["finished_at"])
    assert result["started_at"] <= result["finished_at"]


def test_json_exit_code_is_still_the_guests(brig):
    assert brig.run("--json", "--", "sh", "-c", "exit 3").returncode == 3


def test_json_with_verbose_keeps_stdout_clean(brig):
    done = brig.run("--json", "-v", "--", "true")
    assert strict(done.stdout)["status"] == "exited"
    assert "exited" in message(done)


def test_json_of_a_refusal(brig):
    """A run that could not be started has a result as well; the exit code says why."""
    done = brig.run("--json", "--require", "net", "--network", "host", "--", "true")
    result = strict(done.stdout)
    assert done.returncode == 125
    assert (result["status"], result["exit_code"]) == ("error", None)
    assert '"net"' in result["error"]["text"] and '"net"' in result["notes"]
    assert result["error"]["stage"] == "plan"


NAMESPACES = {"user", "mount", "pid", "ipc", "uts", "view"}
CONFINEMENT = {"seccomp", "landlock", "capabilities", "no_new_privs", "tree", "environment",
               "descriptors", "session", "core_dumps"}
GROUP, NO_GROUP = ({"cgroup", "cpus"}, set()) if has_cgroup() else (set(), {"cgroup", "cpus"})


def told_apart(isolation):
    """Every layer is listed once: applied, missing with its reason, or off."""
    groups = [set(isolation[name]) for name in ("layers", "degraded", "off")]
    assert sum(map(len, groups)) == len(set.union(*groups))
    assert all(isolation["layers"].values()) and all(isolation["degraded"].values())
    return groups


def test_json_layers_are_told_apart(brig):
    """All of them are applied here, but for what the caller took away and what only a cgroup can do."""
    result = brig.result("--memory", "unlimited", "--network", "host", "--", "true")
    layers, degraded, off = told_apart(result["isolation"])
    assert result["isolation"]["tier"] == "cell"
    assert layers >= NAMESPACES | CONFINEMENT | {"pids"} | GROUP
    assert (degraded, off) == (NO_GROUP, {"memory", "net"})


@needs_confine
def test_json_layers_are_told_apart_without_namespaces(brig):
    result = brig.result("--memory", "unlimited", "--", "true", before=DEGRADED)
    layers, degraded, off = told_apart(result["isolation"])
    assert result["isolation"]["tier"] == "degraded"
    assert layers >= CONFINEMENT | {"net", "pids"} | GROUP
    assert (degraded, off) == (NAMESPACES | NO_GROUP, {"memory"})
    assert all("namespace" in result["isolation"]["degraded"][name] for name in NAMESPACES)


def test_json_that_nobody_reads(brig):
    """The run has ended, its result cannot be delivered: that is 125, and said."""
    process = brig.start("--json", "--", "sh", "-c", "exit 3")
    process.stdout.close()
    process.stdout = None
    done = finish(process)
    assert done.returncode == 125
    assert "--json" in message(done)


def test_result_file_leaves_the_streams_live(brig, tmp_path):
    path = tmp_path / "result"
    path.write_text("old and longer than the new one" * 1000)
    done = brig.run("--result", path, "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    result = strict(path.read_text())
    assert (done.returncode, done.stdout, done.stderr) == (3, b"out\n", b"err\n")
    assert (result["stdout"], result["stdout_encoding"]) == (None, None)
    assert (result["stdout_bytes"], result["stderr_bytes"]) == (4, 4)


def test_result_descriptor(brig):
    read_end, write_end = os.pipe()
    done = brig.run("--result", f"fd:{write_end}", "--", "echo", "hi", pass_fds=[write_end])
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        assert strict(pipe.read())["exit_code"] == 0
    assert done.stdout == b"hi\n"


def test_result_and_json(brig, tmp_path):
    done = brig.run("--json", "--result", tmp_path / "r", "--", "echo", "hi")
    assert strict(done.stdout) == strict((tmp_path / "r").read_text())
    assert strict(done.stdout)["stdout"] == "hi\n"


def test_result_of_a_refusal(brig, tmp_path):
    done = brig.run("--result", tmp_path / "r", "--", "no-such-command-here")
    assert done.returncode == 127
    assert strict((tmp_path / "r").read_text())["status"] == "error"


def test_result_that_cannot_be_written(brig):
    done = brig.run("--result", "/dev/full", "--", "true")
    assert done.returncode == 125
    assert "--result" in message(done)


def test_ids_differ(brig):
    assert len({brig.result("--", "true")["id"] for _ in range(5)}) == 5


# ---- labels ----------------------------------------------------------------------------------

def labels_of(brig, *options):
    return strict(brig.run("--json", *options, "--", "true").stdout)["labels"]


def test_labels_come_back(brig, tmp_path):
    (tmp_path / "spec").write_text('{"labels": {"from": "spec", "n": 3}}')
    labels = labels_of(brig, "--label", "a=1", "--label=b=x=y", "--label", "c=", "--label",
                       'odd "é\n\x1b=\x9b\u202e', "--spec", tmp_path / "spec")
    assert labels == {"a": "1", "b": "x=y", "c": "", 'odd "é\n\x1b': "\x9b\u202e", "from": "spec",
                      "n": "3"}


def test_label_twice_is_there_once(brig):
    """The last one counts, as with every setting."""
    assert labels_of(brig, "--label", "a=1", "--label", "a=2") == {"a": "2"}


def test_label_with_a_long_name_is_not_cut(brig):
    name = "n" * 300
    assert labels_of(brig, "--label", f"{name}=1", "--label", f"{name}x=2") == {
        name: "1", name + "x": "2"}


# ---- events ----------------------------------------------------------------------------------

def events_of(brig, *options):
    """The events of a run, checked for what holds for all of them."""
    path = brig.tmp / "events"
    brig.run("-q", "--events", path, "--result", brig.tmp / "r", *options)
    events = [strict(line) for line in path.read_text().splitlines()]
    run = strict((brig.tmp / "r").read_text())["id"]
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    assert all(TIME.fullmatch(event["time"]) for event in events)
    assert {event["run"] for event in events} == {run}
    elapsed = [event["elapsed_seconds"] for event in events]
    assert elapsed == sorted(elapsed) and elapsed[0] >= 0
    assert (events[0]["type"], events[-1]["type"]) == ("started", "ended")
    assert [e["type"] for e in events].count("started") == 1
    assert [e["type"] for e in events].count("ended") == 1
    return events


def test_events_of_an_ordinary_run(brig):
    events = events_of(brig, "--", "sh", "-c", "echo $$; echo err >&2; exit 3")
    started, *outputs, ended = events
    assert {event["type"]: event["data"] for event in outputs} == {
        "stdout": f"{started['pid']}\n", "stderr": "err\n"}
    assert (ended["status"], ended["exit_code"], ended["notes"]) == ("exited", 3, None)


def test_events_of_a_signal(brig):
    ended = events_of(brig, "--", "sh", "-c", "kill -SEGV $$")[-1]
    assert (ended["status"], ended["exit_code"]) == ("signaled", None)
    assert "SIGSEGV" in ended["notes"]


def test_events_have_usage_every_second(brig):
    code = "import time\nheld = b'x' * (50 << 20)\ntime.sleep(2.5)"
    events = events_of(brig, "--", *PYTHON, code)
    usage = [e for e in events if e["type"] == "usage"]
    assert 1 <= len(usage) <= events[-1]["elapsed_seconds"]
    assert max(e["memory_bytes"] for e in usage) >= 50 << 20
    assert max(e["pids"] for e in usage) == 1
    assert usage[-1]["cpu_seconds"] > 0
    for before, after in zip(usage, usage[1:]):
        assert after["elapsed_seconds"] - before["elapsed_seconds"] >= 0.9
        assert after["cpu_seconds"] >= before["cpu_seconds"]


@pytest.mark.limits
@pytest.mark.parametrize("limit, status, options, guest", [
    ("timeout", "timeout", ["--timeout", "200ms"], "sleep 300"),
    ("output", "output_limit", ["--output", "1K"], "yes"),
    ("pids", "pids_limit", ["--pids", "20"], "for i in $(seq 50); do sleep 300 & done; wait"),
    ("memory", "memory_limit", ["-m", "48M"], "head -c 200M /dev/zero | tail"),
    ("cpu_time", "cpu_limit", ["--cpu-time", "200ms"], "while :; do :; done"),
])
def test_events_name_the_limit(brig, limit, status, options, guest):
    """Once, before the end."""
    events = events_of(brig, *options, "--", "sh", "-c", guest)
    assert [e["limit"] for e in events if e["type"] == "limit"] == [limit]
    assert events[-1]["status"] == status


def test_events_of_a_cancelled_run(brig):
    read_end, write_end = os.pipe()
    process = brig.start("--events", f"fd:{write_end}", "--", "sleep", "300", pass_fds=[write_end])
    os.close(write_end)
    with os.fdopen(read_end, "rb") as lines:
        assert strict(lines.readline())["type"] == "started"
        process.send_signal(signal.SIGINT)
        ended = [strict(line) for line in lines][-1]
    finish(process)
    assert (ended["type"], ended["status"]) == ("ended", "cancelled")
    assert "SIGINT" in ended["notes"]


def test_events_do_not_change_the_output(brig, tmp_path):
    done = brig.run("--events", tmp_path / "e", "--", "sh", "-c", "seq 100000; exit 3")
    assert done.returncode == 3
    assert done.stdout == b"".join(b"%d\n" % i for i in range(1, 100001))


def test_events_chunks_are_bounded(brig, tmp_path):
    """At most 64 KiB of output in one event."""
    brig.run("--events", tmp_path / "e", "--", "sh", "-c", "yes | head -c 1M", timeout=30 * SLOW)
    lines = (tmp_path / "e").read_text().splitlines()
    assert max(len(strict(line).get("data", "")) for line in lines) <= 65536


# ---- what the guest cannot forge ---------------------------------------------------------------

FORGE = """
echo forged >FILE; echo forged >>FILE; mv FILE away; rm -f FILE; ln FILE twin; chmod 777 FILE
mkdir other && mv other FILE; echo forged >new && mv new FILE; truncate -s 0 FILE; true
"""


@pytest.mark.parametrize("how", ["--result", "fd", "--json", "--events"])
def test_review_e3_a_result_in_the_work_directory_is_brigs(brig, how):
    """As README shows it: the guest may write the directory, and replaced the file."""
    target = brig.tmp / "out.json"
    with open(target, "wb") as opened:
        options = {"--result": ["--result", "out.json"], "fd": ["--result", f"fd:{opened.fileno()}"],
                   "--json": ["--json"], "--events": ["--events", "out.json"]}[how]
        stdout = opened if how == "--json" else subprocess.PIPE
        done = brig.run(*options, "--", "sh", "-c", FORGE.replace("FILE", "out.json"), stdout=stdout,
                        pass_fds=[opened.fileno()])
    assert done.returncode == 0, done.stderr
    lines = target.read_text().splitlines()
    assert "forged" not in target.read_text()
    last = json.loads(lines[-1])
    assert last["status"] == "exited" and ("schema" in last or how == "--events")
    assert brig.run("--", "sh", "-c", "echo mine >out.json").returncode == 0, "it is guarded only while it is written"


@pytest.mark.parametrize("option", ["--result", "--events"])
def test_review_e3_where_it_could_be_forged_is_refused(brig, option, marker):
    os.mkfifo(brig.tmp / "fifo")
    (brig.tmp / "twin").touch()
    os.link(brig.tmp / "twin", brig.tmp / "linked")
    reader = os.open(brig.tmp / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    for place, why in (("fifo", b"is not a file"), ("linked", b"second name")):
        done = brig.run("-w", brig.tmp, option, place, "--", "touch", marker)
        assert done.returncode == 125 and why in done.stderr, done.stderr
    os.close(reader)
    assert not marker.exists()


@pytest.mark.parametrize("deep", ["a", "a/b", "a/b/c"])
def test_review_e3_no_directory_above_can_be_moved(brig, deep):
    (brig.tmp / deep).mkdir(parents=True)
    script = """
    mv a z; rm -rf a; mkdir -p DEEP; echo forged >DEEP/out.json; mv DEEP y; ln -s y x; mv -T x DEEP
    for d in a a/b a/b/c; do mv $d w; done; echo mine >DEEP/mine; true
    """.replace("DEEP", deep)
    done = brig.run("--result", f"{deep}/out.json", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert json.loads((brig.tmp / deep / "out.json").read_text())["status"] == "exited"
    assert (brig.tmp / deep / "mine").read_text() == "mine\n"
    assert brig.run("--ro", brig.tmp / deep, "--result", f"{deep}/out.json", "--", "true").returncode == 0


@pytest.mark.parametrize("option", ["--result", "--events", "--json"])
def test_review_e3_a_file_whose_name_cannot_be_had_is_refused(brig, option, marker):
    """Deeper than a path may be long, the guard was left out without a word."""
    here = os.open(brig.tmp, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(25):
        os.mkdir("d" * 200, dir_fd=here)
        below = os.open("d" * 200, os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = below
    fd = os.open("out", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=here)
    options = ["--json"] if option == "--json" else [option, f"fd:{fd}"]
    stdout = fd if option == "--json" else subprocess.PIPE
    done = brig.run("-w", brig.tmp, *options, "--", "touch", marker, stdout=stdout, pass_fds=[fd])
    assert done.returncode == 125 and b"path cannot be found out" in done.stderr, done.stderr
    assert not marker.exists()
    os.unlink("out", dir_fd=here)
    assert brig.run(*options, "--", "true", stdout=stdout, pass_fds=[fd]).returncode in (0, 125), "that is told by who writes it"
    os.close(fd)
    os.close(here)


def test_review_e3_a_file_that_is_gone_is_noticed(brig):
    """Another run with the same work directory may do it: that is not this guest's."""
    process = brig.start("--result", "out.json", "--stdin", "-", "--", "sh", "-c", "echo up; read x", stdin=subprocess.PIPE)
    assert process.stdout.readline() == b"up\n"
    assert brig.run("--", "rm", "out.json").returncode == 0
    _, err = process.communicate(b"go\n", timeout=60)
    assert process.returncode == 125 and b"removed or replaced" in err


@pytest.mark.parametrize("option", ["--result", "--events"])
@pytest.mark.parametrize("to", ["fd:1", "fd:2"])
def test_review_e3_not_among_what_the_guest_prints(brig, option, to, marker):
    done = brig.run(option, to, "--", "touch", marker)
    assert done.returncode == 2 and b"is also the command's" in done.stderr, done.stderr
    assert not marker.exists()
    assert brig.run("--json", option, to, "--", "true").returncode == 0
    assert brig.run(option, to, "--", "true", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


# ---- bytes that are no text -------------------------------------------------------------------

NOT_TEXT = [b"caf\xe9\n", b"\xe2\x82", b"a\xff\"\\\0\x1b[m\x7f\xc2\x9b", b"\xed\xa0\x80 half", bytes(range(256)), b"a line of text, \xe9\n" * 20_000]


@pytest.mark.parametrize("data", NOT_TEXT, ids=[repr(data[:12]) for data in NOT_TEXT])
def test_review_u9_a_byte_that_is_no_utf8_leaves_the_text_readable(brig, tmp_path, data):
    """Exact in base64 as before; beside it for a person, as Python's Result.stdout_text is."""
    result = brig.result("--events", tmp_path / "events", "--stdin", "-", "--", "sh", "-c", "cat; echo fine >&2", input=data)
    assert result["stdout_encoding"] == "base64" and base64.b64decode(result["stdout"]) == data
    assert result["stdout_text"] == data.decode(errors="backslashreplace")
    assert result["stderr_encoding"] == "utf-8" and "stderr_text" not in result
    events = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    said = [event for event in events if event["type"] == "stdout"]
    assert b"".join(base64.b64decode(e["data"]) if e["encoding"] == "base64" else e["data"].encode() for e in said) == data
    for event in said:
        assert ("text" in event) == (event["encoding"] == "base64")
        assert "text" not in event or event["text"] == base64.b64decode(event["data"]).decode(errors="backslashreplace")


@pytest.mark.parametrize("data", [bytes(range(256)) * 300, b"\xff" * 4097, b"12345678\xff" * 10_000], ids=["all", "none", "ninth"])
def test_review_u9_what_is_no_text_is_not_shown_as_one(brig, data):
    result = brig.result("--stdin", "-", "--", "cat", input=data)
    assert base64.b64decode(result["stdout"]) == data and "stdout_text" not in result


def test_review_u9_the_largest_result_fits(brig):
    """Each byte takes as much as one can, in base64 and as text."""
    size = 4 << 20
    code = f"import os\nt = b'\\xff' + b'\\0' * {size - 1}\nwhile t: t = t[os.write(1, t):]"
    result = brig.result("--output", str(size), "--", *PYTHON, code)
    assert result["stdout_bytes"] == size and result["stdout_text"] == "\\xff" + "\0" * (size - 1)
