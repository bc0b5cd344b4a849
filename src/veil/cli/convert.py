"""Conversions by the extensions of two files: models between formats, models into scenarios, policies into text and back."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .shared import GALLERY, OpenedModel, check_free, open_model, open_policy, open_scenario

_HORIZON = 10  # decisions of a scenario made from a model file, unless --set horizon= gives another number


@dataclass(frozen=True)
class Converted:
    """What was done: the model or policy in a few lines, and what the new format cannot express."""

    summary: str
    notes: tuple[str, ...] = ()


def convert_file(source: str, target: Path, *, changes: Sequence[str], scenario: str | None, force: bool) -> Converted:
    """Convert one file into another; see `veil convert`.

    **Raises:** `InputError` where no format has the extension, or something that is needed is not given.
    """
    from ..common.errors import InputError
    from ..formats.imported import Imported
    from ..formats.registry import FORMATS, can, check_extension

    check_free(target, force=force)
    if os.path.isdir(source) or (can("read_policy", source) and not _is_model(source)):
        return _convert_policy(source, target, scenario, changes)
    if not source.startswith(GALLERY):
        check_extension(source, "read_problem", "read_model", "read_policy")
    check_extension(target, "write_problem", "write_model")
    if source.startswith(GALLERY) or can("read_problem", source):
        problem = open_scenario(source, changes).problem
        if can("write_problem", target):
            problem.save(target)
            return Converted(repr(problem))
        notes = Imported(problem.model, problem.observer, problem.name).save(target)
        left = [f"{len(problem.models) - 1} of {len(problem.models)} models"] if len(problem.models) > 1 else []
        return Converted(repr(problem), (*notes, f"left out: {', '.join([*left, 'secret and horizon'])}"))
    opened = open_model(source, changes)
    if not can("write_problem", target):
        if opened.changes or opened.secret is not None:
            raise InputError("--set", [f"{target.name} holds a model alone, only file.NAME can be set"])
        return Converted(opened.model.summary(), opened.model.save(target))
    if opened.model.grid is not None and target.suffix.lower() in FORMATS.get("scenario").suffixes:
        return _write_grid(opened, source, target)
    if opened.secret is None and opened.model.secret is None:
        raise InputError(source, ["a scenario needs a secret: give one, such as --set secret='state=vault'"])
    opened.problem(_HORIZON, Path(source).stem).save(target)
    return Converted(opened.model.summary())


def _is_model(source: str) -> bool:
    """Whether a file is a model by its content, where policies have the same extension."""
    from ..formats.registry import can

    return os.path.isfile(source) and can("read_model", source)


def _write_grid(opened: OpenedModel, source: str, target: Path) -> Converted:
    """A grid as a scenario with its drawing, which has the zones and, with `--set`, sensors and all other keys."""
    from ..common.errors import InputError
    from ..formats.scenario.changes import read_change
    from ..formats.scenario.grid_text import grid_scenario
    from ..formats.scenario.load import read_scenario
    from ..formats.text import write_file

    found = opened.model
    assert found.grid is not None
    if opened.secret is None and found.secret is None:
        zones = ", ".join(found.labels) or "there are none: give --set file.zones=…"
        raise InputError(source, [f"a scenario needs a secret: --set secret= a zone ({zones}) or an expression"])
    story = [f"From {Path(source).name}: {found.grid!r}.", *found.notes]
    table = found.secret_table(opened.secret)
    text = grid_scenario(found.grid, target.stem, _HORIZON, table, list(map(read_change, opened.changes)), story)
    read_scenario(text, source=str(target), folder=target.parent)  # which refuses what does not fit together
    write_file(target, text)
    return Converted(found.summary())


def _convert_policy(source: str, target: Path, scenario: str | None, changes: Sequence[str]) -> Converted:
    """A policy in another format, or the chain that it induces: a DRN file for Storm, arrays for hmmlearn."""
    from ..common.errors import InputError
    from ..formats.policies.files import load_policy
    from ..formats.registry import FORMATS, can, check_extension, find_format
    from ..formats.results.folder import read_result

    check_extension(target, "write_policy", "write_chain")
    kept = scenario is None and os.path.isdir(source)
    if not kept and scenario is None and target.suffix.lower() in FORMATS.get("safetensors").suffixes:
        policy = load_policy(source)
        policy.save(target)
        return Converted(repr(policy))
    if not kept and scenario is None:
        raise InputError(source, ["the names of states and actions are in its scenario: give --scenario"])
    problem = read_result(source).problem if scenario is None else open_scenario(scenario, changes).problem
    policy = open_policy(problem, source)
    found = find_format("write_policy" if can("write_policy", target) else "write_chain", target)
    write = found.write_policy or found.write_chain
    assert write is not None
    write(target, problem, policy)
    return Converted(repr(policy))
