# SPDX-License-Identifier: MIT
"""A host that does not give brig what a cell is made of: the error says where, or the tier is honest."""
import json
import os
import platform
import shutil
import stat
import subprocess
import tempfile

import pytest
from conftest import DEGRADED, NOBODY, PYTHON, SLOW, frame, suit_landlock
from faults import HANG, have_strace, judge, run_with, strace

needs_strace = pytest.mark.skipif(not have_strace(), reason="strace cannot inject faults here")
x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter of confine.py is for x86-64")


# ---- one call at a time ----------------------------------------------------------------------

def occurrence(probe, calls, *words):
    """(call, which one of it): of a process that builds the cell, with all these words in it (from 1).
    Where brig has two ways, the calls are separated by "|", and it makes one of them."""
    found = [(call, number) for call in calls.split("|") if (number := find(probe, call, *words))]
    assert len(found) == 1, f"{found or 'none'} of {calls} with {words}"
    return found[0]


def find(probe, call, *words):
    log = os.path.join(probe.work, "trace")
    subprocess.run([*probe.prefix, "strace", "-ff", "-qq", "-s", "200", "-o", log, "-e", f"trace={call}", probe.brig.binary,
                    "run", "-w", probe.work, "--", "true"], check=True, capture_output=True, cwd=probe.work)
    found = None
    for name in sorted(os.listdir(probe.work)):
        if not name.startswith("trace"):
            continue
        path = os.path.join(probe.work, name)
        with open(path, encoding="utf-8", errors="replace") as text:
            rows = [row for row in text if row.startswith(call + "(")]
        os.unlink(path)
        for i, row in enumerate(rows):
            if found is None and all(word in row for word in words):
                found = i + 1
    return found


# What is missing, the call that shows it, what the message has to name.
MISSING = {
    "proc_not_allowed": ("mount|fsopen", ['"proc"'], "EPERM", "/proc"),
    "proc_not_there": ("mount|fsopen", ['"proc"'], "ENODEV", "/proc"),
    # By root two processes open one file system each: the fault hits both, and either may be named.
    "tmpfs_not_there": ("fsopen", ['"tmpfs"'], "ENODEV", "root|/proc"),
    "pts_not_allowed": ("mount", ['"devpts"'], "EPERM", "/dev/pts"),
    "no_loopback": ("ioctl", ["SIOCSIFFLAGS"], "ENODEV", "loopback"),
    "no_loopback_allowed": ("ioctl", ["SIOCSIFFLAGS"], "EPERM", "loopback"),
    "no_sockets": ("socket", ["AF_INET"], "EAFNOSUPPORT", "loopback"),
    "no_private_mounts": ("mount", ["MS_PRIVATE"], "EPERM", "mounts"),
    "no_pivot": ("pivot_root", [], "EINVAL", "root"),
    "old_root_busy": ("umount2", [], "EBUSY", "root"),
    "no_hostname": ("sethostname", [], "EPERM", "host name"),
    "no_space_for_a_directory": ("mkdirat", ["etc"], "ENOSPC", "/etc"),
    "no_space_for_a_link": ("symlinkat", [], "ENOSPC", "link"),
    "no_space_for_mounts": ("move_mount", [], "ENOSPC", "root"),
    "no_space_for_namespaces": ("clone3", [], "ENOSPC", ""),
    "no_landlock_rules": ("landlock_add_rule", [], "ENOMEM", "landlock"),
    "no_seccomp": ("seccomp", [], "EINVAL", "system calls"),
    "no_work_directory": ("open_tree", [], "EACCES", ""),
    "too_many_mounts": ("open_tree", [], "ENOSPC", ""),
}


@needs_strace
@pytest.mark.parametrize("what", MISSING)
def test_missing_part_is_named(probe, what):
    calls, words, error, named = MISSING[what]
    call, when = occurrence(probe, calls, *words)
    done, seconds = run_with(probe, strace(call, error, when))
    fault = judge(done, seconds, f"{call} {error} at {when}")
    assert not fault, fault
    result = json.loads(done.stdout)
    if result["status"] == "error":
        assert done.returncode == 125, done
        assert result["error"]["stage"], result
        assert result["error"]["errno"], result
        assert any(name in result["error"]["text"] for name in named.split("|")), result
        assert os.strerror(result["error"]["errno"]) in result["error"]["text"], result
    else:
        assert result["isolation"]["tier"] == "degraded", result["isolation"]
        why = " ".join(result["isolation"]["degraded"].values())
        assert any(name in why for name in named.split("|")), why
    assert not probe.brig.survivors()


@needs_strace
@pytest.mark.parametrize("what", ["proc_not_allowed", "no_loopback_allowed", "no_private_mounts", "no_pivot",
                                  "no_space_for_namespaces"])
