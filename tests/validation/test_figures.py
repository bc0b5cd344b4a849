"""Published figures of other tools: every one that takes seconds, and the page that shows them."""

import re
from pathlib import Path

import pytest
from validation.figures import Case, cases
from validation.programs import crowds, crowds_bits
from validation.qif_tables import largest_differences

PAGE = Path(__file__).parents[2] / "validation" / "RESULTS.md"
QUICK = [case for case in cases() if case.quick]


@pytest.mark.parametrize("case", QUICK, ids=lambda case: f"{case.group.split()[0]}: {case.model}")
def test_a_published_figure_is_reproduced(case: Case):
    rows = list(case.run())
    assert rows
    assert not [row for row in rows if not row.holds]


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in cases() if not case.quick], ids=lambda case: case.model)
def test_a_large_published_figure_is_reproduced(case: Case):
    assert all(row.holds for row in case.run())


@pytest.mark.slow
def test_a_thousand_random_tables_as_qif_measures_them():
    found = largest_differences(1000)
    assert len(found) == 12
    assert max(found.values()) <= 1e-9


@pytest.mark.parametrize(("honest", "corrupt", "forwarding"), [(5, 1, 0.5), (3, 2, 0.75), (4, 1, 0.25)])
def test_crowds_in_closed_form(honest: int, corrupt: int, forwarding: float):
    import veil

    problem = crowds(honest, corrupt, forwarding, 200, untimed=True)
    found = veil.opacity(problem, veil.MarkovPolicy.uniform(problem))
    assert found.bits == pytest.approx(crowds_bits(honest, corrupt, forwarding), abs=1e-9)


def test_the_page_has_every_case_and_its_figures():
    text = PAGE.read_text("utf-8")
    for case in cases():
        assert f"## {case.group}" in text
        assert re.search(rf"^\| {re.escape(case.model)} \|", text, re.MULTILINE), case.model
    assert "| dynamic masks (ICCPS 2025) | hidden at budget 60, bits | at least 0.7 (0.71" in text
