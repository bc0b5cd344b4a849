"""The command line, run in this process as `python -m veil` runs it."""

import contextlib
import io
import json
import runpy
import sys
from typing import Any
from unittest import mock


def veil_command(*words: Any, given: str = "") -> str:
    """What a command prints on standard output; a limit that was hit (exit code 4) counts as done."""
    printed, told = io.StringIO(), io.StringIO()
    arguments = mock.patch.object(sys, "argv", ["veil", *map(str, words)])
    standard_input = mock.patch.object(sys, "stdin", io.StringIO(given))
    with arguments, standard_input, contextlib.redirect_stdout(printed), contextlib.redirect_stderr(told):
        try:
            runpy.run_module("veil", run_name="__main__", alter_sys=False)
            code = 0
        except SystemExit as end:
            code = end.code
    if code not in (None, 0, 4):
        raise RuntimeError(f"veil {' '.join(map(str, words))} ended with {code}: {told.getvalue()}")
    return printed.getvalue()


def veil_json(*words: Any) -> Any:
    """The document that a command prints with `--json`."""
    return json.loads(veil_command(*words, "--json"))
