#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""An agent: a model picks tools, brig runs them, and what they say goes back to the model."""
import tempfile

from model import TASK, scripted
from tools import call

MOST_TURNS = 12


def solve(model, task, directory, watch=print):
    """Let a model work on a task in a directory until it has an answer."""
    messages = [{"role": "user", "content": task}]
    for _ in range(MOST_TURNS):
        step = model(messages)
        if "answer" in step:
            return step["answer"]
        said = call(directory, step["tool"], step["arguments"])
        watch(f"--- {step['tool']}\n{said}")
        messages.append({"role": "assistant", "content": step})
        messages.append({"role": "tool", "content": said})
    return f"(no answer after {MOST_TURNS} turns)"


def main():
    with tempfile.TemporaryDirectory() as directory:
        print(TASK)
        print("===", solve(scripted, TASK, directory))


if __name__ == "__main__":
    main()
