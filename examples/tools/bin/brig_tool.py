# SPDX-License-Identifier: MIT
"""For tools in Python: call main() with the function that is the tool. Copy it beside your tools.

The arguments arrive as one JSON object on stdin and become the function's keywords; what it returns is
sent, once, on the result channel. Whatever it prints stays beside the result.
"""
import json
import os
import sys


def send(**envelope):
    """Send the one result: status, output, error, metadata."""
    text = json.dumps(envelope, allow_nan=False).encode()
    with os.fdopen(int(os.environ["BRIG_RESULT_FD"]), "wb") as channel:
        channel.write(b"%d\n" % len(text) + text)


def describe(error):
    """An exception in one line, also one that cannot say what it is."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception as second:  # its __str__ raises
        return f"{type(error).__name__}, whose message cannot be shown ({type(second).__name__})"


def main(function):
    try:
        output = function(**json.load(sys.stdin))
    except Exception as error:
        send(status="error", error=describe(error))
        return
    try:
        json.dumps(output, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        send(status="error", error=f"the result cannot be sent as JSON: {describe(error)}")
        return
    send(status="success", output=output)
