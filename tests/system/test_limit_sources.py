# SPDX-License-Identifier: MIT
"""Cases 21 and 22: where limits come from: defaults, the caller, a job's metadata, the operator."""
import json
import os
import stat

import pytest
from conftest import MOUNTS, has_cgroup, message

MIB = 1 << 20

DEFAULTS = {
    "memory_bytes": 2 << 30, "cpus": 1 if has_cgroup() else None, "pids": 100, "timeout_seconds": 1800,
    "kill_after_seconds": 3, "cpu_time_seconds": None, "output_bytes": 10 << 20,
    "open_files": None, "file_size_bytes": None, "result_bytes": 16 << 20,
}


def write_json(path, value):
    path.write_text(json.dumps(value))
    return path


@pytest.mark.parametrize("key, value, field, expected", [
    ("memory", "64M", "memory_bytes", 64 * MIB),
    pytest.param("cpus", "0.5", "cpus", 0.5, marks=pytest.mark.cgroup("it keeps this limit")),
    ("pids", "17", "pids", 17),
    ("timeout", "1m30s", "timeout_seconds", 90),
    ("kill_after", "250ms", "kill_after_seconds", 0.25),
    ("cpu_time", "2m", "cpu_time_seconds", 120),
    ("output", "1K", "output_bytes", 1024),
    ("result_size", "1M", "result_bytes", MIB),
    ("open_files", "50", "open_files", 50),
    ("file_size", "1G", "file_size_bytes", 1 << 30),
])
def test_case_21_setting_one_limit_keeps_the_others(brig, tmp_path, key, value, field, expected):
    """By option, by variable, by spec and by metadata: that one changes, no other does."""
    spec = write_json(tmp_path / "spec", {key: value})
    metadata = write_json(tmp_path / "metadata", {"limits": {key: value}})
    ways = [
        (["--" + key.replace("_", "-"), value], {}),
        ([], {"BRIG_" + key.upper(): value}),
        (["--spec", spec], {}),
        (["--metadata", metadata], {}),
    ]
    for options, variables in ways:
        result = brig.result(*options, "--", "true", env={**os.environ, **variables})
        assert result["limits"] == {**DEFAULTS, field: expected}


def test_case_21_no_setting_is_the_default(brig):
    assert brig.result("--", "true")["limits"] == DEFAULTS


def test_case_21_unlimited_lifts_only_that_one(brig):
    result = brig.result("--memory", "unlimited", "--", "true")
    assert result["limits"] == {**DEFAULTS, "memory_bytes": None}
    assert "memory" in result["isolation"]["off"]


def with_operator(path):
    """A command that executes another one where the file is /etc/brig/limits.json: in a mount
    namespace of its own, so that nobody else sees it."""
    setup = ("mount -t tmpfs -o mode=755 tmpfs /etc && mkdir /etc/brig && "
             'cp -a "$0" /etc/brig/limits.json && exec "$@"')
    return [*MOUNTS, "sh", "-c", setup, str(path)]


@pytest.fixture
def operator(tmp_path):
    """Make an operator's file: operator({"memory": "64M"}) gives what to put before brig."""

    def make(maximum):
        path = write_json(tmp_path / "limits.json", {"maximum": maximum})
        path.chmod(0o644)
        return with_operator(path)

    return make


def test_case_22_metadata_overrides_field_by_field(brig, tmp_path):
    job = {"name": "x", "owner": {"limits": 3}, "limits": {"memory": "64M", "timeout": 5}}
    result = brig.result("--metadata", write_json(tmp_path / "job", job), "--", "true")
    assert result["limits"] == {**DEFAULTS, "memory_bytes": 64 * MIB, "timeout_seconds": 5}


def test_case_22_metadata_without_limits_changes_nothing(brig, tmp_path):
    job = write_json(tmp_path / "job", {"memory": "1M", "command": ["false"]})
    result = brig.result("--metadata", job, "--", "true")
    assert (result["limits"], result["exit_code"]) == (DEFAULTS, 0)


def test_case_22_metadata_up_to_the_maximum(brig, operator, tmp_path):
    job = write_json(tmp_path / "job", {"limits": {"memory": "256M", "pids": 50}})
    result = brig.result("--metadata", job, "--", "true",
                         before=operator({"memory": "256M", "pids": 50}))
    assert (result["limits"]["memory_bytes"], result["limits"]["pids"]) == (256 * MIB, 50)


