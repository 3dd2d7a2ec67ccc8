# SPDX-License-Identifier: MIT
"""What a guest starts with: environment, stdin, descriptors, signals, session; no more than that,
whatever state the caller is in."""
import contextlib
import os
import pty
import resource
import signal
import socket
import subprocess

import pytest
from conftest import PYTHON, SLOW, finish, init_of, is_alive, message

# ---- environment -----------------------------------------------------------------------------

PASSED = {"PATH": os.environ["PATH"], "HOME": "/home/x", "USER": "x", "LANG": "C.UTF-8",
          "LC_ALL": "C.UTF-8", "LC_TIME": "C", "TERM": "dumb", "SHELL": "/bin/sh", "TZ": "UTC",
          "TMPDIR": "/var/x"}
# These two point inside the cell, whether or not the caller has them.
INSIDE = {"HOME": "/home/brig", "TMPDIR": "/tmp"}


def environment_of(brig, *options, env=None):
    """The guest's environment as a dict, without the token of the test."""
    done = brig.run(*options, "--", "env", "-0", env=env)
    assert done.returncode == 0, done.stderr
    pairs = [entry.split("=", 1) for entry in done.stdout.decode().split("\0") if entry]
    names = [name for name, _ in pairs]
    assert len(names) == len(set(names)), "a variable is there twice"
    return {name: value for name, value in pairs if name != "BRIG_TEST_TOKEN"}


def test_environment_is_cleared(brig):
    """A short list goes through, everything else of the caller does not."""
    secrets = {"AWS_SECRET_ACCESS_KEY": "s3cret", "LD_PRELOAD": "", "BRIG_PIDS": "50",
               "PATHX": "x", "XLC_ALL": "x", "LC": "x", "LOGNAME": "x", "PWD": "/"}
    assert environment_of(brig, env={**PASSED, **secrets}) == {**PASSED, **INSIDE}


def test_environment_is_not_made_up(brig):
    """What is not set is not invented, but for the directories of its own that a guest has."""
    seen = environment_of(brig, env={"PATH": PASSED["PATH"]})
    assert seen == {"PATH": PASSED["PATH"], **INSIDE}


def test_environment_names_directories_that_are_there(brig):
    code = 'for directory in "$HOME" "$TMPDIR"; do cd "$directory" && ls -A && : >file || exit 1; done'
    done = brig.run("-q", "--", "sh", "-c", code, env=PASSED, cwd="/")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_environment_named_variables(brig):
    caller = {**PASSED, "KEPT": "yes", "OTHER": "no"}
    seen = environment_of(brig, "-e", "KEPT", "--env", "A=1", "--env=B=x=y\nz", "-eC=", "-e",
                          "HOME=/elsewhere", env=caller)
    assert seen == {**PASSED, **INSIDE, "KEPT": "yes", "A": "1", "B": "x=y\nz", "C": "",
                    "HOME": "/elsewhere"}


def test_environment_last_one_counts(brig):
    assert environment_of(brig, "-e", "A=1", "-e", "A=2", env=PASSED)["A"] == "2"


