# SPDX-License-Identifier: MIT
"""brig.dropin.amplifier: each test cites its row of the request."""
import asyncio
import inspect
import json
import logging
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from conftest import system

import brig
from brig.dropin import _amplifier_runner, amplifier
from brig.dropin.amplifier import (
    RESULT_END_MARKER,
    RESULT_START_MARKER,
    build_child_env,
    configure_session_command,
    configure_session_factory,
    configure_subprocess_limit,
    deserialize_subprocess_config,
    extract_framed_result,
    run_session_in_subprocess,
    sanitize_error,
    serialize_subprocess_config,
)

# A session that does what its prompt says, and writes down the order in which it was called.
APPLICATION = '''
import asyncio, json, os, subprocess, sys, threading, time

class Session:
    def __init__(self, request):
        self.request, self.calls = request, ["new"]

    async def initialize(self):
        self.calls.append("initialize")
        if self.request["config"].get("fail") == "initialize":
            raise OSError("no such model")

    async def execute(self, prompt):
        self.calls.append("execute")
        return await asyncio.to_thread(eval, prompt, {**globals(), "self": self})

    async def cleanup(self):
        self.calls.append("cleanup")
        with open("calls", "w") as file:
            file.write(" ".join(self.calls))
        if self.request["config"].get("fail") == "cleanup":
            raise OSError("it is in use")

def exits(code):
    os._exit(code)

def raises(error):
    raise error

class Mute(Exception):
    def __str__(self):
        raise ValueError("no words")
'''


@pytest.fixture
def app(guest, tmp_path, monkeypatch):
    """A project, and an application beside it whose session class is used."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "app.py").write_text(APPLICATION)
    (tmp_path / "project").mkdir()
    monkeypatch.setitem(amplifier.SETTINGS, "env", guest["env"])
    monkeypatch.setattr(amplifier, "_pool", brig.Pool(4))
    monkeypatch.setattr(amplifier, "_semaphore_configured", False)
    configure_session_factory("app:Session")
    yield tmp_path
    configure_session_factory(None)


def session(app, prompt="'hello'", config=None, **kw):
    """The coroutine of one session of the application."""
    return run_session_in_subprocess(config or {}, prompt, "parent-1", str(app / "project"),
                                     **{"sys_paths": [str(app / "lib")], "timeout": 30, **kw})


def run(app, prompt="'hello'", config=None, **kw):
    return json.loads(asyncio.run(session(app, prompt, config, **kw)))


def fails(kind, app, prompt, **kw):
    with pytest.raises(kind) as caught:
        run(app, prompt, **kw)
    return str(caught.value)


def runner(app, data, factory="app:Session", **env):
    """The child's side alone, by a bare interpreter, without brig."""
    return subprocess.run([sys.executable, "-I", _amplifier_runner.__file__, factory], input=data, text=True,
                          capture_output=True, timeout=30, check=False, cwd=app, env={**os.environ, **env})


def a_config(app, prompt="'hello'", **kw):
    fields = {"config": {}, "prompt": prompt, "parent_id": "p", "project_path": str(app / "project"),
              "sys_paths": [str(app / "lib")], **kw}
    return serialize_subprocess_config(**fields)


# ---- run_session_in_subprocess ----


def test_row_signature():
    """async run_session_in_subprocess(config, prompt, parent_id, project_path, session_id=None, timeout=1800,
    module_paths=None, bundle_package_paths=None, sys_paths=None, mention_mappings=None) -> str"""
    assert inspect.iscoroutinefunction(run_session_in_subprocess)
    shown = {name: p.default for name, p in inspect.signature(run_session_in_subprocess).parameters.items()}
    none = inspect.Parameter.empty
    assert shown == {"config": none, "prompt": none, "parent_id": none, "project_path": none, "session_id": None,
                     "timeout": 1800, "module_paths": None, "bundle_package_paths": None, "sys_paths": None,
                     "mention_mappings": None}
    assert list(shown)[4:6] == ["session_id", "timeout"]


