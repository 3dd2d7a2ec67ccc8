# SPDX-License-Identifier: MIT
"""A program as a user of python3-brig writes it: a run, and a call in a warm interpreter."""
import brig


def add(a, b):
    return a + b


print(brig.__file__)
print(brig.run(["echo", "from Python"]).stdout_text, end="")
with brig.Template() as template:
    print("sum", template.call(add, 1, 2))
