# SPDX-License-Identifier: MIT
"""Case 35: the configuration of a run is never on disk."""
import json
import os
import shutil
import signal
import subprocess

import pytest
from conftest import BRIG, IS_ROOT, MOUNTS, SLOW, TRACED, finish, wait_until

# Where programs put temporary files.
FOLDERS = ["/tmp", "/var/tmp", "/dev/shm", "/var/lib", "/var/cache", "/root", "/home", "/run"]


class EmptyFolders:
    """A mount namespace in which all those directories are empty, held by a process of its own."""

    def __init__(self):
        mounts = " && ".join(f"mount -n -t tmpfs tmpfs {directory}" for directory in FOLDERS)
        self.holder = subprocess.Popen(
            [*MOUNTS, "sh", "-c", f"{mounts} && echo ready && read x"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.holder.stdout.readline() == b"ready\n"

    def enter(self):
        user = [] if IS_ROOT else ["-U", "--preserve-credentials"]
        return ["nsenter", *user, "-m", "-t", str(self.holder.pid)]

    def files(self):
        root = f"/proc/{self.holder.pid}/root"
        return [os.path.join(path, name) for directory in FOLDERS
                for path, directories, files in os.walk(root + directory) for name in directories + files]

    def done(self):
        self.holder.communicate(b"\n", timeout=20 * SLOW)


@pytest.fixture
def directories():
    directories = EmptyFolders()
    yield directories
    directories.done()


@pytest.fixture
def job(brig, directories):
    """A run with a secret in its spec, where all directories are empty; it waits to be ended."""
    spec = {"command": ["sh", "-c", "echo $SECRET; sleep 300"], "env": {"SECRET": "s3cret"},
            "labels": {"job": "s3cret"}}
    with open(BRIG, "rb") as binary:  # its path may be in a directory that is empty now
        brig.binary = f"/proc/self/fd/{binary.fileno()}"
        process = brig.start("--spec", "-", before=directories.enter(), stdin=subprocess.PIPE,
                             pass_fds=[binary.fileno()], cwd="/")
    process.stdin.write(json.dumps(spec).encode())
    process.stdin.close()
    process.stdin = None
    assert process.stdout.readline() == b"s3cret\n"
    return process


def test_case_35_no_file_while_it_runs(job, directories):
    files = directories.files()
    job.terminate()
    finish(job)
    assert files == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_case_35_no_file_after_the_end(brig, job, directories, number):
    """Nor after a crash of the supervisor."""
    job.send_signal(number)
    finish(job)
    assert wait_until(lambda: not brig.survivors() and not brig.left_groups(), 1)
    assert directories.files() == []


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_case_35_supervisor_creates_no_file(brig, tmp_path):
    """The system calls of brig itself: nothing is created outside of the cgroup file system."""
    trace = tmp_path / "trace"
    done = brig.run("--json", "-e", "SECRET=x", "--", "true",
                    before=["strace", "-o", trace, "-e", "trace=%file"], env=TRACED)
    made = [line for line in trace.read_text().splitlines()
            if "O_CREAT" in line or "O_TMPFILE" in line
            or line.startswith(("creat", "link", "symlink", "mknod", "rename", "mkdir("))]
    assert done.returncode == 0
    assert made == []
