# SPDX-License-Identifier: MIT
"""Functions for calls of test_executor*.py. A guest imports them, so this module imports little."""
import time

settings = None


def square(n):
    return n * n


def fail(text):
    raise ValueError(text)


def nap(seconds=50):
    time.sleep(seconds)
    return seconds


def set_up(value):
    global settings
    settings = value


def get_settings():
    return settings


def grow():
    return len(bytearray(200 << 20))
