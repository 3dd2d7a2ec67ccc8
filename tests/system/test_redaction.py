"""Secrets are hidden on every way out: live events, what is stored, messages, notes, the recorded command."""
import base64
import json
import os
import pty
import select
import time

import pytest
from conftest import PYTHON, SLOW, message, wait_until

TOKEN = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3gH6"
HIDDEN = "[redacted:github-token]"

# CASES 33, in the words of a log.
POSITIVES = {
    "sk-proj-abcdefghijklmnop1234567890": "sk-proj-abcdefghijklmnop1234567890",
    "sk-" + "ant-api03-abcdefghij_klmnopqrstuv-wxyz0123AA": "api03-abcdefghij_klm",
    "key=abcdef123456": "abcdef123456", "token=abcdefgh": "abcdefgh", "key=abcdefgh": "abcdefgh", "API_KEY=qwerty": "qwerty", "API_KEY=abcdef123456": "abcdef123456", "token=abc123def": "abc123def",
    "TOKEN=Abc123def": "Abc123def", "secret=s3cr3tvalue": "s3cr3tvalue", "Secret=topsecret99": "topsecret99",
    "password=hunter2": "hunter2", "PASSWORD=Hunter22": "Hunter22", "Password: hunter2x": "hunter2x",
    "Authorization: Bearer abcdef.ghijkl-mnopqr": "abcdef.ghijkl-mnopqr", "bearer AbCdEf0123456789": "AbCdEf0123456789",
    '{"api_key": "abcdef0123456789abcdef"}': "abcdef0123456789abcdef",
    TOKEN: TOKEN, "github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz0123456789": "11ABCDEFG0abcdefghijkl",
    "glpat-abcDEF123456ghiJKL78": "abcDEF123456ghiJKL78", "AKIAIOSFODNN7EXAMPLE": "AKIAIOSFODNN7EXAMPLE",
    "xoxb-123456789012-abcdefGHIJKL": "123456789012-abcdefGHIJKL", "xoxp-1234567890-abcdefghij": "1234567890-abcdefghij",
    "sk_live_abcdefghijklmnop12345678": "abcdefghijklmnop12345678",
    "https://alice:s3cretpw@example.org/x": "s3cretpw", "postgres://u:p4ssw0rd@db/x": "p4ssw0rd",
    "Cookie: session=abcdef; other=1": "session=abcdef", "Set-Cookie: id=abc; Path=/": "id=abc",
    "Authorization: Basic dXNlcjpwYXNz": "dXNlcjpwYXNz",
    "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY": "wJalrXUtnFEMI",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEabc123\nDEF456==\n-----END RSA PRIVATE KEY-----": "MIIEabc123",
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ\nZXktdjE=": "b3BlbnNzaC1r",
}
NEGATIVES = [
    "monkey=banana", "keyboard=qwerty123456", "turkey=dinner2024", "da39a3ee5e6b4b0d3255bfef95601890afd80709",
    "commit 4b825dc642cb6eb9a060e54bf8d69288fbee4904", "123e4567-e89b-12d3-a456-426614174000",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4//8/w38GIAXDIBKE0DHxgljNBAAO9TXL0Y4OHwAAAABJRU5ErkJggg==",
    "the token is invalid", "a token in prose, and a password too", "risk-averse-and-task-oriented-people",
    "sorted(x, key=lambda y: y)", "password=None", "token=${TOKEN}", "password: str", "https://example.org:8080/path",
    "ssh://git@example.org/x",
]


def shown(brig, text, *options):
    return brig.result(*options, "--stdin", "-", "--", "cat", input=text.encode())["stdout"]


@pytest.mark.parametrize("text, secret", POSITIVES.items(), ids=[t[:24] for t in POSITIVES])
def test_case_33_positive(brig, text, secret):
    seen = shown(brig, f"before {text}\nafter\n") if not text.startswith(("Cookie", "Set-", "Auth", "-----", "{", "Pass")) else \
        shown(brig, f"{text}\nafter\n")
    assert secret not in seen and "[redacted:" in seen, seen
    assert seen.endswith("after\n") or "BEGIN OPENSSH" in text, seen


@pytest.mark.parametrize("text", NEGATIVES, ids=[t[:24] for t in NEGATIVES])
def test_case_33_negative(brig, text):
    assert shown(brig, f"before {text} after\n{text}\n") == f"before {text} after\n{text}\n"


def test_case_33_environment_with_nul_between(brig):
    """What /proc/PID/environ and env -0 give: a value ends there."""
    assert shown(brig, f"A=1\0API_TOKEN=abc123def456\0B=2\0") == "A=1\0API_TOKEN=[redacted:token]\0B=2\0"


