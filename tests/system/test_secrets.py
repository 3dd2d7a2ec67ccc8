# SPDX-License-Identifier: MIT
"""Case 31: a secret of the caller's is not visible inside, wherever the caller has it."""
import os
import uuid

import pytest
from conftest import PYTHON

# Looks for the needle, which is given in two halves so that the search does not find itself.
SEEK = """
import os, sys
needle = (sys.argv[1] + sys.argv[2]).encode()
found = []
def look(path, text):
    if needle in text: found.append(path)
for pid in os.listdir('/proc'):
    if not pid.isdigit(): continue
    for name in ('environ', 'cmdline', 'comm', 'maps', 'mountinfo'):
        try: look(f'/proc/{pid}/{name}', open(f'/proc/{pid}/{name}', 'rb').read())
        except OSError: pass
    for name in ('cwd', 'root', 'exe'):
        try: look(f'/proc/{pid}/{name}', os.readlink(f'/proc/{pid}/{name}').encode())
        except OSError: pass
for fd in range(256):
    try: look(f'descriptor {fd}', os.readlink(f'/proc/self/fd/{fd}').encode() + os.pread(fd, 4096, 0))
    except OSError: pass
for top, directories, files in os.walk('/'):
    directories[:] = [] if top in ('/proc', '/usr', '/dev') else directories
    for name in directories + files:
        path = os.path.join(top, name)
        look(path, name.encode())
        try: look(path, open(path, 'rb').read(65536) if os.path.isfile(path) else b'')
        except OSError: pass
print(found)
"""


@pytest.mark.parametrize("place", ["environment", "command line", "current directory", "open file",
                                   "home"])
def test_case_31_secret_is_not_visible_inside(brig, tmp_path, place):
    needle = uuid.uuid4().hex
    work = tmp_path / "work"
    work.mkdir()
    hidden = tmp_path / (needle if place in ("current directory", "home") else "hidden")
    hidden.mkdir()
    (hidden / "secret").write_text(needle)
    options, kw = ["-w", work], {"env": dict(os.environ)}
    if place == "environment":
        kw["env"]["SECRET"] = needle
    if place == "command line":
        options += ["--label", f"secret={needle}"]
    if place == "current directory":
        kw["cwd"] = hidden
    if place == "home":
        kw["env"]["HOME"] = str(hidden)
    with open(hidden / "secret", encoding="ascii") as secret:
        if place == "open file":
            os.set_inheritable(secret.fileno(), True)
            kw["close_fds"] = False
        done = brig.run(*options, "--", *PYTHON, SEEK, needle[:16], needle[16:], **kw)
    assert (done.returncode, done.stdout) == (0, b"[]\n"), done


def test_case_31_the_search_finds_what_is_shown(brig, tmp_path):
    """What the test above relies on."""
    needle = uuid.uuid4().hex
    (tmp_path / "secret").write_text(needle)
    done = brig.run("-w", tmp_path, "-e", f"SHOWN={needle}", "--", *PYTHON, SEEK, needle[:16],
                    needle[16:])
    assert b"secret'" in done.stdout and b"environ" in done.stdout, done
