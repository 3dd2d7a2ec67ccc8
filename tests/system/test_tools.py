# SPDX-License-Identifier: MIT
"""Tool calls: results that cannot be forged, arguments that are checked, files that are refused by name."""
import json
import os
import re
import shutil
import subprocess

import pytest
from conftest import ROOT, SLOW, WARM, message, processes_with, wait_until

EXAMPLES = os.path.join(ROOT, "examples", "tools")
PYTHON = "/usr/bin/python3"
pytestmark = pytest.mark.skipif(bool(WARM), reason="brig call has no --warm")

SEND = """
import json, os, sys
def send(text, n=None):
    data = text.encode() if isinstance(text, str) else text
    os.write(3, b"%d\\n" % (len(data) if n is None else n))
    at = 0
    while at < len(data):
        at += os.write(3, data[at:at + 65536])
args = json.load(sys.stdin)
"""


def write_tools(tmp_path, *tools, **top):
    path = tmp_path / "tools.json"
    path.write_text(json.dumps({"tools": list(tools), **top}))
    return path


def python_tool(code, **more):
    return {"name": "t", "command": [PYTHON, "-I", "-S", "-c", SEND + code], **more}


def call_done(brig, path, tool="t", args=None, *options, **kw):
    given = [] if args is None else ["--args", args if isinstance(args, str) else json.dumps(args)]
    return brig.run(tool, "--tools", path, *given, *options, verb="call", **kw)


def call(brig, path, tool="t", args=None, *options, **kw):
    done = call_done(brig, path, tool, args, *options, **kw)
    assert done.stdout.count(b"\n") == 1, done
    return json.loads(done.stdout)


def call_python(brig, tmp_path, code, args=None, **more):
    return call(brig, write_tools(tmp_path, python_tool(code, **more)), args=args)


ECHO = python_tool('send(json.dumps(dict(status="success", output=args)))', input_schema={
    "type": "object", "properties": {"n": {"type": "integer", "maximum": 9}, "s": {"type": "string"}},
    "additionalProperties": False})


# ---- 25: results of all sizes -----------------------------------------------------------------

@pytest.mark.parametrize("size", [0, 1, 65536, 200_000])
def test_case_25_result_of_any_size(brig, tmp_path, size):
    answer = call_python(brig, tmp_path, f'send(json.dumps(dict(status="success", output="x" * {size})))')
    assert (answer["ok"], answer["output"], answer["error"]) == (True, "x" * size, None)


@pytest.mark.measured
@pytest.mark.timeout(180 * SLOW)
def test_case_25_result_of_100_megabytes(brig, tmp_path):
    code = 'send(b\'{"status": "success", "output": "\' + b"y" * 100_000_000 + b\'"}\')'
    answer = call_python(brig, tmp_path, code, result_size="128M", timeout="60s")
    assert answer["ok"], answer["error"]
    assert answer["output"] == "y" * 100_000_000


def test_case_25_message_of_no_bytes(brig, tmp_path):
    answer = call_python(brig, tmp_path, 'send("")')
    assert (answer["ok"], answer["output"]) == (True, None)


@pytest.mark.parametrize("write", ["send('x' * 5000)", "send('', 10**12)", "send('', 2000)"])
def test_case_25_over_its_maximum(brig, tmp_path, write):
    code = f"try: {write}\nexcept OSError: pass"
    answer = call_python(brig, tmp_path, "import signal; signal.signal(13, signal.SIG_IGN)\n" + code, result_size="1000")
    assert not answer["ok"]
    assert "larger than result_size, which is 1000 bytes" in answer["error"] or "1000" in answer["error"], answer["error"]


def test_case_25_over_its_maximum_and_killed_by_it(brig, tmp_path):
    answer = call_python(brig, tmp_path, "import signal; signal.signal(13, signal.SIG_DFL); send('x' * 5000000)",
                         result_size="1000")
    assert not answer["ok"]


@pytest.mark.parametrize("options", [[], ["--warm"]], ids=["cold", "warm"])
def test_channel_is_the_only_descriptor_more(brig, options):
    """In a cell that was built ahead as well: 0, 1, 2 and the channel."""
    code = "import os; print([f for f in range(64) if os.path.exists(f'/proc/self/fd/{f}')], os.environ['BRIG_RESULT_FD']); " \
           "os.write(3, b'2\\n{}')"
    result = brig.result(*options, "--channel", "on", "--", PYTHON, "-I", "-S", "-c", code)
    assert (result["stdout"], result["output"], result["isolation"]["warm"]) == ("[0, 1, 2, 3] 3\n", {}, bool(options))


# ---- 26: forgery ------------------------------------------------------------------------------

