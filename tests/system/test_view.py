# SPDX-License-Identifier: MIT
"""What a guest sees: the files it was shown, its own /tmp and home, and a network of its own."""
import json
import os
import socket
import tempfile

import pytest
from conftest import DEGRADED, PYTHON, message, needs_confine


@pytest.fixture
def data(tmp_path_factory):
    """A directory outside of the view, with a file in it."""
    directory = tmp_path_factory.mktemp("data")
    (directory / "file").write_text("kept\n")
    return directory


def shell(brig, code, *options, **kw):
    return brig.run(*options, "--", "sh", "-c", code, **kw)


# ---- what is there by default ----------------------------------------------------------------

def test_view_other_directories_do_not_exist(brig, data, tmp_path):
    """Neither what is beside the work directory, nor the caller's home, nor what the host has in /."""
    for path in (data, data / "file", os.path.expanduser("~/."), "/boot", "/sys", "/srv", "/mnt",
                 "/etc/shadow", "/etc/brig"):
        done = shell(brig, f"ls -d {path}")
        assert (done.returncode, done.stdout) == (2, b""), path
    assert shell(brig, "ls ..", cwd=tmp_path).stdout == tmp_path.name.encode() + b"\n"


@pytest.mark.parametrize("path", ["/x", "/usr/x", "/etc/x", "/bin/x", "/dev/x", "/var/x", "/home/x",
                                  "/etc/passwd", "/usr/bin/env", "/proc/sys/kernel/hostname"])
def test_view_is_read_only(brig, path):
    done = shell(brig, f"echo x >>{path}")
    assert done.returncode != 0
    assert b"Read-only" in done.stderr or b"denied" in done.stderr


def test_view_work_directory_is_the_callers(brig, tmp_path):
    """What is written there is on the host, and belongs to who started brig."""
    assert shell(brig, "echo x >file; mkdir directory; ln -s file link").returncode == 0
    assert (tmp_path / "file").read_text() == "x\n"
    for name in ("file", "directory", "link"):
        found = os.lstat(tmp_path / name)
        assert (found.st_uid, found.st_gid) == (os.geteuid(), os.getegid())


@pytest.mark.parametrize("directory", ["/tmp", "/dev/shm", "~"])
def test_view_private_directories(brig, directory):
    """Empty, writable, and gone with the run: nothing of it is on the host or in the next run."""
    name = brig.token
    code = f"cd {directory} && pwd && ls -A && echo x >{name} && cat {name}"
    for _ in range(2):
        done = shell(brig, code, cwd="/")
        place, *rest = done.stdout.split()
        assert (done.returncode, rest) == (0, [b"x"]), done.stderr
        assert not os.path.exists(os.path.join(os.fsdecode(place), name))


def test_view_is_nobody_in_particular(brig):
    """Not root, in no group, whoever started it; and it has a name."""
    done = shell(brig, "id -u; id -G; id -un; cat /proc/self/uid_map")
    uid, groups, name, inside, outside, count = done.stdout.split()
    assert uid != b"0" and groups == uid if os.geteuid() else uid == groups == b"1000"
    assert (name, inside, count) == (b"brig", uid, b"1")
    assert outside != b"0"


def test_view_host_name_is_neutral(brig):
    assert shell(brig, "uname -n").stdout.strip() not in (b"", socket.gethostname().encode())


# ---- --ro, --rw, --tmpfs ---------------------------------------------------------------------

def test_ro_shows_a_directory(brig, data):
    """At its own path; it cannot be changed."""
    done = shell(brig, f"cat {data}/file; echo x >{data}/file; echo x >{data}/new", "--ro", data)
    assert done.stdout == b"kept\n"
    assert done.stderr.count(b"Read-only") == 2
    assert [path.name for path in data.iterdir()] == ["file"]
    assert (data / "file").read_text() == "kept\n"


def test_ro_shows_a_file_alone(brig, data):
    (data / "other").touch()
    done = shell(brig, f"ls {data}; echo x >{data}/file", "--ro", data / "file")
    assert (done.returncode != 0, done.stdout) == (True, b"file\n")
    assert (data / "file").read_text() == "kept\n"