def test_row_entry_point_is_pluggable(app):
    """The child's entry point is pluggable (the session class is the application's)"""
    answer = run(app, "[self.request[k] for k in ('prompt', 'parent_id', 'session_id', 'config')]",
                 {"model": "none"}, session_id="s-1")
    assert answer["output"][1:] == ["parent-1", "s-1", {"model": "none"}]
    for wrong in ("app", ":Session", "app:"):
        with pytest.raises(ValueError, match="package.module:attribute"):
            configure_session_factory(wrong)
    configure_session_factory("app:Missing")
    answer = run(app)
    assert answer["status"] == "error" and "has no attribute 'Missing'" in answer["error"]


def test_row_without_a_factory_it_is_amplifiers_own_class(app):
    """The child's entry point: amplifier's session class, found by its name, unless one is configured"""
    for package, text in {"amplifier_core": """
            from app import Session
            class Coordinator:
                def __init__(self):
                    self.known = {}
                async def mount(self, name, value):
                    self.known[name] = {n: str(p) for n, p in value.paths.items()}
                def register_capability(self, name, value):
                    self.known[name] = value
            class AmplifierSession(Session):
                def __init__(self, config, parent_id, session_id):
                    super().__init__({"config": config, "parent_id": parent_id, "session_id": session_id})
                    self.coordinator = Coordinator()
            """, "amplifier_foundation/bundle": """
            class BundleModuleResolver:
                def __init__(self, paths):
                    self.paths = paths
            """}.items():
        path = app / "lib" / f"{package}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text))
    configure_session_factory(None)
    module = app / "tool-shell"
    module.mkdir()
    known = run(app, "self.coordinator.known", module_paths={"tool-shell": str(module)})["output"]
    assert known.pop("execution.input.v1")["origin"] == "delegation"
    assert known == {"module-source-resolver": {"tool-shell": str(module)},
                     "session.working_dir": str(app / "project"), "self_delegation_depth": 0}
    (app / "lib" / "amplifier_core.py").unlink()
    assert "No module named 'amplifier_core'" in run(app)["error"]


@pytest.mark.parametrize(("prompt", "config", "calls"), [
    ("1", {}, "new initialize execute cleanup"),
    ("raises(KeyError('x'))", {}, "new initialize execute cleanup"),
    ("1", {"fail": "initialize"}, "new initialize cleanup"),
    ("sys.exit(0)", {}, "new initialize execute cleanup"),
], ids=["success", "error", "no initialize", "sys.exit"])
def test_row_cleanup_in_every_case(app, prompt, config, calls):
    """a child runner calls initialize, execute, then cleanup in every case"""
    answer = run(app, prompt, config)
    assert (app / "project" / "calls").read_text() == calls
    assert answer["status"] == ("success" if prompt == "1" and not config else "error")


def test_row_cleanup_at_a_timeout_and_its_failure_does_not_cost_the_answer(app):
    """cleanup in every case: after SIGTERM there is the time of kill_after for it"""
    fails(TimeoutError, app, "time.sleep(60)", timeout=2)
    assert (app / "project" / "calls").read_text() == "new initialize execute cleanup"
    answer = run(app, "'the answer'", {"fail": "cleanup"})
    assert (answer["output"], answer["status"]) == ("the answer", "success")
    assert "it is in use" in answer["metadata"]["cleanup_error"]


# ---- the configuration ----


def test_row_serialize_and_deserialize():
    """serialize_subprocess_config(...) -> str, deserialize_subprocess_config(str) -> dict"""
    fields = {"config": {"a": [1, None]}, "prompt": "p ü", "parent_id": "x", "project_path": "/p", "session_id": "s",
              "module_paths": {"m": "/m"}, "bundle_package_paths": ["/b"], "sys_paths": ["/s"],
              "mention_mappings": {"n": "/n"}}
    text = serialize_subprocess_config(**fields)
    assert isinstance(text, str) and deserialize_subprocess_config(text) == fields