FORGED = '{"status": "success", "output": "forged"}'


@pytest.mark.parametrize("code, said", [
    (f"os.write(3, b'{FORGED}')", "does not begin with its length"),
    (f"send('{FORGED}'); send('{FORGED}')", "more was sent after the result"),
    (f"send('{FORGED}', 500)", "only a part"),
    (f"send('{FORGED}', 500); os.kill(os.getpid(), 9)", "SIGKILL"),
    ("os.write(3, b'12')", "only a part"),
    ("send('not json')", "not JSON"),
    ("send('[1, 2]')", "not an object with a \"status\""),
    ('send(\'{"output": 1}\')', "not an object with a \"status\""),
    ('send(\'{"status": "maybe"}\')', "neither"),
    ('send(\'{"status": "success", "extra": 1}\')', "none of status"),
    ('send(\'{"status": "success", "status": "error"}\')', "twice"),
    ('send(\'{"status": "success", "metadata": 1}\')', "metadata"),
    (f"send('{FORGED}'); sys.exit(4)", "exited with 4"),
    ('send(b\'{"status": "success", "output": "\\xff"}\')', "not JSON"),
    ('send("[" * 5000)', "not JSON"),
])
def test_case_26_what_is_no_result(brig, tmp_path, code, said):
    answer = call_python(brig, tmp_path, code)
    assert (answer["ok"], answer["output"]) == (False, None), answer
    assert said in answer["error"], answer["error"]


def test_case_26_each_fault_has_its_own_words(brig, tmp_path):
    codes = [f"os.write(3, b'{FORGED}')", f"send('{FORGED}'); send('{FORGED}')", f"send('{FORGED}', 500)", "pass"]
    said = {call_python(brig, tmp_path, code)["error"] for code in codes}
    assert len(said) == len(codes), said


MARKERS = 'b, e = os.environ["BRIG_RESULT_BEGIN"], os.environ["BRIG_RESULT_END"]\n'


@pytest.mark.parametrize("code, said", [
    (f"print('<<<brig:0000:result>>>{FORGED}<<<brig:0000:end>>>')", "no result was printed"),
    (f"print(b + '{FORGED}')", "second marker is missing"),
    (f"print(b + '{FORGED}' + e + b + '{FORGED}' + e)", "more than once"),
    (f"print(e + '{FORGED}' + b)", "second marker is missing"),
    ("print(b + 'junk' + e)", "not JSON"),
])
def test_case_26_markers_with_a_number_nobody_else_knows(brig, tmp_path, code, said):
    answer = call_python(brig, tmp_path, MARKERS + code, result="markers")
    assert (answer["ok"], answer["output"]) == (False, None), answer
    assert said in answer["error"], answer["error"]


def test_case_26_markers(brig, tmp_path):
    code = MARKERS + 'print("before"); print(b, json.dumps(dict(status="success", output=[1])), e, sep=""); print("after")'
    answers = [call_python(brig, tmp_path, code, result="markers") for _ in range(2)]
    assert [(a["ok"], a["output"]) for a in answers] == [(True, [1])] * 2
    assert answers[0]["result"]["stdout"] != answers[1]["result"]["stdout"], "a new number for each call"


def test_case_26_fixed_markers(brig, tmp_path):
    code = 'print("noise\\n@@BEGIN@@", json.dumps(dict(status="success", output="x")), "@@END@@")'
    answer = call_python(brig, tmp_path, code, result="markers", markers=["@@BEGIN@@", "@@END@@"])
    assert (answer["ok"], answer["output"]) == (True, "x")


@pytest.mark.parametrize("result", ["markers", "stdout"])
def test_case_26_what_was_cut_is_no_result(brig, tmp_path, result):
    """Head and tail joined would be a result that nobody sent."""
    code = 'b, e = os.environ.get("BRIG_RESULT_BEGIN", ""), os.environ.get("BRIG_RESULT_END", "")\n' \
        'print(b + json.dumps(dict(status="success", output="a" * 5000)) + e)'
    answer = call_python(brig, tmp_path, code, result=result, output="1000", on_output_limit="truncate")
    assert (answer["ok"], answer["output"]) == (False, None) and "output budget" in answer["error"], answer["error"]


SECRET = "sk-abcdefghijklmnopqrstuvwx1234"


def test_case_34_refusals_do_not_repeat_secrets(brig, tmp_path):
    schema = {"properties": {"e": {"enum": ["a"]}, "p": {"pattern": "^a$"}}, "additionalProperties": False}
    path = write_tools(tmp_path, {**ECHO, "input_schema": schema})
    for tool, args in (("t", {"e": SECRET}), ("t", {"p": SECRET}), ("t", {SECRET: 1}), (SECRET, {}), ("t", "{" + SECRET)):
        done = call_done(brig, path, tool, args)
        answer = json.loads(done.stdout)
        assert answer["denied"] and SECRET not in answer["reason"] + answer["error"] + done.stderr.decode(), answer


