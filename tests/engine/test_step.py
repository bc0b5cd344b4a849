"""The one step operator: what it computes, written out, and that its adjoints are adjoint, in every layout."""

import numpy as np
import pytest
import scipy.sparse as sp

from tests.seeds import looped
from veil.engine.hidden import Emitter
from veil.engine.step import Extension, Step

STATES, EVENTS, NODES = 4, 3, 5
LEVEL = Extension(np.array([0, 3, 4, 1, 1, 2]), np.array([0, 0, 0, 1, 2, 2]))
LAYOUTS = {"nodes": ((NODES, STATES), 0), "values": ((NODES, 2, STATES), 0), "batch": ((3, 2, NODES, STATES), 2)}


def make_step(kind: str, layout: str) -> Step:
    """Two emitters; in the second nothing emits event 1, and event 0 comes from the first alone."""
    rng = np.random.default_rng(0)
    tables = [rng.dirichlet(np.ones(EVENTS), size=STATES) for _ in range(2)]
    tables[1][:, :2] = 0.0
    shape = (3, 1, STATES, STATES) if layout == "batch" else (STATES, STATES)
    matrices = [np.where(rng.random(shape) < 0.7, rng.random(shape), 0.0) for _ in range(2)]
    if kind == "sparse":
        matrices = [sp.csr_array(matrix) for matrix in matrices]
    emitters = [Emitter(np.ones(1, dtype=bool), sp.csr_array(table)) for table in tables]
    return Step(matrices, emitters, axis=LAYOUTS[layout][1])


def by_hand(step: Step, messages: np.ndarray, *, forward: bool) -> np.ndarray:
    """The sums of the equations, node by node."""
    moved = np.moveaxis(messages, step.axis, 0)
    dense = [matrix if isinstance(matrix, np.ndarray) else matrix.toarray() for matrix in step.matrices]
    rows = []
    for parent, event in zip(LEVEL.parent, LEVEL.event, strict=True):
        total = 0.0
        for matrix, emitter in zip(dense, step.emitters, strict=True):
            emission, one = emitter.emission[:, event], moved[parent]
            if forward:
                total = total + np.matmul(one, matrix.reshape(*matrix.shape[-4:-3], STATES, STATES)) * emission
            else:
                turned = matrix.swapaxes(-1, -2).reshape(*matrix.shape[-4:-3], STATES, STATES)
                total = total + np.matmul(one * emission, turned)
        rows.append(total)
    return np.moveaxis(np.stack(rows), 0, step.axis)


CASES = [("dense", "nodes"), ("sparse", "nodes"), ("dense", "values"), ("sparse", "values"), ("dense", "batch")]


@looped(("kind", "layout"), CASES)
def test_a_step_computes_its_equations(kind: str, layout: str):
    step, messages = make_step(kind, layout), np.random.default_rng(1).random(LAYOUTS[layout][0])
    np.testing.assert_allclose(step.forward(messages, LEVEL), by_hand(step, messages, forward=True), atol=1e-14)
    np.testing.assert_allclose(step.backward(messages, LEVEL), by_hand(step, messages, forward=False), atol=1e-14)


@looped("direction", ["forward", "backward"])
@looped(("kind", "layout"), CASES)
def test_the_adjoint_is_adjoint_in_messages_and_in_transitions(kind: str, layout: str, direction: str):
    """`<slope, step(messages)> = <pulled slope, messages>`, and the products handed out are the slope in each matrix."""
    rng = np.random.default_rng(2)
    step, messages = make_step(kind, layout), rng.random(LAYOUTS[layout][0])
    children = getattr(step, direction)(messages, LEVEL)
    slope = rng.normal(size=children.shape)
    gathered: dict[int, float] = {}

    def add(emitter: int, left: np.ndarray, right: np.ndarray) -> None:
        matrix = step.matrices[emitter]
        moved = left @ matrix if layout != "batch" and left.ndim == 2 else None
        if moved is None:
            dense = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
            moved = np.matmul(left, dense)
        gathered[emitter] = float(np.vdot(moved, right))

    if direction == "forward":
        pulled = step.pull_forward(messages, LEVEL, slope, add)
    else:
        pulled = np.zeros(messages.shape)
        step.pull_backward(messages, LEVEL, slope, add, pulled)
    value = float(np.vdot(slope, children))
    assert float(np.vdot(pulled, messages)) == pytest.approx(value, rel=1e-12)
    # The value is linear in each matrix too, so that the slopes in both of them give it back.
    assert sum(gathered.values()) == pytest.approx(value, rel=1e-12)


def test_an_emitter_without_a_part_in_a_level_is_left_out():
    step, level = make_step("dense", "nodes"), Extension(np.array([2]), np.array([1]))
    heard: list[int] = []
    step.pull_forward(np.ones((NODES, STATES)), level, np.ones((1, STATES)), lambda emitter, *_: heard.append(emitter))
    assert heard == [0]
