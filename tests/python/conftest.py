# SPDX-License-Identifier: MIT
"""Fixtures of the tests of the Python package. PYTHONPATH names the package.

Guests are started by this process, so the check at the end of a test covers the whole process: no guest
of the test is alive, and no cgroup of this process is left. The helpers are those of the system tests.
"""
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import uuid

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PACKAGE = os.path.abspath(os.environ.get("PYTHONPATH") or os.path.join(ROOT, "build", "python"))
sys.path.insert(0, PACKAGE)


def _load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


system = _load("brig_system_conftest", os.path.join(ROOT, "tests", "system", "conftest.py"))
pytest_runtest_protocol = system.pytest_runtest_protocol


def pytest_collection_modifyitems(config, items):
    """Each has a limit. What compares times says nothing while other tests run beside it: that is for
    BRIG_TEST_ALONE=1 pytest -m alone."""
    if not os.environ.get("BRIG_TEST_ALONE"):
        alone = [item for item in items if item.get_closest_marker("alone")]
        config.hook.pytest_deselected(items=alone)
        items[:] = [item for item in items if item not in alone]
    for item in items:
        system.skip_what_needs_more(item)
        if not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(60 * system.SLOW))


def left_groups():
    makers = {str(os.getpid()): system.start_time(os.getpid())}
    return [path for path in system.groups_of(makers) if "brig-supervisor" not in path]


@pytest.fixture
def guest(tmp_path, monkeypatch):
    """Keywords for guests of this test; when it ends, nothing of them is left."""
    monkeypatch.chdir(tmp_path)
    token = "brigtest-" + uuid.uuid4().hex
    yield {"env": {"BRIG_TEST_TOKEN": token}}
    assert system.wait_until(lambda: not system.processes_with(token), 1), "a process survived"
    assert system.wait_until(lambda: not left_groups(), 1), "a cgroup survived"


@pytest.fixture
def alive(guest):
    """alive(): how many processes of the test's guests there are."""
    token = guest["env"]["BRIG_TEST_TOKEN"]
    return lambda: len(system.processes_with(token))


def python(code, *args, timeout=30, start=False, more=(), **kw):
    """Run a script in a Python of its own, with every warning an error and its memory checked."""
    env = {**os.environ, "PYTHONPATH": PACKAGE, **dict(more)}
    env.setdefault("PYTHONMALLOC", "debug")
    command = [sys.executable, "-X", "faulthandler", "-W", "error", "-c", code, *map(str, args)]
    kw = {"env": env, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **kw}
    if start:
        return subprocess.Popen(command, **kw)
    return subprocess.run(command, timeout=timeout, check=False, **kw)


@pytest.fixture
def script():
    return python


# As root, the tests become this user, who has no cgroup; an ordinary user is one already.
USER = 65534 if system.IS_ROOT else os.geteuid()
DROP = ["setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups"] if system.IS_ROOT else []


@pytest.fixture(scope="session")
def package_for_all():
    """A copy of the package that everybody can read: the build tree may be below /root."""
    with tempfile.TemporaryDirectory(prefix="brig-package-") as directory:
        os.chmod(directory, 0o755)
        shutil.copytree(os.path.join(PACKAGE, "brig"), os.path.join(directory, "brig"),
                        ignore=shutil.ignore_patterns("*.p", "__pycache__"))
        yield directory


@pytest.fixture
def as_user(package_for_all):
    """as_user(code, *args): run a script as an ordinary user without a cgroup, in an empty directory of theirs."""
    if not system.IS_ROOT and system.has_cgroup():
        pytest.skip("optional: needs an ordinary user without a cgroup")
    with tempfile.TemporaryDirectory(prefix="brig-user-") as directory:
        os.chown(directory, USER, USER if system.IS_ROOT else -1)

        def run(*words, env=()):
            program = sys.executable if sys.executable.startswith("/usr/") else "/usr/bin/python3"
            command = [*DROP, program, "-W", "error", *map(str, words)]
            env = {**os.environ, "PYTHONPATH": package_for_all, "HOME": directory, "TMPDIR": directory, **dict(env)}
            return subprocess.run(command, cwd=directory, env=env, text=True, capture_output=True, check=False,
                                  timeout=50 * system.SLOW)
        run.directory = directory
        yield run