def test_row_missing_keys_are_named():
    """required config, prompt, parent_id, project_path, else ValueError "Subprocess config is missing required
    keys: [...]" """
    with pytest.raises(ValueError, match=r"^Subprocess config is missing required keys: \['prompt', 'project_path'\]$"):
        deserialize_subprocess_config('{"config": {}, "parent_id": "p"}')
    with pytest.raises(ValueError, match="no object"):
        deserialize_subprocess_config("[]")


def test_row_bad_json():
    """bad JSON raises JSONDecodeError"""
    with pytest.raises(json.JSONDecodeError):
        deserialize_subprocess_config("{")


def test_row_optional_ones_default():
    """optional ones default to {} or []"""
    got = deserialize_subprocess_config('{"config": {}, "prompt": "", "parent_id": "p", "project_path": "/"}')
    assert (got["module_paths"], got["bundle_package_paths"], got["sys_paths"]) == ({}, [], [])
    assert got["mention_mappings"] == {} and got["session_id"] is None
    assert deserialize_subprocess_config(serialize_subprocess_config({}, "", "p", "/")) == got


def test_row_configuration_is_on_no_disk(app):
    """Configuration file 0600, removed in every case; none on disk is better"""
    secret = "config-value-5b1f"
    (app / "lib" / "look.py").write_text(
        "import os, subprocess\n"
        "class Look:\n"
        "    def __init__(self, request): self.secret = request['config']['value']\n"
        "    def initialize(self): pass\n"
        "    def cleanup(self): pass\n"
        "    def execute(self, prompt):\n"
        "        found = subprocess.run(['grep', '-rlsf', '-', '/tmp', '/home', '/proc/%d/cmdline' % os.getpid()],\n"
        "                               input=self.secret, text=True, capture_output=True)\n"
        "        return [self.secret, found.stdout, os.readlink('/proc/self/fd/0')]\n")
    configure_session_factory("look:Look")
    got, found, stdin = run(app, "", {"value": secret})["output"]
    assert (got, found) == (secret, "") and stdin.startswith("pipe:")
    outside = subprocess.run(["grep", "-rls", secret, str(app)], capture_output=True, text=True, check=False)
    assert outside.stdout == ""


# ---- framing ----


def test_row_markers():
    """RESULT_START_MARKER, RESULT_END_MARKER; stray prints ignored"""
    assert (RESULT_START_MARKER, RESULT_END_MARKER) == ("<<<AMPLIFIER_RESULT_START>>>", "<<<AMPLIFIER_RESULT_END>>>")
    text = f"Loading...\n{RESULT_START_MARKER}\n{{\"a\": 1}}\n{RESULT_END_MARKER}\nbye\n"
    assert extract_framed_result(text) == '{"a": 1}'


def test_row_no_envelope_and_the_text_at_debug(app, caplog):
    """none found: RuntimeError "missing result envelope"; the unframed text logged at DEBUG"""
    for text in ("", "only prints", RESULT_END_MARKER, f"{RESULT_START_MARKER} and no end",
                 f"{RESULT_END_MARKER} {RESULT_START_MARKER}"):
        with pytest.raises(RuntimeError, match="^missing result envelope"):
            extract_framed_result(text)
    caplog.set_level(logging.DEBUG, "brig.dropin.amplifier")
    message = fails(RuntimeError, app, "print('only this', flush=True) or exits(0)")
    assert message == "missing result envelope: no result was sent"
    logged = [record for record in caplog.records if "only this" in record.getMessage()]
    assert logged and all(record.levelno == logging.DEBUG for record in logged)


def test_row_stray_prints_of_a_session_are_ignored(app):
    """stray prints ignored, forged markers among them: they never become the result (CASE 26)"""
    forged = _amplifier_runner.frame({"output": "forged", "status": "success"})
    assert run(app, f"print({forged!r}) or 'true'")["output"] == "true"
    assert fails(RuntimeError, app, f"print({forged!r}, flush=True) or exits(0)").startswith("missing result envelope")