@pytest.mark.parametrize("option", ["--require=mount", "--tmpfs=/x", "--view=minimal", "--ro=/usr/share"])
def test_what_was_asked_for_is_refused(probe, what, option):
    """Only defaults degrade: what the caller named is refused where it cannot be had."""
    calls, words, error, _ = MISSING[what]
    name, value = option.split("=")
    call, when = occurrence(probe, calls, *words)
    done, seconds = run_with(probe, strace(call, error, when), name, value)
    assert done.returncode == 125, (done.stdout[-300:], done.stderr)
    assert done.stderr and seconds < HANG * SLOW


# ---- cgroups ---------------------------------------------------------------------------------

@pytest.mark.root_only("an ordinary user has no groups here in the first place")
@pytest.mark.parametrize("how", ["ro", "empty"])
def test_cgroup_file_system_cannot_be_used(probe, how):
    """Read-only, or not there at all: sampling, and it is said; asked for by name, refused."""
    mount = ('for d in /sys/fs/cgroup /sys/fs/cgroup/*; do mount -o remount,ro,bind "$d" 2>/dev/null; done'
             if how == "ro" else "mount -t tmpfs -o ro none /sys/fs/cgroup")
    before = ["unshare", "-m", "sh", "-c", f'{mount}; exec "$@"', "sh"]
    done, seconds = run_with(probe, before)
    assert not judge(done, seconds, how)
    isolation = json.loads(done.stdout)["isolation"]
    assert isolation["tier"] == "cell"
    assert "cgroup" in isolation["degraded"] and "cpus" in isolation["degraded"], isolation
    assert "cgroup" not in isolation["layers"]
    done, _ = run_with(probe, before, "--cpus", "1")
    assert done.returncode == 125 and b"cgroup" in done.stderr
    done, _ = run_with(probe, before, "--require", "cgroup")
    assert done.returncode == 125
    doctor = probe.brig.run("--json", verb="doctor", before=before, cwd=probe.work)
    rows = {row["name"]: row for row in json.loads(doctor.stdout)["layers"]}
    assert doctor.returncode == 1
    assert rows["cgroup"]["state"] == "missing" and rows["cgroup"]["why"] and rows["cgroup"]["fix"]


@pytest.mark.root_only("an ordinary user has no groups here in the first place")
@needs_strace
def test_group_cannot_be_made(probe):
    """No space for one more group: refused by name, or sampled; nothing half made is left."""
    for when in (1, 2, 3, 4):
        for call in ("mkdirat", "mkdir"):
            done, seconds = run_with(probe, strace(call, "ENOSPC", when))
            fault = judge(done, seconds, f"{call} {when}")
            assert not fault, fault
            assert not probe.brig.left_groups(), f"{call} {when}"


# ---- a container that forbids cells ----------------------------------------------------------

@pytest.fixture
def container(probe):
    """A directory with a secret of the user, and a file to write to. Not in /tmp, which such a cell shares."""
    place = "/srv" if os.path.isdir("/srv") else "/var/cache"
    outside = tempfile.mkdtemp(prefix="brig-probe-", dir=place if frame.IS_ROOT else os.path.expanduser("~"))
    secrets = os.path.join(outside, ".ssh")
    os.mkdir(secrets)
    for path, text in ((os.path.join(secrets, "id"), "SECRET KEY"), (os.path.join(outside, "notes"), "untouched")):
        with open(path, "w", encoding="ascii") as out:
            out.write(text)
        os.chmod(path, 0o666)  # by the modes of the files alone everybody could: landlock has to say no
    os.chmod(secrets, 0o777)
    os.chmod(outside, 0o777)
    probe.outside = outside
    yield probe
    shutil.rmtree(outside)


def degraded(probe, code, *options, **kw):
    suit_landlock(probe)
    return probe.brig.result("-w", probe.work, *options, "--", PYTHON, "-c", code, before=[*probe.prefix, *DEGRADED], **kw)


@x86
def test_container_tier_is_degraded(probe):
    suit_landlock(probe)
    done, seconds = run_with(probe, DEGRADED)
    fault = judge(done, seconds, "confined")
    assert not fault, fault
    isolation = json.loads(done.stdout)["isolation"]
    assert isolation["tier"] == "degraded"
    for layer in ("landlock", "seccomp", "capabilities", "no_new_privs", "session", "descriptors"):
        assert layer in isolation["layers"], isolation
    for layer in ("user", "mount", "pid", "ipc", "uts", "view"):
        assert isolation["degraded"].get(layer), isolation


