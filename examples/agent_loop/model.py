# SPDX-License-Identifier: MIT
"""A model that needs no network: it plays a script, with the mistakes that real ones make.

A model is any callable that takes the messages so far and gives its next step, one of

    {"tool": NAME, "arguments": {...}}
    {"answer": TEXT}
"""
import re

TASK = "Which number below 10000 has the longest Collatz chain, and how long is it?"

CHAIN = """
def chain(n):
    steps = 1
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps
"""

SCRIPT = [
    "best = max(range(1, 10000), key=chain)\nprint(best)",                     # there is no chain()
    CHAIN + "print(max(range(10000), key=chain))",                             # 0 never gets to 1
    CHAIN + "for n in range(1, 10000): print(n, chain(n))",                    # far too much to print
    CHAIN + "best = max(range(1, 3000), key=chain)\nopen('best', 'w').write(str(best))",
    CHAIN + "best = max(range(int(open('best').read()), 10000), key=chain)\nprint(best, chain(best))",
]


def scripted(messages):
    """The next step: what comes after as many calls as there were."""
    said = [message["content"] for message in messages if message["role"] == "tool"]
    if len(said) < len(SCRIPT):
        return {"tool": "run_python", "arguments": {"code": SCRIPT[len(said)]}}
    found = re.search(r"^(\d+) (\d+)$", said[-1], re.M)
    return {"answer": f"{found[1]}, with {found[2]} numbers in its chain." if found else "I could not find out."}
