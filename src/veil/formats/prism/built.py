"""What Storm built, as a DRN text and what such a text leaves out: made where Storm is, read by the one who asked for it."""

import re
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

Storm = Any  # stormpy and its objects, which have no types
_DIGITS = 17  # with which numbers of 64 bits come back to the last bit
_NUMBERED = re.compile(r"^\taction \d+", re.MULTILINE)  # what Storm writes for choices if none has a label


@dataclass(frozen=True)
class Built:
    """A sparse model of Storm, as JSON holds it.

    **Attributes:** `kind`; `drn`, the text that Storm exports; `variables`: the value of each in each state; `observations`:
    that of each observable in each class of observations, None where Storm kept none.
    """

    kind: str
    drn: str
    variables: dict[str, list[Any]]
    observations: dict[str, list[Any]] | None


def exported(built: Storm) -> Built:
    """A sparse DTMC, MDP or POMDP that stormpy built. Cost: linear in the transitions."""
    import stormpy  # pyright: ignore[reportMissingImports]: an extra that not everybody has

    kind = str(built.model_type).rsplit(".", 1)[-1].upper()
    if any(rewards.has_transition_rewards for rewards in built.reward_models.values()):
        built.reduce_to_state_based_rewards()
    options = stormpy.io.DirectEncodingExporterOptions()
    options.output_precision, options.allow_placeholders = _DIGITS, False
    with TemporaryDirectory(prefix="veil-prism-") as folder:
        stormpy.io.export_to_drn(built, f"{folder}/model.drn", options=options)
        text = Path(folder, "model.drn").read_text(encoding="utf-8")
    if not built.has_choice_labeling():
        text = _NUMBERED.sub("\taction __NOLABEL__", text)
    kept = built.state_valuations if built.has_state_valuations() else None
    variables = {} if kept is None else {v.name: _values(kept.get_values_states(v)) for v in kept.get_all_variables()}
    return Built(kind, text, dict(sorted(variables.items())), _observations(built) if kind == "POMDP" else None)


def _values(values: list[Any]) -> list[Any]:
    """Values as JSON holds them: rational numbers as floats."""
    return [value if isinstance(value, (bool, int, str)) else float(value) for value in values]


def _observations(built: Storm) -> dict[str, list[Any]] | None:
    if not getattr(built, "has_observation_valuations", lambda: False)():
        return None
    kept, classes = built.observation_valuations, sorted(set(built.observations))
    columns = {v.name: kept.get_values_states(v) for v in sorted(kept.get_all_variables(), key=lambda v: v.name)}
    return {name: _values([values[place] for place in classes]) for name, values in columns.items()}
