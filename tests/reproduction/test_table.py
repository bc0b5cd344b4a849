"""Tables and pages from stored results: each number in its place, proven bounds rounded outwards, verdicts honest."""

import re

from reproduction.page import page
from reproduction.published import LATER
from reproduction.store import Settings

from reproduction import table
from tests.reproduction.results import made_up
from tests.seeds import looped


@looped(
    ("lower", "upper", "text"),
    [
        (0.123456, 0.123456, "[0.1234, 0.1235]"),
        (0.95, 1.0 + 2e-13, "[0.9500, 1.0000]"),
        (0.3 - 1e-12, 0.30001, "[0.3000, 0.3001]"),
    ],
)
def test_bounds_are_rounded_outwards(lower: float, upper: float, text: str):
    assert table.enclosure(lower, upper) == text


def test_the_papers_numbers_stand_beside_ours():
    rows = table.paper_rows(made_up())
    assert all(len(row) == len(table.PAPER_HEADINGS) for row in rows)
    assert [row[1] for row in rows] == ["0.930"] * 3 + ["0.329"] * 3
    best = rows[1]
    assert best[2:5] == ["0.9500", "0.9510 ± 0.0020", "[0.9500, 1.0000]"]
    assert best[5:] == ["0.328", "0.3000", "0.2990 ± 0.0030"]


def test_a_quick_run_leaves_rows_out():
    results = made_up()
    del results["planned-last"]["at_paper_return"], results[LATER[1].key]
    assert len(table.paper_rows(results)) == 5
    assert [row[0] for row in table.later_rows(results)] == [run.words for run in LATER if run is not LATER[1]]


def test_the_later_grid():
    row = table.later_rows(made_up())[0]
    assert len(row) == len(table.LATER_HEADINGS)
    assert row[2:5] == ["0.5993", "5.0 h", "0.6493"]
    assert row[-3:] == ["0.6993", "0.7493", "0.7593"]


def test_conclusions_are_counted():
    assert table.conclusions(made_up()) == {
        "last_holds": 3, "last_tops": 3, "initial_holds": 3, "initial_tops": 3, "layouts": 3,
    }  # fmt: skip
    lost = table.conclusions(made_up(wins=False))
    assert (lost["last_holds"], lost["initial_holds"]) == (2, 3)
    assert "**no**" in table.contest_rows(made_up(wins=False))[4]


def test_the_page_says_what_the_results_say():
    within = made_up()
    within["planned-initial"]["at_paper_return"]["upper"] = 0.33
    won, lost = page(within, Settings()), page(made_up(wins=False), Settings())
    assert "and the conclusions do not" in " ".join(won.split())
    assert "hold on most of them" in " ".join(lost.split())
    assert "a reconstruction" in won
    assert "No policy hides 0.329 bits" not in " ".join(won.split())
    proven = made_up()
    proven["planned-initial"]["at_paper_return"]["upper"] = 0.3206
    assert "No policy hides 0.329 bits there (proven: at most 0.3206)" in " ".join(page(proven, Settings()).split())
    assert not re.search(r"\bnan\b|None|\{|\}", won)
