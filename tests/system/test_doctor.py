# SPDX-License-Identifier: MIT
"""brig doctor, and the refusals that send people to it, where something is missing: the cause is the right one."""
import json
import os
import shutil
import subprocess
import tempfile

import pytest
from conftest import CONFINED, IS_ROOT, has_cgroup, message, needs_confine

# Somebody who has no cgroup.
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if IS_ROOT else []
without_cgroup = pytest.mark.skipif(not IS_ROOT and has_cgroup(), reason="optional: needs an ordinary user without a cgroup")
# Where no systemd runs, as in most containers.
NO_SYSTEMD = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /run && exec "$@"', "sh"]

# The system's own directories in a chroot; $2 is "bind" where its root is to be a mount.
CHROOT = """
root=$1 how=$2; shift 2
if [ "$how" = bind ]; then mount --bind "$root" "$root"; fi
for name in bin sbin lib lib32 lib64 libx32; do
    if [ -L /$name ]; then cp -P /$name "$root/"; elif [ -d /$name ]; then mkdir "$root/$name"; mount --bind /$name "$root/$name"; fi
done
mkdir "$root/usr" "$root/proc" "$root/dev" "$root/tmp" "$root/etc"; chmod 1777 "$root/tmp"
mount --bind /usr "$root/usr"; mount --rbind /dev "$root/dev"; mount -t proc proc "$root/proc"
cd /; exec chroot "$root" "$@"
"""


@pytest.fixture
def chrooted(brig, tmp_path):
    """Run brig in a real chroot."""
    def run(how, *args, before=()):
        root = tmp_path / f"root-{len(os.listdir(tmp_path))}"
        root.mkdir()
        os.chmod(tmp_path, 0o755)
        shutil.copy(brig.command()[0], root / "brig")
        return subprocess.run(["unshare", "-m", "sh", "-euc", CHROOT, "sh", root, how, *before, "/brig", *args],
                              capture_output=True, check=False, timeout=60, stdin=subprocess.DEVNULL)
    return run


@pytest.mark.root("makes a chroot, and mounts a /proc in it")
@pytest.mark.parametrize("how", ["plain", "bind"])
@pytest.mark.parametrize("user", ["root", "nobody"])
def test_review_u10_chroot_is_named_and_no_filter_is_blamed(chrooted, how, user):
    before = NOBODY if user == "nobody" else []
    done = chrooted(how, "run", "--", "true", before=before)
    text = message(done)
    assert done.returncode == 125, done
    assert "chroot" in text and "pivot_root" in text and "seccomp" not in text and "brig doctor" in text
    done = chrooted(how, "doctor", "--json", before=before)
    rows = {row["name"]: row for row in json.loads(done.stdout)["layers"]}
    assert "chroot" in rows["user"]["fix"] and "seccomp" not in rows["user"]["fix"]


@needs_confine
@pytest.mark.root("mounts over /run and becomes another user")
def test_review_u10_systemd_is_proposed_only_where_it_runs(brig):
    with tempfile.TemporaryDirectory() as readable:  # for nobody, wherever the build is
        os.chmod(readable, 0o755)
        brig.binary = shutil.copy(brig.binary, readable)
        done = brig.run("--json", verb="doctor", before=[*NO_SYSTEMD, *NOBODY, *CONFINED], cwd="/tmp")
    rows = {row["name"]: row for row in json.loads(done.stdout)["layers"]}
    assert rows["cgroup"]["state"] == "missing"
    assert "systemd-run" not in done.stdout.decode() and "container" in rows["cgroup"]["fix"]
    assert "seccomp" in rows["user"]["fix"]


@needs_confine
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_review_u10_table_without_cell_and_landlock(brig, form):
    """Nothing can be run at all: each layer is missing, and there is a fix for both kinds."""
    names = json.loads(brig.run("--json", verb="doctor").stdout)["layers"]
    done = brig.run(*form, verb="doctor", before=[*CONFINED, "--no-landlock"])
    text = done.stdout.decode()
    assert done.returncode == 1 and done.stderr == b""
    if form:
        report = json.loads(text)
        assert report["tier"] == "none"
        assert {row["name"] for row in report["layers"]} >= {row["name"] for row in names}
        assert {row["state"] for row in report["layers"]} == {"missing"}
    else:
        assert text.startswith("tier: none\n") and text.count("missing ") >= len(names)
        assert text.count("neither a cell") == 1
        assert "seccomp=unconfined" in text and "CONFIG_SECURITY_LANDLOCK" in text and "doctor" not in text


@needs_confine
@without_cgroup
@pytest.mark.parametrize("options, before", [
    ([], CONFINED),
    (["--require", "user"], [*CONFINED, "env", "BRIG_ISOLATION=auto"]),
    (["--ro", "/etc"], CONFINED),
    (["--isolation", "auto"], [*CONFINED, "--no-landlock"]),
    (["--require", "cgroup"], NOBODY),
    (["--cpus", "1"], NOBODY),
    (["--on-pids-limit", "fail"], NOBODY),
    (["--cpu-priority", "low"], NOBODY),
])
def test_review_u10_refusals_mention_doctor(brig, options, before):
    done = brig.run(*options, "--", "true", before=before, cwd="/tmp")
    text = message(done)
    assert done.returncode == 125 and text.count("brig doctor tells more") == 1, text


def test_review_u10_other_refusals_do_not(brig):
    done = brig.run("--workdir", "/nonexistent", "--", "true")
    assert done.returncode == 125 and "doctor" not in message(done)
