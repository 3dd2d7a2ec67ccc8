# SPDX-License-Identifier: MIT
"""Secrets are hidden on every way out: live events, what is stored, messages, notes, the recorded command."""
import base64
import json
import os
import pty
import resource
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
    on = () if "--redact" in options else ("--redact", "on")
    return brig.result(*on, *options, "--stdin", "-", "--", "cat", input=text.encode())["stdout"]


@pytest.mark.parametrize("text, secret", POSITIVES.items(), ids=[t[:24] for t in POSITIVES])
def test_case_33_positive(brig, text, secret):
    seen = shown(brig, f"before {text}\nafter\n") if not text.startswith(("Cookie", "Set-", "Auth", "-----", "{", "Pass")) else \
        shown(brig, f"{text}\nafter\n")
    assert secret not in seen and "[redacted:" in seen, seen
    assert seen.endswith("after\n") or "BEGIN OPENSSH" in text, seen


@pytest.mark.parametrize("text", NEGATIVES, ids=[t[:24] for t in NEGATIVES])
def test_case_33_negative(brig, text):
    assert shown(brig, f"before {text} after\n{text}\n") == f"before {text} after\n{text}\n"


# docs/REDACTION.md lists them.
COVERED = [json.dumps({"api_key": "hunter2hunter2"}), json.dumps(json.dumps({"api_key": "hunter2hunter2"})),
           json.dumps(json.dumps({"k": TOKEN})), f"https://example.org/?q=1&token={TOKEN}"]
NOT_COVERED = [base64.b64encode(TOKEN.encode()).decode(), TOKEN.encode().hex(), TOKEN[::-1], "\n".join(TOKEN),
               f"%67{TOKEN[1:]}", "password%3Dhunter2hunter2", f'"\\u0067{TOKEN[1:]}"']


def test_attack_52_encoded_secrets_are_covered_as_documented(brig):
    seen = shown(brig, "\n".join(COVERED) + "\n").splitlines()
    assert len(seen) == len(COVERED) and all("[redacted:" in line for line in seen), seen
    assert not any(secret in line for line in seen for secret in ("hunter2", TOKEN[4:])), seen
    passed = "\n".join(NOT_COVERED) + "\n"
    assert shown(brig, passed) == passed


def test_case_33_environment_with_nul_between(brig):
    """What /proc/PID/environ and env -0 give: a value ends there."""
    assert shown(brig, f"A=1\0API_TOKEN=abc123def456\0B=2\0") == "A=1\0API_TOKEN=[redacted:token]\0B=2\0"


@pytest.mark.parametrize("text, expected", [
    ("X-Auth-Token: my-super-secret-token-value-here", "X-Auth-Token: [redacted:credential]"),
    ("password: my_secure_pass!", "password: [redacted:password]"), ("pass: correcthorse9", "pass: [redacted:password]"),
    ("--sort-key=COLUMN", "--sort-key=COLUMN"), ("PASS: testcase9", "PASS: testcase9"),
])
def test_review_u8_what_was_missed_and_what_was_none(brig, text, expected):
    assert shown(brig, text + "\n") == expected + "\n"


# ---- where it is on ---------------------------------------------------------------------------

def test_review_u8_the_caller_of_run_gets_the_bytes_as_they_are(brig, tmp_path):
    """stdout and stderr of pipes, --json, --result, the channel, events, labels."""
    code = ("import os, sys; print(%r); print(%r, file=sys.stderr); "
            "t = b'{\"api_key\": \"abcdef0123456789abcdef\"}'; os.write(3, b'%%d\\n%%b' %% (len(t), t))") % ((f"token={TOKEN}",) * 2)
    arguments = ["--label", f"why={TOKEN}", "--channel", "on", "--events", tmp_path / "events", "--", *PYTHON, code]
    done = brig.run("--result", tmp_path / "result", *arguments)
    assert (done.stdout, done.stderr) == (f"token={TOKEN}\n".encode(),) * 2
    stored = json.loads((tmp_path / "result").read_text())
    result = brig.result(*arguments)
    for one in (stored, result):
        assert one["labels"] == {"why": TOKEN} and one["stdout_redacted"] == one["stderr_redacted"] == 0
        assert one["output"] == {"api_key": "abcdef0123456789abcdef"}
    assert result["stdout"] == f"token={TOKEN}\n"
    assert "".join(e["data"] for e in events_of(tmp_path / "events") if e["type"] == "stdout") == f"token={TOKEN}\n"
    assert brig.run("--", "echo", "--sort-key=COLUMN").stdout == b"--sort-key=COLUMN\n"


