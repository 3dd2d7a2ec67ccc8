# SPDX-License-Identifier: MIT
"""Interpreters and tool chains of the caller outside of the system directories: the one that the caller's own
shell would run is run, with what it needs and no more of where it lies (review row U5)."""
import os
import shutil
import subprocess

import pytest
from conftest import BRIG, IS_ROOT, message

SYSTEM_PYTHON = os.path.realpath("/usr/bin/python3")
WHERE = "import sys; print(sys.executable, sys.prefix)"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

pytestmark = pytest.mark.skipif(not SYSTEM_PYTHON.startswith("/usr/"), reason="the tests copy the system's python3")


def make_python(prefix):
    """A prefix with an interpreter of its own, as pyenv, uv and conda lay them out."""
    version = os.path.basename(SYSTEM_PYTHON)
    (prefix / "bin").mkdir(parents=True)
    (prefix / "lib").mkdir()
    shutil.copy(SYSTEM_PYTHON, prefix / "bin" / version)
    for name in ("python3", "python"):
        (prefix / "bin" / name).symlink_to(version)
    (prefix / "lib" / version).symlink_to(f"/usr/lib/{version}")
    return prefix


def make_script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


class Home:
    """A home of a user with tool chains in it, and a work directory outside of it."""

    def __init__(self, brig, directory):
        self.brig, self.path, self.work = brig, directory / "home", directory / "work"
        self.path.mkdir()
        self.work.mkdir()
        (self.path / ".ssh").mkdir()
        (self.path / ".ssh" / "id").write_text("SECRET")

    def environment(self, *elements, **more):
        names = ("PYENV_ROOT", "PYENV_VERSION", "NVM_DIR", "CARGO_HOME", "RUSTUP_HOME")
        clean = {name: value for name, value in os.environ.items() if name not in names}
        return {**clean, "HOME": str(self.path), "PATH": ":".join([*map(str, elements), SYSTEM_PATH]), **more}

    def run(self, *args, path=(), options=(), env=None, cwd=None):
        return self.brig.run("-q", *options, "--", *args, cwd=cwd or self.work,
                             env=self.environment(*path, **(env or {})))

    def says(self, *args, **kw):
        done = self.run(*args, **kw)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode().strip()


@pytest.fixture
def home(brig, tmp_path):
    return Home(brig, tmp_path)


def make_pyenv(home, *versions):
    root = home.path / ".pyenv"
    for version in versions:
        make_python(root / "versions" / version)
    make_script(root / "shims" / "python3", '#!/usr/bin/env bash\nexec pyenv exec "$0"\n')
    (root / "version").write_text(versions[0] + "\n")
    return root


# ---- the kinds -------------------------------------------------------------------------------

def test_review_u5_pyenv_shim_runs_the_selected_version(home):
    root = make_pyenv(home, "3.11.1", "3.12.2", "3.12.10")

    def version(**kw):
        return home.says("python3", "-c", WHERE, path=[root / "shims"], **kw).split()[1]
    assert version() == str(root / "versions/3.11.1")
    assert version(env={"PYENV_VERSION": "3.12"}) == str(root / "versions/3.12.10")
    (home.work / ".python-version").write_text("3.12.2\n")
    assert version() == str(root / "versions/3.12.2")
    assert version(env={"PYENV_VERSION": "system"}) == "/usr"


def test_review_u5_guest_finds_the_same_interpreter_in_path(home):
    """A program that it starts by name gets the same one; the shims, which cannot work there, are gone from PATH."""
    root = make_pyenv(home, "3.11.1")
    code = "import os, subprocess; subprocess.run(['python3', '-c', 'import sys; print(sys.prefix)']); print(os.environ['PATH'])"
    said = home.says("python3", "-c", code, path=[root / "shims"]).split()
    assert set(said) == {str(root / "versions/3.11.1"), f"{root}/versions/3.11.1/bin:{SYSTEM_PATH}"}


def test_review_u5_pyenv_of_this_machine(brig, tmp_path):
    shim = os.path.expanduser("~/.pyenv/shims/python3")
    if not os.path.exists(shim):
        pytest.skip("optional: there is no pyenv here")
    env = {**os.environ, "PATH": f"{os.path.dirname(shim)}:{SYSTEM_PATH}"}
    expected = subprocess.run(["python3", "-c", WHERE], env=env, cwd=tmp_path, capture_output=True, check=True).stdout
    assert brig.run("--", "python3", "-c", WHERE, env=env).stdout.split()[1] == expected.split()[1]


