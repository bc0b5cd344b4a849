"""Running the commands in tests: in the process, quickly; or as a person does, in one of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from veil.cli.main import app

# One room to hide in: solved in a fraction of a second.
QUICK = ("--set", "solve.starts=2", "--set", "solve.iterations=12")
ONCE = ("--set", "solve.starts=1", "--set", "solve.iterations=2")
NO_PROOF = ("--set", "solve.certificate=false")
SCENARIO = """
name = "rooms"
horizon = 2
min_return = 0.5

[graph]
transitions = [
  ["hall", "wait", "hall"],
  ["hall", "walk", { vault = 0.8, hall = 0.2 }],
  ["vault", "wait", "vault"],
  ["vault", "walk", "hall"],
]
initial = "hall"
rewards = { vault = 1.0 }

[observer.sensors.camera]
states = ["vault"]
detection = 0.7
false_alarm = 0.1

[secret]
kind = "last_state"
states = ["vault"]
"""


class Done:
    """What a command left behind."""

    def __init__(self, code: int, out: str, err: str):
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        """Standard output as the one JSON document that it must be."""
        return json.loads(self.out)


def veil(*arguments: str | Path, stdin: str | bytes = "") -> Done:
    """Run a command in this process; an exception that is not an exit is a failure of the test."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin, catch_exceptions=False)
    return Done(result.exit_code, result.stdout, result.stderr)


def process(*arguments: str | Path, stdin: str = "", cwd: Path | None = None, **environment: str) -> Done:
    """Run `python -m veil` as a process of its own."""
    command = [sys.executable, "-m", "veil", *map(str, arguments)]
    names = os.environ | {"OMP_NUM_THREADS": "1"} | environment
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, check=False, timeout=120, cwd=cwd, env=names
    )
    return Done(done.returncode, done.stdout, done.stderr)