@x86
def test_container_guest_is_nobody(probe):
    """The owner of the work directory: no groups but the caller's, no capabilities, and no way to get any. Root's id, of which the
    result tells, changes no file."""
    result = degraded(probe, """
import os
status = dict(l.split(":\\t", 1) for l in open("/proc/self/status").read().splitlines() if ":\\t" in l)
print(os.getresuid(), os.getresgid(), os.getgroups())
print(status["CapEff"], status["CapPrm"], status["CapInh"], status["CapAmb"], status["CapBnd"])
for call in (lambda: os.setuid(0), lambda: os.setgid(0), lambda: os.chown("/tmp", 0, 0), lambda: os.chroot("/")):
    try:
        call()
        print("ESCAPED")
    except OSError:
        print("HELD")
""")
    lines = result["stdout"].splitlines()
    kept = [] if frame.IS_ROOT else os.getgroups()  # to give one up takes a right that an ordinary user has not
    assert lines[0].endswith(f") {kept}"), lines
    if probe.user == "root":
        assert "root's own id" in result["isolation"]["layers"]["capabilities"], result
    else:
        assert "(0," not in lines[0] and " 0," not in lines[0], lines
    bounding = lines[1].split()
    assert all(int(word, 16) == 0 for word in bounding[:4]), lines
    if probe.user == "root":
        assert int(bounding[4], 16) == 0, lines
    assert "ESCAPED" not in (lines[4:] if probe.user == "root" else lines), lines


@x86
@pytest.mark.parametrize("code", [
    'open(outside + "/notes", "w").write("x")', 'open(outside + "/new", "w")', 'os.unlink(outside + "/notes")',
    'os.rename(outside + "/notes", outside + "/other")', 'os.mkdir(outside + "/directory")', 'os.truncate(outside + "/notes", 0)',
    'os.link(outside + "/notes", "linked")', 'os.symlink("x", outside + "/link")', 'open(outside + "/.ssh/id").read()',
    'os.listdir(outside + "/.ssh")', 'open("through/.ssh/id").read()', 'os.listdir(outside)', 'os.rename(outside + "/notes", "mine")',
])
def test_container_files_outside(container, code):
    """As the modes of the files allow, without brig; not with it."""
    probe = container
    script = f"import os\noutside = {probe.outside!r}\ntry:\n    {code}\n    print('ESCAPED')\nexcept OSError as e:\n    print('HELD', e)"
    os.symlink(probe.outside, os.path.join(probe.work, "through"))
    result = degraded(probe, script)
    assert result["isolation"]["tier"] == "degraded"
    assert "HELD" in result["stdout"] and "ESCAPED" not in result["stdout"], result["stdout"] + result["stderr"]
    with open(os.path.join(probe.outside, "notes"), encoding="ascii") as notes:
        assert notes.read() == "untouched"
    said = probe.bare(script)
    # Not between file systems, which /srv and /tmp may be on.
    assert "ESCAPED" in said or "cross-device" in said, said


@x86
@pytest.mark.parametrize("path", filter(os.path.exists, (
    "/root/.bashrc", "/etc/shadow", "/var/log", "/home", "/proc/1/environ", "/sys/kernel", "/dev/sda", "/dev/mem")))
def test_container_places_of_the_host(probe, path):
    """Not readable, whoever started it."""
    result = degraded(probe, f"""
import os
try:
    os.listdir({path!r}) if os.path.isdir({path!r}) else open({path!r}, "rb").read(1)
    print("ESCAPED")
except OSError as e:
    print("HELD", e)
""")
    assert "HELD" in result["stdout"], result["stdout"] + result["stderr"]


@x86
def test_container_temporary_files_of_others(container):
    """The degraded cell shares /tmp with the host: a file of the same user there is not the guest's."""
    probe = container
    path = os.path.join("/tmp", f"brig-probe-{probe.brig.token}")
    with open(path, "w", encoding="ascii") as out:
        out.write("untouched")
    os.chmod(path, 0o666)
    try:
        result = degraded(probe, f"try:\n    open({path!r}, 'w').write('x')\n    print('ESCAPED')\nexcept OSError as e:\n    print('HELD', e)")
        assert "HELD" in result["stdout"], "a file in the host's /tmp was written to"
    finally:
        os.unlink(path)


@x86
def test_container_network(probe):
    """Without a network namespace: no sockets but pairs, unless the host's network is asked for."""
    code = """
import socket
for family in range(64):
    for kind in (1, 2, 3, 5):
        try:
            socket.socket(family, kind).close()
            print("ESCAPED", family, kind)
        except OSError: pass
a, b = socket.socketpair()
print("HELD")
"""
    result = degraded(probe, code)
    assert result["stdout"] == "HELD\n" and "seccomp" in result["isolation"]["layers"]["net"], result
    assert "ESCAPED" in degraded(probe, code, "--network", "host")["stdout"]