def test_review_u8_batch_gives_the_bytes_as_they_are(brig):
    jobs = "\n".join(json.dumps({"id": name, "command": ["echo", TOKEN], **more}) for name, more in (("a", {}), ("b", {"redact": "on"})))
    done = brig.run("-", verb="batch", input=jobs.encode())
    said = {line["job"]: line for line in map(json.loads, done.stdout.splitlines())}
    assert len(said) == 2 and TOKEN in json.dumps(said["a"]) and TOKEN not in json.dumps(said["b"]) and HIDDEN in json.dumps(said["b"])


def call_tool(brig, tmp_path, *more, **keys):
    tool = {"name": "t", "description": "d", "command": ["sh", "-c", f"printf '%s' '{{\"said\": \"{TOKEN}\"}}' >&2; "
            f"b='{{\"status\":\"success\",\"output\":\"{TOKEN}\"}}'; printf '%d\\n%s' ${{#b}} \"$b\" >&3"], **keys}
    (tmp_path / "tools.json").write_text(json.dumps({"tools": [tool]}))
    done = brig.run("t", "--tools", tmp_path / "tools.json", *more, verb="call")
    assert done.returncode == 0, done
    return done.stdout.decode()


def test_review_u8_what_goes_to_a_model_is_hidden(brig, tmp_path):
    assert TOKEN not in call_tool(brig, tmp_path) and HIDDEN in call_tool(brig, tmp_path)
    assert TOKEN in call_tool(brig, tmp_path, redact="off")


@pytest.mark.parametrize("options", [["--redact-pattern", "nothing-of-it"], ["--redact-set", "tokens"], ["--redact", "on"]])
def test_review_u8_a_pattern_or_a_set_means_that_it_is_on(brig, options):
    assert brig.run("-q", *options, "--", "echo", TOKEN).stdout == HIDDEN.encode() + b"\n"


def test_review_u8_precedence(brig, tmp_path):
    """Option, variable, spec file, default."""
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({"redact": "on"}))

    def said(*options, **env):
        return brig.run("-q", *options, "--", "echo", TOKEN, env={**os.environ, **env}).stdout.decode().strip()
    assert said() == TOKEN and said("--spec", spec) == HIDDEN and said(BRIG_REDACT="on") == HIDDEN
    assert said("--spec", spec, BRIG_REDACT="off") == TOKEN
    assert said("--spec", spec, "--redact", "off", BRIG_REDACT="on") == TOKEN


def test_review_u8_brigs_own_words_are_hidden_unless_it_is_off_by_name(brig):
    for options, hidden in (([], True), (["--redact", "on"], True), (["--redact", "off"], False)):
        done = brig.run(*options, "--", "curl", f"https://u:{TOKEN}@h/", verb="explain")
        assert done.returncode == 0 and (TOKEN.encode() not in done.stdout) == hidden
    assert TOKEN.encode() not in brig.run("--", f"/none/{TOKEN}").stderr


# ---- the budget -------------------------------------------------------------------------------

ENDLESS = {
    "bare": ("password=abc1", "A"), "quoted": ('{"password": "abc1', "A"), "header": ("Authorization: Bearer abcdef0123456789", "A"),
    "url": ("https://user:pw", "A"), "token": (TOKEN, "A"),
    "private key": ("-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA0Z3VS5JJcds3xfn\n", "A" * 64 + "\n"),
    "pattern": ("CORP-", "A"), "stopped pattern": ("bbb", "b"),
}


