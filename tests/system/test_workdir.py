# SPDX-License-Identifier: MIT
"""Case 32 and the work directory in general."""
import json
import os
import subprocess

import pytest
from conftest import message


def refused(brig, marker, *options, **kw):
    """A run that must not start: its message."""
    done = brig.run(*options, "--", "touch", marker, **kw)
    assert done.returncode == 125
    assert not marker.exists()
    assert "workdir" in message(done)
    return message(done)


def test_case_32_directory_does_not_exist(brig, tmp_path, marker):
    text = refused(brig, marker, "-w", tmp_path / "absent")
    assert str(tmp_path / "absent") in text and "does not exist" in text


def test_case_32_directory_is_a_file(brig, tmp_path, marker):
    (tmp_path / "file").touch()
    text = refused(brig, marker, "-w", tmp_path / "file")
    assert str(tmp_path / "file") in text and "not a directory" in text


def test_case_32_directory_is_a_dangling_link(brig, tmp_path, marker):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    text = refused(brig, marker, "-w", tmp_path / "link")
    assert str(tmp_path / "link") in text and "link" in text


def test_case_32_directory_is_a_loop_of_links(brig, tmp_path, marker):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert str(tmp_path / "loop") in refused(brig, marker, "-w", tmp_path / "loop")


def test_case_32_directory_is_a_fifo(brig, tmp_path, marker):
    """Refused, and not waited for."""
    os.mkfifo(tmp_path / "fifo")
    assert str(tmp_path / "fifo") in refused(brig, marker, "-w", tmp_path / "fifo", timeout=5)


def test_case_32_current_directory_was_deleted(brig, tmp_path, marker):
    gone = tmp_path / "gone"
    gone.mkdir()
    text = refused(brig, marker, cwd=gone, preexec_fn=lambda: os.rmdir(gone))
    assert "--workdir" in text


def test_case_32_deleted_directory_through_proc(brig, tmp_path, marker):
    gone = tmp_path / "gone"
    gone.mkdir()
    held = os.open(gone, os.O_RDONLY)
    os.rmdir(gone)
    refused(brig, marker, "-w", f"/proc/self/fd/{held}", pass_fds=[held])
    os.close(held)


@pytest.mark.parametrize("way", ["variable", "spec"])
def test_case_32_wherever_the_directory_is_named(brig, tmp_path, marker, way):
    spec = tmp_path / "spec"
    spec.write_text(json.dumps({"workdir": "/absent"}))
    options = ["--spec", spec] if way == "spec" else []
    variables = {"BRIG_WORKDIR": "/absent"} if way == "variable" else {}
    text = refused(brig, marker, *options, env={**os.environ, **variables})
    assert "/absent" in text


def test_workdir_is_the_current_one_by_default(brig, tmp_path):
    assert brig.run("--", "/bin/pwd", cwd=tmp_path).stdout.decode() == f"{tmp_path}\n"


def test_workdir_by_option(brig, tmp_path):
    assert brig.run("-w", tmp_path, "--", "/bin/pwd").stdout.decode() == f"{tmp_path}\n"


def test_workdir_replaces_a_deleted_current_directory(brig, tmp_path):
    gone, work = tmp_path / "gone", tmp_path / "work"
    gone.mkdir()
    work.mkdir()
    done = brig.run("-w", work, "--", "/bin/pwd", cwd=gone, preexec_fn=lambda: os.rmdir(gone))
    assert (done.returncode, done.stdout.decode()) == (0, f"{work}\n")


def test_workdir_is_where_relative_commands_are_found(brig, script, tmp_path):
    script("here", "#!/bin/sh\necho found\n")
    done = brig.run("-w", tmp_path, "--", "./here", cwd="/")
    assert done.stdout == b"found\n"


def test_workdir_relative_to_the_callers(brig, tmp_path):
    (tmp_path / "below").mkdir()
    done = brig.run("-w", "below", "--", "/bin/pwd", cwd=tmp_path)
    assert done.stdout.decode() == f"{tmp_path}/below\n"


def test_workdir_with_an_odd_name(brig, tmp_path):
    """Spaces, quotes, a newline and bytes that are not UTF-8."""
    odd = os.path.join(os.fsencode(tmp_path), b"a b'\"\n\xff\x1b[31m")
    os.mkdir(odd)
    command = [os.fsencode(part) for part in brig.command("-w")]
    done = subprocess.run([*command, odd, b"--", b"/bin/pwd"], capture_output=True, check=True)
    assert done.stdout == odd + b"\n"


