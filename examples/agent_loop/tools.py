# SPDX-License-Identifier: MIT
"""The tools of the agent: each is a run of brig in the agent's directory, and gives a text for the model.

A model never gets an exception: what went wrong is what it has to know to do better.
"""
import brig

LIMITS = {"timeout": 3, "memory": "256M", "pids": 20, "output": "1K"}


def run_python(directory, code):
    """Run a Python program; its work directory keeps files from one call to the next."""
    return brig.run(["python3", "-"], input=code, cwd=directory, **LIMITS)


def run_shell(directory, command):
    """Run a command by the shell, in the same directory."""
    return brig.run(command, cwd=directory, **LIMITS)


TOOLS = {tool.__name__: tool for tool in (run_python, run_shell)}


def call(directory, name, arguments):
    """Call a tool by its name; gives what the model is told."""
    if name not in TOOLS:
        return f"error: no such tool; there are {', '.join(TOOLS)}"
    try:
        result = TOOLS[name](directory, **arguments)
    except (brig.Error, TypeError) as error:  # a missing program, arguments that do not fit
        return f"error: {error}"
    return describe(result)


def describe(result):
    """How a run ended, why, and what it printed."""
    lines = [f"exit code {result.exit_code}" if result.status == "exited" else f"ended: {result.status}"]
    if result.notes:
        lines.append(result.notes)
    for name, text in (("stdout", result.stdout_text), ("stderr", result.stderr_text)):
        if text:
            lines.append(f"{name}:\n{text.rstrip()}")
    return "\n".join(lines)
