"""Where states lie in pictures: carried along, checked, and no part of what a problem is."""

import numpy as np
import pytest

import veil
from tests.seeds import looped
from veil.problem.fingerprint import fingerprint
from veil.problem.layout import Layout

SQUARE = Layout(2, 2, ((0, 0), (0, 1), (1, 1)))


def problem(layout: Layout | None) -> veil.Problem:
    model = veil.Model(np.full((3, 1, 3), 1 / 3), np.zeros(3), 0)
    return veil.Problem(model, veil.Observer(np.ones((3, 1))), veil.LastState({1}), 2, layout=layout)


def test_a_grid_brings_its_layout_and_keeps_it():
    found = veil.gallery.load("convoy-checkpoint")
    assert found.layout is not None
    assert (found.layout.rows, found.layout.columns) == (5, 5)
    assert len(found.layout.cells) == found.num_states == 22
    assert (0, 2) not in found.layout.cells
    row, column = found.layout.cells[7]
    assert found.model.states[7] == f"r{row}c{column}"
    assert found.replace(horizon=5).layout == found.layout
    assert found.replace(model=found.model).layout is None  # another model may have other states
    assert veil.gallery.load("courier-depots").layout is None


def test_it_is_no_part_of_the_fingerprint():
    assert fingerprint(problem(SQUARE)) == fingerprint(problem(None))


@looped(
    ("layout", "said"),
    [
        (Layout(2, 2, ((0, 0), (0, 1))), "2 cells, expected one for each of the 3 states"),
        (Layout(2, 2, ((0, 0), (0, 0), (1, 1))), "two states share a cell"),
        (Layout(1, 2, ((0, 0), (0, 1), (1, 1))), "is outside the grid of 1 × 2"),
        ("grid", "layout is a str"),
    ],
)
def test_one_that_does_not_fit_is_refused(layout: Layout, said: str):
    with pytest.raises(veil.InputError, match=said):
        problem(layout)
