"""The paper's baseline: policies that trade return against their own randomness, and know nothing of the observer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from ..common.checks import Defects, is_number
from ..common.logs import soft_maximum
from ..common.values import Value
from ..engine.paid import action_values
from ..measure.evaluate import Method, expected_return, opacity
from ..measure.result import Opacity
from ..policy.markov import MarkovPolicy, TimedPolicy
from ..problem.model import Model
from ..problem.problem import Problem, check_problem
from ..proof.feasibility import meets_constraints

PAPER_TEMPERATURES = tuple(step / 100 for step in range(1, 11))
_ERROR = 1e-12  # of soft values, as a share of the largest that there could be


@dataclass(frozen=True, eq=False, repr=False)
class SoftPoint(Value):
    """One temperature of the baseline.

    **Attributes:**

    - `temperature`: reward per nat.
    - `opacity`, `expected_return`: of its policy, on the problem itself.
    - `feasible`: whether that return meets the problem's threshold.
    """

    temperature: float
    opacity: Opacity
    expected_return: float
    feasible: bool


def soft_policy(
    problem: Problem,
    temperature: float,
    *,
    discount: float | None = None,
    horizon: Literal["infinite", "finite"] = "infinite",
) -> MarkovPolicy | TimedPolicy:
    """The policy that maximises the return plus `temperature` times the discounted entropy of its choices.

    `V(s) = τ ln Σ_a exp(Q(s,a)/τ)`, `Q(s,a) = R(s,a) + γ Σ_s' P(s'|s,a) V(s')`, `π(a|s) = exp((Q(s,a) − V(s))/τ)` over
    the available actions: the entropy-regularised objective of the paper's experiments. At τ = 0 the maximum is the
    plain one and equally good actions share. As τ grows it nears the policy of the largest entropy: uniform if all
    states have equally many actions; otherwise it prefers states with more actions.

    **Arguments:**

    - `temperature`: τ ≥ 0, reward per nat.
    - `discount`: γ; the model's by default. An infinite horizon needs one below 1, which the paper's problems lack.
    - `horizon`: `"infinite"` gives a stationary `MarkovPolicy`, and terminal rewards play no part; `"finite"` takes the
      problem's decisions and terminal rewards and gives a `TimedPolicy`.

    Cost: `O(nnz(P))` a step; over an infinite horizon at most about `28 / (1 − γ)` steps, until the values are
    proven right to 1e-12 of the largest that they could be (or to what rounding allows, if γ is very near 1).

    **Raises:** `InputError`; also if several models may run and the agent does not know which, since the baseline
    has no values to act on then.
    """
    discount = _check(problem, temperature, discount, horizon)
    models = problem.models
    copies = problem.num_cells // (len(models) * problem.num_states)  # states of an automaton, which pays nothing
    if horizon == "finite":
        tables = [_finite_table(model, problem.horizon, float(temperature), discount) for model in models]
        return TimedPolicy(np.concatenate([np.tile(table, (1, copies, 1)) for table in tables], axis=1))
    tables = [_choice(soft_action_values(model, float(temperature), discount), temperature) for model in models]
    return MarkovPolicy(np.concatenate([np.tile(table, (copies, 1)) for table in tables]))


def soft_sweep(
    problem: Problem,
    temperatures: Sequence[float] = PAPER_TEMPERATURES,
    *,
    discount: float | None = 0.9,
    method: Method = "auto",
) -> list[SoftPoint]:
    """The baseline at several temperatures: what its stationary policies hide and what they earn on the problem.

    **Arguments:**

    - `temperatures`: the paper's ten by default.
    - `discount`: of the soft values only; the return has the problem's own.
    - `method`: of `veil.opacity`.
    """
    return [_point(problem, temperature, discount, method) for temperature in temperatures]


def _point(problem: Problem, temperature: float, discount: float | None, method: Method) -> SoftPoint:
    policy = soft_policy(problem, temperature, discount=discount)
    gained = expected_return(problem, policy)
    feasible = meets_constraints(problem, policy, gained)
    return SoftPoint(float(temperature), opacity(problem, policy, method), gained, feasible)


def soft_action_values(model: Model, temperature: float, discount: float) -> Float[np.ndarray, "S A"]:
    """The fixed point `Q` of soft value iteration over an infinite horizon, -inf for actions that are not available.

    **Arguments:** `model`; `temperature` ≥ 0, reward per nat; `discount` in [0, 1).

    One step is `F(v)`, with `d = F(v) − v`. The soft maximum grows with its arguments, and raising all of v by c raises
    F by γc, so the fixed point lies between `F(v) + γ/(1−γ) min d` and `F(v) + γ/(1−γ) max d`, for any v. Steps go on
    from `F(v)` less its middle: a constant changes no difference between states, so the width of the bracket falls by γ
    a step or faster, and small numbers round less. They end when half the width is 1e-12 of the largest value that
    there could be; or when rounding stops it short of that: no narrower bracket in as many steps as should have cut
    it by e.
    """
    log_actions = float(soft_maximum(np.zeros(model.num_actions), 1.0))
    largest = (float(np.abs(model.rewards).max()) + temperature * log_actions) / (1 - discount)
    ahead = discount / (1 - discount)
    values, narrowest, waited = np.zeros(model.num_states), np.inf, 0
    while True:
        following = soft_maximum(action_values(model, values, discount), temperature)
        moved = following - values
        low, high = float(moved.min()), float(moved.max())
        width = ahead * (high - low)
        waited = 0 if width < narrowest else waited + 1
        narrowest = min(narrowest, width)
        if width <= 2 * _ERROR * largest or waited > 1 / (1 - discount):
            return action_values(model, following + ahead * (low + high) / 2, discount)
        values = following - (following.min() + following.max()) / 2


def _finite_table(model: Model, horizon: int, temperature: float, discount: float) -> Float[np.ndarray, "T S A"]:
    table = np.empty((horizon, model.num_states, model.num_actions))
    values = model.terminal_rewards
    for time in range(horizon - 1, -1, -1):
        actions = action_values(model, values, discount)
        table[time] = _choice(actions, temperature)
        values = soft_maximum(actions, temperature)
    return table


def _choice(values: Float[np.ndarray, "S A"], temperature: float) -> Float[np.ndarray, "S A"]:
    """`π(a|s) ∝ exp(Q(s,a)/τ)`; at τ = 0 the best actions, equally."""
    below = values - values.max(axis=1, keepdims=True)
    if temperature == 0:
        weights = (below == 0).astype(float)
    else:
        with np.errstate(over="ignore"):  # at tiny temperatures a quotient passes the floats: its exp is 0 all the same
            weights = np.exp(below / temperature)
    return weights / weights.sum(axis=1, keepdims=True)


def _check(problem: Problem, temperature: float, discount: float | None, horizon: str) -> float:
    check_problem(problem)
    defects = Defects("soft policy")
    if not (is_number(temperature) and np.isfinite(temperature) and temperature >= 0):
        defects.add(f"temperature is {temperature!r}, expected a number, 0 or more")
    if horizon not in ("infinite", "finite"):
        defects.add(f"horizon is {horizon!r}, expected 'infinite' or 'finite'")
    used = problem.discount if discount is None else discount
    if not (is_number(used) and 0 <= used <= 1):
        defects.add(f"discount is {used!r}, expected a number in [0, 1]")
    elif horizon == "infinite" and used == 1:
        defects.add("an infinite horizon needs a discount below 1, found 1: give one, such as discount=0.9")
    if not problem.agent.sees_state:
        defects.add("the agent does not see its state, and the baseline values states: use problem.informed")
    if len(problem.models) > 1 and not problem.agent.knows_model:
        defects.add(
            "the agent does not know which model runs, and the baseline values each state by its model: use"
            " WhichModel(agent_knows=True)"
        )
    defects.raise_if_any()
    return float(used)