# ---- 13: split anywhere -----------------------------------------------------------------------

SLOWLY = """
import os, sys, time
text = sys.stdin.buffer.read()
for at in range(len(text)):
    os.write(1, text[at:at + 1])
    time.sleep(0.0005)
"""


def events_of(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def test_case_13_split_at_every_byte_live_and_stored(brig, tmp_path):
    """Each byte a write of its own, and read as one: characters are whole and the secret is hidden in
    every event as in what is stored."""
    text = f"\u00e9\u20ac\U0001f600 token: {TOKEN} \u00e9\n"
    result = brig.result("--events", tmp_path / "events", "--stdin", "-", "--", *PYTHON, SLOWLY, input=text.encode())
    assert result["stdout"] == text.replace(TOKEN, HIDDEN)
    said = [e for e in events_of(tmp_path / "events") if e["type"] == "stdout"]
    assert len(said) > 3 and all(e["encoding"] == "utf-8" for e in said)
    assert "".join(e["data"] for e in said) == result["stdout"]
    assert not any(TOKEN[4:12] in e["data"] for e in said)


def test_case_13_split_over_chunks_of_64_kib(brig, tmp_path):
    """A secret on each side of every boundary that brig reads at."""
    for shift in (0, 1, 7, 20, 39):
        text = ("x" * (65536 - shift - 1) + " " + TOKEN + "\n") * 4
        result = brig.result("--events", tmp_path / "events", "--stdin", "-", "--", "cat", input=text.encode())
        assert result["stdout"] == text.replace(TOKEN, HIDDEN)
        assert result["stdout_redacted"] == 4
        said = "".join(e["data"] for e in events_of(tmp_path / "events") if e["type"] == "stdout")
        assert said == result["stdout"]


def test_case_16_what_was_held_back_is_delivered_at_the_timeout(brig):
    """The beginning of what may be a secret is kept until it is known: also when the run ends there."""
    code = "import sys, time; sys.stdout.write('part token='); sys.stdout.flush(); time.sleep(60)"
    result = brig.result("--timeout", f"{1.0 * SLOW}s", "-k", "100ms", "--", *PYTHON, code)
    assert (result["status"], result["stdout"]) == ("timeout", "part token=")


# ---- 14, 15 -----------------------------------------------------------------------------------

def test_case_14_bytes_that_are_no_text_are_kept_around_a_secret(brig):
    data = bytes(range(256)) * 20 + b" " + TOKEN.encode() + b" " + bytes(range(255, -1, -1))
    result = brig.result("--stdin", "-", "--", "cat", input=data)
    assert result["stdout_encoding"] == "base64"
    assert base64.b64decode(result["stdout"]) == data.replace(TOKEN.encode(), HIDDEN.encode())


def test_case_14_a_line_of_100_megabytes(brig):
    code = "import sys\nfor i in range(1600): sys.stdout.write('z' * 65536)"
    result = brig.result("--output", "200M", "--timeout", "60s", "--", *PYTHON, code)
    assert result["stdout_bytes"] == 1600 * 65536 and set(result["stdout"]) == {"z"}


def test_case_15_a_secret_cannot_smuggle_escapes(brig):
    done = brig.run("--", "\x1b[31m token=abc123def456")
    assert done.returncode == 127
    assert b"\x1b" not in done.stderr and b"abc123def456" not in done.stderr


# ---- 34: every way out ------------------------------------------------------------------------

def test_case_34_every_way_out(brig, tmp_path):
    """stdout, stderr, events, notes, labels, the result file."""
    result = tmp_path / "result"
    done = brig.run("--events", tmp_path / "events", "--result", result, "--label", f"why=token={TOKEN}", "--", "sh", "-c",
                    f"echo out {TOKEN}; echo err {TOKEN} >&2; kill -9 $$")
    assert done.returncode == 137
    for text in (done.stdout, done.stderr, (tmp_path / "events").read_bytes(), result.read_bytes()):
        assert TOKEN.encode() not in text
    assert HIDDEN.encode() in done.stdout and HIDDEN.encode() in done.stderr
    assert json.loads(result.read_text())["labels"] == {"why": f"token={HIDDEN}"} or \
        TOKEN not in json.loads(result.read_text())["labels"]["why"]


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_case_34_recorded_command_line(brig, options):
    done = brig.run(*options, "--", "curl", "-H", "Authorization: Bearer abcdef0123456789", f"https://u:{TOKEN}@h/",
                    verb="explain")
    assert done.returncode == 0
    assert b"abcdef0123456789" not in done.stdout and TOKEN.encode() not in done.stdout
    if options:
        json.loads(done.stdout)


@pytest.mark.parametrize("arguments", [
    ["--", f"/none/{TOKEN}"], ["-w", f"/none/{TOKEN}", "--", "true"], ["--env", TOKEN, "--", "true"],
    ["--memory", TOKEN, "--", "true"], [f"--{TOKEN}", "--", "true"], ["--stdin", f"/none/{TOKEN}", "--", "true"],
])
def test_case_34_error_messages(brig, arguments):
    done = brig.run("--json", *arguments)
    assert done.returncode in (2, 125, 127)
    assert TOKEN.encode() not in done.stderr + done.stdout and b"[redacted:" in done.stderr


def test_case_34_a_pattern_that_backtracks_for_ever_is_stopped(brig):
    """Stopped in time; since then nothing of the stream is shown, and that is said."""
    begin = time.monotonic()
    result = brig.result("--redact-pattern", "(a|aa)+$", "--", "sh", "-c",
                         "echo first; head -c 60000 /dev/zero | tr '\\0' a; echo b; echo more; echo free >&2")
    assert time.monotonic() - begin < 10 * SLOW
    assert "more" not in result["stdout"] and "took too long" in result["stdout"]
    assert "took too long" in result["notes"] and result["stderr"] == "free\n"


def test_case_34_result_channel(brig):
    code = ("import json, os; t = json.dumps({'api_key': 'abcdef0123456789abcdef', 'log': 'say token=" + TOKEN + "', "
            "'list': ['" + TOKEN + "', 1]}).encode(); os.write(3, b'%d\\n' % len(t) + t)")
    result = brig.result("--channel", "on", "--", *PYTHON, code)
    text = json.dumps(result["output"])
    assert TOKEN not in text and "abcdef0123456789abcdef" not in text
    assert result["output"]["list"][1] == 1


def send(brig, text, *options):
    code = "import os, sys; t = sys.stdin.buffer.read(); os.write(3, b'%d\\n' % len(t))\nwhile t: t = t[os.write(3, t):]"
    return brig.result("--channel", "on", "--stdin", "-", *options, "--", *PYTHON, code, input=text.encode())


@pytest.mark.parametrize("first", ["x\\nAuthorization: Basic dXNlcjpwYXNz", "CORP-1 and more",
                                   "-----BEGIN PRIVATE KEY-----\\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\\n"])
def test_case_34_result_stays_json_and_nothing_is_uncovered(brig, first):
    """A secret that runs over the end of its string does not cost the others theirs."""
    text = '{"h": "' + first + '", "password": "hunter2xyz", "list": [1, {"api_key": "abcdef0123456789abcdef"}]}'
    result = send(brig, text, "--redact-pattern", "CORP-.*")
    shown_text = json.dumps(result["output"])
    assert "hunter2xyz" not in shown_text and "abcdef0123456789" not in shown_text, shown_text
    assert result["output"]["list"][0] == 1


def test_case_34_escapes_of_json_hide_nothing(brig):
    """Gson writes = as \\u003d, PHP writes / as \\/."""
    text = '{"e": "password\\u003dhunter2xyz9 https:\\/\\/user:hunter2b@host/ \\u0073k-abcdefghijklmnopqrst1234", "f": "\\u00e9"}'
    result = send(brig, text)
    assert result["output"]["f"] == "\u00e9"
    for secret in ("hunter2xyz9", "hunter2b", "abcdefghijklmnopqrst1234"):
        assert secret not in result["output"]["e"], result["output"]


def test_case_34_result_that_cannot_be_looked_at_is_withheld(brig):
    text = json.dumps({"e": "a" * 3000 + "!", "id": "CORP-12345678"})
    result = send(brig, text, "--redact-pattern", "(?:a+)+[bc]|CORP-[0-9]+")
    assert result["output"] is None and "withheld" in result["output_error"]


def test_case_34_many_strings_are_bounded_together(brig):
    text = json.dumps(["sk-abcdefghijklmnopqrstuvwxyz12\"Authorization: x"] + ["a" * 17 + "!"] * 20000)
    begin = time.monotonic()
    result = send(brig, text, "--redact-pattern", "(?:a+)+[bc]")
    assert result["output"] is None or "sk-abc" not in json.dumps(result["output"])
    assert time.monotonic() - begin < 20 * SLOW


@pytest.mark.parametrize("label, expected", [
    ("Cookie: session=abcdefghijklmnopqrstuvwxyz0123456789", {"Cookie: session": "[redacted]"}),
    ("token=abc123def456", {"token": "[redacted:token]"}), ("a=b", {"a": "b"}),
])
def test_case_34_labels(brig, label, expected):
    labels = brig.result("--label", label, "--", "true")["labels"]
    assert labels == expected or "abc" not in json.dumps(labels), labels
    assert len(labels) == 1


def test_case_34_events_beside_a_terminal(brig, tmp_path):
    """The terminal is looked at; the events are stored."""
    on_terminal(brig, "--events", tmp_path / "events", "--", "echo", TOKEN)
    assert TOKEN not in (tmp_path / "events").read_text() and HIDDEN in (tmp_path / "events").read_text()


# ---- the settings -----------------------------------------------------------------------------

def test_off_passes_everything_on(brig):
    assert shown(brig, f"x {TOKEN}\n", "--redact", "off") == f"x {TOKEN}\n"
    done = brig.run("--redact", "off", "--", "echo", TOKEN)
    assert (done.stdout, done.stderr) == (TOKEN.encode() + b"\n", b"")


def test_replaced_bytes_are_told(brig):
    done = brig.run("--", "echo", TOKEN, TOKEN)
    assert done.stdout == f"{HIDDEN} {HIDDEN}\n".encode()
    assert message(done) == "brig: 2 secrets were hidden in the output; --redact off passes it on as it is\n"
    assert brig.run("-q", "--", "echo", TOKEN).stderr == b""


def test_pattern_and_its_name(brig):
    assert shown(brig, "id 12-345 end", "--redact-pattern", r"\d\d-\d{3}") == "id [redacted:pattern-1] end"
    assert shown(brig, "id 12-345 end", "--redact-pattern", r"id (?<badge>\d\d-\d{3})") == "id [redacted:badge] end"
    assert shown(brig, "one two", "--redact-pattern", "one", "--redact-pattern", "two") == \
        "[redacted:pattern-1] [redacted:pattern-2]"


def test_sets(brig):
    text = f"{TOKEN} password=hunter22\n"
    assert shown(brig, text, "--redact-set", "tokens") == f"{HIDDEN} password=hunter22\n"
    assert shown(brig, text, "--redact-set", "assignments,urls") == f"{TOKEN} password=[redacted:password]\n"


@pytest.mark.parametrize("options, said", [
    (["--redact-pattern", "("], "missing closing parenthesis"), (["--redact-pattern", "x*"], "empty"),
    (["--redact-set", "none"], "none"), (["--redact", "maybe"], "on|off"),
    (["--redact", "off", "--redact-pattern", "x"], "off"), (["--redact-pattern", ""], "empty"),
])
def test_wrong_uses(brig, marker, options, said):
    done = brig.run(*options, "--", "touch", marker)
    assert done.returncode == 2 and said in message(done), done
    assert not marker.exists()


def on_terminal(brig, *arguments):
    """What a terminal shows of a run."""
    master, slave = pty.openpty()
    process = brig.start(*arguments, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    text = b""
    end = time.monotonic() + 20 * SLOW
    while time.monotonic() < end:
        if select.select([master], [], [], 0.05)[0]:
            try:
                data = os.read(master, 4096)
            except OSError:
                break
            text += data
            if not data:
                break
    process.wait(20 * SLOW)
    os.close(master)
    return text.decode()


def test_live_terminal_is_left_alone_unless_asked(brig):
    assert TOKEN in on_terminal(brig, "--", "echo", TOKEN)
    assert TOKEN not in on_terminal(brig, "--redact", "on", "--", "echo", TOKEN)


def test_budget_counts_what_is_delivered(brig):
    """Never exceeded by a byte, although a replaced secret may be longer than it was."""
    text = "password=abcd " * 500
    result = brig.result("--output", "1000", "-k", "100ms", "--stdin", "-", "--", "cat", input=text.encode())
    assert result["status"] == "output_limit" and result["stdout_bytes"] == 1000
    whole = text.replace("abcd", "[redacted:password]")
    assert result["stdout"] == whole[:1000]


def test_truncated_output_is_redacted_at_both_ends(brig):
    text = "".join(f"line {i} password=hunter{i:06d}\n" for i in range(5000))
    result = brig.result("--output", "2000", "--on-output-limit", "truncate", "--stdin", "-", "--", "cat", input=text.encode())
    assert result["status"] == "exited" and "hunter" not in result["stdout"]
    assert result["stdout"].startswith("line 0 password=[redacted:password]\n") and "line 4999" in result["stdout"]


def test_events_of_a_slow_guest_are_not_held_for_long(brig, tmp_path):
    """Ordinary text is told as it comes, not when more follows."""
    path = tmp_path / "events"
    process = brig.start("--events", path, "--", "sh", "-c", "echo ready; sleep 300")
    assert wait_until(lambda: path.exists() and "ready" in path.read_text(), 10)
    process.terminate()
    process.communicate(timeout=20 * SLOW)