def test_ro_at_another_place(brig, data):
    done = shell(brig, f"cat /shown/here/file; ls {data}", "--ro", f"{data}:/shown/here")
    assert (done.returncode, done.stdout) == (2, b"kept\n")


def test_rw_can_be_written(brig, data):
    """What is written is on the host, and belongs to who started brig."""
    done = shell(brig, f"echo x >>{data}/file; echo y >{data}/new", "--rw", data)
    assert (done.returncode, done.stderr) == (0, b"")
    assert ((data / "file").read_text(), (data / "new").read_text()) == ("kept\nx\n", "y\n")
    assert (data / "new").stat().st_uid == os.geteuid()


def test_rw_at_another_place(brig, data):
    assert shell(brig, "echo x >/out/new", "--rw", f"{data}:/out").returncode == 0
    assert (data / "new").read_text() == "x\n"


@pytest.mark.parametrize("option", ["--ro", "--rw"])
@pytest.mark.parametrize("name", ["..:", "a:", ":", "..:/..:", "a/..:"])
def test_review_e1_name_of_a_guest_is_no_place(brig, data, option, name):
    """A name that ends with a colon, made by an earlier guest, moved what is shown, or showed what is above."""
    (data / name / "tmp").mkdir(parents=True)
    (data / "a").mkdir(exist_ok=True)
    done = shell(brig, "true", option, f"{data}/{name}/tmp")
    assert done.returncode == 125, done.stderr
    assert b"can mean two things" in done.stderr
    spec = {"command": ["ls", "/shown"], option[2:]: [{"path": f"{data}/{name}/tmp", "dest": "/shown"}]}
    (brig.tmp / "spec.json").write_text(json.dumps(spec))
    (data / name / "tmp" / "this").touch()
    assert brig.run("--spec", "spec.json").stdout == b"this\n"


@pytest.mark.parametrize("option", ["--ro", "--rw"])
@pytest.mark.parametrize("path", ["{}/..:/x", "{}/below/..", "{}/../data:/x", "..", "../data:/x", "./../data", "{}//..//data"])
def test_review_e1_no_path_goes_upward(brig, data, option, path):
    (data / "below").mkdir()
    done = shell(brig, "ls /x", option, path.format(data))
    assert (done.returncode, done.stdout) == (2, b""), done.stderr
    assert b'goes through ".."' in done.stderr


def test_review_e1_only_a_colon_before_a_slash_parts(brig, data):
    """So that times and the like in names need no care."""
    for name in ("12:30", "a:b:c", ":", "x:"):
        (data / name).mkdir()
        assert shell(brig, f"ls -d '{data}/{name}'", "--ro", data / name).returncode == 0
    assert shell(brig, "ls -d /there", "--ro", f"{data}/a:b:c:/there").returncode == 0


@pytest.mark.parametrize("entry, why", [
    ({"dest": "/x"}, "ro[0].path: is missing"), ({"path": "/usr", "to": "/x"}, "ro[0].to: is not a key"),
    ({"path": 5}, "ro[0].path: is not a string"), ({"path": ""}, "path: is empty"), ({"path": "/usr", "dest": ""}, "dest: is empty"),
    ({"path": "/usr", "dest": "x"}, "not an absolute path"), ({"path": "/usr/..", "dest": "/x"}, "goes through"),
    ([], "is not a string or an object"), ("\n5:/usr", "begins with a newline")])
def test_review_e1_entries_of_a_spec_are_checked(brig, entry, why):
    (brig.tmp / "spec.json").write_text(json.dumps({"command": ["true"], "ro": [entry]}))
    done = brig.run("--spec", "spec.json")
    assert done.returncode == 2 and why.encode() in done.stderr, done.stderr


def test_tmpfs_of_two_parts(brig):
    (brig.tmp / "spec.json").write_text(json.dumps({
        "command": ["sh", "-c", "df -k --output=size /a:5 | tail -1"], "tmpfs": [{"path": "/a:5", "size": "3M"}]}))
    assert brig.run("--spec", "spec.json").stdout.split() == [b"3072"]


def test_ro_in_a_work_directory_stays_read_only(brig, tmp_path):
    """The more special of two wins."""
    (tmp_path / "below").mkdir()
    done = shell(brig, "echo x >ok; echo x >below/file", "--ro", tmp_path / "below")
    assert b"Read-only" in done.stderr
    assert (tmp_path / "ok").exists() and not (tmp_path / "below" / "file").exists()


