"""Prints `docs/scenario-reference.md` from the schema: every table and key of scenario files, its form, default and meaning.

Run `python docs/site/reference.py > docs/scenario-reference.md` after a change of a key; a test compares the two.
"""

import inspect
import re

from pydantic.json_schema import JsonSchemaValue

from veil.formats.scenario import schema as forms
from veil.formats.scenario.models import MOST_STATES, MOST_TRANSITIONS
from veil.formats.scenario.solve_table import memory_form
from veil.formats.scenario.text import MOST_BYTES
from veil.formats.scenario.types import Table
from veil.policy.memories.registry import MEMORIES
from veil.problem.secrets.registry import SECRETS

# Kinds of one thing share a section.
_KINDS: dict[str, dict[str, type[Table]]] = {
    "`[secret]`": {kind: forms.secret_form(kind) for kind in SECRETS.builtin},
    "`[solve.memory]`": {kind: memory_form(kind) for kind in MEMORIES.builtin},
}
_TABLES: tuple[tuple[str, type[Table] | None], ...] = (
    ("The top of the file", forms.ScenarioFile),
    ("`[grid]`", forms.Grid),
    ("`[grid.sensors.CHARACTER]`", forms.DrawnSensor),
    ("`disc` and `cone` of a sensor", forms.ConeShape),
    ("`[graph]`", forms.Graph),
    ("`[file]`", forms.ModelFile),
    ("`[layout]`", forms.LayoutTable),
    ("`[[models]]`", forms.OneOfSeveral),
    ("`[observer]`, `[[observers]]`", forms.ObserverTable),
    ("`[agent]`", forms.AgentTable),
    ("`[observer.sensors.NAME]`", forms.StateSensor),
    ("`[secret]`", None),
    ("`[[rewards.NAME]]`, `[[file.rewards]]`", forms.PaidStates),
    ("`[[constraints]]`", forms.ConstraintTable),
    ("`[[pairs]]`", forms.PairTable),
    ("`[pairs.belief]`", forms.BeliefTable),
    ("`[masks]`", forms.MasksTable),
    ("`[querying]`", forms.QueryingTable),
    ("`[solve]`", forms.Settings),
    ("`[solve.memory]`", None),
)

# The section of each table, by its key.
_SECTIONS = {
    name: re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")
    for heading, _ in _TABLES
    for name in re.findall(r"\[(\w+)(?:\.NAME)?\]", heading)
}

# Small tables, shown where they are named.
_INLINE = {
    forms.StartCell.__name__: "`{ cell = [row, column], weight = 1.0 }`",
    forms.GoalCell.__name__: "`{ cell = [row, column], reward = … }`",
}

_HEAD = f"""# Scenario files

<!-- Written by `python docs/site/reference.py` from formats/scenario/schema.py: edit that file instead. -->

A scenario is one problem in one [TOML](https://toml.io) file: a model (`[grid]`, `[graph]` or `[file]`), an observer,
a secret, the number of decisions and a threshold on the return. `veil show schema` prints the JSON schema for editors.
Nothing in a file is executed, and unknown keys are refused. To start:

```console
$ veil new patrol
$ veil inspect patrol.toml
```

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

**In the tables** a value in brackets is the default, and keys marked * are required.

**States** are a name, `"vault"`, an index, or a list of them. In a grid they are `r0c0`, … or a character of the
drawing, `{{ drawn = "L" }}`. An expression, `{{ where = "x=3 & door=open" }}`, may use the variables of a PRISM
program or DRN file; in a grid `row` and `column`, or with a `cell_size` `x` and `y` in metres; and everywhere `state`
and `index`. Zones of the legend are labels, in quotes: `{{ where = '"vault"' }}`.

**Weights** are relative: they are divided by their sum.

**Limits**: {MOST_BYTES:,} bytes, a grid of {forms.MOST_CELLS:,} cells, a graph of {MOST_STATES:,} states and
{MOST_TRANSITIONS:,} transitions. Put larger models into a `[file]` in the scenario's folder.
"""


def reference() -> str:
    """The text of `docs/scenario-reference.md`."""
    schema = forms.schema()
    parts = [_HEAD]
    for heading, form in _TABLES:
        if form is None:
            kinds = _kinds if heading == "`[secret]`" else _memories
            parts.append(f"## {heading}\n\n{kinds(schema, _KINDS[heading])}")
            continue
        table = schema if form is forms.ScenarioFile else schema["$defs"][form.__name__]
        if form is forms.AgentTable:  # its other keys are those of an observer
            table = table | {"properties": {"sees": table["properties"]["sees"]}}
        words = inspect.cleandoc(form.__doc__ or "")
        if form is forms.Settings:  # what the options mean is in the reference of `veil.solve`
            words += " [Plan a policy](planning.md) and `help(veil.solve)` explain them."
            parts.append(f"## {heading}\n\n{words}\n\n{_values(table)}")
            continue
        parts.append(f"## {heading}\n\n{words}\n\n{_rows(table)}")
    return "\n".join(parts)