def test_environment_file(brig, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("# comment\n\nA=first\nB=first\nC=a b = c # d\nD=\n")
    second.write_text("B=second\nE=no end of line")
    seen = environment_of(brig, "-e", "A=option", "--env-file", first, "--env-file", second,
                          env=PASSED)
    assert seen == {**PASSED, **INSIDE, "A": "option", "B": "second", "C": "a b = c # d", "D": "",
                    "E": "no end of line"}


def test_environment_path_finds_the_command(brig, script, tmp_path):
    """The guest's PATH counts, not the caller's."""
    script("only-here", "#!/bin/sh\necho found\n")
    done = brig.run("-e", f"PATH={tmp_path}:/usr/bin:/bin", "--", "only-here")
    assert done.stdout == b"found\n"


def test_arguments_arrive_exactly(brig):
    """Empty ones, spaces, newlines, bytes that are not UTF-8."""
    words = [b"", b" a  b ", b"x\ny", b"\xff\xfe", b"--json", b"$HOME", b"*"]
    command = [os.fsencode(word) for word in brig.command("--", "printf", "%s\\0")]
    done = subprocess.run([*command, *words], capture_output=True, check=True)
    assert done.stdout == b"".join(word + b"\0" for word in words)


# ---- stdin -----------------------------------------------------------------------------------

@pytest.mark.parametrize("size", [0, 3, 65537, 3_000_000])
def test_review_u2_stdin_that_is_a_pipe_is_passed(brig, size):
    data = (bytes(range(256)) * (size // 256 + 1))[:size]
    done = brig.run("--", "cat", input=data)
    assert (done.returncode, done.stdout) == (0, data)


def test_review_u2_stdin_that_is_a_file_is_passed(brig, tmp_path):
    """From where the caller has read to; and it is a pipe to the guest, who cannot change the file."""
    (tmp_path / "in").write_bytes(b"head\n" + b"y" * 300_000)
    with open(tmp_path / "in", "r+b", buffering=0) as source:
        assert source.read(5) == b"head\n"
        code = ("import os, stat, sys; data = sys.stdin.buffer.read(); print(len(data), data[:1]);"
                "print(stat.S_ISFIFO(os.fstat(0).st_mode))\n"
                "try: os.write(0, b'z')\n"
                "except OSError as error: print(error.errno)")
        done = brig.run("--", *PYTHON, code, stdin=source)
    assert done.stdout == b"300000 b'y'\nTrue\n9\n", done.stderr
    assert (tmp_path / "in").read_bytes() == b"head\n" + b"y" * 300_000


def test_review_u2_stdin_that_is_a_socket_is_passed(brig):
    ours, guests = socket.socketpair()
    with ours, guests:
        ours.sendall(b"by socket")
        ours.shutdown(socket.SHUT_WR)
        done = brig.run("--", "cat", stdin=guests)
    assert (done.returncode, done.stdout) == (0, b"by socket")


def test_review_u2_stdin_that_is_a_terminal_is_empty(brig):
    ours, guests = pty.openpty()
    os.write(ours, b"typed\n")
    try:
        done = brig.run("--", "cat", stdin=guests, timeout=20 * SLOW)
        assert (done.returncode, done.stdout) == (0, b"")
        assert os.read(guests, 100) == b"typed\n", "it is still the caller's"
    finally:
        os.close(ours)
        os.close(guests)


@pytest.mark.parametrize("kind", ["none", "/dev/null", "file", "spec", "variable"])
def test_review_u2_what_is_named_wins_over_the_callers_stdin(brig, tmp_path, kind):
    (tmp_path / "in").write_text("file")
    (tmp_path / "spec").write_text('{"stdin": "none"}')
    options = {"file": ["--stdin", tmp_path / "in"], "spec": ["--spec", tmp_path / "spec"],
               "variable": []}.get(kind, ["--stdin", kind])
    variables = {"BRIG_STDIN": "none"} if kind == "variable" else {}
    done = brig.run(*options, "--", "cat", input=b"the caller's", env={**os.environ, **variables})
    assert (done.returncode, done.stdout) == (0, b"file" if kind == "file" else b""), done.stderr


def test_review_u2_a_loop_over_stdin_keeps_its_lines_with_stdin_none(brig):
    """As with ssh: brig run would take the rest of the list."""
    loop = 'while read -r x; do "$1" run -q --stdin none -- echo "$x"; done'
    done = subprocess.run(["sh", "-c", loop, "sh", brig.binary], input=b"1\n2\n3\n", cwd=brig.tmp,
                          capture_output=True, check=True, timeout=60 * SLOW)
    assert done.stdout == b"1\n2\n3\n"


def test_review_u2_open_pipe_does_not_hold_up_who_does_not_read(brig):
    """As under cron or CI, where stdin is a pipe that never ends."""
    read_end, write_end = os.pipe()
    try:
        done = brig.run("--", "sh", "-c", "exit 4", stdin=read_end, timeout=30 * SLOW)
        assert done.returncode == 4
    finally:
        os.close(read_end)
        os.close(write_end)


@pytest.mark.parametrize("kind", ["closed", "directory", "write-only", "path"])
def test_review_u2_stdin_that_cannot_be_read_is_empty(brig, tmp_path, kind):
    (tmp_path / "out").write_text("kept")
    redirect = {"closed": "<&-", "directory": '<"$2"', "write-only": '0>>"$2/out"', "path": ""}[kind]
    give = None
    if kind == "path":
        give = os.open(tmp_path / "out", os.O_PATH)
    script = f'exec "$1" run -- sh -c "cat && echo fine" {redirect}'
    done = subprocess.run(["sh", "-c", script, "sh", brig.binary, tmp_path], stdin=give,
                          capture_output=True, check=False, timeout=60 * SLOW, cwd=tmp_path)
    if give is not None:
        os.close(give)
    assert (done.returncode, done.stdout) == (0, b"fine\n"), done.stderr
    assert (tmp_path / "out").read_text() == "kept"


def test_review_u2_guest_that_reads_little_costs_what_a_pipe_holds(brig, tmp_path):
    """How much a relay reads ahead of its guest is what --help says."""
    (tmp_path / "in").write_bytes(b"x" * 1_000_000)
    with open(tmp_path / "in", "rb", buffering=0) as source:
        brig.run("--", "head", "-c", "1", stdin=source)
        assert source.tell() <= 128 * 1024


def test_stdin_from_a_file(brig, tmp_path):
    (tmp_path / "in").write_bytes(b"x\0y\n" * 100_000)
    done = brig.run("--stdin", tmp_path / "in", "--", "cat", input=b"not this")
    assert done.stdout == b"x\0y\n" * 100_000


def test_stdin_file_cannot_be_written(brig, tmp_path):
    (tmp_path / "in").write_text("kept")
    done = brig.run("--stdin", tmp_path / "in", "--", "sh", "-c", "echo x >&0")
    assert done.returncode != 0
    assert (tmp_path / "in").read_text() == "kept"


@pytest.mark.parametrize("size", [0, 1, 65536, 5_000_000])
def test_stdin_of_the_caller_is_a_pipe(brig, size):
    data = os.urandom(size)
    done = brig.run("--stdin", "-", "--", "cat", input=data)
    assert (done.returncode, done.stdout) == (0, data)


def test_stdin_of_the_caller_is_a_file(brig, tmp_path):
    (tmp_path / "in").write_bytes(b"y" * 300_000)
    with open(tmp_path / "in", "rb") as source:
        done = brig.run("--stdin", "-", "--", "cat", stdin=source)
    assert done.stdout == b"y" * 300_000


def test_stdin_is_live(brig):
    """A line that the caller writes is there before the next one: a conversation works."""
    process = brig.start("--stdin", "-", "--", "sh", "-c", "while read x; do echo got $x; done",
                         stdin=subprocess.PIPE)
    for word in (b"one", b"two"):
        process.stdin.write(word + b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"got " + word + b"\n"
    assert finish(process).returncode == 0


def test_stdin_that_nobody_reads_does_not_hold_the_run_up(brig):
    """The guest ends without reading, the caller still writes."""
    process = brig.start("--stdin", "-", "--", "sh", "-c", "exit 4", stdin=subprocess.PIPE)
    assert process.wait(20 * SLOW) == 4
    finish(process)


def test_stdin_open_at_the_end_does_not_hold_the_run_up(brig):
    """The guest reads one line and ends, the caller keeps its end open."""
    process = brig.start("--stdin", "-", "--", "sh", "-c", "read x; echo $x", stdin=subprocess.PIPE)
    process.stdin.write(b"hi\n")
    process.stdin.flush()
    assert process.wait(20 * SLOW) == 0
    assert process.stdout.read() == b"hi\n"
    finish(process)


def test_stdin_guest_closes_it(brig):
    """A guest that closes its stdin goes on, with megabytes still to come."""
    done = brig.run("--stdin", "-", "--", "sh", "-c", "exec <&-; echo on; exit 3",
                    input=b"x" * 5_000_000)
    assert (done.returncode, done.stdout) == (3, b"on\n")


def test_stdin_is_not_the_callers_descriptor(brig):
    """The guest gets a pipe of its own: it cannot change the flags of what the caller has."""
    read_end, write_end = os.pipe()
    code = "import os; os.set_blocking(0, False)"
    done = brig.run("--stdin", "-", "--", *PYTHON, code, stdin=read_end)
    assert done.returncode == 0
    assert os.get_blocking(read_end)
    os.close(read_end)
    os.close(write_end)


def test_stdin_last_option_counts(brig, tmp_path):
    (tmp_path / "in").write_text("file")
    for options, expected in ((["-", tmp_path / "in"], b"file"), ([tmp_path / "in", "-"], b"own")):
        done = brig.run("--stdin", options[0], "--stdin", options[1], "--", "cat", input=b"own")
        assert done.stdout == expected


@pytest.mark.parametrize("way", ["variable", "spec"])
def test_stdin_of_the_caller_by_other_ways(brig, tmp_path, way):
    """"-" means the caller's stdin wherever the setting comes from."""
    spec = tmp_path / "spec"
    spec.write_text('{"stdin": "-"}')
    options = ["--spec", spec] if way == "spec" else []
    variables = {"BRIG_STDIN": "-"} if way == "variable" else {}
    done = brig.run(*options, "--", "cat", input=b"own", env={**os.environ, **variables})
    assert (done.returncode, done.stdout) == (0, b"own"), done.stderr


# ---- descriptors -----------------------------------------------------------------------------

LIST_FDS = "import os; print(*sorted(map(int, os.listdir('/proc/self/fd'))))"


def test_descriptors_of_the_caller_are_closed(brig):
    """Only 0, 1 and 2 (and the one that lists them); whatever the caller left open."""
    extra = os.open("/etc/passwd", os.O_RDONLY)
    done = brig.run("--", *PYTHON, LIST_FDS, pass_fds=[extra])
    os.close(extra)
    assert done.stdout == b"0 1 2 3\n"


@pytest.mark.parametrize("closed", [[0], [1], [2], [0, 1], [1, 2], [0, 2], [0, 1, 2]], ids=str)
def test_started_with_closed_streams(brig, tmp_path, closed):
    """Nothing else takes their numbers: the guest has three descriptors and its own exit code."""
    guest = f"ls /proc/self/fd >{tmp_path}/fds; cat; echo out; echo err >&2; exit 9"
    process = brig.start("--stdin", "-", "--", "sh", "-c", guest,
                         preexec_fn=lambda: [os.close(fd) for fd in closed])
    assert finish(process).returncode == 9
    assert (tmp_path / "fds").read_text().split()[:3] == ["0", "1", "2"]


def test_started_with_closed_streams_result_in_a_file(brig, tmp_path):
    """--result must not land in a descriptor that was taken for a stream."""
    done = brig.run("--result", tmp_path / "r", "--events", tmp_path / "e", "--", "echo", "0utput",
                    preexec_fn=lambda: os.closerange(0, 3))
    assert done.returncode == 0
    assert (tmp_path / "r").read_text().startswith("{")
    assert "0utput" not in (tmp_path / "r").read_text()


@pytest.mark.measured  # the instrumentation needs descriptors of its own
@pytest.mark.parametrize("limit", range(3, 40))
def test_started_with_a_full_descriptor_table(brig, limit):
    """With too few descriptors a run is refused with the reason, or works; nothing in between."""
    done = brig.run("--", "sh", "-c", "echo hi; exit 9", timeout=10, preexec_fn=lambda:
                    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)))
    if done.returncode == 9:
        assert (done.stdout, done.stderr) == (b"hi\n", b"")
    else:
        assert (done.returncode, done.stdout) == (125, b"")
        assert "Too many open files" in message(done)


def test_started_with_few_descriptors(brig):
    done = brig.run("--", "sh", "-c", "exit 9", preexec_fn=lambda:
                    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
    assert done.returncode == 9


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077, 0o777], ids=oct)
def test_started_with_any_umask(brig, mask):
    """It is the guest's as well, for what it makes; the cell is the same under each."""
    code = ("umask; id -un; echo x >/dev/null && ls -d /etc/passwd /dev/fd/0 /tmp/. /var/tmp"
            " /opened; cat /opened/file /tmp/below/file; : >/scratch/deep/file && : >~/file")
    (brig.tmp / "file").write_text("shown\n")
    done = brig.run("--ro", f"{brig.tmp}:/opened", "--ro", f"{brig.tmp}:/tmp/below", "--tmpfs",
                    "/scratch/deep", "--", "sh", "-c", code, preexec_fn=lambda: os.umask(mask))
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.split() == [b"%04o" % mask, b"brig", b"/dev/fd/0", b"/etc/passwd",
                                   b"/opened", b"/tmp/.", b"/var/tmp", b"shown", b"shown"]


@pytest.mark.parametrize("limit", [0, 1, 1024, 1 << 20])
def test_started_with_a_limit_on_file_sizes(brig, limit):
    """It is for the guest. brig runs with it or says why it cannot; it is not killed by it."""
    done = brig.run("--", "sh", "-c", "echo hi; exit 9", preexec_fn=lambda:
                    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    if done.returncode == 9:
        assert (done.stdout, done.stderr) == (b"hi\n", b"")
    else:
        assert (done.returncode, done.stdout) == (125, b"")
        assert message(done)


def test_descriptors_of_the_caller_keep_their_flags(brig):
    """brig does not wait on its streams, but the flag for that would be the caller's as well."""
    ends = [os.pipe() for _ in range(3)]
    process = brig.start("--stdin", "-", "--", "sh", "-c", "echo out; echo err >&2; cat",
                         stdin=ends[0][0], stdout=ends[1][1], stderr=ends[2][1])
    assert (os.read(ends[1][0], 10), os.read(ends[2][0], 10)) == (b"out\n", b"err\n")
    assert all(os.get_blocking(fd) for fd in (ends[0][0], ends[1][1], ends[2][1]))
    os.close(ends[0][1])
    assert process.wait(20 * SLOW) == 0
    for fd in {fd for pair in ends for fd in pair} - {ends[0][1]}:
        os.close(fd)


def test_output_to_every_kind_of_file(brig, tmp_path):
    """A file, one that is appended to, a socket, a terminal."""
    guest = ["--", "sh", "-c", "echo one; echo two"]
    for mode, expected in (("wb", b"one\ntwo\n"), ("ab", b"one\ntwo\none\ntwo\n")):
        with open(tmp_path / "out", mode) as out:
            assert brig.run(*guest, stdout=out).returncode == 0
        assert (tmp_path / "out").read_bytes() == expected
    ours, theirs = socket.socketpair()
    assert brig.run(*guest, stdout=theirs).returncode == 0
    assert ours.recv(100, socket.MSG_WAITALL | socket.MSG_DONTWAIT) == b"one\ntwo\n"
    ours.close()
    theirs.close()
    ours, theirs = pty.openpty()
    assert brig.run(*guest, stdout=theirs).returncode == 0
    assert os.read(ours, 100) == b"one\r\ntwo\r\n"
    os.close(ours)
    os.close(theirs)


# ---- signals, session ------------------------------------------------------------------------

def block_everything():
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())


def ignore_everything():
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)


