"""`veil.export_player`: a policy as one Python file without dependencies, for robots."""

import json
from pathlib import Path

from ...common.errors import ModelFileError, PolicyFileError
from ...policy import runtime
from ...policy.exported import player_document
from ...policy.policy import Policy
from ...problem.problem import Problem
from ..text import write_file

_LONGEST_LINE = 110


def export_player(policy: Policy, problem: Problem, path: str | Path, *, model: int | None = None) -> Path:
    """Write a Python file that plays a policy: `from patrol import Player`, `Player(seed=1).step("r3c1")`.

    The file holds the names of states, actions and readings, the probabilities, and what the agent remembers; of the
    observer, the secret and the transitions of the problem it holds nothing. It needs Python 3.8 and no library.

    **Arguments:** `policy`: any but a history policy; `path`: the file, usually `NAME.py`; `model`: the index of the model that
    runs, where the agent knows it.

    **Returns:** the path.

    **Raises:** `InputError` where the policy does not fit the problem; `TooLargeError`; `PolicyFileError` where the file cannot
    be written.
    """
    document = player_document(problem, policy, model=model)
    source = Path(runtime.__file__).read_text("utf-8")
    # As JSON in text, whose quotes `repr` escapes: nothing in a name can end it.
    text = json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    lines = [text[begin : begin + _LONGEST_LINE] for begin in range(0, len(text), _LONGEST_LINE)]
    data = "\n".join(f"    {line!r}" for line in lines)
    ends = 'if __name__ == "__main__":\n    sys.exit(main(sys.argv[1:]))\n'
    try:
        write_file(path, f"{source}\n\nPOLICY = json.loads(\n{data}\n)\n\n{ends}")
    except ModelFileError as error:
        raise PolicyFileError(str(error)) from None
    return Path(path)


def write_player(path: Path, problem: Problem, policy: Policy) -> None:
    """`export_player`, as formats call it."""
    export_player(policy, problem, path)
