"""Tables for people: runs that differ only in their seed as one row, mean ± standard deviation; and tables for LaTeX."""

from collections.abc import Iterable, Sequence
from typing import Any

from .analysis import grouped, is_seed, mean_of
from .table import Row

RUNS = "runs"
_ESCAPES = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$"}
_ESCAPES |= {one: f"\\{one}" for one in "&%$#_{}"}


def over_seeds(rows: Iterable[Row], factors: Sequence[str], columns: Sequence[str]) -> list[Row]:
    """A row for each combination of the factors that are no seeds, of the runs that are done.

    A column of numbers has their `Mean`, or the number that all runs have; any other column has its values, each once.
    `runs`: how many there are.
    """
    kept = [name for name in factors if not is_seed(name)]
    done = [row for row in rows if row["status"] not in ("TO_DO", "FAILED")]
    found = grouped(done, lambda row: repr([row[name] for name in kept])).values()
    return [
        {name: runs[0][name] for name in kept}
        | {RUNS: len(runs)}
        | {name: _together([row[name] for row in runs]) for name in columns if name not in factors}
        for runs in found
    ]


def _together(values: Sequence[Any]) -> Any:
    numbers = [float(one) for one in values if isinstance(one, (int, float)) and not isinstance(one, bool)]
    if len(numbers) < len(values):
        return ", ".join(dict.fromkeys(str(one) for one in values if one is not None)) or None
    return mean_of(numbers) if len(set(numbers)) > 1 else values[0]


def latex_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A `tabular` with the rules of the package booktabs; numbers to the right."""
    cells = [[_latex(cell) for cell in row] for row in rows]
    given = [list(column) for column in zip(*cells, strict=True)] or [[] for _ in headings]
    ends = "".join("r" if all(cell[:1] in "-0123456789" for cell in column) else "l" for column in given)
    lines = [[_latex(name) for name in headings], *cells]
    head, *body = [" & ".join(line) + r" \\" for line in lines]
    parts = [rf"\begin{{tabular}}{{{ends}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}"]
    return "\n".join(parts)


def _latex(cell: object) -> str:
    text = "" if cell is None else f"{cell:.6g}" if isinstance(cell, float) else str(cell)
    return "".join(_ESCAPES.get(sign, sign) for sign in text)