@pytest.mark.parametrize("by", ["path", "absolute", "relative"])
def test_review_u5_venv_with_its_base(home, by):
    """The venv, and what it was made from: in the work directory and outside of it."""
    base = make_python(home.path / ".pyenv/versions/3.11.1")
    venv = (home.work if by == "relative" else home.path / "project") / "venv"
    subprocess.run([base / "bin/python3", "-m", "venv", "--without-pip", venv], check=True)
    command = {"path": "python3", "absolute": venv / "bin/python3", "relative": "venv/bin/python3"}[by]
    code = "import sys; print(sys.prefix, sys.base_prefix)"
    said = home.says(command, "-c", code, path=[venv / "bin"] if by == "path" else [])
    assert said.split() == [str(venv), str(base)]


def test_review_u5_console_script_of_a_venv(home):
    venv = home.path / "project" / "venv"
    subprocess.run([SYSTEM_PYTHON, "-m", "venv", "--without-pip", venv], check=True)
    make_script(venv / "bin" / "tool", f"#!{venv}/bin/python3\n{WHERE}\n")
    assert home.says("tool", path=[venv / "bin"]).split()[1] == str(venv)


def test_review_u5_uv_by_its_links(home):
    """~/.local/bin/python3.99 is a link into a directory that is a link itself, as uv makes them."""
    pythons = home.path / ".local/share/uv/python"
    make_python(pythons / "cpython-3.99.1-linux")
    (pythons / "cpython-3.99-linux").symlink_to("cpython-3.99.1-linux")
    (home.path / ".local/bin").mkdir()
    (home.path / ".local/bin/python3.99").symlink_to(pythons / "cpython-3.99-linux/bin/python3")
    said = home.says("python3.99", "-c", WHERE, path=[home.path / ".local/bin"])
    assert "cpython-3.99" in said.split()[1]


def test_review_u5_conda_environment(home):
    base = home.path / "miniconda3"
    for prefix in (base, base / "envs" / "science"):
        make_python(prefix)
        (prefix / "conda-meta").mkdir()
        (prefix / ".condarc").write_text("token")
    said = home.says("python3", "-c", WHERE + "; import os; print(sorted(os.listdir(sys.prefix)))",
                     path=[base / "envs/science/bin"])
    assert said.split()[1] == str(base / "envs/science") and "condarc" not in said


def test_review_u5_nvm(home):
    """node and npm's scripts, and not the file with npm's passwords."""
    node = home.path / ".nvm/versions/node/v20.1.0"
    shutil.copytree("/usr/bin", node / "bin", ignore=lambda _, names: [n for n in names if n != "env"])
    (node / "etc").mkdir()
    (node / "etc" / "npmrc").write_text("//registry/:_authToken=SECRET")
    make_script(node / "lib/node_modules/npm/bin/npm-cli.js", "#!/usr/bin/env node\n")
    (node / "bin/npm").symlink_to("../lib/node_modules/npm/bin/npm-cli.js")
    make_script(node / "bin/node", f'#!/bin/sh\necho "node $0 $1"; ls {node}\n')
    said = home.says("npm", path=[node / "bin"])
    assert said.split()[:3] == ["node", str(node / "bin/node"), str(node / "bin/npm")]
    assert "etc" not in said.split()


def test_review_u5_rustup(home):
    """The proxies find their tool chain; the credentials of cargo are not shown."""
    cargo, rustup = home.path / ".cargo", home.path / ".rustup"
    make_script(rustup / "toolchains/stable/bin/rustc", "#!/bin/sh\necho rustc of $RUSTUP_HOME\n")
    (rustup / "settings.toml").write_text('default_toolchain = "stable"\n')
    make_script(cargo / "bin/rustup", '#!/bin/sh\nls -A ~/.cargo "${0%/bin/*}" 2>/dev/null\n'
                                      'exec "$RUSTUP_HOME/toolchains/stable/bin/${0##*/}"\n')
    (cargo / "bin/rustc").symlink_to("rustup")
    (cargo / "credentials.toml").write_text("SECRET")
    said = home.says("rustc", path=[cargo / "bin"])
    assert f"rustc of {rustup}" in said and "credentials" not in said


def test_review_u5_rust_of_this_machine(brig):
    cargo = os.path.expanduser("~/.cargo/bin/rustc")
    if not os.path.exists(cargo):
        pytest.skip("optional: there is no rustup here")
    env = {**os.environ, "PATH": f"{os.path.dirname(cargo)}:{SYSTEM_PATH}"}
    done = brig.run("--", "rustc", "--version", env=env)
    assert done.stdout.startswith(b"rustc 1."), done.stderr