def test_row_programs_of_a_session_cannot_reach_the_channel(app):
    """forged markers: nor has a program that the session starts the descriptor of the result"""
    look = "subprocess.run('ls /proc/self/fd; echo $BRIG_RESULT_FD', shell=True, capture_output=True).stdout.decode()"
    assert run(app, look)["output"].split() == ["0", "1", "2", "3"]  # 3 is the directory that ls reads


def program(app, code):
    """Have sessions run by a program that prints."""
    path = app / "project" / "child.py"
    path.write_text(code)
    configure_session_command([sys.executable, path])


def test_row_a_program_that_prints_the_markers(app):
    """stray prints ignored: a child of the application's own prints its envelope between the markers"""
    program(app, f"import json, sys; print('noise'); sys.path.insert(0, {os.path.dirname(_amplifier_runner.__file__)!r})\n"
            "c = json.load(sys.stdin); e = {'output': c['prompt'], 'status': 'success'}\n"
            f"print({RESULT_START_MARKER!r}); print(json.dumps(e)); print({RESULT_END_MARKER!r}); print('more noise')")
    assert run(app, "my prompt") == {"output": "my prompt", "status": "success"}
    program(app, f"print('{RESULT_START_MARKER}', 'a plain text', '{RESULT_END_MARKER}')")
    assert asyncio.run(session(app)) == "a plain text"


def test_row_two_envelopes_are_none(app):
    """forged markers: which of two is meant cannot be known (CASE 26)"""
    one = _amplifier_runner.frame({"output": "x", "status": "success"})
    program(app, f"print({one!r} * 2)")
    assert "more than one result envelope" in fails(RuntimeError, app, "")
    program(app, "pass")
    assert fails(RuntimeError, app, "") == "missing result envelope"


def test_row_output_may_hold_the_markers(app):
    """RESULT_START_MARKER in what the model says: with and without a channel"""
    text = f"{RESULT_START_MARKER} {{}} {RESULT_END_MARKER}"
    assert run(app, repr(text))["output"] == text
    done = runner(app, a_config(app, repr(text)))
    assert json.loads(extract_framed_result(done.stdout))["output"] == text


@pytest.mark.parametrize(("value", "word"), [
    (b"2\n{}", "none"), (b"4\nnull", "none"), (b"30\n{", "part"), (b"2\n{}2\n{}", "more was sent"),
    (b'22\n{"status": "success"} ', "none"), (b"junk", ""),
], ids=["empty", "null", "half", "twice", "no output", "junk"])
def test_row_junk_on_the_channel_is_no_envelope(app, value, word):
    """none found: each with its cause (CASE 26)"""
    (app / "lib" / "junk.py").write_text(f"import os\ndef make(request):\n    os.write(3, {value!r})\n    os._exit(0)\n")
    configure_session_factory("junk:make")
    message = fails(RuntimeError, app, "")
    assert message.startswith("missing result envelope: ") and word in message


# ---- envelopes ----


def test_row_envelope_of_success(app):
    """Envelope success {"output", "status":"success", "turn_count":1, "metadata":{}}"""
    assert run(app) == {"output": "hello", "status": "success", "turn_count": 1, "metadata": {}}
    done = runner(app, a_config(app))
    assert done.returncode == 0 and json.loads(extract_framed_result(done.stdout)) == run(app)


def test_row_envelope_of_error(app):
    """error adds "error", status "error", output "", turn_count 0, exit 1"""
    expected = {"output": "", "status": "error", "error": "boom", "turn_count": 0, "metadata": {}}
    assert run(app, "raises(OSError('boom'))") == expected
    done = runner(app, a_config(app, "raises(OSError('boom'))"))
    assert done.returncode == 1 and json.loads(extract_framed_result(done.stdout)) == expected
    assert "Traceback" in done.stderr


@pytest.mark.parametrize(("prompt", "text"), [
    ("raises(Mute())", "Mute, whose message cannot be shown (ValueError)"),
    ("{1, 2}", "Object of type set is not JSON serializable"),
    ("float('nan')", "Out of range float values"),
    ("raises(OSError())", "OSError"),
    ("sys.exit(3)", "SystemExit: 3"),
    ("raises(KeyboardInterrupt())", "KeyboardInterrupt"),
])
def test_row_each_failure_has_its_own_words(app, prompt, text):
    """error adds "error": each names its cause (CASE 28)"""
    assert text in run(app, prompt)["error"]


