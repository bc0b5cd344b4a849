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

    The file holds the names of states and actions, the probabilities, where the cells of a map lie, and of a policy with a
    memory the names of the readings and the rules of its memory. It holds neither the rates of sensors nor the probabilities of
    transitions, and of the secret only what the agent follows to act. It needs Python 3.8 and no library.

    **Arguments:** `policy`: any that an agent can execute on what the problem's own observer sees; `path`: the file, usually
    `NAME.py`; `model`: the index of the model that runs, if the agent knows it.

    **Returns:** the path.

    **Raises:** `InputError` if the policy does not fit the problem; `TooLargeError`; `PolicyFileError` if the file cannot
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