@pytest.mark.parametrize("way", ["option", "variable", "spec", "metadata"])
def test_case_22_over_the_maximum_is_refused_with_both_numbers(brig, operator, tmp_path, marker,
                                                              way):
    spec = write_json(tmp_path / "spec", {"memory": "512M"})
    metadata = write_json(tmp_path / "metadata", {"limits": {"memory": "512M"}})
    options = {"option": ["-m", "512M"], "spec": ["--spec", spec],
               "metadata": ["--metadata", metadata], "variable": []}[way]
    variables = {"BRIG_MEMORY": "512M"} if way == "variable" else {}
    done = brig.run(*options, "--", "touch", marker, before=operator({"memory": "256M"}),
                    env={**os.environ, **variables})
    assert done.returncode == 125
    assert "memory" in message(done)
    assert "512 MiB" in message(done) and "256 MiB" in message(done)
    assert not marker.exists()


@pytest.mark.parametrize("key, maximum, value", [
    ("timeout", "1h", "2h"), ("cpus", 1.5, "2"), ("pids", 200, "201"), ("output", "1M", "2M"),
    ("kill_after", "5s", "6s"), ("cpu_time", "10s", "11s"), ("open_files", 100, "101"),
    ("file_size", "1G", "2G"), ("result_size", "1M", "2M"), ("memory", "1G", "unlimited"),
])
def test_case_22_every_limit_has_a_maximum(brig, operator, marker, key, maximum, value):
    done = brig.run("--" + key.replace("_", "-"), value, "--", "touch", marker,
                    before=operator({key: maximum}))
    assert done.returncode == 125
    assert key in message(done) and "maximum" in message(done)
    assert not marker.exists()


def test_case_22_default_over_the_maximum_is_lowered(brig, operator):
    """Nobody asked for the default, so nobody is refused; no limit at all counts as over."""
    result = brig.result("--", "true", before=operator({"memory": "256M", "cpu_time": "1m"}))
    assert result["limits"] == {**DEFAULTS, "memory_bytes": 256 * MIB, "cpu_time_seconds": 60}


def test_case_22_a_maximum_raises_no_default(brig, operator):
    """Open files are a share of the machine's by default: the operator's maximum is no wish for more, but can be less."""
    share = int(brig.result("--", "sh", "-c", "ulimit -Hn")["stdout"])
    assert share < 100_000_000
    for maximum, expected in ((100_000_000, share), (share - 1, share - 1)):
        result = brig.result("--", "sh", "-c", "ulimit -Hn", before=operator({"open_files": maximum}))
        assert int(result["stdout"]) == expected


@pytest.mark.parametrize("text, named", [
    ("not json", "line 1"),
    ('{"maximum": {"memory": "lots"}}', "memory"),
    ('{"maximum": {"memory": [1]}}', "memory"),
    ('{"maximum": {"memori": "1G"}}', "memori"),
    ('{"maximum": {"workdir": "/"}}', "workdir"),
    ('{"maximums": {}}', "maximums"),
    ('{"maximum": 3}', "maximum"),
    ('[]', "object"),
    ("", "line 1"),
])
def test_case_22_broken_operator_file_stops_every_run(brig, tmp_path, marker, text, named):
    """A file that cannot be understood does not count as no file."""
    path = tmp_path / "limits.json"
    path.write_text(text)
    path.chmod(0o644)
    done = brig.run("--", "touch", marker, before=with_operator(path))
    assert done.returncode == 125
    assert "/etc/brig/limits.json" in message(done) and named in message(done)
    assert not marker.exists()


@pytest.mark.parametrize("mode, owner", [
    (0o666, 0), (0o664, 0), pytest.param(0o644, 65534, marks=pytest.mark.root("gives a file to somebody else"))])
def test_case_22_operator_file_of_somebody_else(brig, tmp_path, marker, mode, owner):
    path = write_json(tmp_path / "limits.json", {"maximum": {}})
    if owner:
        os.chown(path, owner, owner)
    path.chmod(mode)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    done = brig.run("--", "touch", marker, before=with_operator(path))
    assert done.returncode == 125
    assert "/etc/brig/limits.json" in message(done) and "root" in message(done)
    assert not marker.exists()


def test_case_22_operator_file_is_a_link(brig, tmp_path, marker):
    target = write_json(tmp_path / "target", {"maximum": {}})
    link = tmp_path / "link"
    link.symlink_to(target)
    done = brig.run("--", "touch", marker, before=with_operator(link))
    assert done.returncode == 125
    assert "/etc/brig/limits.json" in message(done)
    assert not marker.exists()