def test_rw_in_a_directory_that_is_read_only(brig, data):
    """Whichever of them was named first."""
    (data / "below").mkdir()
    ro, rw = ["--ro", data], ["--rw", data / "below"]
    for number, options in enumerate(([*ro, *rw], [*rw, *ro])):
        done = shell(brig, f"echo x >{data}/below/{number}; echo x >{data}/no", *options)
        assert b"Read-only" in done.stderr
        assert (data / "below" / str(number)).exists() and not (data / "no").exists()


@pytest.mark.parametrize("option", ["--ro", "--tmpfs"])
def test_work_directory_in_a_directory_that_is_shown(brig, tmp_path, option):
    """It can still be written, and is still the caller's."""
    (tmp_path / "work").mkdir()
    done = shell(brig, "echo x >file", option, tmp_path, "-w", tmp_path / "work")
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "work" / "file").read_text() == "x\n"


def test_tmpfs_is_empty_and_as_large_as_said(brig):
    """A mebibyte fits into one of a mebibyte, more does not; nothing of it is on the host."""
    done = shell(brig, "cd /scratch && ls -A && head -c 1M /dev/zero >a && echo full && cp a b",
                 "--tmpfs", "/scratch:1M")
    assert (done.returncode != 0, done.stdout) == (True, b"full\n")
    assert b"No space" in done.stderr
    assert not os.path.exists("/scratch")


def test_tmpfs_over_a_directory_of_the_host(brig, data):
    done = shell(brig, f"ls -A {data}; echo x >{data}/new", "--tmpfs", data)
    assert (done.returncode, done.stdout) == (0, b"")
    assert [path.name for path in data.iterdir()] == ["file"]


def test_view_by_variable_and_spec(brig, data, tmp_path):
    """The settings of the view come from everywhere that settings come from."""
    spec = {"ro": [str(data)], "tmpfs": ["/scratch:1M"], "rw": [f"{data}:/out"],
            "command": ["sh", "-c", f"cat {data}/file; touch /scratch/x /out/new"]}
    (tmp_path / "spec").write_text(json.dumps(spec))
    done = brig.run("--spec", tmp_path / "spec")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"kept\n", b"")
    assert (data / "new").exists()


def test_nothing_is_made_in_a_directory_of_the_caller(brig, data, tmp_path):
    """A place in the cell that would have to be made in the caller's own directory first: refused."""
    for option in ("--ro", "--rw"):
        done = brig.run(option, f"{data}:{tmp_path}/place", "--", "true")
        assert done.returncode == 125
        assert f"{tmp_path}/place" in message(done)
    done = brig.run("--tmpfs", tmp_path / "place", "--", "true")
    assert done.returncode == 125
    assert f"{tmp_path}/place" in message(done)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--ro", "--rw"])
def test_shown_path_does_not_exist(brig, tmp_path, marker, option):
    done = brig.run(option, tmp_path / "absent", "--", "touch", marker)
    assert done.returncode == 125
    assert option in message(done) and str(tmp_path / "absent") in message(done)
    assert not marker.exists() and not (tmp_path / "absent").exists()


@pytest.mark.parametrize("option", ["--ro", "--rw", "-w"])
@pytest.mark.parametrize("place", ["link", "link/below"])
def test_shown_path_is_a_link(brig, data, tmp_path, marker, option, place):
    """A guest of an earlier run could have made it: refused, and the real path is named."""
    (data / "below").mkdir()
    (tmp_path / "link").symlink_to(data)
    done = brig.run(option, tmp_path / place, "--", "touch", marker)
    real = os.path.realpath(tmp_path / place)
    assert done.returncode == 125
    assert str(tmp_path / place) in message(done) and real in message(done)
    assert not marker.exists()


@pytest.mark.parametrize("value", ["relative", "/a/../b", "/a/./b"])
def test_place_in_the_cell_that_is_not_plain(brig, data, marker, value):
    for option in ("--ro", "--rw"):
        done = brig.run(option, f"{data}:{value}", "--", "touch", marker)
        assert done.returncode == 2
        assert option in message(done) and value in message(done)
    assert not marker.exists()


# ---- --view ----------------------------------------------------------------------------------