def _kinds(schema: JsonSchemaValue, kinds: dict[str, type[Table]]) -> str:
    """What each kind is, with the names of its keys; then each key once, with its kinds if it differs between them."""
    lines = ["| kind | what it is | keys |", "|---|---|---|"]
    meanings: dict[str, dict[str, list[str]]] = {}
    for kind, form in kinds.items():
        table = schema["$defs"][form.__name__]
        keys = [key for key in table["properties"] if key != "kind"]
        lines.append(f"| `{kind}` | {_cell(_words(form))} | {', '.join(_name(table, key) for key in keys)} |")
        for key in keys:
            field = table["properties"][key]
            cells = f"| {_cell(_value(field))} | {_cell(field.get('description', ''))} |"
            meanings.setdefault(key, {}).setdefault(cells, []).append(f"`{kind}`")
    rows = [
        f"| `{key}`{' of ' + ', '.join(owners) if len(cells) > 1 else ''} {text}"
        for key, cells in meanings.items()
        for text, owners in cells.items()
    ]
    return "\n".join([*lines, "", *_HEADER, *rows]) + "\n"


def _memories(schema: JsonSchemaValue, kinds: dict[str, type[Table]]) -> str:
    """What each kind of memory is, and the values of its keys."""
    lines = [
        "A memory is a word, such as `states:2+clock`, or a table, such as `{ states = 2, clock = true }`. `clock` says",
        "whether the policy also depends on the time.",
        "",
        "| kind | what it is | key of the same name | `clock` by default |",
        "|---|---|---|---|",
    ]
    for kind, form in kinds.items():
        fields = schema["$defs"][form.__name__]["properties"]
        lines.append(
            f"| `{kind}` | {_cell(_words(form))} | {_cell(_value(fields[kind]))} | {_value(fields['clock'])[9:-1]} |"
        )
    return "\n".join(lines) + "\n"


def _words(form: type[Table]) -> str:
    return " ".join(inspect.cleandoc(form.__doc__ or "").split())


def _name(table: JsonSchemaValue, key: str) -> str:
    return f"`{key}`{'*' if key in table.get('required', ()) else ''}"


_HEADER = ("| key | value | meaning |", "|---|---|---|")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _rows(table: JsonSchemaValue) -> str:
    """The keys with value and meaning; those with the same meaning together."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    for key, field in table["properties"].items():
        value = _cell(_value(field))
        if re.fullmatch(r"((list|table) of: )*table", value) and key in _SECTIONS:
            value = f"[{value}](#{_SECTIONS[key]})"
        names, values = found.setdefault(_cell(field.get("description", "")), ([], []))
        names.append(_name(table, key))
        values.append(value)
    rows = [
        f"| {', '.join(names)} | {'; '.join(dict.fromkeys(values))} | {meaning} |"
        for meaning, (names, values) in found.items()
    ]
    return "\n".join([*_HEADER, *rows]) + "\n"


def _values(table: JsonSchemaValue) -> str:
    """The keys by their value, those of one kind together."""
    keys: dict[str, list[str]] = {}
    for key, field in table["properties"].items():
        keys.setdefault(_cell(_value(field)), []).append(_name(table, key))
    rows = [f"| {', '.join(names)} | {value} |" for value, names in keys.items()]
    return "\n".join(["| key | value |", "|---|---|", *rows]) + "\n"


def _value(field: JsonSchemaValue) -> str:
    """The form of a value, with its default in brackets."""
    value = field.get("default")
    if value is None or value in ([], {}, ""):
        return _form(field)
    word = str(value).lower() if isinstance(value, bool) else repr(value).replace("'", '"')
    return f"{_form(field)} ({word if isinstance(value, bool) else f'`{word}`'})"


_TYPES = {"boolean": "boolean", "integer": "integer", "number": "number", "string": "text"}


def _form(field: JsonSchemaValue) -> str:
    """What a value looks like, in a few words."""
    if "x-form" in field:
        return str(field["x-form"])
    if "const" in field:
        return f'`"{field["const"]}"`'
    if "enum" in field:
        return ", ".join(f'`"{choice}"`' for choice in field["enum"])
    if "$ref" in field:
        return _INLINE.get(str(field["$ref"]).rpartition("/")[2], "table")
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
        return f", {low:,} to {high:,}" if high < 10**12 else f", {low:,} or more"
    return f", {low:,} or more" if low is not None else ""


if __name__ == "__main__":
    print(reference(), end="")