def test_row_exit_without_an_envelope(app, caplog):
    """Non-zero exit without an envelope: RuntimeError "Subprocess session failed (exit code N): …" sanitised; full
    stderr at DEBUG only"""
    caplog.set_level(logging.DEBUG, "brig.dropin.amplifier")
    message = fails(RuntimeError, app, "print('bad token=abc123', file=sys.stderr, flush=True) or exits(3)")
    assert message.startswith("Subprocess session failed (exit code 3): bad [REDACTED]") and "abc123" not in message
    leaks = [record for record in caplog.records if "abc123" in record.getMessage()]
    assert leaks and all(record.levelno == logging.DEBUG for record in leaks)
    assert "(exit code -11)" in fails(RuntimeError, app, "os.kill(os.getpid(), 11)")
    message = fails(RuntimeError, app, "print('x' * 10**6, file=sys.stderr, flush=True) or exits(4)")
    assert "(exit code 4)" in message and len(message) < 10000


def test_row_limit_is_named(app, monkeypatch):
    """Non-zero exit without an envelope: a limit is named, by the kernel's word (CASE 18)"""
    monkeypatch.setitem(amplifier.SETTINGS, "memory", "100M")
    message = fails(RuntimeError, app, "bytearray(300 << 20)")
    assert message.startswith("Subprocess session failed (exit code -9): ") and "memory" in message


def test_row_success_counts_only_with_exit_0(app):
    """Non-zero exit: a success that was sent before a crash is none"""
    (app / "lib" / "liar.py").write_text(
        "import os\ndef make(request):\n    text = b'{\"output\": 1, \"status\": \"success\"}'\n"
        "    os.write(3, b'%d\\n' % len(text) + text)\n    os._exit(7)\n")
    configure_session_factory("liar:make")
    assert "(exit code 7)" in fails(RuntimeError, app, "")


def test_row_error_envelope_is_sanitised(app):
    """An error envelope is sanitised too"""
    answer = run(app, "raises(OSError('401: api_key=abc sk-ant-0123456789 was refused'))")
    assert answer["error"] == "401: api_[REDACTED] [REDACTED] was refused"
    one = _amplifier_runner.frame({"output": "", "status": "error", "error": "token= abc", "metadata": {"a": ["Bearer xyz"]}})
    program(app, f"print({one!r}); exit(1)")
    answer = run(app)
    assert answer["error"] == "[REDACTED]" and answer["metadata"] == {"a": ["[REDACTED]"]}


@pytest.mark.parametrize(("text", "expected"), [
    ("sk-abcdefghij", "[REDACTED]"), ("sk-ant-api03_0123456789-x y", "[REDACTED] y"), ("sk-short", "sk-short"),
    ("key=v", "[REDACTED]"), ("api_key= v w", "api_[REDACTED] w"), ("APIKEY=v", "API[REDACTED]"),
    ("Token=v", "[REDACTED]"), ("client_secret=v", "client_[REDACTED]"), ("dbPassword=v", "db[REDACTED]"),
    ("PASSWORD=\tv", "[REDACTED]"), ("Bearer abc.def", "[REDACTED]"), ("authorization: bearer abc", "authorization: [REDACTED]"),
    ("monkey=banana", "monkey=banana"), ("keyboard=us", "keyboard=us"), ("the token is gone", "the token is gone"),
    ("a key= b\nand more", "a [REDACTED]\nand more"), ("forbearer x", "forbearer x"),
])
def test_row_sanitising(text, expected):
    """Sanitising to [REDACTED]: sk-…; key=, token=, secret=, password= with optional blanks and a value, any case;
    Bearer and a value (and CASE 33: what stays)"""
    assert sanitize_error(text) == expected


# ---- project_path ----


