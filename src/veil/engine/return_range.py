"""The largest and the smallest return that policies can reach: what a threshold may ask for."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from jaxtyping import Float, Int

from ..common.errors import InfeasibleError
from ..common.exact import Interval, bits_for, discounted, mean, scaled, whole_numbers
from ..common.memo import memo
from ..common.rounding import rounded_down
from ..problem.model import Model
from ..problem.problem import Problem, check_problem
from ..problem.return_rounding import return_rounding
from .chain import Chain
from .hidden import build
from .returns import evaluate_return, optimal_values, return_of_actions

# Gains below this share of all rewards that could be collected end a search for the largest return.
ROUNDING = 1e-10
_MOST_EXACT_MOVES = (
    100_000  # transitions of all steps up to which the largest return is found in exact arithmetic: 0.1 s
)


@dataclass(frozen=True)
class ReturnRange:
    """The smallest and the largest expected return over all policies.

    **Attributes:** `smallest`, `largest`; `exact`, whether policies reach both ends. Where it is False, they are proven
    bounds: no policy gets outside, and perhaps none gets as far.
    """

    smallest: float
    largest: float
    exact: bool

    def at(self, share: float) -> float:
        """The return that lies a share, 0 to 1, of the way from the smallest to the largest, rounded down."""
        low, high = Fraction(self.smallest), Fraction(self.largest)
        return rounded_down(low + Fraction(share) * (high - low))


def return_extremes(problem: Problem) -> ReturnRange:
    """The smallest and the largest expected return over all policies, by backward induction over the actions available.

    `Q_t(s,a) = R(s,a) + γ Σ_s' P(s'|s,a) max_a' Q_{t+1}(s',a')`, from the terminal rewards on; over an infinite horizon
    its fixed point. Exact, and reached by a time-dependent policy (over an infinite horizon: by a stationary
    one), unless several models may run and the agent does not know which. The largest is the return of that policy, rounded
    down (exactly where the problem is small, else by the bound on the rounding error), so that it can be asked for.

    An agent that does not know the model cannot act on it, so what is best in each model is then only a bound. It is taken
    one step less loosely, since the first action in a state serves all models: `Σ_s max_a Σ_k w_k μ_k(s) Q_{k,0}(s,a)`,
    which bounds every policy, with memory or without.

    Cost: `O(T · nnz(P))`, once for each problem.
    """
    check_problem(problem)
    return memo(problem, return_extremes, lambda: _extremes(problem))


def _extremes(problem: Problem) -> ReturnRange:
    largest = _largest(problem)
    return ReturnRange(
        smallest=min(_end(problem, smallest=True), largest),  # where all policies earn the same, rounding may differ
        largest=largest,
        exact=not is_blind(problem) or (problem.return_over == "horizon" and problem.horizon <= 1),
    )


def max_return(problem: Problem) -> float:
    """The largest expected return that any policy can reach; see `return_extremes`.

    Where several models may run and the agent does not know which (`WhichModel(agent_knows=False)`), this is an upper
    bound on it: no policy gets more, and perhaps none gets as much (`return_extremes(problem).exact` is then False).
    """
    return return_extremes(problem).largest


def threshold(problem: Problem) -> float | None:
    """`problem.min_return` as a number: a percentage is that share of the way from the smallest to the largest return.

    The ends are those of `return_extremes`; `"100%"` is `max_return(problem)` to the last bit.
    """
    wanted = problem.min_return
    if isinstance(wanted, str):
        return return_extremes(problem).at(float(wanted.removesuffix("%")) / 100)
    return wanted


def return_slack(problem: Problem) -> float:
    """By how much a search for returns must gain to go on: 1e-10 of the largest sum of rewards' magnitudes.

    `max|R| Σ_{t<T} γ^t + γ^T max|R_T|`, or `max|R| / (1 − γ)` over an infinite horizon.
    """
    reward = max(float(np.abs(model.rewards).max()) for model in problem.models)
    last = max(float(np.abs(model.terminal_rewards).max()) for model in problem.models)
    discount, horizon = problem.discount, problem.horizon
    if problem.return_over == "infinite":
        return ROUNDING * reward / (1 - discount)
    steps = float(horizon) if discount == 1 else (1 - discount**horizon) / (1 - discount)
    return ROUNDING * (reward * steps + discount**horizon * last)


def reaches(problem: Problem, expected_return: float) -> bool:
    """Whether a policy whose return was evaluated to this number meets the threshold whatever the rounding error was.

    A policy that meets it by less than that is told apart by its certificate, in exact arithmetic.
    """
    wanted = threshold(problem)
    return wanted is None or expected_return >= wanted + return_rounding(problem)


def check_feasible(problem: Problem) -> None:
    """Raise `InfeasibleError` where it is proven that no policy reaches the threshold.

    A threshold that is the largest return, or above it by no more than rounding errors, passes. Passing is no promise for
    a smaller class of policies: stationary ones may all miss a threshold that a time-dependent policy reaches
    (`best_stationary_return`).
    """
    wanted, largest = threshold(problem), max_return(problem)
    if wanted is None or wanted <= largest + 2 * return_rounding(problem):
        return
    # As many digits as tell the two apart.
    digits = next((n for n in range(4, 17) if f"{largest:.{n}g}" != f"{wanted:.{n}g}"), 17)
    raise InfeasibleError(
        f"min_return is {wanted:.{max(6, digits)}g}, but no policy reaches more than {largest:.{digits}g}: lower it, take"
        " a share of what can be reached, as min_return='90%' ('100%' is the largest return itself), or change the"
        " rewards or the horizon"
    )


# The models, and what is best in each


def is_blind(problem: Problem) -> bool:
    """Whether more than one model may run and the agent does not know which."""
    return not problem.agent.knows_model and int(np.count_nonzero(_prior(problem))) > 1


def _prior(problem: Problem) -> Float[np.ndarray, " K"]:
    weights = problem.secret_table.weights
    return np.ones(1) if weights is None else weights


def signed_models(problem: Problem, *, smallest: bool) -> Sequence[Model]:
    """The models whose largest returns are wanted: with negated rewards where it is the smallest."""
    if not smallest:
        return problem.models
    return [
        Model(
            m.matrices,
            -m.rewards,
            m.initial,
            m.discount,
            -m.terminal_rewards,
            m.states.all(),
            m.actions.all(),
            available=m.available,
        )
        for m in problem.models
    ]


def action_values(
    model: Model, values: Float[np.ndarray, " S"], discount: float | None = None
) -> Float[np.ndarray, "S A"]:
    """`Q(s,a) = R(s,a) + γ Σ_s' P(s'|s,a) v(s')`, -inf for actions that are not available."""
    ahead = np.stack([matrix @ values for matrix in model.matrices])
    ahead *= model.discount if discount is None else discount
    ahead += model.rewards.T
    if not model.available.all():
        ahead[~model.available.T] = -np.inf
    return ahead.T


def best_action_values(problem: Problem, model: Model) -> list[Float[np.ndarray, "S A"]]:
    """`Q_t` of the best play in one model, t = 0 … T-1; a single one, for all times, over an infinite horizon."""
    return list(_backward_values(problem, model))[::-1]


def _backward_values(problem: Problem, model: Model) -> Iterator[Float[np.ndarray, "S A"]]:
    """`best_action_values` from the last to the first, one at a time: all of a large model may not fit."""
    if problem.return_over == "infinite":
        yield action_values(model, optimal_values(model))
        return
    values = model.terminal_rewards
    for _ in range(problem.horizon):
        found = action_values(model, values)
        yield found
        values = found.max(axis=1)


def _end(problem: Problem, *, smallest: bool) -> float:
    """The largest or smallest return: that of the policy which reaches it, or a bound where none is known to."""
    models = signed_models(problem, smallest=smallest)
    blind = is_blind(problem)
    if blind and (problem.return_over == "infinite" or problem.horizon > 1):
        bound = _blind_bound(problem, models)
        return 0.0 - bound if smallest else bound  # not -0.0
    hidden = build(problem.with_clock())
    if problem.return_over == "infinite":
        table = one_hot(problem, known_actions(problem, models, times=1))
        return evaluate_return(problem, Chain(hidden, table, stationary=True))[0]
    best = best_blind_actions(problem, models) if blind else known_actions(problem, models, problem.horizon)
    return return_of_actions(problem, hidden, best)


def _largest(problem: Problem) -> float:
    """The largest return, rounded down where a policy reaches it."""
    found, models = _end(problem, smallest=False), problem.models
    if is_blind(problem):
        return found - return_rounding(problem) if problem.horizon <= 1 and problem.return_over == "horizon" else found
    moves = problem.horizon * max(matrix.nnz for model in models for matrix in model.matrices) * len(models)
    if problem.return_over == "infinite" or moves > _MOST_EXACT_MOVES:
        return found - return_rounding(problem)
    return rounded_down(_exact_return(problem, known_actions(problem, models, problem.horizon)))


def _exact_return(problem: Problem, actions: Int[np.ndarray, "T C"]) -> Fraction:
    """A lower bound, exact but for 2^-256, on the return of a deterministic table whose agent knows the model."""
    bits = bits_for(max(max(float(np.abs(one.rewards).max()), float(np.abs(one.terminal_rewards).max()))
                        for one in problem.models))  # fmt: skip
    prior, total = _prior(problem).tolist(), Fraction(0)
    copies = actions.shape[1] // (problem.num_states * (len(problem.models) if problem.agent.knows_model else 1))
    for number, (weight, model) in enumerate(zip(prior, problem.models, strict=True)):
        begin = number * copies * problem.num_states if problem.agent.knows_model else 0
        chosen, values = actions[:, begin : begin + problem.num_states], model.terminal_rewards.tolist()
        values, before = [scaled(value, bits) for value in values], _ExactStep(model, bits)
        for row in chosen[::-1].tolist() if weight else ():
            values = [before(state, action, values) for state, action in enumerate(row)]
        initial = model.initial.tolist()
        begun = [state for state, chance in enumerate(initial) if chance]
        low, _ = mean(whole_numbers([initial[state] for state in begun]), [values[state] for state in begun])
        total += Fraction(weight) * Fraction(low, 2**bits)
    return total / sum(map(Fraction, prior))


class _ExactStep:
    """`R(s,a) + γ Σ_s' P(s'|s,a) v(s')` in whole numbers; those of a pair `(s, a)` are made once for all times."""

    def __init__(self, model: Model, bits: int):
        self._model, self._bits, self._discount = model, bits, Fraction(model.discount)
        self._rows: dict[tuple[int, int], tuple[Interval, list[int], list[int]]] = {}

    def __call__(self, state: int, action: int, values: list[Interval]) -> Interval:
        """The value of an action in a state, from the values of the next states."""
        found = self._rows.get((state, action))
        if found is None:
            matrix = self._model.matrices[action]
            part = slice(matrix.indptr[state], matrix.indptr[state + 1])
            reward = scaled(float(self._model.rewards[state, action]), self._bits)
            found = reward, whole_numbers(matrix.data[part].tolist()), matrix.indices[part].tolist()
            self._rows[state, action] = found
        reward, chances, following = found
        return discounted(reward, self._discount, mean(chances, [values[one] for one in following]))


def _blind_bound(problem: Problem, models: Sequence[Model]) -> float:
    """The bound of `return_extremes` on what an agent earns that does not know the model."""
    starts = [weight * model.initial for weight, model in zip(_prior(problem), models, strict=True)]
    first = [deque(_backward_values(problem, model), maxlen=1).pop() for model in models]
    return float(_pooled(problem, starts, first).max(axis=1).sum())


def _pooled(
    problem: Problem, weights: Sequence[Float[np.ndarray, " S"]], values: Sequence[Float[np.ndarray, "S A"]]
) -> Float[np.ndarray, "S A"]:
    """`Σ_k weights_k(s) Q_k(s,a)`, -inf for actions that are not available."""
    mask = problem.model.available
    total = sum(weight[:, None] * np.where(mask, value, 0.0) for weight, value in zip(weights, values, strict=True))
    return np.where(mask, total, -np.inf)


# Tables


def known_actions(problem: Problem, models: Sequence[Model], times: int) -> Int[np.ndarray, "T C"]:
    """The best actions where the agent knows all that pays: in each cell those of its model and state.

    `times` is the horizon; over an infinite horizon, how many copies of the same table are wanted.
    """
    if not problem.agent.knows_model:
        models = [models[int(np.argmax(_prior(problem)))]]  # the only model that runs
    copies = problem.num_cells // (len(models) * problem.num_states)  # states of an automaton, which pays nothing
    result = np.empty((times, problem.num_cells), dtype=int)
    for number, model in enumerate(models):
        columns = slice(number * copies * problem.num_states, (number + 1) * copies * problem.num_states)
        for time, values in enumerate(_backward_values(problem, model), 1):
            chosen = np.tile(np.argmax(values, axis=1), copies)
            result[slice(None) if problem.return_over == "infinite" else times - time, columns] = chosen
    return result


def one_hot(problem: Problem, actions: Int[np.ndarray, "*T C"]) -> Float[np.ndarray, "*T C A"]:
    """The tables of deterministic policies that take the given actions."""
    return np.eye(problem.num_actions)[actions]


# Stationary policies


def best_blind_actions(problem: Problem, models: Sequence[Model]) -> Int[np.ndarray, "T S"]:
    """The best of the tables that sweeps reach from each model's own best, and from the best for the prior."""
    prior = _prior(problem)
    each = [best_action_values(problem, model) for model in models]
    size = problem.num_states
    starts = [[np.argmax(values, axis=1) for values in own] for own in each]
    weights = [np.full(size, weight) for weight in prior]
    starts.append([np.argmax(_pooled(problem, weights, together), axis=1) for together in zip(*each, strict=True)])
    best, best_value = np.zeros((problem.horizon, size), dtype=int), -np.inf
    for start in starts:
        actions, value = np.array(start, dtype=int).reshape(problem.horizon, size), -np.inf
        while True:
            swept, reached = _sweep(problem, models, actions)
            if reached <= value + return_slack(problem):
                break
            actions, value = swept, reached
        if value > best_value:
            best, best_value = actions, value
    return best