@pytest.mark.parametrize("prepare", [block_everything, ignore_everything])
def test_guest_has_default_signals(brig, prepare):
    """Signals that the caller blocked or ignored are neither in the guest."""
    done = brig.run("--", "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status", preexec_fn=prepare,
                    restore_signals=False, timeout=5)
    assert (done.returncode, done.stdout.split()[1::2]) == (0, [b"0" * 16] * 2)


@pytest.mark.parametrize("prepare", [block_everything, ignore_everything])
def test_run_works_with_signals_blocked_or_ignored(brig, prepare):
    """SIGCHLD ignored means that nobody waits for brig's children; the exit code is right."""
    done = brig.run("--", "sh", "-c", "sleep 300 & exit 9", preexec_fn=prepare,
                    restore_signals=False, timeout=5)
    assert done.returncode == 9
    done = brig.run("-q", "--timeout", "200ms", "--", "sleep", "300", preexec_fn=prepare,
                    restore_signals=False)
    assert done.returncode == 124


def test_blocked_sigterm_still_cancels(brig):
    process = brig.start("--", "sh", "-c", "echo ready; exec sleep 300",
                         preexec_fn=block_everything)
    assert process.stdout.readline() == b"ready\n"
    process.terminate()
    assert finish(process).returncode == 128 + signal.SIGTERM


