# SPDX-License-Identifier: MIT
"""brig.dropin.amplifier: the child does what the original's does (review row N5)."""
import json
import os
import subprocess
import sys
import textwrap
import venv

import pytest
from conftest import PACKAGE
from test_dropin_amplifier import a_config, app, run  # noqa: F401 (app is a fixture)

from brig.dropin.amplifier import configure_session_factory

# As much of amplifier's packages as a session in a child sees.
AMPLIFIER = {
    "amplifier_core.py": """
        from app import Session
        class Coordinator:
            def __init__(self):
                self.calls, self.known = [], {}
            async def mount(self, name, value):
                self.known[name] = value
                self.calls.append(name)
            def register_capability(self, name, value):
                self.known[name] = value
                self.calls.append(name)
            def get_capability(self, name):
                return self.known.get(name)
        class AmplifierSession(Session):
            def __init__(self, config, parent_id, session_id):
                super().__init__({"config": config})
                self.coordinator = Coordinator()
            async def initialize(self):
                self.coordinator.calls.append("initialize")
            async def execute(self, prompt):
                if not prompt.startswith("return "):
                    return prompt
                return eval(prompt[7:], {"known": self.coordinator.known, "calls": self.coordinator.calls})
    """,
    "amplifier_foundation/bundle.py": """
        class BundleModuleResolver:
            def __init__(self, paths):
                self.paths = {name: str(path) for name, path in paths.items()}
    """,
    "amplifier_foundation/mentions.py": """
        import re
        class ContentDeduplicator:
            pass
        class BaseMentionResolver:
            def __init__(self, bundles, base_path):
                self.bundles, self.base_path = bundles, base_path
            def resolve(self, mention):
                name, _, path = mention[1:].partition(":")
                return self.bundles[name].resolve_context_path(path) if name in self.bundles else None
        async def expand_mentions_in_instruction(text, *, resolver, deduplicator, relative_to):
            assert type(deduplicator) is ContentDeduplicator and relative_to.is_dir()
            found = [resolver.resolve(mention) for mention in re.findall(r"@\\S+", text)]
            return "".join(path.read_text() for path in found if path) + text
    """,
}
APPLICATION_OF_AMPLIFIER = {
    "amplifier_app_cli/lib/bundle_loader.py": """
        class AppModuleResolver:
            def __init__(self, bundle_resolver, settings_resolver):
                self.bundle_resolver, self.settings_resolver = bundle_resolver, settings_resolver
    """,
    "amplifier_app_cli/paths.py": "def create_foundation_resolver():\n    return 'of the settings'\n",
    "amplifier_app_cli/lib/mention_loading/app_resolver.py": """
        class AppMentionResolver:
            def __init__(self, bundle_mappings):
                self.bundle_mappings = bundle_mappings
            def resolve(self, mention):
                name, _, path = mention[1:].partition(":")
                return self.bundle_mappings[name] / path
    """,
}


def write_packages(directory, files):
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(textwrap.dedent(text))


@pytest.fixture
def original(app):
    """The application with amplifier's packages beside it, and what mentions lead to."""
    write_packages(app / "lib", AMPLIFIER)
    (app / "context").mkdir()
    (app / "context" / "rules.md").write_text("<be kind>")
    configure_session_factory(None)
    return app


@pytest.mark.parametrize("name", ["rules", "rules.md"])
def test_review_n5_mentions_are_expanded(original, name):
    mappings = {"team": str(original / "context")}
    assert run(original, f"see @team:{name}", mention_mappings=mappings)["output"] == f"<be kind>see @team:{name}"
    assert run(original, "see @team:rules")["output"] == "see @team:rules", "nothing was mapped"


def test_review_n5_mentions_by_the_application(original):
    write_packages(original / "lib", APPLICATION_OF_AMPLIFIER)
    mappings = {"team": str(original / "context")}
    assert run(original, "see @team:rules.md", mention_mappings=mappings)["output"] == "<be kind>see @team:rules.md"
    got = run(original, "return type(known['mention_resolver']).__name__", mention_mappings=mappings)["output"]
    assert got == "AppMentionResolver"


def test_review_n5_capabilities_after_initialize_and_before_execute(original):
    got = run(original, "return [calls, known['self_delegation_depth'], known['session.working_dir'], "
              "known['execution.input.v1']['version']]", mention_mappings={"team": str(original / "context")},
              module_paths={"m": str(original / "context")})["output"]
    assert got[0] == ["module-source-resolver", "initialize", "session.working_dir", "self_delegation_depth",
                      "mention_resolver", "mention_deduplicator", "execution.input.v1"]
    assert got[1:] == [0, str(original / "project"), 1]