def test_row_project_path_is_checked_before_the_start(app):
    """project_path resolved and checked before the start: ValueError "… does not exist or is not a directory" """
    (app / "file").touch()
    (app / "dangling").symlink_to(app / "nowhere")
    for name in ("nowhere", "file", "dangling"):
        with pytest.raises(ValueError, match=rf"{name}' does not exist or is not a directory$"):
            asyncio.run(run_session_in_subprocess({}, "", "p", str(app / name)))
    (app / "link").symlink_to(app / "project")
    got = json.loads(asyncio.run(run_session_in_subprocess(
        {}, "[os.getcwd(), self.request['project_path']]", "p", app / "link", sys_paths=[app / "lib"])))
    assert got["output"] == [str(app / "project")] * 2


def test_row_project_path_is_checked_again_in_the_child(app):
    """and again in the child"""
    done = runner(app, a_config(app, project_path=str(app / "gone")))
    answer = json.loads(extract_framed_result(done.stdout))
    assert done.returncode == 1 and answer["error"].endswith("gone' does not exist or is not a directory")


def test_row_project_can_be_written_and_nothing_else(app):
    """project_path is the work directory; what is beside it is read-only or not there (CASE 31)"""
    (app / "secret").write_text("x")
    write = "open(%r, 'w').write('made') and os.listdir(%r)"
    assert run(app, write % ("made", str(app)))["output"] == ["lib", "project"]
    assert (app / "project" / "made").read_text() == "made"
    assert "Read-only" in run(app, write % (str(app / "lib" / "made"), "/"))["error"]


# ---- so many at once ----


def test_row_at_most_4_at_once(app):
    """At most 4 at once"""
    assert amplifier.DEFAULT_MAX_SUBPROCESS == amplifier._pool.max_concurrent == 4

    async def many():
        most = []
        async def watch():
            while True:
                most.append(amplifier._pool.running)
                await asyncio.sleep(0.01)
        watcher = asyncio.create_task(watch())
        await asyncio.gather(*(session(app, "time.sleep(0.2)") for _ in range(7)))
        watcher.cancel()
        return max(most)
    assert asyncio.run(many()) == 4


def test_row_configure_subprocess_limit(app):
    """configure_subprocess_limit(n): same value again is fine, another raises RuntimeError "already configured" """
    configure_subprocess_limit(2)
    configure_subprocess_limit(2)
    with pytest.raises(RuntimeError, match="already configured"):
        configure_subprocess_limit(3)
    assert amplifier._pool.max_concurrent == 2


def test_row_configure_subprocess_limit_refuses_nonsense(app):
    """configure_subprocess_limit(n): 0 is none, and does not count as configured"""
    with pytest.raises(ValueError, match="less than 1"):
        configure_subprocess_limit(0)
    configure_subprocess_limit(5)
    assert amplifier._pool.max_concurrent == 5


# ---- the end ----


def test_row_timeout_kills_the_whole_tree(app, alive):
    """Timeout: TimeoutError "Subprocess session timed out after Ns"; the whole tree killed"""
    began = time.monotonic()
    tree = "subprocess.Popen(['setsid', 'sh', '-c', \"trap '' TERM; sleep 60 & wait\"]) and time.sleep(60)"
    assert fails(TimeoutError, app, tree, timeout=1) == "Subprocess session timed out after 1s"
    assert alive() == 0 and time.monotonic() - began < 6 * system.SLOW


def test_row_waiting_does_not_count(app):
    """timeout=1800: that of the session, not of the line before it (CASE 24)"""
    configure_subprocess_limit(1)

    async def two():
        return await asyncio.gather(*(session(app, "time.sleep(1.2)", timeout=2 * system.SLOW) for _ in range(3)))
    assert len(asyncio.run(two())) == 3


def test_row_cancellation_kills_the_whole_tree(app, alive):
    """the whole tree killed, also on cancellation"""
    async def cancelled():
        task = asyncio.create_task(session(app, "subprocess.run(['sleep', '60'])"))
        while alive() < 2 + system.INITS_SEEN:
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert alive() == 0
    asyncio.run(cancelled())


