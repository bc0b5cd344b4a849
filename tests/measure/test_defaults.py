"""The defaults of what measures: those that the documents state, one table for all functions, each of which is also called."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import veil
from veil.engine.chain import make_chain
from veil.measure.exact import Budget
from veil.measure.loss import sampled_loss
from veil.measure.measures import JointTable, joint_table
from veil.measure.pairs import pair_value
from veil.measure.quantities import Quantity, quantities
from veil.measure.sampled import Tally, sampled_gradient, sampled_opacity
from veil.measure.trajectory import sampled_path

PROBLEM = veil.gallery.load("two-rooms", horizon=1)
POLICY = veil.MarkovPolicy.uniform(PROBLEM)
CHAIN = make_chain(PROBLEM, POLICY)
TABLE = joint_table(PROBLEM, POLICY)
PAIR = veil.Pair("other", PROBLEM.observer)
PAIRED = PROBLEM.replace(pairs=[PAIR])
PATH = make_chain(PROBLEM.replace(secret=veil.Trajectory()), POLICY, paths=True)
SAMPLE = {"sequences": 2000, "seed": 0}
ALONE = {"workers": 1}


@pytest.mark.parametrize(
    ("function", "arguments", "expected"),
    [
        (
            veil.opacity,
            (PROBLEM, POLICY),
            {"method": "auto", "width": 1e-3, "std_error": None, "merge_tolerance": 0.0, **SAMPLE, **ALONE},
        ),
        (
            veil.opacity_gradient,
            (PROBLEM, np.zeros((2, 2))),
            {"method": "exact", "width": 1e-3, "merge_tolerance": 0.0, **SAMPLE, **ALONE},
        ),
        (
            veil.attack,
            (PROBLEM, POLICY),
            {"episodes": 10_000, "seed": 0, "bins": 10, "traces": 5, "observer_believes": None},
        ),
        (veil.pair_values, (PAIRED, POLICY), SAMPLE),
        (pair_value, (PAIRED, PAIR, POLICY), SAMPLE),
        (
            quantities,
            (PROBLEM, POLICY),
            {"method": "auto", "orders": (0.5, 2.0), "top": 10, "gain": None, **SAMPLE},
        ),
        (sampled_opacity, (CHAIN,), {**SAMPLE, **ALONE}),
        (sampled_gradient, (CHAIN,), {"partial": False, **SAMPLE, **ALONE}),
        (sampled_loss, (PROBLEM, POLICY, veil.Belief(POLICY)), SAMPLE),
        (JointTable.quantities, (TABLE,), {"top": 0, "orders": (0.5, 2.0)}),
        (JointTable.revealing, (TABLE,), {"top": 10, "by": "leaked_bits"}),
        (JointTable.asymmetric_bits, (TABLE,), {"value": -1}),
        (JointTable, (PROBLEM, TABLE.probabilities, TABLE.events), {"draws": 0, "known_prior": None}),
        (Quantity, (0.5, 0.5), {"std_error": 0.0}),
        (Tally, (), {"count": 0, "total": 0.0, "squares": 0.0}),
    ],
)
def test_defaults(function: Callable[..., Any], arguments: tuple[Any, ...], expected: dict[str, Any]):
    given = inspect.signature(function).parameters
    assert {name: given[name].default for name in expected} == expected
    assert function(*arguments) is not None


def test_a_path_is_sampled_by_one_process_by_default():
    assert inspect.signature(sampled_path).parameters["workers"].default == 1
    assert sampled_path(PATH, Budget(), sequences=2, seed=0, gradient=False)[0].num_sequences == 2
