"""The reference of scenario files, written from the schema: every table, every key, its form, default and meaning."""

import inspect

from pydantic.json_schema import JsonSchemaValue

from ...policy.memories.registry import MEMORIES
from ...problem.secrets.registry import SECRETS
from . import schema as forms
from .models import MOST_ACTIONS, MOST_STATES, MOST_TRANSITIONS
from .observer import MOST_EMISSIONS, MOST_READINGS
from .solve_table import memory_form
from .text import MOST_BYTES
from .types import Table

_TABLES: tuple[tuple[str, type[Table]], ...] = (
    ("The top of the file", forms.ScenarioFile),
    ("`[grid]`", forms.Grid),
    ("`[grid.sensors.CHARACTER]`", forms.DrawnSensor),
    ("`disc` of a sensor", forms.DiscShape),
    ("`cone` of a sensor", forms.ConeShape),
    ("`[[grid.starts]]`", forms.StartCell),
    ("`[[grid.goals]]`", forms.GoalCell),
    ("`[graph]`", forms.Graph),
    ("`[file]`", forms.ModelFile),
    ("`[[file.rewards]]`", forms.PaidStates),
    ("`[[file.terminal_rewards]]`", forms.FinalStates),
    ("`[layout]`", forms.LayoutTable),
    ("`[[models]]`", forms.OneOfSeveral),
    ("`[observer]`, `[[observers]]`", forms.ObserverTable),
    ("`[agent]`", forms.AgentTable),
    ("`[observer.sensors.NAME]`", forms.StateSensor),
    *((f'`[secret]` with `kind = "{kind}"`', forms.secret_form(kind)) for kind in SECRETS.builtin),
    ("`[[rewards.NAME]]`", forms.NamedReward),
    ("`[[constraints]]`", forms.ConstraintTable),
    ("`[[pairs]]`", forms.PairTable),
    ("`[pairs.belief]`", forms.BeliefTable),
    ("`[masks]`", forms.MasksTable),
    ("`[querying]`", forms.QueryingTable),
    ("`[solve]`", forms.Settings),
    *((f"`[solve.memory]` with `{kind}`", memory_form(kind)) for kind in MEMORIES.builtin),
)

_HEAD = f"""# Scenario files

<!-- Written by `python -m veil.formats.scenario.reference` from formats/scenario/schema.py: edit that file instead. -->

A scenario is one problem in one [TOML](https://toml.io) file: a model (`[grid]`, `[graph]` or `[file]`), an observer
(`[observer]`), what it wants to know (`[secret]`), the number of decisions (`horizon`) and a threshold on the return
(`min_return`); further constraints (`[[constraints]]`), secrets and observers (`[[pairs]]`); and, in `[solve]`, options of the
solver.
`veil.load("scenario.toml")` gives the problem; the JSON schema, for editors, is printed by `veil show schema`.
Nothing in a file is executed. Unknown keys are refused.

```toml
horizon = 6
min_return = "70%"

[grid]
drawing = \"\"\"
  ?   .   c   G
  .   #   c   .
  S   .   c   .
\"\"\"

[grid.sensors.c]
name = "camera"
detection = 0.9

[secret]
kind = "last_state"
```

**States** are given as a name, `"vault"`, or an index; as a list of them; in a grid by their names `r0c0`, … or by a
character of the drawing, `{{ drawn = "L" }}`; or by an expression, `{{ where = "x=3 & door=open" }}`, over the variables of
the states: those of a PRISM program or DRN file, `row` and `column` in a grid, `x` and `y` in metres in one with a
`cell_size`, and everywhere `state` and `index`. Zones of the legend are labels there, in quotes: `{{ where = '"vault"' }}`.

**Weights** (of starts, of models) are relative: they are divided by their sum unless they sum to 1.

**Limits**: a file has at most {MOST_BYTES:,} bytes; a grid {forms.MOST_CELLS:,} cells; a graph {MOST_STATES:,} states,
{MOST_ACTIONS:,} actions and {MOST_TRANSITIONS:,} transitions; an observer's table {MOST_EMISSIONS:,} numbers, and independent
sensors {MOST_READINGS:,} combinations of readings; the horizon is at most {forms.MOST_DECISIONS:,}. Put larger models
into a `[file]`. Model files must be inside the scenario's folder, with symbolic links resolved, unless the caller allows more.
"""


def reference() -> str:
    """The text of `docs/scenario-reference.md`."""
    schema = forms.schema()
    parts = [_HEAD]
    for heading, form in _TABLES:
        table = schema if form is forms.ScenarioFile else schema["$defs"][form.__name__]
        if form is forms.AgentTable:  # its other keys are those of an observer
            table = table | {"properties": {"sees": table["properties"]["sees"]}}
        parts.append(f"## {heading}\n\n{inspect.cleandoc(form.__doc__ or '')}\n\n{_rows(table)}")
    return "\n".join(parts)


def _rows(table: JsonSchemaValue) -> str:
    lines = ["| key | form | default | meaning |", "|---|---|---|---|"]
    for key, field in table["properties"].items():
        needed = key in table.get("required", ())
        default = "required" if needed else _default(field)
        cells = (f"`{key}`", _form(field), default, field.get("description", ""))
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _default(field: JsonSchemaValue) -> str:
    value = field.get("default")
    if value is None or value in ([], {}, ""):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else repr(value).replace(chr(39), chr(34))}`"


_TYPES = {"boolean": "true or false", "integer": "whole number", "number": "number", "string": "text"}


def _form(field: JsonSchemaValue) -> str:
    """What a value looks like, in a few words."""
    if "x-form" in field:
        return str(field["x-form"])
    if "const" in field:
        return f'`"{field["const"]}"`'
    if "enum" in field:
        return ", ".join(f'`"{choice}"`' for choice in field["enum"])
    if "$ref" in field:
        return "table"
    if "anyOf" in field or "oneOf" in field:
        return ", or ".join(dict.fromkeys(_form(choice) for choice in field.get("anyOf", field.get("oneOf", ()))))
    if field.get("type") == "array":
        return f"list of: {_form(field['items'])}"
    if field.get("type") == "object":
        inner = field.get("additionalProperties")
        return f"table of: {_form(inner)}" if isinstance(inner, dict) else "table"
    return _TYPES[field["type"]] + _range(field)


def _range(field: JsonSchemaValue) -> str:
    low, high = field.get("minimum"), field.get("maximum")
    above = field.get("exclusiveMinimum")
    if above is not None:
        return f" above {above:g}"
    if low is not None and high is not None:
        return f" from {low:,} to {high:,}" if high < 10**12 else f", {low:,} or more"
    return f", {low:,} or more" if low is not None else ""


if __name__ == "__main__":
    print(reference(), end="")
