# SPDX-License-Identifier: MIT
"""Fixtures of the installation tests, which have a machine of their own as far as possible.

In a mount namespace, this tree, /usr/local and /etc are copies: `make install` installs for real, as root, and
neither this machine nor the build that other tests use is touched. The build is a copy too, in the same place, so that
nothing is compiled twice.
"""
import os
import shutil
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Directories below the build that do not belong to it.
LEFT_OUT = shutil.ignore_patterns("fresh", "vm", "vm-*", "reports", "mcp-clients", ".git", "__pycache__", "build-asan", "build-fuzz")


class Machine:
    """Runs commands in the namespace; what they write in the copies is there for the next."""

    def __init__(self, directory):
        self.directory = str(directory)
        shutil.copytree(ROOT, os.path.join(self.directory, "tree"), symlinks=True, ignore=LEFT_OUT)
        subprocess.run(["cp", "-a", "/etc", os.path.join(self.directory, "etc")], check=True)
        os.mkdir(os.path.join(self.directory, "local"))

    def run(self, script, *args, check=True, env=None):
        """A script of bash in the tree; its stdout and stderr together, or CalledProcessError with them."""
        mounts = f"""
            mount --bind {self.directory}/tree {ROOT}
            mount --bind {self.directory}/local /usr/local
            mount --bind {self.directory}/etc /etc
            cd {ROOT}
        """
        done = subprocess.run(["unshare", "-m", "--propagation", "private", "bash", "-eu", "-c", mounts + script, "sh", *map(str, args)],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False, env={**os.environ, **(env or {})})
        assert not check or done.returncode == 0, done.stdout[-4000:]
        return done.stdout


@pytest.fixture(scope="session")
def machine(tmp_path_factory):
    if os.geteuid() != 0:
        pytest.skip("optional: needs root: installs for real, in a mount namespace")
    machine = Machine(tmp_path_factory.mktemp("machine"))
    yield machine
    shutil.rmtree(machine.directory, ignore_errors=True)