@pytest.mark.parametrize("begin, more", ENDLESS.values(), ids=list(ENDLESS))
def test_review_d3_a_secret_without_end_is_counted(brig, begin, more):
    """It ended at its timeout, 20 s of a processor later."""
    code = f"import os\nos.write(1, {begin!r}.encode())\nwhile True: os.write(1, {more!r}.encode() * 4096)"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = brig.result("--redact", "on", "--redact-pattern", "CORP-.*", "--redact-pattern", "(?:b+)+[cd]", "--output", "1000",
                         "--timeout", f"{20 * SLOW}s", "-k", "100ms", "--", *PYTHON, code)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert result["status"] == "output_limit" and result["stdout_truncated"]
    assert result["stdout_bytes"] <= 1000
    assert more * 100 not in result["stdout"] or begin == "CORP-"  # a pattern sees 64 KiB, and starts anew behind it
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 5 * SLOW


def test_review_d3_a_run_that_drains_on_does_so(brig):
    code = "import os\nos.write(1, b'password=abc1')\nfor i in range(64): os.write(1, b'A' * 65536)\nos.write(1, b' end')"
    result = brig.result("--redact", "on", "--output", "1000", "--on-output-limit", "truncate", "--", *PYTHON, code)
    assert (result["status"], result["stdout"]) == ("exited", "password=[redacted:password] end")


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
    most = 0
    for _ in range(5):  # a busy machine may read several writes as one: then there is little to see, so once more
        result = brig.result("--redact", "on", "--events", tmp_path / "events", "--stdin", "-", "--", *PYTHON, SLOWLY, input=text.encode())
        assert result["stdout"] == text.replace(TOKEN, HIDDEN)
        said = [e for e in events_of(tmp_path / "events") if e["type"] == "stdout"]
        assert all(e["encoding"] == "utf-8" for e in said)
        assert "".join(e["data"] for e in said) == result["stdout"]
        assert not any(TOKEN[4:12] in e["data"] for e in said)
        most = max(most, len(said))
        if most > 3:
            break
        (tmp_path / "events").unlink()
    assert most > 3


def test_case_13_split_over_chunks_of_64_kib(brig, tmp_path):
    """A secret on each side of every boundary that brig reads at."""
    for shift in (0, 1, 7, 20, 39):
        text = ("x" * (65536 - shift - 1) + " " + TOKEN + "\n") * 4
        result = brig.result("--redact", "on", "--events", tmp_path / "events", "--stdin", "-", "--", "cat", input=text.encode())
        assert result["stdout"] == text.replace(TOKEN, HIDDEN)
        assert result["stdout_redacted"] == 4
        said = "".join(e["data"] for e in events_of(tmp_path / "events") if e["type"] == "stdout")
        assert said == result["stdout"]


def test_case_16_what_was_held_back_is_delivered_at_the_timeout(brig):
    """The beginning of what may be a secret is kept until it is known: also when the run ends there."""
    code = "import sys, time; sys.stdout.write('part token='); sys.stdout.flush(); time.sleep(60)"
    result = brig.result("--redact", "on", "--timeout", f"{1.0 * SLOW}s", "-k", "100ms", "--", *PYTHON, code)
    assert (result["status"], result["stdout"]) == ("timeout", "part token=")


# ---- 14, 15 -----------------------------------------------------------------------------------

def test_case_14_bytes_that_are_no_text_are_kept_around_a_secret(brig):
    data = bytes(range(256)) * 20 + b" " + TOKEN.encode() + b" " + bytes(range(255, -1, -1))
    result = brig.result("--redact", "on", "--stdin", "-", "--", "cat", input=data)
    assert result["stdout_encoding"] == "base64"
    assert base64.b64decode(result["stdout"]) == data.replace(TOKEN.encode(), HIDDEN.encode())


def test_case_14_a_line_of_100_megabytes(brig):
    code = "import sys\nfor i in range(1600): sys.stdout.write('z' * 65536)"
    result = brig.result("--redact", "on", "--output", "200M", "--timeout", "60s", "--", *PYTHON, code)
    assert result["stdout_bytes"] == 1600 * 65536 and set(result["stdout"]) == {"z"}