def test_case_34_error_of_a_tool(brig, tmp_path):
    code = "send('{\"status\": \"error\", \"error\": \"password\\\\u003dhunter2xyz9\"}')"
    answer = call_python(brig, tmp_path, code)
    assert not answer["ok"] and "hunter2xyz9" not in json.dumps(answer), answer["error"]


# ---- 27, 28, 29 -------------------------------------------------------------------------------

def test_case_27_nothing_of_a_guest_is_evaluated(brig, tmp_path):
    """A pickle, a program, an entity: bytes like any others."""
    pickle = b"cos\\nsystem\\n(S'touch " + str(tmp_path / "pwned").encode() + b"'\\ntR."
    for payload in (f"send({pickle!r})", "send('__import__(\"os\").abort()')", "send('!!python/object/apply:os.abort []')"):
        answer = call_python(brig, tmp_path, payload)
        assert not answer["ok"] and "not JSON" in answer["error"]
    assert not (tmp_path / "pwned").exists()


def test_case_28_five_messages_each_naming_its_cause(brig, tmp_path):
    shutil.copy(os.path.join(EXAMPLES, "bin", "brig_tool.py"), tmp_path)
    bodies = {
        "SIGSEGV": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
        "exited with 3": "import os; os._exit(3)",
        "Odd, whose message cannot be shown": "class Odd(Exception):\n        def __str__(self): raise ValueError\n    raise Odd",
        "cannot be sent as JSON: TypeError": "return object()",
        "no result was sent": "import os; os._exit(0)",
    }
    said = []
    for expected, body in bodies.items():
        code = f"import sys; sys.path.insert(0, '.')\nimport brig_tool\ndef tool():\n    {body}\nbrig_tool.main(tool)"
        answer = call(brig, write_tools(tmp_path, {"name": "t", "command": [PYTHON, "-B", "-c", code]}), cwd=tmp_path)
        assert not answer["ok"] and expected in answer["error"], (expected, answer["error"])
        said.append(answer["error"])
    assert len(set(said)) == 5


def test_case_28_last_words_are_shown(brig, tmp_path):
    answer = call_python(brig, tmp_path, "raise KeyError('the cause')")
    assert "exited with 1" in answer["error"] and "KeyError: 'the cause'" in answer["error"]


def test_case_28_the_tools_own_error(brig, tmp_path):
    code = 'send(json.dumps(dict(status="error", error="no such \\u201crow\\u201d\\n", metadata=dict(tries=3)))); sys.exit(1)'
    answer = call_python(brig, tmp_path, code)
    assert (answer["ok"], answer["error"], answer["metadata"]) == (False, "no such \u201crow\u201d\n", {"tries": 3})
    done = call_done(brig, write_tools(tmp_path, python_tool(code)))
    assert done.returncode == 1


def test_case_28_timeout_and_memory_are_named(brig, tmp_path):
    answer = call_python(brig, tmp_path, "import time; time.sleep(60)", timeout=0.3 * SLOW, kill_after="100ms")
    assert not answer["ok"] and answer["error"].startswith("timeout: ")
    answer = call_python(brig, tmp_path, "x = b'x' * (300 << 20)", memory="100M")
    assert not answer["ok"] and answer["error"].startswith("memory_limit: ")


def test_case_29_prints_stay_beside_the_result(brig, tmp_path):
    code = 'print("to stdout"); print("to stderr", file=sys.stderr); send(json.dumps(dict(status="success", output=1)))'
    done = call_done(brig, write_tools(tmp_path, python_tool(code)))
    answer = json.loads(done.stdout)
    assert (answer["output"], answer["result"]["stdout"], answer["result"]["stderr"]) == (1, "to stdout\n", "to stderr\n")
    assert done.stderr == b""


# ---- 35: configuration ------------------------------------------------------------------------

def test_case_35_arguments_are_in_no_file_and_on_no_command_line(brig, tmp_path):
    """While the tool runs, its arguments are nowhere to be seen on the machine: no file, no command line."""
    secret = "arg" + os.urandom(12).hex()
    marker = tmp_path / "up"
    code = f'open({str(marker)!r}, "w").close(); import time; time.sleep(60)'
    args = tmp_path / "args"
    args.write_text(json.dumps({"secret": secret}))
    process = brig.start("t", "--tools", write_tools(tmp_path, python_tool(code)), "--args", "-", verb="call",
                         stdin=open(args, "rb"), cwd=tmp_path)
    assert wait_until(marker.exists, 20)
    args.unlink()
    try:
        assert not processes_with(secret)
        seen = subprocess.run(["grep", "-rls", secret, "/tmp", "/run", "/var/tmp", "/dev/shm"], check=False,
                              capture_output=True, timeout=60 * SLOW)
        assert seen.stdout == b""
    finally:
        process.terminate()
        process.communicate(timeout=20 * SLOW)