def test_children_that_brig_was_born_with_are_left_alone(brig):
    """A shell that executes brig gives it its children: they are not of the run."""
    shell = ["sh", "-c", 'sleep 300 >/dev/null 2>&1 & echo $!; exec "$@"', "sh"]
    done = brig.run("--", "sh", "-c", "exit 9", before=shell)
    pid = int(done.stdout)
    alive = is_alive(pid)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    assert done.returncode == 9
    assert alive


def test_guest_leads_a_session_without_terminal(brig):
    done = brig.run("--", "sh", "-c", "ps -o pid=,sid=,tty= -p $$")
    pid, session, terminal = done.stdout.split()
    assert (session, terminal) == (pid, b"?")


def test_guest_cannot_gain_privileges(brig):
    done = brig.run("--", "grep", "NoNewPrivs", "/proc/self/status")
    assert done.stdout.split() == [b"NoNewPrivs:", b"1"]


INTO_INIT = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
init = os.getppid()
print("ptrace", libc.ptrace(16, init, None, None) != 0)  # PTRACE_ATTACH
for name in ("mem", "environ", "maps", "auxv", "syscall", "stack"):
    try:
        with open(f"/proc/{init}/{name}", "rb") as file:
            print(name, file.read(1) == b"")
    except OSError:
        print(name, True)
