# SPDX-License-Identifier: MIT
"""What brig offers to somebody who does not know the word: the name that was meant, and completions."""
import json
import os
import shutil
import subprocess

import pytest


@pytest.mark.parametrize("verb, args, meant", [
    ("run", ["--memroy", "1G", "--", "true"], "--memory"),
    ("run", ["--memroy=1G", "--", "true"], "--memory"),
    ("run", ["--kill_after", "1s", "--", "true"], "--kill-after"),
    ("explain", ["--jsno", "--", "true"], "--json"),
    ("batch", ["--job", "3", "/dev/null"], "--jobs"),
    ("mcp", ["--tool", "x"], "--tools"),
    ("mcp", ["--netwrok", "host"], "--network"),
    ("call", ["t", "--arg", "{}"], "--args"),
    ("run", ["--require", "landlok", "--", "true"], "landlock"),
    ("run", ["--require", "user,secomp", "--", "true"], "seccomp"),
    ("rnu", ["--", "true"], "brig run"),
    ("docter", [], "brig doctor"),
])
def test_review_u10_did_you_mean(brig, verb, args, meant):
    done = brig.run(*args, verb=verb)
    assert done.returncode == 2 and done.stdout == b""
    assert f"(did you mean {meant}?)" in done.stderr.decode()


@pytest.mark.parametrize("verb, args", [
    ("run", ["--frobnicate", "--", "true"]), ("run", ["-Z", "--", "true"]), ("frobnicate", []),
    ("run", ["--require", "frobnicate", "--", "true"]), ("run", ["--" + "a" * 5000, "--", "true"]),
])
def test_review_u10_no_guess_where_nothing_is_near(brig, verb, args):
    done = brig.run(*args, verb=verb)
    assert done.returncode == 2
    assert b"did you mean" not in done.stderr


@pytest.mark.parametrize("text, meant", [
    ({"memroy": "1G", "command": ["true"]}, "memory"), ({"comand": ["true"]}, "command"),
    ({"open-files": 3, "command": ["true"]}, "open_files"),
])
def test_review_u10_keys_of_a_spec(brig, tmp_path, text, meant):
    (tmp_path / "spec.json").write_text(json.dumps(text))
    done = brig.run("--spec", str(tmp_path / "spec.json"))
    assert done.returncode == 2
    assert f"is not a key (did you mean {meant}?)" in done.stderr.decode()


def test_review_u10_limits_of_metadata(brig, tmp_path):
    """Only limits are offered where only limits are taken."""
    (tmp_path / "job.json").write_text('{"limits": {"pidz": 3}}')
    done = brig.run("--metadata", str(tmp_path / "job.json"), "--", "true")
    assert done.returncode == 2 and b"did you mean pids?" in done.stderr
    (tmp_path / "job.json").write_text('{"limits": {"netwrok": "host"}}')
    done = brig.run("--metadata", str(tmp_path / "job.json"), "--", "true")
    assert done.returncode == 2 and b"did you mean" not in done.stderr


# ---- completions -----------------------------------------------------------------------------

def complete(brig, tmp_path, *words):
    """What bash offers for the last word, in a directory with one file."""
    (tmp_path / "script").write_bytes(brig.run("bash", verb="completion").stdout)
    os.makedirs(tmp_path / "files", exist_ok=True)
    (tmp_path / "files" / "a-file").touch()
    code = (f"source {tmp_path}/script; COMP_WORDS=({' '.join(repr(w) for w in words)}); "
            f"COMP_CWORD={len(words) - 1}; _brig; printf '%s\\n' \"${{COMPREPLY[@]}}\"")
    done = subprocess.run(["bash", "-c", code], capture_output=True, check=True, cwd=tmp_path / "files")
    return done.stdout.decode().split()


def test_review_u10_completion_offers_every_layer(brig, tmp_path):
    """The names are those of a result, so that none is missing when a layer is added."""
    isolation = brig.result("--", "true")["isolation"]
    layers = {*isolation["layers"], *isolation["degraded"], *isolation["off"]}
    assert layers == set(complete(brig, tmp_path, "brig", "run", "--require", ""))


@pytest.mark.parametrize("words, expected", [
    (["run", "--require", "land"], ["landlock"]),
    (["run", "--require", "user,mo"], ["user,mount"]),
    (["run", "--require", "=", "land"], ["landlock"]),
    (["mcp", "--require", "land"], ["landlock"]),
    (["mcp", "--network", "h"], ["host"]),
    (["run", "--network", "="], ["none", "host"]),
    (["run", "--on-output-limit", ""], ["kill", "truncate"]),
    (["run", "--redact-set", "tok"], ["tokens"]),
    (["run", "--redact-pattern", ""], []),
    (["run", "--ro", "a"], ["a-file"]),
    (["batch", "--jobs", ""], []),
    (["batch", "a"], ["a-file"]),
])
def test_review_u10_completion_of_values(brig, tmp_path, words, expected):
    assert complete(brig, tmp_path, "brig", *words) == expected


def test_review_u10_completion_of_fish(brig, tmp_path):
    if not shutil.which("fish"):
        pytest.skip("fish is not installed")
    (tmp_path / "script").write_bytes(brig.run("fish", verb="completion").stdout)
    for words, expected in (("--require land", "landlock"), ("--require user,mo", "user,mount"),
                            ("--network h", "host")):
        done = subprocess.run(["fish", "-N", "-c", f"source {tmp_path}/script; complete -C 'brig run {words}'"],
                              capture_output=True, check=True, cwd=tmp_path)
        assert [line.split("\t")[0] for line in done.stdout.decode().splitlines()] == [expected]
