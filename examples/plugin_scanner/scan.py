#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Run the scanner plugins of a directory over a target, side by side, each within its limits.

    scan.py TARGET [--plugins FOLDER] [--json FILE] [--at-once N]

A plugin is NAME.json: {"command": [...], "sandbox": {"timeout_seconds": 5, ...}}. It finds the target in
/target and its own directory in /plugins, both read-only, and prints one finding a line, as JSON:
{"path": "a.py", "line": 3, "title": "..."}. Ends with 1 if there are findings, 2 if a plugin failed.
"""
import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path

import brig
from brig.dropin.secuscan import resolve_sandbox_config, settings

settings.sandbox_timeout = settings.maximum_timeout = 10
settings.sandbox_allow_network = False  # no plugin gets it, whatever it asks for
settings.maximum_memory_mb = 512


def read_findings(stdout):
    """The lines that are findings, and how many are none: what a plugin prints is not to be trusted."""
    findings, junk = [], 0
    for line in filter(None, stdout.splitlines()):
        try:
            found = json.loads(line)
            findings.append({"path": str(found["path"]), "line": int(found["line"]), "title": str(found["title"])})
        except (ValueError, KeyError, TypeError, RecursionError):
            junk += 1
    return findings, junk


async def run_plugin(pool, path, shown):
    """Run one plugin, in an empty directory of its own; gives its part of the report."""
    plugin = json.loads(path.read_text(encoding="utf-8"))
    limits = resolve_sandbox_config(plugin)
    part = {"plugin": path.stem, "state": "failed", "message": None, "findings": [], "junk_lines": 0}
    with tempfile.TemporaryDirectory() as work:
        try:
            result = await pool.arun(
                plugin["command"], cwd=work, ro=shown, network="host" if limits.allow_network else "none",
                timeout=limits.timeout_seconds, memory=f"{limits.max_memory_mb}M", output=limits.max_output_bytes)
        except brig.Error as error:  # there is no such program, for one
            return {**part, "message": str(error)}
    findings, junk = read_findings(result.stdout_text)
    state = "completed" if result.ok else "failed" if result.status == "exited" else result.status
    message = None if result.ok else result.notes or result.stderr_text[-500:]
    return {**part, "state": state, "message": message, "findings": findings, "junk_lines": junk}


async def scan(target, plugins, at_once):
    """The report of all plugins, in the order of their names."""
    pool = brig.Pool(at_once)
    shown = [f"{target.resolve()}:/target", f"{plugins.resolve()}:/plugins"]
    return await asyncio.gather(*(run_plugin(pool, path, shown) for path in sorted(plugins.glob("*.json"))))


def show(report):
    for part in report:
        print(f"{part['plugin']:13} {part['state']:13} {len(part['findings'])} findings")
        lines = [f"{found['path']}:{found['line']}: {found['title']}" for found in part["findings"]]
        for line in (part["message"] or "").splitlines() + lines:
            print("   ", ascii(line)[1:-1])  # what a plugin says is shown, never obeyed by the terminal


def main():
    parser = argparse.ArgumentParser(description="Run scanner plugins over a directory.")
    parser.add_argument("target", type=Path)
    parser.add_argument("--plugins", type=Path, default=Path(__file__).with_name("plugins"))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there")
    parser.add_argument("--at-once", type=int, default=4, metavar="N")
    options = parser.parse_args()
    report = asyncio.run(scan(options.target, options.plugins, options.at_once))
    show(report)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if any(part["state"] != "completed" for part in report):
        sys.exit(2)
    sys.exit(1 if any(part["findings"] for part in report) else 0)


if __name__ == "__main__":
    main()
