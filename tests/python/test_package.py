# SPDX-License-Identifier: MIT
"""What is shipped: the wheel, and what the extension needs and shows."""
import os
import platform
import subprocess
import sys
import venv
import zipfile

import pytest
from conftest import PACKAGE, ROOT

import brig

EXTENSION = os.path.join(PACKAGE, "brig", "_brig.abi3.so")


def make_wheel(directory):
    done = subprocess.run([sys.executable, os.path.join(ROOT, "tools", "wheel"), os.path.dirname(PACKAGE), directory],
                          capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def wheel(tmp_path):
    return make_wheel(tmp_path)


def test_wheel_installs_offline_and_works(wheel, tmp_path):
    assert os.path.basename(wheel) == f"brig-{brig.__version__}-cp311-abi3-linux_{platform.machine()}.whl"
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([python, "-m", "pip", "install", "--no-index", "--quiet", wheel], check=True, env=env)
    code = "import brig; print(brig.__file__, brig.run('echo hi', check=True).stdout_text, brig.Template().call(lambda: 6 * 7))"
    done = subprocess.run([python, "-W", "error", "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True,
                          check=True)
    assert done.stdout.startswith(str(tmp_path)) and "hi" in done.stdout and done.stdout.endswith("42\n")
    checked = subprocess.run([python, "-m", "pip", "check"], env=env, check=False, capture_output=True)
    assert checked.returncode == 0


def test_wheel_has_all_of_the_package_and_is_the_same_each_time(wheel, tmp_path):
    with open(wheel, "rb") as file:
        first = file.read()
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"brig/py.typed", "brig/_brig.abi3.so", "brig/_brig.pyi", "brig/aio.py"} <= names
    sources = {name for name in os.listdir(os.path.join(ROOT, "python", "brig")) if name.endswith((".py", ".pyi"))}
    sources |= {f"dropin/{name}" for name in os.listdir(os.path.join(ROOT, "python", "brig", "dropin"))
                if name.endswith(".py")}
    assert {f"brig/{name}" for name in sources} <= names, "a meson.build of python/brig does not list a file"
    (tmp_path / "again").mkdir()
    with open(make_wheel(tmp_path / "again"), "rb") as file:
        assert file.read() == first


def test_extension_shows_one_symbol_and_needs_no_libbrig():
    shown = subprocess.run(["nm", "-D", "--defined-only", EXTENSION], capture_output=True, text=True, check=True)
    assert [line.split()[-1] for line in shown.stdout.splitlines()] == ["PyInit__brig"]
    needs = subprocess.run(["objdump", "-p", EXTENSION], capture_output=True, text=True, check=True).stdout
    libraries = {line.split()[1].split(".so")[0] for line in needs.splitlines() if "NEEDED" in line}
    assert libraries <= {"libpcre2-8", "libc", "ld-linux-x86-64", "libpthread", "libasan", "libubsan"}


def test_all_names_are_there():
    assert all(hasattr(brig, name) for name in brig.__all__)
