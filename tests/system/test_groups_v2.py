# SPDX-License-Identifier: MIT
"""Where a run's group goes on cgroup v2. Needs a machine with v2 and root: the virtual one."""
import json
import os
import subprocess
import uuid

import pytest

from conftest import BRIG, SLOW, children_of, init_of

pytestmark = pytest.mark.v2

ROOT = "/sys/fs/cgroup"
HUNGRY = ["-m", "64M", "--", "/usr/bin/python3", "-c", "x = bytearray(200 << 20)"]
OWN_GROUP = ["--stdin", "-", "--", "sh", "-c", "cat /proc/self/cgroup; read x"]


class Group:
    """A cgroup of the test's own, removed at its end."""

    def __init__(self):
        self.path = os.path.join(ROOT, "test-" + uuid.uuid4().hex[:8])
        os.mkdir(self.path)

    def child(self, name):
        path = os.path.join(self.path, name)
        os.mkdir(path)
        return path

    def write(self, file, text, path=None):
        with open(os.path.join(path or self.path, file), "w", encoding="ascii") as out:
            out.write(text)

    def delegate(self, uid, path=None):
        """As systemd does it: the directory and the three files that move processes and controllers."""
        path = path or self.path
        os.chown(path, uid, uid)
        for file in ("cgroup.procs", "cgroup.subtree_control", "cgroup.threads"):
            os.chown(os.path.join(path, file), uid, uid)

    def remove(self):
        for name in os.listdir(self.path):
            path = os.path.join(self.path, name)
            if os.path.isdir(path):
                os.rmdir(path)
        os.rmdir(self.path)


@pytest.fixture
def group():
    group = Group()
    yield group
    group.remove()  # fails if brig left something in it


def command_in(path, args, user=None):
    """`brig run ARGS`, executed by a process that is alone in the group."""
    enter = 'echo $$ > "$0/cgroup.procs"; exec "$@"'
    drop = ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups"] if user else []
    return ["sh", "-c", enter, path, *drop, BRIG, "run", *args]


def run_in(path, args, user=None):
    """The result of `brig run --json ARGS` started by a process that is alone in the group."""
    done = subprocess.run(command_in(path, ["--json", *args], user), capture_output=True, cwd="/",
                          timeout=120 * SLOW, check=False)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def guest_group(path, user=None):
    """The group of the guest of a brig that is alone in the given one. It is read from outside: the
    guest itself has a namespace of groups, in which its own is the root."""
    process = subprocess.Popen(command_in(path, OWN_GROUP, user), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, cwd="/")
    seen_inside = process.stdout.readline()
    init = init_of(process)
    guest, = children_of(init)
    with open(f"/proc/{guest}/cgroup", encoding="utf-8") as groups:
        seen_outside = groups.read()
    process.communicate(b"go\n", timeout=120 * SLOW)
    assert (process.returncode, seen_inside) == (0, b"0::/\n")
    return seen_outside.strip().removeprefix("0::")


def test_a_process_in_the_root_group_gets_groups_there(brig):
    assert os.path.dirname(guest_group(ROOT)) == "/"
    assert brig.result("--", "true")["isolation"]["layers"]["memory"] == "cgroup v2"


def test_beside_the_callers_group_if_that_has_no_limits(group):
    """Its own group holds processes, so it cannot have children with controllers."""
    leaf = group.child("leaf")
    keeper = subprocess.Popen(["sleep", "1000"])
    try:
        group.write("cgroup.procs", str(keeper.pid), leaf)
        assert os.path.dirname(guest_group(leaf)) == group.path.removeprefix(ROOT)
    finally:
        keeper.kill()
        keeper.wait()


def test_never_out_of_a_group_that_limits_the_caller(group):
    """With company and a limit there is no place: sampling, said so, and --require refuses."""
    group.write("memory.max", "500M")
    keeper = subprocess.Popen(["sleep", "1000"])
    try:
        group.write("cgroup.procs", str(keeper.pid))
        result = run_in(group.path, ["--", "true"])
        assert result["isolation"]["layers"]["memory"].startswith("sampling")
        assert "cgroup" in result["isolation"]["degraded"]
        refused = run_in(group.path, ["--require", "cgroup", "--", "true"])
        assert refused["status"] == "error" and "cgroup" in refused["notes"]
    finally:
        keeper.kill()
        keeper.wait()


def test_alone_in_a_limited_group_it_makes_room_and_puts_all_back(group):
    group.write("memory.max", "500M")
    assert os.path.dirname(guest_group(group.path)) == group.path.removeprefix(ROOT)
    with open(os.path.join(group.path, "cgroup.subtree_control"), encoding="ascii") as control:
        assert control.read().strip() == ""
    assert not [name for name in os.listdir(group.path) if name.startswith("brig")]


def test_an_ordinary_user_in_a_delegated_group(group):
    leaf = group.child("leaf")
    group.write("cgroup.subtree_control", "+memory +pids +cpu")
    group.delegate(65534)
    group.delegate(65534, leaf)
    result = run_in(leaf, HUNGRY, user=65534)
    assert result["status"] == "memory_limit"
    assert result["isolation"]["layers"]["cpus"] == "cgroup v2"
    assert guest_group(leaf, user=65534).startswith(group.path.removeprefix(ROOT) + "/")


def test_a_delegated_group_without_cpu_degrades_only_that(group):
    leaf = group.child("leaf")
    group.write("cgroup.subtree_control", "+memory +pids")
    group.delegate(65534)
    group.delegate(65534, leaf)
    os.chown(os.path.join(group.path, "cgroup.subtree_control"), 0, 0)
    result = run_in(leaf, ["--", "true"], user=65534)
    assert result["isolation"]["layers"]["memory"] == "cgroup v2"
    assert "cpu controller" in result["isolation"]["degraded"]["cpus"]


def test_an_ordinary_user_without_delegation_gets_sampling():
    result = run_in(ROOT, HUNGRY, user=65534)
    assert result["status"] == "memory_limit"
    assert "sampling" in result["notes"]


def test_oom_takes_the_whole_group(brig):
    """memory.oom.group: the siblings of the victim die with it, though nobody signals them."""
    result = brig.result("-m", "64M", "--", "sh", "-c",
                         "sleep 1000 & exec /usr/bin/python3 -c 'x = bytearray(200 << 20)'")
    assert result["status"] == "memory_limit"