def test_row_a_thread_left_behind_does_not_hold_the_answer(app):
    """the whole tree killed: what a session leaves behind ends with it"""
    began = time.monotonic()
    left = "[threading.Thread(target=time.sleep, args=(60,)).start(), subprocess.Popen(['sleep', '60']).pid] and 'x'"
    assert run(app, left)["output"] == "x" and time.monotonic() - began < 10 * system.SLOW


# ---- environment ----

PASSED = ("PATH USER LANG LC_ALL TERM SHELL VIRTUAL_ENV CONDA_DEFAULT_ENV HTTP_PROXY https_proxy no_proxy AMPLIFIER_X "
          "ANTHROPIC_API_KEY OPENAI_API_KEY AZURE_X GOOGLE_X AWS_X GITHUB_TOKEN GH_TOKEN").split()
FOLDERS = "HOME TMPDIR TMP TEMP XDG_CONFIG_HOME XDG_DATA_HOME XDG_CACHE_HOME XDG_STATE_HOME".split()
BUNDLES = "SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS".split()
DROPPED = "DATABASE_URL SECRET MY_OPENAI_KEY LD_PRELOAD_X XDG_RUNTIME_DIR XDG_HOME PYTHONSTARTUP SSH_AUTH_SOCK".split()


@pytest.fixture
def variables(app, monkeypatch):
    for name in (*PASSED, *FOLDERS, *BUNDLES, *DROPPED):
        if name != "PATH":
            monkeypatch.setenv(name, f"of-{name}")
    return app


def test_row_environment_by_allow_list(variables):
    """Environment by allow-list: PATH HOME USER … and the prefixes; PYTHONUTF8=1, PYTHONIOENCODING=utf-8"""
    os.environ["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")
    env = build_child_env()
    assert {*PASSED, *FOLDERS, *BUNDLES, "PYTHONPATH"} <= set(env) and not {*DROPPED} & set(env)
    assert (env["PYTHONUTF8"], env["PYTHONIOENCODING"], env["OPENAI_API_KEY"]) == ("1", "utf-8", "of-OPENAI_API_KEY")


def test_row_environment_in_the_child(variables):
    """Environment by allow-list: what a session really has; directories of the caller's are the cell's (CASE 31)"""
    env = run(variables, "dict(os.environ)")["output"]
    assert {*PASSED, *BUNDLES} <= set(env) and not {*DROPPED} & set(env)
    assert env["PYTHONUTF8"] == "1" and env["HOME"] != "of-HOME" and "XDG_DATA_HOME" not in env
    assert "BRIG_RESULT_FD" not in env


