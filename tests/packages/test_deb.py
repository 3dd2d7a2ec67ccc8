# SPDX-License-Identifier: MIT
"""The Debian packages: built in a fresh root of a release, looked at by its lintian, and then installed, used and
purged in a root with nothing on it. $BRIG_DEB_RELEASES names the releases; a trial takes a minute or two for each.
"""
import functools
import os
import shutil
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RELEASES = os.environ.get("BRIG_DEB_RELEASES", "bookworm").split()
PACKAGES = ["brig", "libbrig-dev", "libbrig0", "python3-brig"]
PACKAGES_TO_BUILD = "build deb debtest"  # groups of tools/packages
HAS_USERNS = {"bookworm": False}  # does its AppArmor know the rule? others: yes

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="optional: needs root: tools/fresh mounts")


class Trial:
    """One release: its packages, and what the steps of `trial` said."""

    def __init__(self, release):
        self.release = release
        self.tree = os.path.join(ROOT, "build", "deb-trial", release)
        shutil.rmtree(self.tree, ignore_errors=True)
        self.built = self._fresh(["-p", PACKAGES_TO_BUILD], "tools/deb")
        self.checked = self._fresh(["-p", PACKAGES_TO_BUILD], "lintian --fail-on error,warning --allow-root build/deb/*.changes")
        self.tried = self._fresh([], "tests/packages/trial")

    def _fresh(self, options, script):
        return subprocess.run(["tools/fresh", "-t", self.tree, *options, self.release, "sh", "-c", script], cwd=ROOT, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def says(self, step):
        """What a step that went well said."""
        assert self.built.returncode == 0, self.built.stdout[-4000:]
        assert self.tried.returncode == 0, self.tried.stdout[-4000:]
        text = self.read(step + ".out")
        assert self.read(step + ".code") == "0\n", f"{step}: {text[-4000:]}"
        return text

    def read(self, name):
        with open(os.path.join(self.tree, "build", "trial", name), encoding="utf-8") as file:
            return file.read()


@functools.cache
def trial_of(release):
    return Trial(release)


@pytest.fixture(params=RELEASES)
def trial(request):
    return trial_of(request.param)


def traces(before, after):
    return sorted(set(after.splitlines()) ^ set(before.splitlines()))


def test_review_f8_packages_are_built_and_lintian_has_no_complaint(trial):
    assert trial.built.returncode == 0, trial.built.stdout[-4000:]
    built = os.listdir(os.path.join(trial.tree, "build", "deb"))
    assert sorted(name.split("_")[0] for name in built if name.endswith(".deb") and "-dbgsym" not in name) == PACKAGES
    assert trial.checked.returncode == 0, trial.checked.stdout[-4000:]
    assert not [line for line in trial.checked.stdout.splitlines() if line.startswith(("E:", "W:"))]


def test_review_f8_command_works_where_nothing_else_is_installed(trial):
    trial.says("install-alone")
    assert trial.says("hello") == "hi\n"
    assert trial.says("hello-user") == "hi\n"
    files = trial.says("files").split()
    for path in ("/etc/apparmor.d/brig", "/usr/bin/brig", "/usr/share/man/man1/brig.1.gz",
                 "/usr/share/bash-completion/completions/brig", "/usr/share/zsh/vendor-completions/_brig",
                 "/usr/share/fish/vendor_completions.d/brig.fish", "/usr/share/brig/apparmor/program"):
        assert path in files


@pytest.mark.parametrize("how", ["dynamic", "static"])
def test_review_f8_program_in_c(trial, how):
    trial.says("install")
    trial.says("compile-" + how)
    assert trial.says("run-" + how) == "exited: from C\n"
    assert "libbrig.so.0 => " in trial.says("needed")


def test_review_f8_program_in_python(trial):
    path, *rest = trial.says("python").splitlines()
    assert path == "/usr/lib/python3/dist-packages/brig/__init__.py"
    assert rest == ["from Python", "sum 3"]


def test_review_f8_purge_leaves_no_trace(trial):
    trial.says("purge-alone")
    assert traces(trial.says("before-alone"), trial.says("after-alone")) == []
    trial.says("purge")
    assert traces(trial.says("before"), trial.says("after")) == []


def test_review_u13_profile_is_parsed_by_the_releases_own_parser(trial):
    trial.says("profile-old")
    trial.says("parse")
    if HAS_USERNS.get(trial.release, True):
        assert trial.says("links").split() == ["abi", "userns"]
        assert trial.read("compiled-brig.out") == trial.read("compiled-direct.out")
        assert trial.read("compiled-brig.out") != trial.read("compiled-without.out")
        trial.says("parse-program")
    else:
        assert trial.read("links.code") != "0\n"


def test_review_u13_profile_goes_with_the_package(trial):
    trial.says("remove-apparmor")
    trial.says("purge-profile")
    assert trial.says("left") == ""