def test_case_15_a_secret_cannot_smuggle_escapes(brig):
    done = brig.run("--", "\x1b[31m token=abc123def456")
    assert done.returncode == 127
    assert b"\x1b" not in done.stderr and b"abc123def456" not in done.stderr


# ---- 34: every way out ------------------------------------------------------------------------

def test_case_34_every_way_out(brig, tmp_path):
    """stdout, stderr, events, notes, labels, the result file."""
    result = tmp_path / "result"
    done = brig.run("--redact", "on", "--events", tmp_path / "events", "--result", result, "--label", f"why=token={TOKEN}", "--", "sh", "-c",
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
    result = brig.result("--redact", "on", "--channel", "on", "--", *PYTHON, code)
    text = json.dumps(result["output"])
    assert TOKEN not in text and "abcdef0123456789abcdef" not in text
    assert result["output"]["list"][1] == 1


def send(brig, text, *options):
    code = "import os, sys; t = sys.stdin.buffer.read(); os.write(3, b'%d\\n' % len(t))\nwhile t: t = t[os.write(3, t):]"
    return brig.result("--redact", "on", "--channel", "on", "--stdin", "-", *options, "--", *PYTHON, code, input=text.encode())


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
    labels = brig.result("--redact", "on", "--label", label, "--", "true")["labels"]
    assert labels == expected or "abc" not in json.dumps(labels), labels
    assert len(labels) == 1


def test_case_34_events_beside_a_terminal(brig, tmp_path):
    """The terminal is looked at; the events are stored."""
    on_terminal(brig, "--redact", "on", "--events", tmp_path / "events", "--", "echo", TOKEN)
    assert TOKEN not in (tmp_path / "events").read_text() and HIDDEN in (tmp_path / "events").read_text()


# ---- the settings -----------------------------------------------------------------------------

def test_off_passes_everything_on(brig):
    assert shown(brig, f"x {TOKEN}\n", "--redact", "off") == f"x {TOKEN}\n"
    done = brig.run("--redact", "off", "--", "echo", TOKEN)
    assert (done.stdout, done.stderr) == (TOKEN.encode() + b"\n", b"")


def test_replaced_bytes_are_told(brig):
    done = brig.run("--redact", "on", "--", "echo", TOKEN, TOKEN)
    assert done.stdout == f"{HIDDEN} {HIDDEN}\n".encode()
    assert message(done) == "brig: 2 secrets were hidden in the output; --redact off passes it on as it is\n"
    assert brig.run("--redact", "on", "-q", "--", "echo", TOKEN).stderr == b""


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
    result = brig.result("--redact", "on", "--output", "1000", "-k", "100ms", "--stdin", "-", "--", "cat", input=text.encode())
    assert result["status"] == "output_limit" and result["stdout_bytes"] == 1000
    whole = text.replace("abcd", "[redacted:password]")
    assert result["stdout"] == whole[:1000]


def test_truncated_output_is_redacted_at_both_ends(brig):
    text = "".join(f"line {i} password=hunter{i:06d}\n" for i in range(5000))
    result = brig.result("--redact", "on", "--output", "2000", "--on-output-limit", "truncate", "--stdin", "-", "--", "cat", input=text.encode())
    assert result["status"] == "exited" and "hunter" not in result["stdout"]
    assert result["stdout"].startswith("line 0 password=[redacted:password]\n") and "line 4999" in result["stdout"]


def test_events_of_a_slow_guest_are_not_held_for_long(brig, tmp_path):
    """Ordinary text is told as it comes, not when more follows."""
    path = tmp_path / "events"
    process = brig.start("--redact", "on", "--events", path, "--", "sh", "-c", "echo ready; sleep 300")
    assert wait_until(lambda: path.exists() and "ready" in path.read_text(), 10)
    process.terminate()
    process.communicate(timeout=20 * SLOW)
