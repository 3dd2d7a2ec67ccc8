# SPDX-License-Identifier: MIT
"""How often each word occurs in a text."""
import collections

import brig_tool


def count(text, most=10):
    words = collections.Counter(text.lower().split())
    print("counting", len(text), "characters")  # a print, not the result
    return dict(words.most_common(most))


brig_tool.main(count)