@pytest.fixture
def public():
    """A directory that everybody can read and write, not in /tmp, with a file in it."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="brig-view-") as directory:
        os.chmod(directory, 0o777)
        with open(os.path.join(directory, "file"), "w", encoding="ascii") as file:
            file.write("kept\n")
        os.chmod(file.name, 0o666)
        yield directory


def test_view_host_is_all_of_it_read_only(brig, public):
    """What the modes of the files would allow is not to be had either."""
    done = shell(brig, f"cat {public}/file; echo x >{public}/file; echo x >{public}/new",
                 "--view", "host")
    assert done.stdout == b"kept\n"
    assert done.stderr.count(b"Read-only") == 2
    assert os.listdir(public) == ["file"]
    with open(os.path.join(public, "file"), encoding="ascii") as file:
        assert file.read() == "kept\n"


def test_view_host_has_private_directories(brig, data, tmp_path):
    """/tmp and the caller's home are the guest's own here, too, but for the work directory."""
    for directory in ("/tmp", "$HOME", "~root"):
        done = shell(brig, f"ls -A {directory}", "--view", "host")
        assert set(done.stdout.split()) <= {tmp_path.parts[2].encode()}, directory
    assert shell(brig, f"cat {data}/file", "--view", "host").returncode == 1


def test_view_host_work_directory_can_be_written(brig, tmp_path):
    assert shell(brig, "echo x >file", "--view", "host").returncode == 0
    assert (tmp_path / "file").read_text() == "x\n"


@pytest.mark.parametrize("way", ["variable", "spec"])
def test_view_host_by_variable_and_spec(brig, tmp_path, way):
    (tmp_path / "spec").write_text('{"view": "host"}')
    options = ["--spec", tmp_path / "spec"] if way == "spec" else []
    variables = {"BRIG_VIEW": "host"} if way == "variable" else {}
    done = shell(brig, "ls -d /var/lib", *options, env={**os.environ, **variables})
    assert (done.returncode, done.stdout) == (0, b"/var/lib\n")


def test_view_minimal_is_the_default(brig):
    for options in ([], ["--view", "minimal"]):
        assert shell(brig, "ls -d /var/lib", *options).returncode == 2


# ---- --network -------------------------------------------------------------------------------

CONNECT = """
import socket, sys
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5)
    print("connected")
except OSError as error:
    print(error)
"""


@pytest.fixture
def server():
    """The port of something on the host that answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.mark.parametrize("options", [[], ["--network", "none"]], ids=["default", "none"])
def test_network_none(brig, server, options):
    """The host's loopback is not the cell's."""
    assert b"refused" in brig.run(*options, "--", *PYTHON, CONNECT, server).stdout


@needs_confine
@pytest.mark.parametrize("options", [[], ["--network", "none"]], ids=["default", "none"])
def test_network_none_without_namespaces(brig, server, options):
    """Where there can be no network of its own, the guest has none at all; asked for by name, it
    has none or is refused."""
    done = brig.run(*options, "--", *PYTHON, CONNECT, server, before=DEGRADED)
    if options and done.returncode == 125:
        assert "network" in message(done)
    else:
        assert b"not supported" in done.stdout


def test_network_host(brig, server):
    done = brig.run("--network", "host", "--", *PYTHON, CONNECT, server)
    assert done.stdout == b"connected\n"


@pytest.mark.parametrize("way", ["variable", "spec"])
def test_network_by_variable_and_spec(brig, tmp_path, server, way):
    (tmp_path / "spec").write_text('{"network": "host"}')
    options = ["--spec", tmp_path / "spec"] if way == "spec" else []
    variables = {"BRIG_NETWORK": "host"} if way == "variable" else {}
    guest = ["--", *PYTHON, CONNECT, server]
    assert brig.run(*options, *guest, env={**os.environ, **variables}).stdout == b"connected\n"
    done = brig.run(*options, "--network", "none", *guest, env={**os.environ, **variables})
    assert b"refused" in done.stdout, "an option counts more"


def test_network_none_has_a_loopback_of_its_own(brig):
    code = ("import socket\nserver = socket.create_server(('127.0.0.1', 0))\n"
            "socket.create_connection(server.getsockname(), 5)\n"
            "print([name for _, name in socket.if_nameindex()])")
    assert brig.run("--", *PYTHON, code).stdout == b"['lo']\n"


