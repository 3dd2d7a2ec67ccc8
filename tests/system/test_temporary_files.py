"""Case 35: the configuration of a run is never on disk."""
import json
import os
import shutil
import signal
import subprocess

import pytest
from conftest import BRIG, SLOW, finish, wait_until

# Where programs put temporary files.
FOLDERS = ["/tmp", "/var/tmp", "/dev/shm", "/var/lib", "/var/cache", "/root", "/home", "/run"]


class EmptyFolders:
    """A mount namespace in which all those folders are empty, held by a process of its own."""

    def __init__(self):
        mounts = " && ".join(f"mount -n -t tmpfs tmpfs {folder}" for folder in FOLDERS)
        self.holder = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", f"{mounts} && echo ready && read x"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.holder.stdout.readline() == b"ready\n"

    def enter(self):
        return ["nsenter", "-m", "-t", str(self.holder.pid)]

    def files(self):
        root = f"/proc/{self.holder.pid}/root"
        return [os.path.join(path, name) for folder in FOLDERS
                for path, folders, files in os.walk(root + folder) for name in folders + files]

    def done(self):
        self.holder.communicate(b"\n", timeout=20 * SLOW)


@pytest.fixture
def folders():
    folders = EmptyFolders()
    yield folders
    folders.done()


@pytest.fixture
def job(brig, folders):
    """A run with a secret in its spec, where all folders are empty; it waits to be ended."""
    spec = {"command": ["sh", "-c", "echo $SECRET; sleep 300"], "env": {"SECRET": "s3cret"},
            "labels": {"job": "s3cret"}}
    with open(BRIG, "rb") as binary:  # its path may be in a folder that is empty now
        brig.binary = f"/proc/self/fd/{binary.fileno()}"
        process = brig.start("--spec", "-", before=folders.enter(), stdin=subprocess.PIPE,
                             pass_fds=[binary.fileno()], cwd="/")
    process.stdin.write(json.dumps(spec).encode())
    process.stdin.close()
    process.stdin = None
    assert process.stdout.readline() == b"s3cret\n"
    return process


def test_case_35_no_file_while_it_runs(job, folders):
    files = folders.files()
    job.terminate()
    finish(job)
    assert files == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_case_35_no_file_after_the_end(brig, job, folders, number):
    """Nor after a crash of the supervisor."""
    job.send_signal(number)
    finish(job)
    assert wait_until(lambda: not brig.survivors() and not brig.left_groups(), 1)
    assert folders.files() == []


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_case_35_supervisor_creates_no_file(brig, tmp_path):
    """The system calls of brig itself: nothing is created outside of the cgroup file system."""
    trace = tmp_path / "trace"
    # The search for leaks of an instrumented binary does not work while it is traced.
    options = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
    done = brig.run("--json", "-e", "SECRET=x", "--", "true",
                    before=["strace", "-o", trace, "-e", "trace=%file"],
                    env={**os.environ, "ASAN_OPTIONS": options})
    made = [line for line in trace.read_text().splitlines()
            if "O_CREAT" in line or "O_TMPFILE" in line
            or line.startswith(("creat", "link", "symlink", "mknod", "rename", "mkdir("))]
    assert done.returncode == 0
    assert made == []
