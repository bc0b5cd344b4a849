"""Building a PRISM program in a process of its own, within limits of time and memory."""

import importlib.util
import json
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from ...common.errors import MissingExtraError, ModelFileError, TooLargeError
from ...common.files import reason
from . import child
from .built import Built

_REMEDY = "use fewer states, with smaller ranges or constants, or raise {name} of veil.from_prism, now {value}"
_NEEDED = "PRISM programs need stormpy, which is not installed: pip install 'veil[prism]'"
_LONGEST = 300  # characters of a message of Storm


def build(path: str | Path, text: str, constants: str, time_limit: float, memory_limit: float) -> Built:
    """What Storm builds of a program.

    **Arguments:** `path`: the name of the program, for messages; `text`: the program; `constants`: `"N=4,M=2"`;
    `time_limit`: seconds; `memory_limit`: GiB.

    **Raises:** `MissingExtraError` without stormpy; `ModelFileError` if Storm refuses the program or crashes;
    `TooLargeError` at a limit.
    """
    if importlib.util.find_spec("stormpy") is None:  # before a process is started
        raise MissingExtraError(_NEEDED)
    try:
        with TemporaryDirectory(prefix="veil-prism-") as name:
            found = _answer(Path(name), path, text, constants, time_limit, memory_limit)
    except subprocess.TimeoutExpired:
        raise _too_large(path, f"{time_limit:g} s", "time_limit", time_limit) from None
    except OSError as error:
        raise ModelFileError(path, f"it cannot be passed to Storm: {reason(error)}") from None
    if isinstance(found, Built):
        return found
    kind, words = found
    if kind == child.MEMORY:
        raise _too_large(path, f"{memory_limit:g} GiB of memory", "memory_limit", memory_limit)
    if kind == child.MISSING:
        raise MissingExtraError(_NEEDED)
    if kind == child.OLD:
        raise MissingExtraError(f"stormpy {words} is installed, expected 2.0 or newer: pip install 'veil[prism]'")
    if kind == child.UNDEFINED:
        first = words.split(", ")[0]
        raise ModelFileError(path, f"constants {words} are not defined: give constants={{{first!r}: …}}")
    raise ModelFileError(path, f"Storm cannot build it: {words.strip().split(chr(10))[0][:_LONGEST]}")


def _answer(
    folder: Path, path: str | Path, text: str, constants: str, time_limit: float, memory_limit: float
) -> Built | tuple[str, str]:
    """The model, or the kind and words of what is wrong."""
    program = folder / "program.prism"
    program.write_text(text, encoding="utf-8")
    request = {
        "path": [str(place) for place in sys.path],
        "program": str(program),
        "folder": str(folder),
        "constants": constants,
        "memory_bytes": int(memory_limit * 2**30),
        "seconds": time_limit,
    }
    code = subprocess.run(
        [sys.executable, "-I", child.__file__],
        input=json.dumps(request).encode(),
        stdout=subprocess.DEVNULL,  # Storm prints its errors there as well as raising them
        stderr=subprocess.DEVNULL,
        timeout=time_limit,
        check=False,
    ).returncode
    if (folder / "model.json").exists():
        return Built(**json.loads((folder / "model.json").read_text(encoding="utf-8")))
    if not (folder / "error.json").exists():
        return _death(code)
    kind, words = json.loads((folder / "error.json").read_text(encoding="utf-8"))
    return kind, words.replace(str(program), str(path))


def _death(code: int) -> tuple[str, str]:
    """Why a process ended without an answer."""
    if code == -signal.SIGSEGV:
        return child.STORM, "it crashed, which happens if expressions are nested too deeply"
    if code < 0:
        return child.STORM, f"it was ended by signal {signal.Signals(-code).name}"
    return child.STORM, f"it ended with exit code {code}"


def _too_large(path: str | Path, limit: str, name: str, value: float) -> TooLargeError:
    return TooLargeError(
        f"{path}: Storm needs more than {limit} for it: {_REMEDY.format(name=name, value=f'{value:g}')}"
    )
