"""Runs programs and commands, one after the other, in a process that has the package of this folder installed.

It reads a JSON document from each line of its input, `[folder, [word, …]]`, and answers with a line `[code, out, err]`. The
words are `-c` and a program, or `veil` and the arguments of a command.
"""

import contextlib
import io
import json
import os
import sys
import traceback

from typer.testing import CliRunner

from veil.cli.main import app


def answer(words: list[str]) -> tuple[int, str, str]:
    """The exit code of a program or a command, and what it printed."""
    if words[0] == "veil":
        result = CliRunner().invoke(app, words[1:], catch_exceptions=False)
        return result.exit_code, result.stdout, result.stderr
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(words[1], "program", "exec"), {"__name__": "__main__"})
    return 0, out.getvalue(), ""


for line in sys.stdin:
    folder, words = json.loads(line)
    os.chdir(folder)
    try:
        found = answer(words)
    except Exception:
        found = (1, "", traceback.format_exc())
    print(json.dumps(found), flush=True)