def test_row_certificates_and_homes_that_are_shown(app, monkeypatch):
    """Environment by allow-list: certificate bundles can be read, and XDG_*_HOME is there if it is shown"""
    (app / "ca.pem").write_text("certificate")
    (app / "config").mkdir()
    monkeypatch.setenv("SSL_CERT_FILE", str(app / "ca.pem"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(app / "config"))
    monkeypatch.setitem(amplifier.SETTINGS, "rw", app / "config")
    got = run(app, "[open(os.environ['SSL_CERT_FILE']).read(), os.environ['XDG_CONFIG_HOME']]")
    assert got["output"] == ["certificate", str(app / "config")]


def test_row_network_is_a_setting(app, monkeypatch):
    """sessions call model APIs: the network is the host's, unless SETTINGS say otherwise"""
    look = "open('/proc/net/dev').read().count(':')"
    with open("/proc/net/dev", encoding="ascii") as file:
        assert amplifier.SETTINGS["network"] == "host" and run(app, look)["output"] == file.read().count(":")
    monkeypatch.setitem(amplifier.SETTINGS, "network", "none")
    assert run(app, look)["output"] == 1


# ---- paths ----


def test_row_sys_paths_before_initialize(app):
    """sys_paths are on sys.path before initialize, as in the original the last first (N5); each is shown read-only"""
    for name in ("one", "two", "bundle", "module", "mention"):
        (app / name).mkdir()
        (app / name / "which.py").write_text(f"NAME = {name!r}")
    got = run(app, "[__import__('which').NAME, sys.path[:5], [os.access(p, os.W_OK) for p in sys.path[:5]], "
              "os.listdir(self.request['module_paths']['m']), os.listdir(self.request['mention_mappings']['n'])]",
              sys_paths=["", str(app / "one"), app / "two", str(app / "lib"), str(app / "missing.zip")],
              bundle_package_paths=[str(app / "bundle")], module_paths={"m": str(app / "module")},
              mention_mappings={"n": str(app / "mention")})["output"]
    assert got[0] == "bundle" and got[1] == [str(app / name) for name in ("bundle", "missing.zip", "lib", "two", "one")]
    assert got[2] == [False] * 5 and got[3] == got[4] == ["which.py"]


def test_row_sys_paths_inside_of_the_project_stay_writable(app):
    """sys_paths in the project: the session may still edit them"""
    source = app / "project" / "src"
    source.mkdir()
    got = run(app, "os.access(self.request['sys_paths'][0], os.W_OK)", sys_paths=[str(source), str(app / "lib")])
    assert got["output"] is True


def test_row_sys_paths_that_are_links(app, monkeypatch):
    """sys_paths: a link of the caller's is followed; one in the project, which a guest may have made, is not"""
    (app / "linked").symlink_to(app / "lib")
    (app / "secret").mkdir()
    (app / "project" / "src").symlink_to(app / "secret")
    monkeypatch.setenv("PYTHONPATH", str(app / "linked"))
    got = run(app, "[self.request['sys_paths'], os.path.exists(self.request['sys_paths'][1]), os.environ['PYTHONPATH']]",
              sys_paths=[app / "linked", app / "project" / "src"])["output"]
    assert got == [[str(app / "lib"), str(app / "project" / "src")], False, str(app / "lib")]
    (app / "a:b").mkdir()
    with pytest.raises(ValueError, match="colon"):
        run(app, "1", sys_paths=[str(app / "a:b")])


# ---- memory ----


def resident():
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) >> 10


@pytest.mark.measured
@pytest.mark.timeout(600)
def test_row_waves_of_sessions_leave_the_parent_flat(app):
    """All memory is the system's again on exit: 20 waves of 4 sessions of 300 MB leave the parent flat

    BRIG_TEST_WAVES=20x300 is the row; without it, fewer and smaller ones.
    """
    waves, megabytes = map(int, os.environ.get("BRIG_TEST_WAVES", "4x60").split("x"))
    held = f"len(bytearray(b'x') * ({megabytes} << 20)) >> 20"

    async def wave():
        answers = await asyncio.gather(*(session(app, held, timeout=120) for _ in range(4)))
        assert [json.loads(answer)["output"] for answer in answers] == [megabytes] * 4
    asyncio.run(wave())
    before = resident()
    for _ in range(waves):
        asyncio.run(wave())
    after = resident()
    print(f"{waves} waves of 4 sessions of {megabytes} MB: parent {before} MB before, {after} MB after")
    assert after - before < 8


def test_runner_needs_nothing_but_the_standard_library(app):
    """The child runner is a file that a bare interpreter runs."""
    with open(_amplifier_runner.__file__, encoding="utf-8") as file:
        text = file.read()
    names = {line.split()[1].split(".")[0] for line in text.splitlines() if line.startswith(("import ", "from "))}
    assert names <= set(sys.stdlib_module_names), names


def test_runner_ends_by_sigterm_with_cleanup(app):
    """SIGTERM of whoever runs it by hand: cleanup() is called there, too."""
    child = subprocess.Popen([sys.executable, _amplifier_runner.__file__, "app:Session"], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=app)
    child.stdin.write(a_config(app, "open('up', 'w').close() or time.sleep(60)"))
    child.stdin.close()
    assert system.wait_until(lambda: (app / "project" / "up").exists(), 10)
    child.send_signal(signal.SIGTERM)
    assert child.wait(10) == 1 and (app / "project" / "calls").read_text().endswith("cleanup")
    assert "CancelledError" in child.stdout.read()
    child.stdout.close()
