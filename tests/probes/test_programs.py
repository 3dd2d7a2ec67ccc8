# SPDX-License-Identifier: MIT
"""Real programs at work in the default cell: what is confined must still be of use."""
import os
import shutil
import textwrap

import pytest
from conftest import NOBODY, NOBODY_GROUP, PYTHON, SLOW

LIMIT = ("--timeout", f"{60 * SLOW}s")


@pytest.fixture
def at_work(probe):
    """Run a command in the cell and expect it to end well. Returns its stdout."""

    def run(*command, options=(), code=0):
        result = probe.brig.result("-w", probe.work, *LIMIT, *options, "--", *command, before=probe.prefix, cwd=probe.work,
                                   timeout=90)
        assert (result["status"], result["exit_code"]) == ("exited", code), \
            f"{result['status']} {result['exit_code']} {result['notes']}\n{result['stdout']}\n{result['stderr']}"
        assert result["isolation"]["tier"] == "cell"
        return result["stdout"]
    run.probe = probe
    return run


def write(probe, name, text, mode=0o644):
    path = os.path.join(probe.work, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as out:
        out.write(textwrap.dedent(text).lstrip("\n"))
    os.chmod(path, mode)
    return path


def needs(program):
    return pytest.mark.skipif(not shutil.which(program), reason=f"there is no {program} here")


# ---- python ----------------------------------------------------------------------------------

def test_python_threads(at_work):
    assert at_work(PYTHON, "-c", """
import concurrent.futures, hashlib
with concurrent.futures.ThreadPoolExecutor(20) as pool:
    print(len(set(pool.map(lambda n: hashlib.sha256(bytes([n])).hexdigest(), range(100)))))
""") == "100\n"


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_python_multiprocessing(at_work, method):
    write(at_work.probe, "pool.py", f"""
        import multiprocessing as mp
        from multiprocessing import shared_memory
        def square(n):
            return n * n
        def fill(name, lock, value):
            with lock:
                m = shared_memory.SharedMemory(name)
                m.buf[0] = 42
                m.close()
                value.value += 1
        if __name__ == "__main__":
            mp.set_start_method({method!r})
            with mp.Pool(4) as pool:
                print(sum(pool.map(square, range(100))))
            m, lock, value = shared_memory.SharedMemory(create=True, size=4096), mp.Lock(), mp.Value("i", 0)
            p = mp.Process(target=fill, args=(m.name, lock, value))
            p.start(); p.join()
            print(m.buf[0], value.value)
            m.close(); m.unlink()
            q = mp.Queue()
            p = mp.Process(target=q.put, args=("hello",))
            p.start(); print(q.get()); p.join()
        """)
    assert at_work(PYTHON, "pool.py") == "328350\n42 1\nhello\n"


@pytest.mark.parametrize("place", [".", "/tmp"])
@pytest.mark.parametrize("journal", ["WAL", "DELETE", "MEMORY"])
def test_python_sqlite(at_work, place, journal):
    assert at_work(PYTHON, "-c", f"""
import sqlite3
db = sqlite3.connect({place!r} + "/db")
print(db.execute("pragma journal_mode={journal}").fetchone()[0])
db.execute("create table t (n integer primary key, s text)")
with db:
    db.executemany("insert into t (s) values (?)", [(str(i),) for i in range(1000)])
other = sqlite3.connect({place!r} + "/db")
print(other.execute("select count(*), max(s) from t").fetchone())
""") == f"{journal.lower()}\n(1000, '999')\n"


def test_python_asyncio(at_work):
    """Loopback, subprocesses, unix sockets, signals and timers in one loop."""
    assert at_work(PYTHON, "-c", """
import asyncio, os, signal
async def echo(reader, writer):
    writer.write((await reader.readline()).upper()); await writer.drain(); writer.close()
async def main():
    for make, ask in ((lambda: asyncio.start_server(echo, "127.0.0.1", 0), None), (lambda: asyncio.start_unix_server(echo, "s"), "s"),
                      (lambda: asyncio.start_server(echo, "localhost", 0), None)):
        server = await make()
        name = ask or server.sockets[0].getsockname()
        r, w = await (asyncio.open_unix_connection(name) if ask else asyncio.open_connection(name[0], name[1]))
        w.write(b"hello\\n"); print((await r.readline()).decode().strip()); w.close(); server.close()
    p = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
    print((await p.communicate(b"through cat"))[0].decode(), p.returncode)
    got = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, got.set)
    os.kill(os.getpid(), signal.SIGUSR1)
    await asyncio.wait_for(got.wait(), 5)
    print("signal")
asyncio.run(main())
""") == "HELLO\nHELLO\nHELLO\nthrough cat 0\nsignal\n"


def test_python_standard_library(at_work):
    """What looks at the machine: temporary files, users, time zones, the platform, memory maps, locks."""
    assert at_work(PYTHON, "-c", """
import ctypes.util, datetime, fcntl, getpass, grp, mmap, os, platform, pwd, random, select, shutil, socket, ssl, tempfile, time, uuid, zoneinfo
with tempfile.TemporaryDirectory() as d, tempfile.NamedTemporaryFile() as f:
    shutil.copytree("/etc/alternatives", d + "/a", symlinks=True)
    fcntl.flock(f, fcntl.LOCK_EX)
assert pwd.getpwuid(os.getuid()).pw_dir == os.environ["HOME"] == os.path.expanduser("~")
grp.getgrgid(os.getgid()); getpass.getuser(); platform.platform(); uuid.uuid4(); socket.gethostbyname("localhost")
zoneinfo.ZoneInfo("Europe/Berlin"); ssl.create_default_context(); os.cpu_count(); os.getloadavg(); os.urandom(8)
assert ctypes.util.find_library("c")
open(os.path.expanduser("~/x"), "w").write("x"); m = mmap.mmap(-1, 4096); m.write(b"x")
r, w = os.pipe(); os.sched_getaffinity(0); time.get_clock_info("monotonic"); os.memfd_create("x"); os.nice(1)
assert os.access("/dev/null", os.W_OK) and os.path.exists("/proc/self/exe")
print("ok")
""") == "ok\n"


def test_review_u6_flags_that_nobody_knows(at_work):
    """Chromium asks for all flags of memfd_create at once, and aborts unless they are called invalid."""
    assert at_work(PYTHON, "-c", """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def refused(ret): return ret < 0 and errno.errorcode[ctypes.get_errno()]
for flags in (0xFFFFFFFF, 0x4, 0x4 | 21 << 26, 0x100, 0x7FFFFFE0):
    print(refused(libc.memfd_create(b"x", ctypes.c_uint(flags))))
os.memfd_create("x", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
""") == "EINVAL\n" * 5


def test_watching_for_changes(at_work):
    """What tail, node, Go's fsnotify and GLib ask inotify for."""
    assert at_work(PYTHON, "-c", """
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
fd = libc.inotify_init1(0)
for mask in (0x2, 0xFC6, 0x3C6, 0xFCE):
    assert libc.inotify_add_watch(fd, b".", mask) > 0, os.strerror(ctypes.get_errno())
    open("log", "a").close()
    print(os.read(fd, 4096)[16:19]) if mask & 0x100 else open("log", "w").write("x")
    os.unlink("log") if mask & 0x100 else os.truncate("log", 0)
    os.read(fd, 4096)
    if os.path.exists("log"): os.unlink("log")
""") == "b'log'\n" * 3


def test_python_virtual_environment(at_work):
    """A venv in the work directory, without the network."""
    probe = at_work.probe
    at_work(PYTHON, "-m", "venv", "--without-pip", "env")
    assert at_work(os.path.join(probe.work, "env/bin/python3"), "-c", "import sys; print(sys.prefix != sys.base_prefix)") == "True\n"


# ---- tools of a developer --------------------------------------------------------------------

@needs("git")
def test_git(at_work):
    """init, commit, clone of the repository in the work directory, branch, merge, log, gc."""
    write(at_work.probe, "go.sh", """
        set -e
        export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
        git init -q -b main one
        cd one; echo hello >file; git add file; git commit -q -m first; cd ..
        git clone -q one two
        git clone -q "file://$PWD/one" three
        cd two; git checkout -q -b side; echo more >>file; git commit -q -am second; git checkout -q main; git merge -q side
        git push -q origin side
        git gc -q; git fsck --strict 2>&1; git status --porcelain; git stash list
        git log --format=%s
        git config --global user.name x; git config --global user.name
        """)
    assert at_work("sh", "go.sh") == "second\nfirst\nx\n"


@needs("gcc")
@needs("make")
def test_gcc_and_make(at_work):
    """A library, a program and a test of it, built in parallel."""
    probe = at_work.probe
    write(probe, "p/sum.c", "int sum(int a, int b) { return a + b; }\n")
    write(probe, "p/main.c", '#include <math.h>\n#include <pthread.h>\n#include <stdio.h>\nint sum(int, int);\n'
          'static void *t(void *x) { *(int *)x = sum(20, 22); return 0; }\n'
          'int main(void) { int x; pthread_t p; pthread_create(&p, 0, t, &x); pthread_join(p, 0); printf("%d %.0f\\n", x, sqrt(x * x)); }\n')
    write(probe, "p/Makefile", "main: main.o libsum.a\n\tgcc -pthread -o $@ $^ -lm\nlibsum.a: sum.o\n\tar rcs $@ $^\n"
          "%.o: %.c\n\tgcc -O2 -g -c -o $@ $<\ntest: main\n\t./main\n")
    if probe.user == "user":
        for root, directories, _ in os.walk(probe.work):
            for directory in directories:
                os.chown(os.path.join(root, directory), NOBODY, NOBODY_GROUP)
    assert "42 42\n" in at_work("make", "-s", "-j4", "-C", "p", "test")
    assert at_work("p/main") == "42 42\n"


@pytest.mark.root_only("without a cgroup RLIMIT_DATA bounds what may be reserved: docs/SECURITY-MODEL.md")
@needs("g++")
def test_cpp_with_sanitizer(at_work):
    """AddressSanitizer reserves terabytes of address space, and reads /proc/self/maps."""
    write(at_work.probe, "a.cc", "#include <vector>\n#include <cstdio>\nint main() { std::vector<int> v(10, 4); printf(\"%d\\n\", v[3]); }\n")
    at_work("g++", "-fsanitize=address,undefined", "-o", "a", "a.cc")
    assert at_work("./a", options=("-e", "ASAN_OPTIONS=detect_leaks=0")) == "4\n"


@needs("strace")
def test_tracing_ones_own_child(at_work):
    """A debugger's system calls, on what the guest has started itself."""
    out = at_work("sh", "-c", "strace -f -o log true && grep -c execve log")
    assert out == "1\n"


# ---- other languages -------------------------------------------------------------------------

@needs("node")
def test_node(at_work):
    write(at_work.probe, "main.js", """
        const fs = require("fs"), os = require("os"), http = require("http"), path = require("path");
        const { execFileSync, spawn } = require("child_process");
        const { Worker, isMainThread, parentPort } = require("worker_threads");
        if (!isMainThread) { parentPort.postMessage(6 * 7); return; }
        fs.mkdirSync("made/deep", { recursive: true });
        fs.writeFileSync("made/deep/file", "text");
        fs.mkdtempSync(path.join(os.tmpdir(), "x-"));
        console.log(fs.readFileSync("made/deep/file", "utf8"), execFileSync("echo", ["child"]).toString().trim());
        os.cpus(); os.userInfo(); os.networkInterfaces(); os.homedir();
        new Worker(__filename).on("message", (n) => {
          console.log("worker", n);
          const server = http.createServer((q, r) => r.end("served " + q.url)).listen(0, "localhost", () => {
            http.get({ host: "localhost", port: server.address().port, path: "/x" }, (r) => {
              r.on("data", (d) => console.log(d.toString())).on("end", () => {
                server.close();
                spawn("sh", ["-c", "exit 3"]).on("exit", (c) => console.log("exit", c));
              });
            });
          });
        });
        """)
    assert at_work("node", "main.js") == "text child\nworker 42\nserved /x\nexit 3\n"


@needs("node")
def test_node_watches_files(at_work):
    assert at_work("node", "-e", """
const fs = require("fs");
const w = fs.watch(".", (e, n) => { if (n === "new") { console.log("seen"); w.close(); } });
setTimeout(() => fs.writeFileSync("new", "x"), 50);
""") == "seen\n"


@needs("java")
def test_java_version(at_work):
    at_work("java", "-version")


@needs("javac")
def test_java_single_file(at_work):
    write(at_work.probe, "Main.java", """
        import java.nio.file.*;
        import java.util.stream.*;
        public class Main {
            public static void main(String[] args) throws Exception {
                Thread t = new Thread(() -> System.out.println("thread"));
                t.start(); t.join();
                Path p = Files.createTempFile("x", "y");
                Files.writeString(p, "text");
                System.out.println(Files.readString(p) + " " + IntStream.range(0, 1000).parallel().sum());
                System.out.println(new ProcessBuilder("sh", "-c", "exit 3").start().waitFor());
            }
        }
        """)
    assert at_work("java", "Main.java") == "thread\ntext 499500\n3\n"


@needs("perl")
def test_perl(at_work):
    assert at_work("perl", "-MFile::Temp=tempfile", "-MPOSIX", "-MSocket", "-e", r'''
my ($fh, $name) = tempfile(); print $fh "x\n" x 3; close $fh;
open my $in, "<", $name; my @l = <$in>; print scalar(@l), "\n";
my $pid = fork; if (!$pid) { exit 5 } waitpid $pid, 0; print $? >> 8, "\n";
print `echo shell`; socketpair(my $a, my $b, AF_UNIX, SOCK_STREAM, 0) or die; print "ok\n";
''') == "3\n5\nshell\nok\n"


@needs("sqlite3")
def test_sqlite_shell(at_work):
    assert at_work("sqlite3", "db", "create table t(n); insert into t values(1),(2); select sum(n) from t;") == "3\n"


# ---- the shell -------------------------------------------------------------------------------

@needs("bash")
def test_bash(at_work):
    """Heredocs, process substitution, job control, coprocesses, traps, /dev/fd and /dev/tcp."""
    write(at_work.probe, "go.sh", """
        set -eu -o pipefail
        cat <<'A' | tr a-z A-Z | sort -r | head -2
        one
        two
        three
        A
        cat <<<"here string"
        diff <(echo a; echo b) <(echo a; echo c) || true
        set -m
        sleep 60 & sleep 60 & jobs | wc -l
        kill %1 %2; wait || true
        set +m
        coproc cat; echo "to coproc" >&"${COPROC[1]}"; read -r x <&"${COPROC[0]}"; echo "$x"
        kill "$COPROC_PID"
        trap 'echo trapped' USR1; kill -USR1 $$
        echo error >/dev/stderr; echo out >/dev/stdout
        ls /dev/fd/ >/dev/null; [ -r /dev/null ]; echo x >/dev/null
        mkfifo f; (echo fifo >f) & cat f; wait
        x=$(mktemp); echo tmp >"$x"; cat "$x"
        ulimit -n >/dev/null; umask 077; time true 2>/dev/null
        """)
    out = at_work("bash", "go.sh")
    assert out == "TWO\nTHREE\nhere string\n2c2\n< b\n---\n> c\n2\nto coproc\ntrapped\nout\nfifo\ntmp\n", out


def test_shell_pipeline(at_work):
    assert at_work("sh", "-c", "seq 1 100000 | sort -rn | awk '{s += $1} END {printf \"%.0f\\n\", s}' | sed 's/^/sum /' | xargs -n1 echo | tail -1") == \
        "5000050000\n"


def test_shell_job_control(at_work):
    """set -m without a terminal: groups of its own, stopped and continued."""
    assert at_work("bash", "-c", "set -m; sleep 60 & kill -STOP %1; sleep 0.1; jobs -s | grep -c Stopped; kill -CONT %1; kill %1; "
                   "wait %1; echo $?") == "1\n143\n"


@needs("tar")
def test_archives(at_work):
    write(at_work.probe, "go.sh", """
        set -e
        mkdir t; seq 1 1000 >t/a; ln -s a t/b; ln t/a t/c; chmod 750 t/a
        for z in z J j; do tar c${z}f t.tar t 2>/dev/null || continue; mkdir out$z; tar x${z}f t.tar -C out$z; diff -r t out$z/t; done
        rm t/c; gzip -k t/a; zcat t/a.gz | cmp - t/a
        echo same
        """)
    assert at_work("sh", "go.sh") == "same\n"


@needs("curl")
def test_curl_on_loopback(at_work):
    write(at_work.probe, "index.txt", "served\n")
    write(at_work.probe, "go.sh", f"""
        {PYTHON} -m http.server --bind 127.0.0.1 8123 >/dev/null 2>&1 &
        curl -s --retry 50 --retry-connrefused --retry-delay 0 --retry-max-time 20 http://localhost:8123/index.txt
        curl -s -o /dev/null -w '%{{http_code}}\\n' http://127.0.0.1:8123/none
        kill $!
        """)
    assert at_work("sh", "go.sh") == "served\n404\n"


def test_ipv6_loopback(at_work):
    assert at_work(PYTHON, "-c", """
import socket
s = socket.create_server(("::1", 0), family=socket.AF_INET6)
c = socket.create_connection(s.getsockname()[:2]); c.send(b"x"); print(s.accept()[0].recv(1))
""") == "b'x'\n"


# ---- terminals -------------------------------------------------------------------------------

def test_python_pty(at_work):
    """A terminal of the cell's own."""
    assert at_work(PYTHON, "-c", """
import os, pty, sys
out = b""
def read(fd):
    global out
    data = os.read(fd, 1024); out += data
    return data
code = pty.spawn(["sh", "-c", "[ -t 0 ] && [ -t 1 ] && tty && stty size && echo terminal"], read)
sys.stderr.write(out.decode().replace("\\r", "") + str(code))
""").replace("\r", "") == "/dev/pts/0\n0 0\nterminal\n"


@needs("script")
def test_script(at_work):
    out = at_work("script", "-qec", "tty; test -t 1 && echo terminal", "log")
    assert "/dev/pts/" in out and "terminal" in out, out


# ---- what looks at the system ----------------------------------------------------------------

@needs("dpkg")
def test_dpkg_without_the_hosts_var(at_work):
    """/var of the host is not shown: dpkg knows of no packages, and says so without harm. With --ro it
    has them, which is the documented way."""
    assert at_work("dpkg", "--version").startswith("Debian 'dpkg'")
    assert at_work("dpkg", "--print-architecture").strip()
    at_work("dpkg", "--compare-versions", "1.0", "lt", "2.0")
    shown = at_work("dpkg", "-l", "bash", options=("--ro", "/var/lib/dpkg"))
    assert "ii  bash" in shown


@needs("apt-cache")
def test_apt_cache(at_work):
    """apt-cache starts without the host's /var and /etc/apt, and says what it has: nothing."""
    out = at_work("apt-cache", "policy")
    assert "Package files:" in out


def test_system_tools(at_work):
    """Those that read /proc and /sys: they work on what there is."""
    write(at_work.probe, "go.sh", """
        set -e
        ps -e >/dev/null; uname -a >/dev/null; id -un; whoami; hostname; date +%Z >/dev/null; df /tmp >/dev/null; free >/dev/null
        env >/dev/null; nproc >/dev/null; getconf PAGESIZE >/dev/null; locale >/dev/null 2>&1; ls -la / /tmp /dev /etc >/dev/null
        find /usr/bin -name sh | wc -l; stat -c %U . ; touch a && mv a b && cp b c && rm b c; readlink -f /bin/sh >/dev/null
        """)
    assert at_work("bash", "go.sh") == "brig\nbrig\nbrig\n1\nbrig\n"


def test_files_of_the_work_directory_belong_to_the_caller(at_work):
    at_work("sh", "-c", "mkdir -p d/e; echo x >d/e/f; ln -s f d/e/g; chmod 600 d/e/f")
    probe = at_work.probe
    owner = 0 if probe.user == "root" else NOBODY
    for root, directories, files in os.walk(probe.work):
        for name in directories + files:
            assert os.lstat(os.path.join(root, name)).st_uid == owner, name
    at_work("sh", "-c", "cat d/e/f; rm -r d")
