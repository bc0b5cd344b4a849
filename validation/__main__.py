"""`make validate`: compute every published figure and write validation/RESULTS.md."""

import argparse
import itertools
import os
import platform
import sys
import time
from pathlib import Path

from validation.figures import Case, Row, cases
from validation.qif_tables import largest_differences

PAGE = Path(__file__).parent / "RESULTS.md"
TABLES = 1000
_AGREES = 1e-9

HEAD = """# Validation

`make validate` computes every published figure on this page anew, from models in the folder `validation` of the
repository, and writes the page. A cell shows the published figure, rounded or cut as in the source, and in brackets what
veil computes if more digits are known. To compute one yourself:

```python
import veil

meter = veil.gallery.load("smart-meter", horizon=4)
print(veil.opacity(meter, veil.MarkovPolicy.uniform(meter)).leakage_bits)
```

Sources: voting, program P1 and single traces: *Information leakage of multi-threaded programs*, Computers and Electrical
Engineering 78 (2019), the case study of PRISM-Leak; dining cryptographers: QEST 2022; Crowds: the closed form of libqif;
smart meter: Li, Khisti and Mahajan, IEEE Transactions on Information Theory 2018; dynamic masks: Udupa, Shi and Fu,
ICCPS 2025, whose values were learned and are reached or exceeded here. For voting with 4 candidates and 7 voters the
figure is the closed form of the model.
"""


def main() -> int:
    """Compute, print, and write the page; the exit code says whether every figure holds."""
    parser = argparse.ArgumentParser(prog="python -m validation", description=main.__doc__)
    parser.add_argument("--quick", action="store_true", help="only what takes seconds; the page is not written")
    quick = parser.parse_args().quick
    begin, lines, wrong = time.perf_counter(), [HEAD], 0
    chosen = [case for case in cases() if case.quick or not quick]
    for group, members in itertools.groupby(chosen, key=lambda case: case.group):
        found: list[tuple[Case, Row]] = []
        for case in members:
            for row in case.run():
                found.append((case, row))
                wrong += not row.holds
                print("ok    " if row.holds else "WRONG ", case.model, row.what, _cell(row), flush=True)
        lines += [f"## {group}\n", *_table(found), ""]
    differences = largest_differences(TABLES)
    wrong += sum(one > _AGREES for one in differences.values())
    lines += [
        "## qif 1.6\n",
        f"Over {TABLES:,} random tables of up to 8 secrets and 8 observations the largest difference is"
        f" {max(differences.values()):.1e}, for {'; '.join(differences)}.\n",
        f"Made with Python {platform.python_version()} on {platform.machine()} with {os.cpu_count()} cores,"
        f" in {time.perf_counter() - begin:.0f} s.",
    ]
    print(f"{wrong} figures differ")
    if not quick and not wrong:
        PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"written to {PAGE}")
    return int(wrong > 0)


def _table(found: list[tuple[Case, Row]]) -> list[str]:
    """A row for each model if the models have figures in common, else a row for each figure."""
    models: dict[str, dict[str, str]] = {}
    for case, row in found:
        models.setdefault(case.model, {})[row.what] = _cell(row)
    names = list(dict.fromkeys(row.what for _, row in found))
    if any(sum(name in cells for cells in models.values()) < 2 for name in names):
        rows = [f"| {case.model} | {row.what} | {_cell(row)} |" for case, row in found]
        return ["| model | figure | published (veil) |", "| --- | --- | --- |", *rows]
    rows = [f"| {model} | {' | '.join(cells.get(name, '') for name in names)} |" for model, cells in models.items()]
    return [f"| model | {' | '.join(names)} |", f"| --- |{' --- |' * len(names)}", *rows]


def _cell(row: Row) -> str:
    bound, published, computed = f"{row.bound} " if row.bound else "", _number(row.published), _number(row.found)
    return f"{bound}{published}{'' if computed == published else f' ({computed})'}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:.6g}"


if __name__ == "__main__":
    sys.exit(main())
