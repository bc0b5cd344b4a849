"""Arguments of the wrong kind: every measuring call says which one it is and what to do."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import veil

PROBLEM = veil.Problem(
    veil.Model(np.full((2, 2, 2), 0.5), np.zeros((2, 2)), [1, 0]),
    veil.Observer(np.eye(2), silent=0, sensors={"eye": {"o1": "o0"}}),
    veil.LastState({1}),
    2,
)
POLICY = veil.MarkovPolicy.uniform(PROBLEM)

CALLS: dict[str, Callable[[Any, Any], object]] = {
    "opacity": veil.opacity,
    "expected_return": veil.expected_return,
    "quantities": veil.measures.quantities,
    "joint_table": veil.measures.joint_table,
    "bits_over_time": veil.measures.bits_over_time,
    "observation_costs": veil.measures.observation_costs,
    "sensor_costs": veil.measures.sensor_costs,
    "pair_values": veil.pair_values,
    "constraint_values": veil.constraint_values,
    "attack": veil.attack,
    "ObserverFilter": veil.ObserverFilter,
    "smoother": veil.smoother,
    "certify": veil.certify,
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_argument_is_named_with_its_remedy(name: str):
    call = CALLS[name]
    call(PROBLEM, POLICY)
    wrong = [
        (POLICY, PROBLEM, "swap"),
        ("taxi.toml", POLICY, r"problem: .*veil\.load\('taxi\.toml'\)"),
        (PROBLEM.model, POLICY, "problem: it is a Model"),
        (None, POLICY, "problem: it is a NoneType"),
        (PROBLEM, "best.safetensors", r"policy: .*veil\.load_policy\('best\.safetensors'\)"),
        (PROBLEM, POLICY.probabilities, "policy: .*veil.MarkovPolicy"),
        (PROBLEM, None, "policy: it is a NoneType"),
    ]
    for problem, policy, words in wrong:
        with pytest.raises(veil.InputError, match=words):
            call(problem, policy)


@pytest.mark.parametrize("limit", [np.nan, -1.0, 0, "5", True])
def test_a_time_limit_that_is_none_is_refused_with_and_without_pairs(limit: Any):
    for pairs in ([], [veil.Pair("other", secret=veil.LastState({0}))]):
        with pytest.raises(veil.InputError, match="time_limit"):
            veil.pair_values(PROBLEM.replace(pairs=pairs), POLICY, time_limit=limit)


def test_limits_that_are_infinite_or_no_numbers():
    solution = veil.solve(PROBLEM, time_limit=np.inf, iterations=3, starts=1, progress=False)
    assert solution.certificate is not None
    calls: list[Any] = [veil.opacity, veil.opacity_gradient]
    for call in calls:
        with pytest.raises(veil.InputError, match=r"memory_bytes is inf, expected .* finite"):
            call(PROBLEM, POLICY, memory_bytes=np.inf)
    for memory in ("1", -1):
        with pytest.raises(veil.InputError, match="memory_bytes"):
            veil.certify(PROBLEM, POLICY, memory_bytes=memory)  # type: ignore[arg-type]


def test_dates_are_no_numbers():
    with pytest.raises(veil.InputError, match=r"rewards .*dates"):
        veil.Model(np.full((2, 2, 2), 0.5), np.zeros((2, 2), dtype="datetime64[s]"), [1, 0])


def test_calls_of_a_problem_alone():
    for call in (
        veil.max_return, veil.solve, veil.frontier, veil.compare, lambda problem: veil.design_sensors(problem, 1),
        lambda problem: veil.opacity_gradient(problem, np.zeros((2, 2))), veil.best_queries, veil.soft.soft_sweep,
        lambda problem: veil.soft.soft_policy(problem, 0.1),
    ):  # fmt: skip
        with pytest.raises(veil.InputError, match=r"problem: .*veil\.load"):
            call("taxi.toml")  # type: ignore[arg-type]


def test_a_solution_in_place_of_its_policy():
    solution = veil.solve(PROBLEM, starts=1, iterations=2, certificate=False)
    with pytest.raises(veil.InputError, match="its attribute policy"):
        veil.opacity(PROBLEM, solution)  # type: ignore[arg-type]