# ---- what is not made writable without being asked for ---------------------------------------

def home_of(brig, directory, *options, **kw):
    """Run with this directory as the caller's home and current directory: where the guest is, and what
    it could write there."""
    return brig.run(*options, "--", "sh", "-c", "pwd; ls -A; echo x >made", cwd=directory,
                    env={**os.environ, "HOME": str(directory)}, **kw)


def test_workdir_is_not_all_of_a_home(brig, tmp_path):
    """The guest gets its own, empty one instead; the caller's is neither shown nor written."""
    (tmp_path / "secret").touch()
    done = home_of(brig, tmp_path)
    assert (done.returncode, done.stdout) == (0, b"/home/brig\n")
    assert os.listdir(tmp_path) == ["secret"]


def test_result_says_that_the_current_directory_is_not_shown(brig, tmp_path):
    def view(directory):
        done = brig.run("--json", "--", "pwd", cwd=directory, env={**os.environ, "HOME": str(tmp_path)})
        return json.loads(done.stdout)["isolation"]["layers"]["view"]
    (tmp_path / "project").mkdir()
    assert "--workdir" in view(tmp_path) and "--workdir" in view("/etc")
    assert "--workdir" not in view(tmp_path / "project")


@pytest.mark.parametrize("where", ["home", "/", "/etc"])
def test_review_u1_warning_that_what_is_written_is_lost(brig, tmp_path, where):
    """One line on stderr however the command ends, and in the result; none where it is not so."""
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    directory, env = home if where == "home" else where, {**os.environ, "HOME": str(home)}
    for guest in ("true", "echo x > file"):
        done = brig.run("--", "sh", "-c", guest, cwd=directory, env=env)
        line, = message(done).splitlines()
        assert done.returncode == 0 and line.startswith(f"brig: warning: brig was started in {directory},")
        assert "--workdir" in line and "is lost" in line
    assert not (home / "file").exists()
    assert str(directory) in brig.result("--", "true", cwd=directory, env=env)["hints"][0]
    assert brig.run("-q", "--", "true", cwd=directory, env=env).stderr == b""
    assert brig.run("--", "true", cwd=work, env=env).stderr == b""
    assert brig.run("--workdir", work, "--", "true", cwd=directory, env=env).stderr == b""


def test_review_u1_warning_does_not_wait_for_its_reader(brig, tmp_path):
    """A full stderr that nobody reads: the command runs, and is not held up by the warning."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(write_end, b"x" * 65536)
    os.set_blocking(write_end, True)
    env = {**os.environ, "HOME": str(tmp_path)}
    try:
        assert brig.run("--", "true", cwd=tmp_path, env=env, stderr=write_end, timeout=20).returncode == 0
    finally:
        os.close(read_end)
        os.close(write_end)


def test_workdir_is_all_of_a_home_if_asked_for(brig, tmp_path):
    done = home_of(brig, tmp_path, "-w", tmp_path)
    assert (done.returncode, done.stdout.decode()) == (0, f"{tmp_path}\n")
    assert os.listdir(tmp_path) == ["made"]


@pytest.mark.parametrize("directory", ["/", "/usr", "/usr/share", "/etc", "/var", "/home"])
def test_workdir_is_not_a_directory_of_the_system(brig, directory):
    done = brig.run("--", "sh", "-c", f"echo x >{directory}/{brig.token}", cwd=directory)
    assert done.returncode != 0
    assert not os.path.exists(os.path.join(directory, brig.token))


@pytest.mark.parametrize("directory", ["/", "/proc", "/proc/self", "/sys", "/dev"])
def test_workdir_that_cannot_be_one(brig, marker, directory):
    """The cell has its own of these: refused, and named."""
    text = refused(brig, marker, "-w", directory)
    assert directory in text


@pytest.mark.parametrize("option, name", [("-w", "workdir"), ("--ro", "--ro"), ("--rw", "--rw")])
def test_directory_of_homes_is_shown_or_refused(brig, option, name):
    """The guest's own home would be in it: it is shown all the same, or refused by its name."""
    done = brig.run(option, "/home", "--", "ls", "-d", "/home")
    if done.returncode == 0:
        assert done.stdout == b"/home\n"
    else:
        assert (done.returncode, done.stdout) == (125, b"")
        assert message(done).startswith(f"brig: {name}: /home: ")
