"""Layouts: the reconstruction is the gallery's, drawn ones are admissible, and the same seed draws the same."""

import itertools

import pytest
from reproduction.layouts import RECONSTRUCTION, PaperGrid, admissible_layouts, defects, reading_overlap
from reproduction.published import CORNERS

import veil
from veil.problem.fingerprint import fingerprint


@pytest.fixture(scope="module")
def drawn() -> list[tuple[int, PaperGrid]]:
    return list(itertools.islice(admissible_layouts(seed=0), 2))


def test_the_reconstruction_is_that_of_the_gallery():
    for own, name in ((RECONSTRUCTION.last_state(), "last"), (RECONSTRUCTION.initial_state(), "initial")):
        assert fingerprint(own) == fingerprint(veil.gallery.load(f"paper-{name}-state").replace(name=own.name))


def test_the_reconstruction_is_admissible():
    assert defects(RECONSTRUCTION) == []
    assert reading_overlap(RECONSTRUCTION.initial_state()) == pytest.approx(0.1)


def test_drawn_layouts_are_admissible(drawn: list[tuple[int, PaperGrid]]):
    for _, layout in drawn:
        problem = layout.last_state()
        sweep = veil.soft.soft_sweep(problem)
        assert max(point.opacity.bits for point in sweep) < 0.4
        assert [point.feasible for point in sweep] == [True, True] + 8 * [False]
        cells = [cell for cells in layout.ranges for cell in cells]
        assert len(set(cells)) == len(cells)
        assert len(set(CORNERS) & set(cells)) == 3
        assert not set(layout.goals) & set(layout.secrets)
        assert layout.start not in (*layout.goals, *layout.secrets, *CORNERS)
        assert veil.max_return(layout.initial_state()) >= 0.3


def test_the_same_seed_draws_the_same_layouts(drawn: list[tuple[int, PaperGrid]]):
    assert next(admissible_layouts(seed=0)) == drawn[0]
    assert drawn[0][1] != drawn[1][1]


def test_what_is_wrong_with_a_layout_is_said():
    far = PaperGrid(((0, 5),), ((2, 2),), (5, 0), RECONSTRUCTION.ranges)
    assert "cannot be reached" in defects(far)[0]
    ranges = (((0, 0), (0, 5)), ((2, 2),), ((3, 3),), ((4, 4),))
    alike = PaperGrid(RECONSTRUCTION.goals, RECONSTRUCTION.secrets, RECONSTRUCTION.start, ranges)
    assert "same first reading" in defects(alike)[0]
    rich = PaperGrid(
        (*RECONSTRUCTION.goals, (3, 2)), RECONSTRUCTION.secrets, RECONSTRUCTION.start, RECONSTRUCTION.ranges
    )
    assert "the baseline meets the threshold at τ = 0.03" in defects(rich)[0]