def test_review_u5_go(home):
    go = home.path / "sdk/go1.99"
    make_script(go / "bin/go", f"#!/bin/sh\ncat {go}/VERSION {go}/src/runtime/x.go\n")
    (go / "VERSION").write_text("go1.99\n")
    (go / "src/runtime").mkdir(parents=True)
    (go / "src/runtime/x.go").write_text("package runtime")
    assert home.says("go", path=[go / "bin"]) == "go1.99\npackage runtime"
    make_script(home.path / "go/bin/gopls", "#!/bin/sh\necho gopls\n")
    assert home.says("gopls", path=[home.path / "go/bin"]) == "gopls"


def test_review_u5_local_bin(home):
    """A script with the packages that pip install --user put beside it; nothing else of ~/.local."""
    version = os.path.basename(SYSTEM_PYTHON)
    packages = home.path / ".local/lib" / version / "site-packages"
    packages.mkdir(parents=True)
    (packages / "mine.py").write_text("print('mine')")
    (home.path / ".local/share").mkdir()
    make_script(home.path / ".local/bin/tool",
                f"#!/usr/bin/python3\nimport mine, os; print(*sorted(os.listdir({str(home.path / '.local')!r})))\n")
    assert home.says("tool", path=[home.path / ".local/bin"]) == "mine\nbin lib"


def test_review_u5_script_with_env(home):
    """The interpreter of a script in the work directory is looked up in the caller's PATH."""
    root = make_pyenv(home, "3.11.1")
    make_script(home.work / "script", f"#!/usr/bin/env python3\n{WHERE}\n")
    assert home.says("./script", path=[root / "shims"]).split()[1] == str(root / "versions/3.11.1")


def test_review_u5_is_told_in_the_plan_and_in_the_result(home, brig):
    root = make_pyenv(home, "3.11.1")
    env = home.environment(root / "shims")
    text = brig.run("--", "python3", verb="explain", cwd=home.work, env=env).stdout.decode()
    assert f"execute    {root}/versions/3.11.1/bin/python3" in text
    assert f"show {root}/versions/3.11.1/lib at" in text
    result = brig.result("--", "python3", "-c", "0", cwd=home.work, env=env)
    assert "pyenv" in result["isolation"]["layers"]["view"] and str(root / "versions/3.11.1") in result["isolation"]["layers"]["view"]


@pytest.mark.parametrize("options", [["--view", "host"], ["--warm"]], ids=str)
def test_review_u5_in_other_views_and_warm_cells(home, options):
    root = make_pyenv(home, "3.11.1")
    said = home.says("python3", "-c", WHERE, path=[root / "shims"], options=options)
    assert said.split()[1] == str(root / "versions/3.11.1")


def test_review_u5_ordinary_user(brig, tmp_path):
    directory = tmp_path / "user"
    directory.mkdir()
    home = Home(brig, directory)
    root = make_pyenv(home, "3.11.1")
    shutil.copy(BRIG, directory / "brig")
    drop = []
    if IS_ROOT:
        drop = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
        for path in [directory, *directory.rglob("*")]:
            os.lchown(path, 65534, 65534)
        for path in (tmp_path, *list(tmp_path.parents)[:-2]):
            path.chmod(path.stat().st_mode | 0o011)
    done = subprocess.run([*drop, directory / "brig", "run", "--", "python3", "-c", WHERE], cwd=home.work, env=home.environment(root / "shims"),
                          capture_output=True, check=False)
    assert done.stdout.split()[1:] == [str(root / "versions/3.11.1").encode()], done.stderr


# ---- never another program in silence ----------------------------------------------------------

def test_review_u5_program_that_no_rule_knows_is_refused(home):
    """The caller's shell would run it; brig does not run the system's one of the same name instead."""
    make_script(home.path / "bin/python3", "#!/bin/sh\necho mine\n")
    done = home.run("python3", "-c", WHERE, path=[home.path / "bin"])
    assert done.returncode == 127
    assert f"{home.path}/bin/python3" in message(done) and "--ro" in message(done) and "/usr/bin/python3" in message(done)
    assert home.says("python3", path=[home.path / "bin"], options=["--ro", home.path / "bin"]) == "mine"
    assert home.says("/usr/bin/python3", "-c", "print(1)", path=[home.path / "bin"]) == "1"


# ---- what a guest may have left ----------------------------------------------------------------

def test_review_u5_link_of_a_guest_does_not_show_another_place(home):
    """.venv/bin/python3 leads to a directory of the caller's that has a mark, or none: it is not shown."""
    other = home.path / "other"
    subprocess.run([SYSTEM_PYTHON, "-m", "venv", "--without-pip", other], check=True)
    (other / "lib" / "secret").write_text("SECRET")
    make_script(home.path / ".ssh/bin/python3", "#!/bin/sh\necho ran\n")
    for target in (other / "bin/python3", home.path / ".ssh/bin/python3"):
        link = home.work / "venv/bin/python3"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        (home.work / "venv/pyvenv.cfg").write_text(f"home = {home.path}/.ssh/bin\n")
        for command, path in (("python3", [home.work / "venv/bin"]), ("venv/bin/python3", [])):
            plan = home.brig.run("--", command, verb="explain", cwd=home.work, env=home.environment(*path)).stdout.decode()
            assert str(home.path) not in "".join(line for line in plan.splitlines() if " show " in line)


