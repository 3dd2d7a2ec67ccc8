# SPDX-License-Identifier: MIT
"""Execute the code cells of a notebook in place, where there is no nbconvert.

Plain Python only: no magics, no pictures. What the cells did so far is written after each of them, so
that a notebook that is killed at a limit shows how far it came.
"""
import ast
import contextlib
import io
import json
import sys
import traceback


def execute(source, names):
    """Run a cell; gives the value of its last line, if that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)


def outputs_of(source, count, names):
    """What a cell puts below itself, and whether it went well."""
    printed, outputs, well = io.StringIO(), [], True
    try:
        with contextlib.redirect_stdout(printed):
            value = execute(source, names)
        if value is not None:
            outputs.append({"output_type": "execute_result", "execution_count": count, "metadata": {},
                            "data": {"text/plain": repr(value)}})
    except Exception as error:
        well = False
        outputs.append({"output_type": "error", "ename": type(error).__name__, "evalue": str(error),
                        "traceback": traceback.format_exc().splitlines()})
    if printed.getvalue():
        outputs.insert(0, {"output_type": "stream", "name": "stdout", "text": printed.getvalue()})
    return outputs, well


def main(path):
    with open(path, encoding="utf-8") as file:
        book = json.load(file)
    names = {"__name__": "__main__"}
    cells = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    for count, cell in enumerate(cells, 1):
        cell["execution_count"] = count
        cell["outputs"], well = outputs_of("".join(cell["source"]), count, names)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(book, file, indent=1)
        if not well:
            sys.exit(cell["outputs"][-1]["ename"] + ": " + cell["outputs"][-1]["evalue"])


if __name__ == "__main__":
    main(sys.argv[1])
