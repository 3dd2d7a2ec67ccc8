# SPDX-License-Identifier: MIT
"""Review rows C5 and C6: root that lacks capabilities, and root on a file system without id-mapped mounts. The guest has
root's own id on the host there, in a user namespace, without any right. What the kernel gives to that id alone is tried."""
import json
import os
import shutil
import subprocess

import pytest
from conftest import PYTHON, frame

pytestmark = [pytest.mark.skipif(bool(frame.WARM), reason="the same with cells built ahead: test_review_c6_warm"),
              pytest.mark.root("it is root that lacks something")]

# As Docker starts root: without CAP_SYS_ADMIN and others, with those that it does give.
DOCKER = ["setpriv", "--bounding-set", "-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap,"
          "+net_bind_service,+net_raw,+sys_chroot,+mknod,+audit_write,+setfcap"]
OVERLAY = ('d=$1; shift; mkdir "$d/in" && mount -t tmpfs -o mode=755 none "$d/in" && cd "$d/in" && mkdir l u w m && '
           'mount -t overlay overlay -o lowerdir=l,upperdir=u,workdir=w m && cd m && exec "$@"')


@pytest.fixture(params=["capabilities", "overlay"])
def way(request, tmp_path):
    """What to put before brig: then its guest has root's id."""
    if request.param == "capabilities":
        return DOCKER
    return ["unshare", "-m", "sh", "-c", OVERLAY, "sh", str(tmp_path)]


@pytest.fixture
def brig(tmp_path):
    made = frame.Brig(tmp_path)
    yield made
    made.assert_nothing_is_left()


def result_of(brig, way, *words):
    return brig.result(*words, before=way)


def test_review_c5_c6_root_gets_a_cell(brig, way):
    """A cell, the work directory writable, what is made in it root's; and the result tells whose id the guest has."""
    result = result_of(brig, way, "--", "sh", "-c", "echo x > made; id -u; cat /proc/self/uid_map; cat made")
    assert result["isolation"]["tier"] == "cell", result
    assert result["stdout"].split() == ["1000", "1000", "0", "1", "x"], result
    assert "root's own id" in result["isolation"]["layers"]["user"]


def test_review_c6_files_belong_to_the_caller(brig, tmp_path):
    script = OVERLAY.replace('exec "$@"', '"$@"; stat -c %u:%g made')
    done = brig.run("--", "sh", "-c", "echo x > made", before=["unshare", "-m", "sh", "-c", script, "sh", str(tmp_path)])
    assert done.stdout == b"0:0\n", done


def test_review_c6_warm(brig, tmp_path):
    done = brig.run("--warm", "--json", "--", "true", before=["unshare", "-m", "sh", "-c", OVERLAY, "sh", str(tmp_path)])
    isolation = json.loads(done.stdout)["isolation"]
    assert isolation["warm"] and "root's own id" in isolation["layers"]["user"]


def test_review_c6_only_where_it_has_to_be(brig):
    """tmpfs of this kernel, and what the tests lie on, have id-mapped mounts: nobody's id."""
    result = brig.result("--", "sh", "-c", "cat /proc/self/uid_map")
    assert "root's own id" not in result["isolation"]["layers"]["user"]
    assert int(result["stdout"].split()[1]) > 60000


@pytest.mark.skipif(not os.path.exists("/dev/fuse") or not shutil.which("fuse-overlayfs"), reason="optional: no FUSE file system at hand")
def test_review_c6_fuse(brig, tmp_path):
    mount = OVERLAY.replace("mount -t overlay overlay -o", "fuse-overlayfs -o")
    result = brig.result("--", "sh", "-c", "echo x > made; cat made", before=["unshare", "-m", "sh", "-c", mount, "sh", str(tmp_path)])
    assert result["stdout"] == "x\n", result


@pytest.mark.parametrize("options, named", [(("--view", "host"), "view")])
def test_review_c6_what_would_not_be_sound_is_refused(brig, way, options, named):
    done = brig.run(*options, "--", "echo", "ran", before=way)
    assert (done.returncode, done.stdout) == (125, b"")
    assert named in done.stderr.decode() and "root's own id" in done.stderr.decode()