def test_review_u5_directory_that_became_a_link_is_not_followed(home):
    other = home.path / "other"
    subprocess.run([SYSTEM_PYTHON, "-m", "venv", "--without-pip", other], check=True)
    (home.work / "venv").symlink_to(other)
    done = home.brig.run("--", "python3", verb="explain", cwd=home.work, env=home.environment(home.work / "venv/bin"))
    assert f"show {other}" not in done.stdout.decode()


def test_review_u5_script_of_a_guest_does_not_show_another_place(home):
    make_script(home.path / ".ssh/bin/sh", "#!/bin/sh\n")
    make_script(home.work / "script", f"#!{home.path}/.ssh/bin/sh\n")
    done = home.run("./script")
    assert done.returncode == 126 and ".ssh" in message(done)


def plant_venv(home, base):
    """A venv in the work directory whose pyvenv.cfg names a base that the guest chose."""
    make_script(home.work / "venv/bin/python3", f"#!/bin/sh\nif test -L {home.path}/dirlink; then echo LEAK; else echo ran; fi\n")
    (home.work / "venv/pyvenv.cfg").write_text(f"home = {base}\n")


@pytest.mark.parametrize("end", ["", "/bin", "/../.ssh"])
def test_review_u5_links_to_what_is_not_shown_are_not_in_the_cell(home, end):
    """A symlink of the host, and where it leads, is nothing that a guest learns by naming it in pyvenv.cfg or #!."""
    (home.path / "secret-project/bin").mkdir(parents=True)
    (home.path / "dirlink").symlink_to("secret-project")
    plant_venv(home, f"{home.path}/dirlink{end}")
    assert home.says("venv/bin/python3") == "ran"
    make_script(home.work / "script", f"#!{home.path}/dirlink{end}/sh\n")
    plans = [home.brig.run("--", command, verb="explain", cwd=home.work, env=home.environment()).stdout.decode()
             for command in ("venv/bin/python3", "./script")]
    assert not any("secret-project" in plan or "dirlink" in plan for plan in plans)


@pytest.mark.parametrize("base", ["/proc/self/cwd", "/dev/fd", "/proc/self/root{home}/.pyenv/versions/3.11.1/bin"])
def test_review_u5_links_of_the_kernel_do_not_stop_a_run(home, base):
    make_pyenv(home, "3.11.1")
    plant_venv(home, base.format(home=home.path))
    assert home.says("venv/bin/python3") == "ran"
    plan = home.brig.run("--", "venv/bin/python3", verb="explain", cwd=home.work, env=home.environment()).stdout.decode()
    assert "link /proc/" not in plan, "an ordinary user's run could not make it"


@pytest.mark.parametrize("prefix", [".", "..", "open"])
def test_review_u5_no_home_and_nothing_that_others_may_write(home, prefix):
    """A venv that is the home itself, or above it, or in a directory that everybody may write to."""
    venv = (home.path / prefix).resolve()
    make_script(venv / "bin/tool", "#!/bin/sh\nexit 0\n")
    (venv / "pyvenv.cfg").write_text("home = /usr/bin\n")
    if prefix == "open":
        venv.chmod(0o777)
    done = home.run("tool", path=[venv / "bin"])
    assert done.returncode == 127 and "--ro" in message(done)


def test_review_u5_only_parts_of_a_prefix_are_shown(home):
    venv = home.path / "project"
    subprocess.run([SYSTEM_PYTHON, "-m", "venv", "--without-pip", venv], check=True)
    for name in (".env", "pip.conf", ".git-credentials"):
        (venv / name).write_text("SECRET")
    code = f"import os; print(*sorted(os.listdir({str(venv)!r}))); print(os.path.exists({str(home.path / '.ssh')!r}))"
    names, ssh = home.says("python3", "-c", code, path=[venv / "bin"]).splitlines()
    assert set(names.split()) <= {"bin", "lib", "lib64", "include", "share", "pyvenv.cfg"} and ssh == "False"


def test_review_u5_is_read_only(home):
    root = make_pyenv(home, "3.11.1")
    done = home.run("python3", "-c", "import sys; open(sys.prefix + '/lib/x', 'w')", path=[root / "shims"])
    assert done.returncode == 1 and b"Read-only file system" in done.stderr