# ---- arguments --------------------------------------------------------------------------------

@pytest.mark.parametrize("args, said", [
    ({"n": 10}, "/n: must be <= 9"), ({"m": 1}, "/m: no such property"), ({"n": "x"}, "/n:"), ([], "not a JSON object"),
    ("{", "line 1"), ("{} {}", "line 1"), ('{"n":1,"n":2}', "duplicate"), ("nope", "line 1"),
    ('{"s":' + "[" * 3000, "depth"), (b'{"s": "\xff"}', "UTF-8"),
])
def test_arguments_that_do_not_fit_are_refused(brig, tmp_path, marker, args, said):
    tool = {**ECHO, "command": ["touch", str(marker)]}
    if isinstance(args, bytes):
        (tmp_path / "a").write_bytes(args)
        args = f"@{tmp_path / 'a'}"
    done = call_done(brig, write_tools(tmp_path, tool), "t", args)
    answer = json.loads(done.stdout)
    assert done.returncode == 2
    assert (answer["ok"], answer["denied"], answer["result"]) == (False, True, None)
    assert said in answer["reason"] and said in message(done), answer["reason"]
    assert not marker.exists()


def test_arguments_too_large(brig, tmp_path):
    (tmp_path / "a").write_text('{"s": "' + "x" * (5 << 20) + '"}')
    answer = call(brig, write_tools(tmp_path, ECHO), "t", f"@{tmp_path / 'a'}")
    assert answer["denied"] and "larger than" in answer["reason"]


def test_arguments_arrive_as_they_were(brig, tmp_path):
    args = {"n": 3, "s": "a\"b\\c\nd\u00e9\U0001f600" * 20000}
    (tmp_path / "a").write_text(json.dumps(args))
    answer = call(brig, write_tools(tmp_path, ECHO), "t", f"@{tmp_path / 'a'}")
    assert answer["ok"] and answer["output"] == args
    done = brig.run("t", "--tools", tmp_path / "tools.json", "--args", "-", verb="call", input=b'{"n": 4}')
    assert json.loads(done.stdout)["output"] == {"n": 4}


def test_unknown_tool_is_refused_with_the_names_there_are(brig, tmp_path):
    done = call_done(brig, write_tools(tmp_path, ECHO), "x\x1b[31m")
    answer = json.loads(done.stdout)
    assert done.returncode == 2 and answer["denied"]
    assert "there are: t" in answer["reason"] and "\x1b" not in done.stderr.decode()


def test_call_id_is_kept_or_made(brig, tmp_path):
    path = write_tools(tmp_path, ECHO)
    assert call(brig, path, "t", None, "--call-id", "id 1")["call_id"] == "id 1"
    assert re.fullmatch("c[0-9a-f]{16}", call(brig, path)["call_id"])
    assert call(brig, path, "t", None, "--call-id", "x" * 129)["denied"]


def test_output_that_does_not_fit_its_schema(brig, tmp_path):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    for output, ok in (({"n": 1}, True), ({"n": "1"}, False), ([], False), (None, False)):
        code = f"send(json.dumps(dict(status='success', output={output!r})))"
        answer = call_python(brig, tmp_path, code, output_schema=schema)
        assert answer["ok"] == ok and (ok or answer["error"].startswith("output: ")), answer


# ---- tools files ------------------------------------------------------------------------------

GOOD = {"name": "t", "command": ["/bin/true"]}