def test_review_n5_the_application_s_module_resolver_is_mounted(original):
    paths = {"m": str(original / "context")}
    expression = "return [type(one).__name__ for one in [known['module-source-resolver']]] + [vars(known[" \
                 "'module-source-resolver']).get('settings_resolver')]"
    assert run(original, expression, module_paths=paths)["output"] == ["BundleModuleResolver", None]
    write_packages(original / "lib", APPLICATION_OF_AMPLIFIER)
    assert run(original, expression, module_paths=paths)["output"] == ["AppModuleResolver", "of the settings"]


def test_review_n5_the_text_of_an_error_is_its_own(original):
    configure_session_factory("app:Session")
    assert run(original, "raises(RuntimeError('session failed'))")["error"] == "session failed"


EDITABLE = """
import asyncio, json
from brig.dropin.amplifier import configure_session_factory, run_session_in_subprocess
configure_session_factory("application:Session")
print(asyncio.run(run_session_in_subprocess({}, "hello", "p", ".", timeout=30)))
"""


SESSION = """
class Session:
    def __init__(self, request): pass
    def initialize(self): pass
    def execute(self, prompt): return prompt.upper()
    def cleanup(self): pass
"""


@pytest.mark.parametrize("finder", [False, True], ids=["path", "finder"])
def test_review_n5_editable_installs_are_found(tmp_path, finder):
    """A package in place, by a line of a .pth file or by setuptools' finder."""
    venv.create(tmp_path / "venv", symlinks=True)
    packages = next((tmp_path / "venv").glob("lib/python*/site-packages"))
    (packages / "brig.pth").write_text(PACKAGE)
    source = tmp_path / "checkout" / "src"
    source.mkdir(parents=True)
    (source / "application.py").write_text(SESSION)
    if finder:
        name = "__editable___application_1_0_finder"
        (packages / f"{name}.py").write_text(textwrap.dedent(f"""
            import importlib.util, sys
            MAPPING = {{"application": "{source}/application.py"}}
            class Finder:
                @staticmethod
                def find_spec(name, path=None, target=None):
                    if name in MAPPING:
                        return importlib.util.spec_from_file_location(name, MAPPING[name])
            def install():
                sys.meta_path.append(Finder)
        """))
        (packages / "application.pth").write_text(f"import {name}; {name}.install()\n")
    else:
        (packages / "application.pth").write_text(f"{source}\n")
    (tmp_path / "project").mkdir()
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([tmp_path / "venv/bin/python3", "-W", "error", "-c", EDITABLE], cwd=tmp_path / "project", env=env,
                          text=True, capture_output=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["output"] == "HELLO"


def test_review_n5_packages_of_the_user_are_found(tmp_path):
    """Those of pip install --user: they lie in a home that the session does not see."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    packages = tmp_path / "home" / ".local" / "lib" / version / "site-packages"
    packages.mkdir(parents=True)
    (packages / "brig.pth").write_text(f"{PACKAGE}\n{tmp_path / 'home'}\n")
    (tmp_path / "home" / "note").touch()
    (packages / "application.py").write_text(SESSION.replace("prompt.upper()", "[prompt.upper(), os.path.exists(NOTE)]")
                                             + f"import os\nNOTE = {str(tmp_path / 'home' / 'note')!r}\n")
    (tmp_path / "project").mkdir()
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONNOUSERSITE")}
    done = subprocess.run([sys.executable, "-W", "error", "-c", EDITABLE], cwd=tmp_path / "project", text=True,
                          env={**env, "HOME": str(tmp_path / "home")}, capture_output=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["output"] == ["HELLO", False], "a .pth file that names the home does not show it"


CHILD = """
import asyncio, contextlib, io, sys
from unittest import mock
from brig.dropin import amplifier

assert amplifier._sanitize_error("key=x") == "[REDACTED]" and amplifier._build_child_env()["PYTHONUTF8"] == "1"
assert str(amplifier._validate_project_path(".")) and callable(amplifier._kill_subprocess_tree)
assert amplifier._extract_framed_result(f"x{amplifier.RESULT_START_MARKER} y {amplifier.RESULT_END_MARKER}z") == "y"
sys.path.insert(0, sys.argv[1] + "/lib")
import amplifier_core
with mock.patch.object(amplifier, "AmplifierSession", amplifier_core.AmplifierSession):
    assert asyncio.run(amplifier._run_child_session(sys.argv[2])) == "hello"
    with mock.patch.object(sys, "argv", ["runner", sys.argv[2]]), contextlib.redirect_stdout(io.StringIO()) as out:
        amplifier._main()
assert '"output": "hello"' in amplifier._extract_framed_result(out.getvalue())
"""


def test_review_n5_private_names(original, script):
    (original / "config.json").write_text(a_config(original, "hello"))
    done = script(CHILD, original, original / "config.json")
    assert done.returncode == 0, done.stderr
    usage = subprocess.run([sys.executable, "-m", "brig.dropin.amplifier"], text=True, capture_output=True, check=False,
                           env={**os.environ, "PYTHONPATH": PACKAGE})
    assert usage.returncode == 1 and usage.stderr.startswith("Usage:")