def can_read(path):
    try:
        os.readlink(path) if os.path.islink(path) else open(path).read()
        return True
    except OSError:
        return False
for name in ("fd", "fdinfo", "task/%d/fd" % init, "map_files"):
    try:  # as root's own id, without a cell, it sees the numbers, and not what they are
        print(name, not any(can_read(f"/proc/{init}/{name}/{entry}") for entry in os.listdir(f"/proc/{init}/{name}")))
    except OSError:
        print(name, True)
for name in ("cwd", "root", "exe", "ns/pid"):
    try:
        print(name, os.readlink(f"/proc/{init}/{name}") == "")
    except OSError:
        print(name, True)
"""


def test_init_cannot_be_traced_or_read(brig, tier):
    """A guest cannot look into brig's init: it could forge its own result."""
    done = brig.run("--", *PYTHON, INTO_INIT, before=tier, preexec_fn=lambda: os.umask(0))
    held = dict(line.split() for line in done.stdout.decode().splitlines())
    assert len(held) == 15, done.stderr
    assert [name for name, value in held.items() if value != "True"] == []


def test_init_is_not_dumpable(brig, tier):
    """Nor can anybody else of the caller's user: its files in /proc belong to root."""
    process = brig.start("--", "sh", "-c", "echo ready; exec sleep 300", before=tier)
    assert process.stdout.readline()
    init = init_of(process)
    owner = os.stat(f"/proc/{init}/fd").st_uid
    process.terminate()
    finish(process)
    assert owner == 0