def _sweep(problem: Problem, models: Sequence[Model], actions: np.ndarray) -> tuple[np.ndarray, float]:
    """From the last decision to the first, the best action in each state for what leads there and what follows.

    The return is linear in the table of one time, and going backwards leaves the ways there as they are: it never falls.
    """
    occupied = _occupancies(problem, models, actions)
    values = [model.terminal_rewards for model in models]
    states, result = np.arange(problem.num_states), actions.copy()
    for time in range(problem.horizon - 1, -1, -1):
        each = [action_values(model, value) for model, value in zip(models, values, strict=True)]
        pooled = _pooled(problem, occupied[time], each)
        better = pooled.max(axis=1) > pooled[states, actions[time]]  # a state never met keeps its action
        result[time] = np.where(better, np.argmax(pooled, axis=1), actions[time])
        values = [value[states, result[time]] for value in each]
    start = [weight * model.initial for weight, model in zip(_prior(problem), models, strict=True)]
    return result, float(sum(law @ value for law, value in zip(start, values, strict=True)))


def _occupancies(problem: Problem, models: Sequence[Model], actions: np.ndarray) -> list[list[np.ndarray]]:
    """`P(k, s_t = s)` for each time and model under a deterministic table."""
    law = [weight * model.initial for weight, model in zip(_prior(problem), models, strict=True)]
    found = []
    for time in range(problem.horizon):
        found.append(law)
        taken = [actions[time] == action for action in range(problem.num_actions)]
        law = [
            np.sum([(here * chosen) @ matrix for chosen, matrix in zip(taken, model.matrices, strict=True)], axis=0)
            for here, model in zip(law, models, strict=True)
        ]
    return found
