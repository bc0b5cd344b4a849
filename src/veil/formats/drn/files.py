"""Storm's explicit DRN files: DTMCs, MDPs and POMDPs, read and written without Storm."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ...engine.induced import InducedHMM, induced_hmm
from ...policy.policy import Policy
from ...problem.problem import Problem
from ..imported import Imported
from ..text import read_text, write_file
from .choices import model_of, observer_of
from .reader import RESCALE, Reader
from .writer import format_drn, is_deterministic, is_label

MOST_BYTES = 2**30


def from_drn(
    path: str | Path, *, reward_model: str | None = None, discount: float = 1.0, rescale: float = RESCALE
) -> Imported:
    """The model in a DRN file of Storm (`storm … --exportbuild model.drn`).

    Actions are the labels of the choices. The observations of a POMDP become an observer that sees them from time 0 on.
    If Storm wrote the valuation of each state as a comment, variables can be used in expressions.

    **Arguments:** `reward_model`: the rewards to use, if there are several; `discount`; `rescale`: a row whose sum misses
    1 by at most this is divided by its sum, and a note says so.

    Cost: linear in the file. **Raises:** `ModelFileError` naming the line; `InputError` on a wrong `reward_model`.
    """
    text = read_text(path, MOST_BYTES)
    return parse_drn(text, path, reward_model=reward_model, discount=discount, rescale=rescale)


def parse_drn(
    text: str,
    path: str | Path = "text",
    *,
    reward_model: str | None = None,
    discount: float = 1.0,
    rescale: float = RESCALE,
    valuations: Mapping[str, np.ndarray] | None = None,
) -> Imported:
    """As `from_drn`, from text; `path` is used in messages. `valuations`: the variables, instead of those in comments."""
    reader = Reader(text, path)
    reader.read()
    choices, notes = reader.finish(rescale)
    valuations = reader.valuations() if valuations is None else valuations
    model, more = model_of(choices, valuations, discount, reward_model, str(path))
    observer = observer_of(reader.observed()) if reader.kind == "POMDP" else None
    labels = {name: reader.label_mask(name) for name in reader.labels if name != "init"}
    kind = f"{reader.kind} of Storm (DRN)"
    return Imported(model, observer, Path(path).name, kind, (*notes, *more), valuations, labels)


def save_drn(path: str | Path, imported: Imported) -> tuple[str, ...]:
    """Write a model as a DRN file, complete or not at all; see `format_drn`.

    **Returns:** notes on what the format cannot express and the file leaves out: variables, labels that cannot be written,
    and an observer that is not a function of the state.

    **Raises:** `InputError` where the file would mean another model; `ModelFileError` where it cannot be written.
    """
    observer = imported.observer
    notes: list[str] = []
    if observer is not None and not is_deterministic(observer):
        notes.append("the observer is left out: in this format each state shows one observation for certain")
        observer = None
    labels = {name: mask for name, mask in imported.labels.items() if is_label(name)}
    notes += [
        f"the label {name!r} is left out: the format cannot write it" for name in imported.labels if name not in labels
    ]
    if imported.valuations:
        notes.append("the variables are left out: the format has none")
    write_file(path, format_drn(imported.model, observer, labels))
    return tuple(notes)


def chain_to_drn(path: str | Path, problem: Problem, policy: Policy) -> InducedHMM:
    """Write the Markov chain that a policy induces as a DTMC; labels `secret_VALUE` mark the secret's values.

    The labels hold for the state at the secret's time; what Storm cannot read in a label is written as `_`. A start
    spread over several states becomes a first step of its own, without reward. Rewards of decisions are the reward model
    `reward`, those of the last state `terminal`: without discount the expected return is `R{"reward"}=? [C<=T]` and
    `R{"terminal"}=? [I=T]` together, with T + 1 in place of T where the start is spread. What the observer sees is not
    part of the file: it is in what is returned.

    **Raises:** `InputError` where the policy does not fit; `ModelFileError` where it cannot be written.
    """
    chain = induced_hmm(problem, policy)
    names = _label_names(chain.secret_values)
    labels = {name: chain.secret[:, number] > 0 for number, name in enumerate(names)}
    write_file(path, format_drn(chain.model(problem.discount), labels=labels, chain=True))
    return chain


def _label_names(values: Sequence[str]) -> list[str]:
    """A label for each value that can be used in a property of Storm: letters, digits and `_`, and no two alike."""
    names = [f"secret_{re.sub('[^A-Za-z0-9_]', '_', value)}" for value in values]
    return names if len(set(names)) == len(names) else [f"{name}_{number}" for number, name in enumerate(names)]
