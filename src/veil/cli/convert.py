"""Conversions by the endings of two files: models between formats, models into scenarios, policies into text."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .shared import GALLERY, open_policy, open_scenario, write_text

if TYPE_CHECKING:
    from ..formats.imported import Imported
    from ..problem.model import Model
    from ..problem.observer import Observer
    from ..problem.problem import Problem

FORMATS = (
    "a scenario (.toml, gallery:NAME), a model (.pomdp, .npz, .drn, .prism, .nm, .pm), a policy (.safetensors, result folder)",
    ".toml, .pomdp, .npz, .drn; for a policy .json, .csv, and .drn or .npz for the chain it makes",
)


@dataclass(frozen=True)
class Converted:
    """What was done: the model in a few lines, and what the new format could not hold."""

    summary: str
    notes: tuple[str, ...] = ()


def convert_file(
    source: str,
    target: Path,
    *,
    secret: str | None,
    horizon: int,
    scenario: str | None,
    force: bool,
) -> Converted:
    """Convert one file into another; see `veil convert`.

    **Raises:** `InputError` where the endings are none that can be joined, or something that is needed is not given.
    """
    from ..common.errors import InputError

    if target.exists() and not force:
        raise InputError(str(target), ["there is such a file already: choose another name, or --force to replace it"])
    if source.endswith(".safetensors") or os.path.isdir(source):
        return _convert_policy(source, target, scenario)
    if source.startswith(GALLERY) or source.endswith(".toml"):
        problem = open_scenario(source).problem
        return _write(target, problem.model, problem.observer, problem, repr(problem), force)
    found = read_model(source)
    if target.suffix != ".toml":
        return _write(target, found.model, found.observer, None, found.summary(), force)
    if secret is None:
        raise InputError(source, ["a scenario needs a secret: give --secret, as --secret 'state=vault'"])
    problem = found.problem(secret, horizon, name=Path(source).stem)
    return _write(target, problem.model, problem.observer, problem, found.summary(), force)


def read_model(source: str) -> "Imported":
    """The model of a file, by the importer for its ending."""
    from ..common.errors import InputError
    from ..formats.scenario.files import READERS
    from ..formats.scenario.schema import ModelFile

    path = Path(source)
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError(source, [f"its ending is {path.suffix!r}, expected {FORMATS[0]}"])
    return reader(path, ModelFile.model_validate({"path": source}))


def _write(
    target: Path, model: "Model", observer: "Observer | None", problem: "Problem | None", summary: str, force: bool
) -> Converted:
    from ..common.errors import InputError

    if target.suffix == ".toml" and problem is not None:
        from ..formats.scenario.toml import to_toml

        write_text(target, to_toml(problem), force=force)
        return Converted(summary)
    writers: dict[str, Callable[..., tuple[str, ...]]] = {
        ".pomdp": _write_pomdp,
        ".npz": _write_arrays,
        ".drn": _write_drn,
    }
    if target.suffix not in writers:
        raise InputError(str(target), [f"its ending is {target.suffix!r}, expected {FORMATS[1]}"])
    return Converted(summary, writers[target.suffix](target, model, observer))


def _write_pomdp(target: Path, model: "Model", observer: "Observer | None") -> tuple[str, ...]:
    from ..formats.pomdp.files import save_pomdp

    return save_pomdp(target, model, observer)


def _write_arrays(target: Path, model: "Model", observer: "Observer | None") -> tuple[str, ...]:
    from ..formats.arrays import save_arrays

    save_arrays(target, model, observer)
    return ()


def _write_drn(target: Path, model: "Model", observer: "Observer | None") -> tuple[str, ...]:
    from ..formats.drn.writer import save_drn

    if observer is not None and (observer.on_actions or (observer.emissions.max(axis=1) < 1).any()):
        save_drn(target, model)
        return ("the observer is left out: in this format each state shows one observation for certain",)
    save_drn(target, model, observer)
    return ()


def _convert_policy(source: str, target: Path, scenario: str | None) -> Converted:
    """A policy as text, or the chain that it makes: a DRN file for Storm, arrays for hmmlearn."""
    from ..common.errors import InputError
    from ..formats.export import chain_to_arrays, chain_to_drn, policy_to_csv, policy_to_json

    writers: dict[str, Callable[..., object]] = {
        ".json": policy_to_json,
        ".csv": policy_to_csv,
        ".drn": chain_to_drn,
        ".npz": chain_to_arrays,
    }
    if target.suffix not in writers:
        raise InputError(str(target), [f"its ending is {target.suffix!r}, expected one of {', '.join(writers)}"])
    if scenario is None and os.path.isdir(source):
        from ..formats.results.folder import read_result

        scenario = read_result(source).scenario
    if scenario is None:
        raise InputError(source, ["a policy does not name its states and actions: give --scenario"])
    problem = open_scenario(scenario).problem
    policy = open_policy(problem, source)
    writers[target.suffix](target, problem, policy)
    return Converted(repr(policy))
