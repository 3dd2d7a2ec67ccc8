"""The tier without namespaces: what landlock and seccomp have to hold alone."""
import os
import platform
import socket

import pytest
from conftest import HERE, NOBODY, PYTHON
from guest_code import PRELUDE

CONFINE = [PYTHON, "-I", "-S", os.path.join(HERE, "confine.py")]
pytestmark = pytest.mark.skipif(platform.machine() != "x86_64",
                                reason="the filter of confine.py is for x86-64")


def check(probe, code, *options, cwd=None, bare=True):
    """Escapes without brig, held in the degraded tier."""
    if bare:
        said = probe.bare(code)
        assert "ESCAPED" in said and "HELD" not in said, f"the probe does not work: {said}"
    result = probe.brig.result(*options, "--", PYTHON, "-u", "-c", code, cwd=cwd or probe.work,
                               before=[*probe.prefix, *CONFINE])
    said = (result["stdout"] or "") + (result["stderr"] or "")
    assert result["isolation"]["tier"] == "degraded", result["isolation"]
    assert "HELD" in said and "ESCAPED" not in said, said
    return result


def beside(probe, name, text=""):
    """A file of the caller's that is not in the work folder."""
    path = os.path.join(os.path.dirname(probe.work), name)
    with open(path, "w", encoding="ascii") as out:
        out.write(text)
    if probe.user == "user":
        os.chown(path, NOBODY, NOBODY)
    return path


@pytest.mark.parametrize("folder", ["/", "HOME"])
def test_folder_that_is_too_much_is_not_writable(probe, folder):
    """Started in the root or in a home, the guest starts in its scratch folder instead."""
    path = beside(probe, "victim", "kept")
    home = os.path.dirname(path)
    code = f"""
try: open({path!r}, 'a').write('x'); print('ESCAPED')
except OSError: print('HELD')
"""
    probe.bare(code)
    result = probe.brig.result("--", PYTHON, "-u", "-c", code, cwd="/" if folder == "/" else home,
                               before=[*probe.prefix, *CONFINE], env={**os.environ, "HOME": home})
    assert result["stdout"] == "HELD\n", result


def test_limits_and_priorities_of_others(probe):
    """init has an ordinary pid here, and may have the guest's user."""
    check(probe, PRELUDE + """
reached = []
pid = os.fork()
if pid == 0:
    signal.pause()
limit = struct.pack('QQ', 1 << 20, 1 << 20)
for target in (os.getppid(), pid):
    if call_number(302, target, 7, limit, 0) == 0: reached.append(('prlimit64', target))
    if call_number(203, target, 8, struct.pack('Q', 1)) == 0: reached.append(('affinity', target))
    if call_number(141, 0, target, 19) == 0: reached.append(('setpriority', target))
    if call_number(251, 1, target, 3 << 13) == 0: reached.append(('ioprio', target))
    if call_number(101, 0x4206, target, 0, 0) == 0: reached.append(('ptrace', target))
os.kill(pid, 9)
verdict(reached)
""")


def test_what_listens_on_the_host(probe):
    """Landlock does not look at sockets that have a path."""
    path = os.path.join(probe.work, "listening")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        os.chmod(path, 0o777)
        server.listen(8)
        check(probe, f"""
import socket
try:
    socket.socket(socket.AF_UNIX).connect({path!r})
    print('ESCAPED')
except OSError as e: print('HELD', e)
""")


def test_nothing_of_system_v_stays_behind(probe):
    check(probe, PRELUDE + """
reached = []
for name, number, args, remove in (('shm', 29, (0, 4096, 0o1600), 31), ('msg', 68, (0, 0o1600), 71),
                                   ('sem', 64, (0, 1, 0o1600), 66)):
    made = call_number(number, *args)
    if made >= 0:
        reached.append(name)
        call_number(remove, made, 0, 0) if name != 'sem' else call_number(remove, made, 0, 0, 0)
verdict(reached)
""")


def test_scratch_is_private_and_gone(probe):
    """However deep, whatever its modes; the host's /tmp is not the guest's."""
    result = probe.brig.result("--", "sh", "-c", """
set -e
test "$HOME" = "$TMPDIR"; echo "$HOME"; cd "$HOME"
i=0; while [ $i -lt 300 ]; do mkdir d; cd d; i=$((i+1)); done
touch f; chmod 0 .; cd "$HOME"; chmod 0 d
ls /tmp >/dev/null 2>&1 && echo ESCAPED; touch /tmp/x 2>/dev/null && echo ESCAPED; true
""", cwd=probe.work, before=[*probe.prefix, *CONFINE])
    assert result["exit_code"] == 0 and "ESCAPED" not in result["stdout"], result
    scratch = result["stdout"].strip()
    assert scratch.startswith("/tmp/brig.") and not os.path.exists(scratch)
