"""The format `.edges`: a model as lines `state action next_state probability reward`; the first state is the start."""

from pathlib import Path

from veil import Imported, Model
from veil.common.errors import ModelFileError
from veil.common.files import write_whole
from veil.formats.registry import Format

Entry = tuple[str, str, str, float, float]


def read_edges(path: Path, *, separator: str | None = None) -> Imported:
    """The model in a file; raises `ModelFileError` with the line."""
    entries = [_entry(path, number, line.split(separator)) for number, line in enumerate(_lines(path), 1) if line]
    if not entries:
        raise ModelFileError(path, "it has no lines, expected state action next_state probability reward")
    rewards = {(state, action): reward for state, action, _, _, reward in entries}
    model = Model.from_entries([entry[:4] for entry in entries], rewards, initial=entries[0][0])
    return Imported(model, source=path.name, kind="list of transitions")


def write_edges(path: Path, imported: Imported) -> tuple[str, ...]:
    """Write the model; the observer is left out."""
    model = imported.model
    lines = [
        f"{model.states[s]} {model.actions[a]} {model.states[t]} {float(model.transitions[s, a, t])!r}"
        f" {float(model.rewards[s, a])!r}\n"
        for s, a, t in zip(*(places.tolist() for places in model.transitions.nonzero()), strict=True)
    ]
    write_whole(path, "".join(lines).encode())
    return () if imported.observer is None else ("the observer is left out: the format has none",)


def _lines(path: Path) -> list[str]:
    return [line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]


def _entry(path: Path, number: int, words: list[str]) -> Entry:
    try:
        state, action, following, probability, reward = words
        return state, action, following, float(probability), float(reward)
    except ValueError:
        expected = "expected state action next_state probability reward"
        raise ModelFileError(path, f"{' '.join(words)!r} found, {expected}", number) from None


EDGES = Format(
    suffixes=(".edges",),
    description="lists of transitions",
    read_model=read_edges,
    write_model=write_edges,
    options={"separator": "what stands between the entries of a line"},
)
