#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Run a notebook in a sandbox, with limits: its cells are code that somebody else may have written.

    run_notebook.py BOOK.ipynb [-o DONE.ipynb] [--timeout SECONDS] [--memory MB] [--network]
"""
import argparse
import importlib.util
import json
import shutil
import sys
from pathlib import Path

from brig.dropin import scidex

OWN_EXECUTOR = Path(__file__).resolve().with_name("execute_cells.py")


def choose_executor():
    """nbconvert, if it is installed with a kernel; else the small executor beside this file."""
    if all(importlib.util.find_spec(name) for name in ("nbconvert", "ipykernel")):
        return "nbconvert", {}
    scidex.NOTEBOOK_COMMAND = (sys.executable, str(OWN_EXECUTOR))
    return OWN_EXECUTOR.name, {"ro": [OWN_EXECUTOR]}


def show(book):
    """What the cells printed, each behind its number."""
    for cell in json.loads(book.read_text(encoding="utf-8"))["cells"]:
        for output in cell.get("outputs", ()):
            text = output.get("text") or output.get("data", {}).get("text/plain") or output.get("evalue", "")
            print(f"[{cell['execution_count']}] {''.join(text).rstrip()}")


def main():
    parser = argparse.ArgumentParser(description="Run a notebook in a sandbox.")
    parser.add_argument("book", type=Path)
    parser.add_argument("-o", "--output", type=Path, help="where the executed notebook goes (default: in place)")
    parser.add_argument("--timeout", type=float, default=600, metavar="SECONDS")
    parser.add_argument("--memory", type=int, default=2048, metavar="MB")
    parser.add_argument("--network", action="store_true", help="let the cells use the network")
    options = parser.parse_args()
    book = options.book
    if options.output:
        book = Path(shutil.copyfile(options.book, options.output))
    name, shown = choose_executor()
    print(f"{book} by {name}")
    result = scidex.run_notebook_isolated(
        book, timeout_seconds=options.timeout, limits={"memory_mb": options.memory},
        network="host" if options.network else "none", **shown)
    show(book)
    if result.returncode:
        print(result.completion_notes or result.stderr.rstrip().rpartition("\n")[2])
    sys.exit(1 if result.returncode else 0)


if __name__ == "__main__":
    main()