@pytest.mark.parametrize("text, said", [
    ("", "line 1"), ("nope", "line 1"), ("[]", "not a JSON object"), ("{}", "tools: is missing"),
    ('{"tools": {}}', "not an array"), ('{"tools": [1]}', "tool 1: is not an object"),
    ({"tools": [], "more": 1}, "more: is not a key"), ({"tools": [], "defaults": []}, "defaults: is not an object"),
    ({"tools": [{"command": ["x"]}]}, "tool 1: name"), ({"tools": [{"name": "a b", "command": ["x"]}]}, "name: has to be"),
    ({"tools": [GOOD, GOOD]}, "tool t: name: there are two"), ({"tools": [{"name": "t"}]}, "tool t: command: is missing"),
    ({"tools": [{**GOOD, "command": []}]}, "tool t: command"), ({"tools": [{**GOOD, "command": [1]}]}, "tool t: command[0]"),
    ({"tools": [{**GOOD, "comand": 1}]}, "tool t: comand: is not a key"),
    ({"tools": [{**GOOD, "memory": "lots"}]}, "tool t: memory"), ({"tools": [{**GOOD, "stdin": "/x"}]}, "stdin: is set by brig"),
    ({"tools": [{**GOOD, "channel": "off"}]}, "channel: is set by brig"),
    ({"tools": [{**GOOD, "result": "pickle"}]}, "result: \"pickle\" is not one of"),
    ({"tools": [{**GOOD, "markers": ["a", "b"]}]}, "markers: only with"),
    ({"tools": [{**GOOD, "result": "markers", "markers": ["a"]}]}, "markers: is not an array of two"),
    ({"tools": [{**GOOD, "input_schema": []}]}, "input_schema: is not an object"),
    ({"tools": [{**GOOD, "input_schema": {"type": "text"}}]}, "tool t: input_schema"),
    ({"tools": [{**GOOD, "input_schema": {"properties": {"a": {"pattern": "("}}}}]}, "/properties/a"),
    ({"tools": [{**GOOD, "input_schema": {"frobnicate": 1}}]}, "frobnicate"),
    ({"tools": [{**GOOD, "result": "stdout", "output_schema": {}}]}, "output_schema: not with"),
    ({"tools": [{**GOOD, "title": 1}]}, "title: is not a string"), ({"tools": [{**GOOD, "annotations": 1}]}, "annotations"),
    ({"tools": [GOOD], "defaults": {"command": ["x"]}}, "defaults: command"),
    ({"tools": [GOOD], "defaults": {"pids": "none"}}, "defaults: pids"),
    ({"tools": [GOOD], "defaults": {"name": "x"}}, "defaults: name"),
])
def test_bad_tools_file_names_file_tool_and_key(brig, tmp_path, marker, text, said):
    path = tmp_path / "tools.json"
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    for done in (brig.run(path, verb="tools"), call_done(brig, path)):
        assert done.returncode == 2, done
        assert said in message(done) and "tools.json" in message(done), message(done)


@pytest.mark.parametrize("command, code", [(["/opt/none"], 127), (["/root/.profile"], 127)])
def test_command_outside_the_view_is_found_by_the_check(brig, tmp_path, command, code):
    path = write_tools(tmp_path, {"name": "bad", "command": command}, GOOD)
    done = brig.run(path, verb="tools", cwd=tmp_path)
    assert done.returncode == code
    text = done.stdout.decode()
    assert f"tools.json: tool bad: command: " in text and "ok      t" in text, text


def test_defaults_are_inherited_one_by_one(brig, tmp_path):
    tools = [{**ECHO, "name": "a"}, {**ECHO, "name": "b", "memory": "300M", "env": {"B": "2"}}]
    path = write_tools(tmp_path, *tools, defaults={"memory": "200M", "pids": 33, "env": {"A": "1"}})
    limits = {name: call(brig, path, name)["result"]["limits"] for name in "ab"}
    assert {k: (v["memory_bytes"] >> 20, v["pids"]) for k, v in limits.items()} == {"a": (200, 33), "b": (300, 33)}


def test_tools_as_json_and_their_schema(brig, tmp_path):
    listed = json.loads(brig.run("--json", os.path.join(EXAMPLES, "tools.json"), verb="tools", cwd=EXAMPLES).stdout)
    assert [t["name"] for t in listed] == ["count", "checksum", "sort", "primes", "calendar"]
    assert listed[0]["input_schema"]["required"] == ["text"]
    schema = json.loads(brig.run("--schema", verb="tools").stdout)
    with open(os.path.join(ROOT, "docs", "tools.schema.json"), encoding="utf-8") as published:
        assert json.load(published) == schema, "make it anew: brig tools --schema | python3 -m json.tool > docs/tools.schema.json"


@pytest.mark.parametrize("arguments, said", [
    ([], "no tool"), (["t"], "--tools"), (["t", "--tools"], "wants a value"), (["t", "--tools", "/none"], "/none"),
    (["t", "u", "--tools", "x"], "one argument too many"), (["t", "--tool", "x"], "unknown option"),
    (["t", "--quiet=1", "--tools", "x"], "takes no value"),
])
def test_wrong_uses_of_call(brig, arguments, said):
    done = brig.run(*arguments, verb="call")
    assert done.returncode == 2 and said in message(done)


# ---- every language ---------------------------------------------------------------------------

@pytest.fixture(scope="module", name="examples")
def copy_examples(tmp_path_factory):
    directory = tmp_path_factory.mktemp("examples") / "tools"
    shutil.copytree(EXAMPLES, directory)
    subprocess.run(["gcc", "-O2", "-o", directory / "bin" / "primes", directory / "bin" / "primes.c"], check=True)
    return directory


