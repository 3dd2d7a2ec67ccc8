"""Functions that a guest imports: it has next to nothing to import with them."""
import functools

CALLS = []
SECRET = "of the caller"


def double(n):
    CALLS.append(n)
    return n * 2, len(CALLS), __name__


@functools.wraps(double)
def renamed(n):
    return "renamed", n


class Counter:
    def __init__(self, start):
        self.value = start

    def up(self, by=1):
        self.value += by
        return self.value