ATTACKS = {
    "sysctl": "open('/proc/sys/kernel/core_pattern', 'w').write('x')",
    "sysctl_user": "open('/proc/sys/user/max_user_namespaces', 'w').write('1')",
    "sysrq": "open('/proc/sysrq-trigger', 'w').write('h')",
    "irq": "open(glob.glob('/proc/irq/*/smp_affinity')[0], 'w').write('1')",
    "kpagecount": "open('/proc/kpagecount', 'rb').read(8)",
    "kpageflags": "open('/proc/kpageflags', 'rb').read(8)",
    "kcore": "open('/proc/kcore', 'rb').read(8)",
    "kmsg": "open('/proc/kmsg', 'rb').read(8)",
    "timer_list": "open('/proc/timer_list').read(8)",
    "slabinfo": "open('/proc/slabinfo').read(8)",
    "vmallocinfo": "open('/proc/vmallocinfo').read(8)",
    "fastopen_key": "open('/proc/sys/net/ipv4/tcp_fastopen_key').read()",
    "helper_rights": "open('/proc/sys/kernel/usermodehelper/bset').read()",
    "cad_pid": "open('/proc/sys/kernel/cad_pid').read()",
    "stat_refresh": "open('/proc/sys/vm/stat_refresh').read()",
    "tty_driver": "os.listdir('/proc/tty/driver')",
    "stable_secret": "os.stat('/proc/sys/net/ipv6/conf/all/stable_secret')",
    "uncover": "libc.umount2(b'/proc', 2) == 0 or fail()",
    "remount": "libc.mount(None, b'/proc', None, 4128, None) == 0 or fail()",
    "init_visible": "os.stat('/proc/1')",
    "init_exe": "os.readlink('/proc/1/exe')",
    "init_root": "os.listdir('/proc/1/root/')",
    "init_fd": "os.listdir('/proc/1/fd')",
    "init_stop": "os.kill(1, 19)",
    "init_trace": "libc.ptrace(0x4206, 1, 0, 0) == 0 or fail()",
    "init_limits": "__import__('resource').prlimit(1, 7, (1, 1))",
    "init_descriptors": "libc.syscall(438, os.pidfd_open(1), 0, 0) >= 0 or fail()",
    "system_files": "open('/usr/bin/env', 'r+b')",
    "system_modes": "os.chmod('/usr/bin/env', 0o777)",
    "device_modes": "os.chmod('/dev/full', 0o666)",
    "device_times": "os.utime('/dev/zero')",
    "device_owners": "os.chown('/dev/tty', 0, 0)",
    "device_of_stdin": "os.fstat(0).st_rdev == 0 and fail() or os.fchmod(0, 0o666)",
    "system_times": "os.utime('/usr/bin/env')",
    "new_in_etc": "open('/etc/x', 'w')",
    "shadow": "open('/etc/shadow')",
    "roots_home": "os.listdir('/root')",
    "sys": "os.listdir('/sys/kernel')",
    "cgroup": "os.listdir('/sys/fs/cgroup')",
    "device": "os.mknod('sda', 0o60660, 8 << 8) or open('sda', 'rb')",
    "device_memory": "open('/dev/mem', 'rb')",
    "user_namespace": "libc.unshare(0x10000000) == 0 or fail()",
    "setuid": "os.setuid(0)",
    "setuid_file": "(open('s', 'w').close(), os.chmod('s', 0o4755))",
    "chown": "(open('o', 'w').close(), os.chown('o', 0, 0))",
    "file_capability": "(open('c', 'w').close(), os.setxattr('c', 'security.capability', bytes.fromhex('0100000200000000000000000000000000000000')))",
    "trusted_attribute": "(open('t', 'w').close(), os.setxattr('t', 'trusted.x', b'x'))",
    "keyring": "libc.syscall(250, 0, -4, 1) >= 0 or fail()",
    "open_by_handle": "libc.syscall(304, -100, b'x' * 16, 0) >= 0 or fail()",
    "covers": "os.chmod('/dev/.nothing', 0o644)",
    "host_name": "libc.sethostname(b'x', 1) == 0 or fail()",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_review_c6_roots_id_reaches_nothing_of_root(brig, way, attack):
    code = f"""
import ctypes, glob, os
libc = ctypes.CDLL(None, use_errno=True)
def fail(): raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
try:
    {ATTACKS[attack]}
    print('ESCAPED')
except (OSError, IndexError, ValueError) as e: print('HELD', e)
"""
    result = result_of(brig, way, "--", PYTHON, "-c", code)
    assert result["stdout"].startswith("HELD") and "ESCAPED" not in result["stdout"], result["stdout"] + result["stderr"]


def test_review_c6_what_not_everybody_may_read_is_covered(brig, way):
    """In all of /proc but the guest's own processes; what everybody may read is there as before."""
    code = """
import os
bad = []
for top in os.listdir('/proc'):
    for at, directories, files in os.walk('/proc/' + top) if not top.isdecimal() and not os.path.islink('/proc/' + top) else ():
        for name in [*directories, *files]:
            path = os.path.join(at, name)
            mode = os.lstat(path).st_mode
            if not mode & 4 and os.access(path, os.R_OK): bad.append(path)
print(*bad, open('/proc/sys/kernel/pid_max').read().isspace(), open('/proc/sys/net/core/somaxconn').read().isspace())
"""
    result = result_of(brig, way, "--", PYTHON, "-c", code)
    assert result["stdout"] == "False False\n", result["stdout"] + result["stderr"]


def test_review_c6_processes_of_root_are_out_of_reach(brig, way):
    with subprocess.Popen(["sleep", "60"]) as canary:
        try:
            result = result_of(brig, way, "--", "sh", "-c", f"ls /proc | grep -c '^[0-9]'; kill -9 {canary.pid} || echo HELD")
            assert result["stdout"].endswith("HELD\n") and canary.poll() is None, result
            assert int(result["stdout"].split()[0]) <= 4, result  # its own alone
        finally:
            canary.kill()