@pytest.mark.parametrize("tool, args, output", [
    ("count", {"text": "a b A", "most": 2}, {"a": 2, "b": 1}),
    ("checksum", {"text": "abc"}, {"sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}),
    ("sort", {"items": ["b", "\u00e9", "a"]}, {"sorted": ["a", "b", "\u00e9"]}),
    ("primes", {"up_to": 20}, {"primes": [2, 3, 5, 7, 11, 13, 17, 19]}),
])
def test_tool_in_every_language(brig, examples, tool, args, output):
    answer = call(brig, examples / "tools.json", tool, args, cwd=examples)
    assert (answer["ok"], answer["output"]) == (True, output), answer


def test_all_that_is_printed_is_the_output(brig, tmp_path):
    tools = [{"name": "t", "result": "stdout", "command": ["printf", "a\\nb"]},
             {"name": "b", "result": "stdout", "command": ["printf", "\\377"]},
             {"name": "f", "result": "stdout", "command": ["sh", "-c", "echo part; echo why >&2; exit 3"]}]
    path = write_tools(tmp_path, *tools)
    assert call(brig, path)["output"] == "a\nb"
    assert call(brig, path, "b")["output"] == {"encoding": "base64", "data": "/w=="}
    answer = call(brig, path, "f")
    assert (answer["ok"], answer["output"], answer["error"]) == (False, None, "the tool exited with 3; stderr ends with: why")


def test_cancelled_call_ends_its_tool(brig, tmp_path, marker):
    code = f'open({str(marker)!r}, "w").close(); import time; time.sleep(60)'
    process = brig.start("t", "--tools", write_tools(tmp_path, python_tool(code)), verb="call", cwd=tmp_path)
    assert wait_until(marker.exists, 20)
    process.terminate()
    out, _ = process.communicate(timeout=20 * SLOW)
    assert process.returncode == 143
    answer = json.loads(out)
    assert not answer["ok"] and answer["error"].startswith("cancelled: ")


# ---- what no guest rewrites --------------------------------------------------------------------

REWRITE = """
for f in tools.json bin/tool.sh bin/beside vars; do echo forged >$f; mv $f away; rm -f $f; done
mv bin z; rm -rf bin; mkdir bin; echo forged >bin/tool.sh; echo mine >mine; true
"""


@pytest.fixture(name="set_up")
def make_set_up(tmp_path):
    """A tool that lies below the work directory of another, and has the network."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tool.sh").write_text("#!/bin/sh\necho kept\n")
    (tmp_path / "bin" / "tool.sh").chmod(0o755)
    (tmp_path / "vars").write_text("A=kept\n")
    return write_tools(tmp_path, {"name": "trusted", "result": "stdout", "command": ["bin/tool.sh"], "network": "host",
                                  "env_file": ["vars"]},
                       {"name": "hostile", "result": "stdout", "command": ["/bin/sh", "-c", REWRITE]})


def test_review_e2_no_tool_rewrites_another(brig, tmp_path, set_up):
    assert call(brig, set_up, "hostile", cwd=tmp_path)["ok"]
    assert (tmp_path / "mine").read_text() == "mine\n"
    assert (tmp_path / "vars").read_text() == "A=kept\n"
    assert call(brig, set_up, "trusted", cwd=tmp_path)["output"] == "kept\n"


@pytest.mark.parametrize("command", [["./tool.sh"], ["/bin/sh", "tool.sh"], ["DIR/tool.sh"], ["/bin/sh", "-e", "DIR/tool.sh"],
                                     ["bin/link"], ["/shown/tool.sh"]])
@pytest.mark.parametrize("verb", ["call", "tools", "mcp"])
def test_review_e2_a_tool_right_in_a_work_directory_is_refused(brig, tmp_path, command, verb):
    """What it loads may lie beside it, and the guest may put it there."""
    (tmp_path / "tool.sh").write_text("#!/bin/sh\n")
    (tmp_path / "tool.sh").chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "link").symlink_to("../tool.sh")
    tool = {"name": "t", "command": [word.replace("DIR", str(tmp_path)) for word in command],
            "ro": [f"{tmp_path}:/shown"] if "/shown/tool.sh" in command else []}
    path = write_tools(tmp_path, tool)
    options = {"call": ["t", "--tools", path], "tools": [path], "mcp": ["--tools", path]}[verb]
    done = brig.run(*options, verb=verb, cwd=tmp_path)
    assert done.returncode == 125, done
    assert str(tmp_path).encode() in done.stderr and b"may write to" in done.stderr and b'"ro"' in done.stderr
    if verb != "mcp":  # whose run_command may write it all the same
        path = write_tools(tmp_path, {**tool, "ro": [".", *tool["ro"]]})
        assert brig.run(*options, verb=verb, cwd=tmp_path).returncode != 125


def program(path, text="#!/bin/sh\necho kept\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def refused(brig, tools, tmp_path, *named, env=None):
    """By each verb that has a tools file, with what it is about and the way out, and nothing is started."""
    for verb, options in (("call", ["t", "--tools", tools]), ("tools", [tools]), ("mcp", ["--tools", tools])):
        done = brig.run(*options, verb=verb, cwd=tmp_path, env=env)
        assert done.returncode == 125, (verb, done)
        assert all(text in done.stderr for text in (b"may write to", b'"ro"', *named)), (verb, done.stderr)


def with_path(*places):
    return {**os.environ, "PATH": ":".join(map(str, places))}


@pytest.mark.parametrize("named", ["tools.json", "c/real.json", "c/../x.json", "tools.json/"])
def test_review_e2_a_tools_file_by_a_link_that_a_guest_could_turn(brig, tmp_path_factory, named):
    outside, work = tmp_path_factory.mktemp("conf"), tmp_path_factory.mktemp("work")
    for name in ("real.json", "../x.json"):
        (outside / name).write_text(json.dumps({"tools": [{"name": "t", "result": "stdout", "command": ["/bin/echo", "kept"]}]}))
    (work / "tools.json").symlink_to(outside / "real.json")
    (work / "c").symlink_to(outside)
    if named.endswith("/"):
        assert brig.run("t", "--tools", named, verb="call", cwd=work).returncode in (2, 125)
        return
    refused(brig, named, work, b"is a symlink", str(work).encode())
    assert call(brig, outside / "real.json", cwd=work)["output"] == "kept\n"
    (outside / "link.json").symlink_to("real.json")
    assert call(brig, outside / "link.json", cwd=work)["output"] == "kept\n", "no guest writes there"


def test_review_e2_a_directory_that_is_left_again_stays_in_its_place(brig, tmp_path):
    """a/../tools.json is another file when a is a symlink."""
    (tmp_path / "a").mkdir()
    command = ["/bin/sh", "-c", "mv a z; rmdir a; echo mine >a/mine; ls -d a"]
    write_tools(tmp_path, {"name": "t", "result": "stdout", "command": command})
    assert call(brig, "a/../tools.json", cwd=tmp_path)["output"] == "a\n"
    assert (tmp_path / "a" / "mine").exists() and not (tmp_path / "z").exists()
    assert brig.run(tmp_path / ".." / tmp_path.name / "tools.json", verb="tools", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("key", [{"command": ["current/tool"]}, {"command": ["/bin/sh", "current/tool"]}, {"command": ["bin/by"]},
                                 {"command": ["/bin/true"], "env_file": ["current/vars"]}])
def test_review_e2_a_link_on_the_way_to_a_command_is_refused(brig, tmp_path, key):
    program(tmp_path / "releases" / "1" / "tool")
    (tmp_path / "releases" / "1" / "vars").write_text("A=1\n")
    (tmp_path / "current").symlink_to("releases/1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "by").symlink_to("../current/tool")
    tools = write_tools(tmp_path, {"name": "t", "result": "stdout", **key})
    refused(brig, tools, tmp_path, b"current: is a symlink")


def test_review_e2_a_link_in_a_directory_that_is_guarded_is_fine(brig, tmp_path):
    program(tmp_path / "releases" / "1" / "tool")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tool").symlink_to("../releases/1/tool")
    forge = "ln -sfn /bin/ls bin/tool; mv bin z; mv releases z; echo forged >releases/1/tool; touch releases/2; true"
    tools = write_tools(tmp_path, {"name": "t", "result": "stdout", "command": ["bin/tool"]},
                        {"name": "hostile", "result": "stdout", "command": ["/bin/sh", "-c", forge]})
    assert call(brig, tools, "hostile", cwd=tmp_path)["ok"]
    assert (tmp_path / "releases" / "2").exists()
    assert call(brig, tools, cwd=tmp_path)["output"] == "kept\n"


@pytest.mark.parametrize("how", ["caller", "relative", "empty", "own", "env", "interpreter"])
def test_review_e2_a_place_in_path_before_the_program(brig, tmp_path, how):
    """One that does not exist, or is all of the work directory, could be filled by a guest."""
    system = "/usr/bin:/bin"
    path, tool, named = f"{tmp_path}/bin:{system}", {"command": ["nl"]}, b"bin: does not exist"
    if how == "relative":
        path = f"bin:{system}"
    elif how == "empty":
        path, named = f":{system}", b"decides about"
    elif how == "own":
        path, tool = system, {"command": ["nl"], "env": {"PATH": f"{tmp_path}/bin:{system}"}}
    elif how == "env":
        tool = {"command": ["/usr/bin/env", "-u", "X", "nl"]}
    elif how == "interpreter":
        program(tmp_path / "tools" / "x", "#!/usr/bin/env nl\n")
        tool = {"command": ["tools/x"]}
    tools = write_tools(tmp_path, {"name": "t", "result": "stdout", **tool})
    refused(brig, tools, tmp_path, named, env=with_path(path))
    tools = write_tools(tmp_path, {"name": "t", "result": "stdout", **tool, "env": {"PATH": system}})
    assert brig.run(tools, verb="tools", cwd=tmp_path, env=with_path(path)).returncode == 0


@pytest.mark.parametrize("how", ["search", "script"])
def test_review_e2_a_place_in_path_that_exists_is_read_only(brig, tmp_path, how):
    """Also for the interpreter that env looks up, and where the program comes from behind it."""
    (tmp_path / "first").mkdir()
    program(tmp_path / ".venv" / "bin" / "pyt")
    program(tmp_path / "tools" / "x", "#!/usr/bin/env pyt\n")
    forge = "for d in first .venv/bin; do echo forged >$d/pyt; mv $d z; done; mv .venv z; echo mine >mine"
    tools = write_tools(tmp_path, {"name": "t", "result": "stdout", "command": ["pyt" if how == "search" else "tools/x"]},
                        {"name": "hostile", "result": "stdout", "command": ["/bin/sh", "-c", forge]})
    env = with_path("first", tmp_path / ".venv" / "bin", "/usr/bin", "/bin")
    assert call(brig, tools, "hostile", cwd=tmp_path, env=env)["ok"]
    assert (tmp_path / "mine").exists() and not list((tmp_path / "first").iterdir())
    assert call(brig, tools, cwd=tmp_path, env=env)["output"] == "kept\n"


@pytest.mark.parametrize("words", [["--opt=conf/c.ini"], ["-oconf/c.ini"], ["@conf/c.ini"], ["--a=b=conf/c.ini"], []])
def test_review_e2_a_file_that_an_option_names(brig, tmp_path, words):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "c.ini").write_text("kept\n")
    forge = "echo forged >conf/c.ini; mv conf z; rm -rf conf; echo mine >mine"
    tools = write_tools(tmp_path, {"name": "t", "result": "stdout", "command": ["/bin/echo", *words], "env": {"CONF": "conf/c.ini"} if not words else {}},
                        {"name": "hostile", "result": "stdout", "command": ["/bin/sh", "-c", forge]})
    assert call(brig, tools, "hostile", cwd=tmp_path)["ok"]
    assert (tmp_path / "mine").exists() and (tmp_path / "conf" / "c.ini").read_text() == "kept\n"


def test_review_e2_a_venv_that_runs_a_tool_is_read_only(brig, tmp_path):
    """What is put into its lib runs with the next call."""
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", tmp_path / ".venv"], check=True)
    forge = ("for d in .venv/lib/python3*/site-packages; do echo 'print(\"forged\")' >$d/sitecustomize.py; done;"
             "echo home = /tmp >.venv/pyvenv.cfg; mv .venv z; echo mine >mine")
    tools = write_tools(tmp_path, {"name": "t", "result": "stdout", "command": [".venv/bin/python3", "-c", "print('kept')"]},
                        {"name": "hostile", "result": "stdout", "command": ["/bin/sh", "-c", forge]})
    assert call(brig, tools, "hostile", cwd=tmp_path)["ok"] and (tmp_path / "mine").exists()
    assert call(brig, tools, cwd=tmp_path)["output"] == "kept\n"


@pytest.mark.parametrize("shown", ["tool.sh:/shown/tool.sh", "./tool.sh:/shown/tool.sh"])
def test_review_e2_a_file_that_is_shown_elsewhere_by_a_relative_path(brig, tmp_path, shown):
    program(tmp_path / "tool.sh")
    tools = write_tools(tmp_path, {"name": "t", "result": "stdout", "command": ["/shown/tool.sh"], "ro": [shown]})
    refused(brig, tools, tmp_path, str(tmp_path).encode())


def test_review_e2_what_does_not_exist_yet_is_no_guests_to_make(brig, tmp_path):
    for key in ({"command": ["./tool"]}, {"command": ["/bin/true"], "env_file": ["vars"]}):
        tools = write_tools(tmp_path, {"name": "t", "result": "stdout", **key})
        refused(brig, tools, tmp_path, str(tmp_path).encode())
