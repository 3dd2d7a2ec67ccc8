# SPDX-License-Identifier: MIT
"""Making system calls of brig fail, and asking a guest what it is confined by.

strace injects the fault (-D: brig stays our own child, with the pid we know); the witness is a guest
that reports what it finds, and contradictions() holds that against what the result claims.
"""
import json
import os
import shutil
import subprocess
import time

from conftest import PYTHON, SLOW

HANG = 5  # seconds: no fault may hold brig up for longer

# One line of JSON. Every call that may be under injection itself (landlock) is tried again.
WITNESS = r"""
import ctypes, json, os, struct
libc = ctypes.CDLL(None, use_errno=True)
status = dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\t" in line)
def listed(path):
    try:
        return sorted(os.listdir(path))
    except OSError as e:
        return e.errno
def text(path):
    try:
        return open(path).read()
    except OSError as e:
        return e.errno
def can(call, *args):
    try:
        call(*args)
        return True
    except OSError:
        return False
def landlock_layers():
    # 16 may be stacked: what is missing of them was there before.
    rules = -1
    for i in range(5):
        rules = rules if rules >= 0 else libc.syscall(444, struct.pack("QQ", 8, 0), 16, 0)
    if rules < 0:
        rules = libc.syscall(444, struct.pack("Q", 8), 8, 0)
    if rules < 0:
        return None
    count = failures = 0
    while failures < 6 and count < 20:
        if libc.syscall(446, rules, 0) == 0:
            count += 1
        else:
            failures += 1
    return 16 - count
facts = {
    "pid": os.getpid(), "ppid": os.getppid(), "sid": os.getsid(0), "uid": os.getuid(),
    "status": status, "uid_map": text("/proc/self/uid_map").split(),
    "hostname": os.uname().nodename, "net": [l.split(":")[0].strip() for l in text("/proc/net/dev").splitlines() if ":" in l],
    "root": listed("/"), "fds": len(listed("/proc/self/fd")) - 1,
    "namespaces": {n: os.readlink("/proc/self/ns/" + n) for n in ("user", "mnt", "pid", "ipc", "uts", "net", "cgroup")},
    "environment": sorted(os.environ), "core": __import__("resource").getrlimit(4),
    "etc": can(os.open, "/etc/brig-witness", os.O_WRONLY | os.O_CREAT), "chroot": can(os.chroot, "/"),
    "unshare": libc.unshare(0x10000000) == 0, "kernel_log": libc.syscall(103, 3, None, 0) >= 0,
}
facts["internet"] = libc.socket(2, 1, 0) >= 0
facts["landlock"] = landlock_layers()
print(json.dumps(facts))
"""

NAMESPACES = {"user": "user", "mount": "mnt", "pid": "pid", "ipc": "ipc", "uts": "uts", "net": "net"}


def contradictions(isolation, seen):
    """What the witness saw that cannot be, if the layers named are applied."""
    layers = isolation["layers"]
    status = seen["status"]
    wrong = []

    def claim(layer, holds):
        if layer in layers and not holds:
            wrong.append(layer)

    # Without a namespace of its own there is no network because there are no sockets for it.
    by_sockets = isolation["tier"] == "degraded" and not seen["internet"]
    for layer, name in NAMESPACES.items():
        claim(layer, (layer == "net" and by_sockets) or seen["namespaces"][name] != os.readlink(f"/proc/self/ns/{name}"))
    claim("user", seen["uid_map"] != ["0", "0", "4294967295"])
    claim("pid", seen["pid"] == 2 and seen["ppid"] == 1)
    claim("uts", seen["hostname"] == "brig")
    claim("net", seen["net"] == ["lo"] or by_sockets)
    root = seen["root"] if isinstance(seen["root"], list) else []
    claim("view", "sys" not in root and "root" not in root)
    claim("mount", not seen["etc"])
    for name in ("CapEff", "CapPrm", "CapInh", "CapAmb"):
        claim("capabilities", int(status[name], 16) == 0)
    # Only who has capabilities can lower the bound; to who has none and no_new_privs it means nothing.
    claim("capabilities", int(status["CapBnd"], 16) == 0 or
          (isolation["tier"] == "degraded" and status["NoNewPrivs"] == "1"))
    claim("capabilities", not seen["chroot"])
    claim("no_new_privs", status["NoNewPrivs"] == "1")
    claim("seccomp", status["Seccomp"] == "2" and not seen["unshare"] and not seen["kernel_log"])
    claim("landlock", seen["landlock"] is None or seen["landlock"] >= 1)
    claim("session", seen["sid"] == seen["pid"])
    claim("descriptors", seen["fds"] == 3)
    claim("core_dumps", seen["core"][1] <= 1)
    claim("environment", "BRIG_PROBE_SECRET" not in seen["environment"])
    if isolation["tier"] == "cell":
        wrong += [f"tier cell without {layer}" for layer in (*NAMESPACES, "view", "capabilities", "seccomp")
                  if layer not in layers]
        wrong += ["tier cell: no cgroup namespace"] if \
            seen["namespaces"]["cgroup"] == os.readlink("/proc/self/ns/cgroup") else []
    if seen["uid"] == 0 and "user" not in layers and "root's own id" not in layers.get("capabilities", ""):
        wrong.append("uid 0 of the host")
    return wrong


def strace(call, error, when):
    """The command before brig that makes the when-th CALL of each process fail."""
    return [shutil.which("strace"), "-D", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}",
            "-e", f"inject={call}:error={error}:when={when}"]


def run_with(probe, before, *options, guest=None, cwd=None):
    """(done, seconds) of a witness run of brig behind the command `before`."""
    guest = guest or [PYTHON, "-I", "-S", "-c", WITNESS]
    begin = time.monotonic()
    done = probe.brig.run("--json", "-w", probe.work, *options, "--", *guest, cwd=cwd or probe.work,
                          before=[*probe.prefix, *before], timeout=40,
                          env={**os.environ, "BRIG_PROBE_SECRET": "x", "LC_ALL": "C"})
    return done, time.monotonic() - begin


def judge(done, seconds, what):
    """Refused with a message that says at what, or run and honest about it. None, or what is wrong."""
    if seconds > HANG * SLOW:
        return f"{what}: took {seconds:.1f} s"
    if done.returncode < 0:
        return f"{what}: died of signal {-done.returncode}"
    try:
        result = json.loads(done.stdout)
    except ValueError:
        return f"{what}: exit {done.returncode}, no result: {done.stdout[-200:]!r} {done.stderr[-200:]!r}"
    if result["status"] == "error":
        error = result["error"] or {}
        if done.returncode not in (125, 126, 127):
            return f"{what}: refused with exit {done.returncode}"
        if not error.get("stage") or not error.get("text"):
            return f"{what}: refused without saying why: {error} {done.stderr!r}"
        return None
    if result["status"] != "exited":
        return f"{what}: {result['status']}: {result['notes']}"
    try:
        seen = json.loads(result["stdout"])
    except ValueError:
        # The fault hit the witness itself: what it lacks is no claim of brig.
        return None if result["exit_code"] else f"{what}: no witness: {result['stdout']!r}"
    wrong = contradictions(result["isolation"], seen)
    return f"{what}: tier {result['isolation']['tier']} but not true: {wrong}" if wrong else None


def have_strace():
    return shutil.which("strace") is not None and subprocess.run(
        ["strace", "-qq", "-o", "/dev/null", "-e", "inject=getpid:error=EPERM", "true"],
        check=False, capture_output=True).returncode == 0