# ---- privileges ------------------------------------------------------------------------------

@pytest.mark.parametrize("mode", ["u+s", "g+s", "4755", "2755", "6755"])
def test_set_user_id_bits_cannot_be_set(brig, tmp_path, mode):
    """A file left in the work directory would be the caller's: such a bit would be its power."""
    done = shell(brig, f"cp /bin/true file && chmod {mode} file")
    assert done.returncode != 0 and b"not permitted" in done.stderr
    assert (tmp_path / "file").stat().st_mode & 0o6000 == 0


def test_guest_has_no_capability(brig):
    done = brig.run("--", "grep", "-E", "^Cap", "/proc/self/status")
    assert done.stdout.split()[1::2] == [b"0" * 16] * 5


def test_guest_cannot_make_namespaces(brig):
    for flag in ("-U", "-m", "-p", "-n", "-i", "-u", "-C"):
        done = brig.run("--", "unshare", flag, "true")
        assert done.returncode != 0 and b"not permitted" in done.stderr, flag


def test_view_mounts_in_one_another(brig, tmp_path):
    """A directory of the host, in it a directory in memory, in that another directory of the host."""
    (tmp_path / "out" / "memory").mkdir(parents=True)
    done = brig.run("-w", tmp_path, "--rw", f"{tmp_path}/out:/out", "--tmpfs", "/out/memory", "--ro",
                    "/usr/share:/out/memory/below/share", "--", "sh", "-c",
                    "ls -d /out/memory/below/share/doc && touch /out/memory/x /out/y && ! touch /out/memory/below/share/z")
    assert done.returncode == 0, done.stderr
    assert sorted(os.listdir(tmp_path / "out")) == ["memory", "y"]
    assert os.listdir(tmp_path / "out" / "memory") == []


# ---- what the caller shows as the home ---------------------------------------------------------

@pytest.mark.parametrize("option", ["--rw", "--ro"])
def test_review_u11_directory_shown_as_the_home_is_the_home(brig, tmp_path, option):
    (tmp_path / "h").mkdir()
    (tmp_path / "h" / "settings").write_text("mine")
    done = brig.run(option, f"{tmp_path / 'h'}:/home/brig", "--", "sh", "-c",
                    'echo $HOME; cat ~/settings; echo new > ~/made')
    assert done.stdout == b"/home/brig\nmine"
    assert (tmp_path / "h" / "made").exists() == (option == "--rw")


def test_review_u11_file_system_in_memory_as_the_home(brig):
    assert brig.run("--tmpfs", "/home/brig:1M", "--", "sh", "-c", "echo $HOME; touch ~/x").stdout == b"/home/brig\n"


def test_review_u11_no_place_for_a_home_is_told(brig, tmp_path):
    """What is shown above it has no such directory, and brig makes none in it."""
    result = brig.result("--ro", f"{tmp_path}:/home", "--", "sh", "-c", "echo $HOME")
    assert result["stdout"] == "/tmp\n" and "HOME is /tmp" in result["hints"][0]
    assert "warning: HOME is /tmp" in message(brig.run("--ro", f"{tmp_path}:/home", "--", "true"))


# ---- settings of the system that programs need -------------------------------------------------

def test_review_u4_settings_that_programs_need(brig):
    """What is there on the host is there in the cell, and the same."""
    for name in ("manpath.config", "matplotlibrc", "os-release"):
        path = os.path.join("/etc", name)
        if os.path.exists(path):
            with open(path, "rb") as wanted:
                assert brig.run("--", "cat", path).stdout == wanted.read(), path


def test_review_u4_settings_that_may_hold_secrets_are_not_shown(brig):
    names = ["shadow", "gshadow", "sudoers", "sudoers.d", "ssh", "ssl/private", "npmrc", "pip.conf", "gitconfig", "wgetrc",
             "environment", "fstab", "crypttab", "krb5.keytab", "NetworkManager", "wireguard", "maven", "docker", "apt"]
    shown = brig.run("--", "sh", "-c", 'cd /etc; for x; do test -e "$x" && echo "$x"; done; true', "sh", *names)
    assert (shown.returncode, shown.stdout) == (0, b"")