@x86
def test_container_signals_to_others(probe):
    """A process of the same user outside is not signalled (landlock's scope), nor traced."""
    with subprocess.Popen([*probe.prefix, "sleep", "60"]) as canary:
        try:
            result = degraded(probe, f"""
import ctypes, os
reached = []
for name, call in dict(kill=lambda: os.kill({canary.pid}, 0), term=lambda: os.kill({canary.pid}, 15)).items():
    try:
        call()
        reached.append(name)
    except OSError: pass
libc = ctypes.CDLL(None, use_errno=True)
if libc.ptrace(16, {canary.pid}, 0, 0) == 0: reached.append("ptrace")
try: open("/proc/{canary.pid}/mem", "rb"); reached.append("mem")
except OSError: pass
try: open("/proc/{canary.pid}/environ", "rb").read(); reached.append("environ")
except OSError: pass
print("ESCAPED" if reached else "HELD", reached)
""")
            assert "HELD" in result["stdout"], result["stdout"] + result["stderr"]
            assert canary.poll() is None
        finally:
            canary.kill()


@x86
def test_container_tree_ends(probe):
    """Without a pid namespace the tree ends all the same: a double fork with a session of its own."""
    result = degraded(probe, """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: time.sleep(300)
    os._exit(0)
os.wait()
os._exit(7)
""")
    assert result["exit_code"] == 7
    assert not probe.brig.survivors()


@x86
@pytest.mark.parametrize("options", [("--require", "mount"), ("--require", "user"), ("--require", "view,pid"), ("--ro", "/usr/share"),
                                     ("--rw", "."), ("--tmpfs", "/x"), ("--view", "minimal"), ("--view", "host")],
                         ids=" ".join)
def test_container_what_was_asked_for_is_refused(probe, options):
    done = probe.brig.run("-w", probe.work, *options, "--", "sh", "-c", "echo ran", before=[*probe.prefix, *DEGRADED], cwd=probe.work)
    assert done.returncode == 125, done
    assert b"ran" not in done.stdout and done.stderr
    assert b"namespace" in done.stderr or b"mount" in done.stderr or b"not there" in done.stderr, done.stderr


@x86
def test_container_doctor(probe):
    done = probe.brig.run("--json", verb="doctor", before=[*probe.prefix, *DEGRADED], cwd=probe.work)
    assert done.returncode == 1, done
    said = json.loads(done.stdout)
    assert said["tier"] == "degraded"
    rows = {row["name"]: row for row in said["layers"]}
    for layer in ("user", "mount", "pid", "ipc", "uts", "view"):
        assert rows[layer]["state"] == "missing" and rows[layer]["why"] and rows[layer]["fix"], rows[layer]
    for layer in ("landlock", "seccomp", "no_new_privs", "capabilities"):
        assert rows[layer]["state"] == "ok", rows[layer]


@x86
def test_container_files_belong_to_the_caller(probe):
    """What the guest makes in the work directory is the caller's also here."""
    result = degraded(probe, "open('made', 'w').write('x')")
    path = os.path.join(probe.work, "made")
    assert os.stat(path).st_uid == (0 if probe.user == "root" else NOBODY), result
    assert not os.stat(path).st_mode & stat.S_ISUID


# ---- the sweep: review row C1 ----------------------------------------------------------------------------

SWEPT = """
capset chdir clone3 close_range dup3 epoll_create1 epoll_ctl execveat faccessat2 fchdir fcntl fsconfig fsmount fsopen ioctl
landlock_add_rule landlock_create_ruleset landlock_restrict_self memfd_create mkdirat mount mount_setattr move_mount open_tree
openat2 pidfd_open pipe2 pivot_root prctl prlimit64 seccomp setgroups sethostname setns setresgid setresuid setsid socket
socketpair statx symlinkat timerfd_create umount2 unshare
""".split()
FULL = bool(os.environ.get("BRIG_SWEEP_FULL"))
WHENS = ("1", "2", "3", "5", "1+") if FULL else ("1", "1+")


@needs_strace
@pytest.mark.timeout(300 * SLOW)
@pytest.mark.parametrize("call", SWEPT)
def test_review_c1_no_fault_costs_a_layer(probe, call):
    """Whichever call of the set-up fails: the run has every layer that it has without the fault, or it is refused."""
    whole = set(probe.brig.result("-w", probe.work, "--", "true", before=probe.prefix)["isolation"]["layers"])
    wrong = []
    for when in WHENS:
        done, seconds = run_with(probe, strace(call, "EPERM", when), guest=["/bin/true"])
        result = json.loads(done.stdout) if done.stdout else {"status": "error"}
        if seconds > HANG * SLOW:
            wrong.append(f"{when}: {seconds:.1f} s")
        if result["status"] != "error":
            missing = whole - set(result["isolation"]["layers"])
            if result["isolation"]["tier"] != "cell" or missing:
                wrong.append(f"{when}: {result['isolation']['tier']} without {missing}")
        elif done.returncode not in (125, 126, 127):
            wrong.append(f"{when}: exit {done.returncode}")
        if probe.brig.survivors():
            wrong.append(f"{when}: processes stay")
    assert not wrong, wrong
