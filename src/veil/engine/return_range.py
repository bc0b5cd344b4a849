"""The largest and the smallest return that policies can reach: what a threshold may ask for."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from jaxtyping import Float, Int

from ..common.errors import InfeasibleError
from ..common.exact import Interval, bits_for, discounted, mean, rounded_down, scaled, whole_numbers
from ..common.memo import memo
from ..policy.tables import uniform_table
from ..problem.model import Model
from ..problem.problem import Problem, check_problem
from ..problem.return_rounding import return_rounding
from .additive import Play, expected_values
from .chain import Chain, sum_by_cell
from .compile import build
from .paid import Afterwards, Paid, action_values, steps_paid

# Gains below this share of all rewards that could be collected end a search for the largest return.
ROUNDING = 1e-10
_SAME = 1e-9  # share of their size by which the ends of a range differ at least
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

    @property
    def unit(self) -> float:
        """The distance of the ends, by which slacks are scaled; 1 if all policies have the same value."""
        spread = self.largest - self.smallest
        return spread if spread > _SAME * (abs(self.largest) + abs(self.smallest)) else 1.0

    def part(self, bound: float | str) -> float:
        """A bound as a number: a percentage is that share of the way."""
        return self.at(float(bound.removesuffix("%")) / 100) if isinstance(bound, str) else bound

    def share_text(self, bound: float | str | None) -> str:
        """What a percentage is a share of, in words: `50% of the range -1006 … -13`; empty for a number."""
        return f"{bound} of the range {self.smallest:.6g} … {self.largest:.6g}" if isinstance(bound, str) else ""


def return_extremes(problem: Problem) -> ReturnRange:
    """The smallest and the largest expected return over all policies, by backward induction over the actions available.

    `Q_t(s,a) = R(s,a) + γ Σ_s' P(s'|s,a) max_a' Q_{t+1}(s',a')`, from the terminal rewards on; over an infinite horizon
    its fixed point. Exact, and reached by a time-dependent policy (over an infinite horizon: by a stationary
    one), unless several models may run and the agent does not know which, or it does not see its state. The largest is the
    return of that policy, rounded down (exactly where the problem is small, else by the bound on the rounding error), so that
    it can be asked for.

    An agent that does not know the model cannot act on it, so what is best in each model is then only a bound. It is taken
    one step less loosely, since the first action in a state serves all models: `Σ_s max_a Σ_k w_k μ_k(s) Q_{k,0}(s,a)`,
    which bounds every policy, with memory or without. Of an agent that does not see its state the ends are those of one that
    does: what its readings allow is a partially observable problem, of which a search finds good policies, and no largest
    return is known.

    Cost: `O(T · nnz(P))`, once for each problem.
    """
    check_problem(problem)
    return memo(problem, return_extremes, lambda: _extremes(problem))


def _extremes(problem: Problem) -> ReturnRange:
    if not problem.agent.sees_state:
        return replace(return_extremes(problem.informed), exact=False)
    largest = _largest(problem)
    return ReturnRange(
        smallest=min(_end(problem, -1.0), largest),  # where all policies earn the same, rounding may differ
        largest=largest,
        exact=not is_blind(problem) or (problem.return_over == "horizon" and problem.horizon <= 1),
    )


def max_return(problem: Problem) -> float:
    """The largest expected return that any policy can reach; see `return_extremes`.

    If several models may run and the agent does not know which (`WhichModel(agent_knows=False)`), and of an agent that
    does not see its state (`agent_sees`), this is an upper bound on it: no policy gets more, and perhaps none gets as much
    (`return_extremes(problem).exact` is then False).
    """
    return return_extremes(problem).largest


def threshold(problem: Problem) -> float | None:
    """`problem.min_return` as a number: a percentage is that share of the way from the smallest to the largest return.

    The ends are those of `return_extremes`; `"100%"` is `max_return(problem)` to the last bit.
    """
    wanted = problem.min_return
    return return_extremes(problem).part(wanted) if isinstance(wanted, str) else wanted


def return_slack(problem: Problem) -> float:
    """By how much a search for returns must gain to go on: 1e-10 of the largest sum of rewards' magnitudes.

    `max|R| Σ_{t<T} γ^t + γ^T max|R_T|`, or `max|R| / (1 − γ)` over an infinite horizon.
    """
    reward = max(float(np.abs(model.rewards).max()) for model in problem.models)
    last = max(float(np.abs(model.terminal_rewards).max()) for model in problem.models)
    discount, horizon = problem.discount, problem.horizon
    if problem.return_over == "infinite":
        return ROUNDING * reward / (1 - discount)
    return ROUNDING * (reward * steps_paid(discount, horizon) + discount**horizon * last)


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
        " a share of what can be reached, such as min_return='90%' ('100%' is the largest return itself), or change the"
        " rewards or the horizon"
    )


def is_blind(problem: Problem) -> bool:
    """Whether the agent does not see its state, or does not know which of several models runs."""
    return not problem.agent.sees_state or _cannot_tell_models(problem)


def _cannot_tell_models(problem: Problem) -> bool:
    return not problem.agent.knows_model and int(np.count_nonzero(problem.secret_table.prior)) > 1


# The ends


def _end(problem: Problem, sign: float) -> float:
    """The largest (sign 1) or smallest (−1) return: that of the policy that reaches it, or a bound if none is known to."""
    prior, total = problem.secret_table.prior, 0.0
    starts, first = [], []
    for weight, model in zip(prior, problem.models, strict=True):
        paid, offset = _paid(problem, model, sign).centred(problem.horizon)
        values = deque(_backward_values(problem, model, paid, offset), maxlen=1)
        starts.append(weight * model.initial)
        first.append(values.pop() if values else paid.terminal[:, None])
        total += weight * offset
    if _cannot_tell_models(problem) and first[0].shape[1] > 1:
        total += float(_pooled(problem, starts, first).max(axis=1).sum())
    else:
        total += sum(float(start @ values.max(axis=1)) for start, values in zip(starts, first, strict=True))
    return 0.0 + sign * float(total)  # not -0.0


def _paid(problem: Problem, model: Model, sign: float = 1.0) -> Paid:
    """The return in one model, or its negative."""
    after = None
    if problem.return_over == "infinite":
        after = Afterwards((model,), np.zeros(model.num_states, dtype=int), np.arange(model.num_states), True, sign)
    plain = Paid(model.rewards, model.terminal_rewards, model.discount, after)
    return plain if sign > 0 else replace(plain, reward=-plain.reward, terminal=-plain.terminal)


def _backward_values(
    problem: Problem, model: Model, paid: Paid, offset: float = 0.0
) -> Iterator[Float[np.ndarray, "S A"]]:
    """`Q_t` of the best play in one model from t = T-1 to 0, one at a time: all of a large model may not fit.

    A single one, for all times, over an infinite horizon. `offset`: what is taken from every sum of centred rewards.
    """
    if paid.after is not None:
        yield action_values(model, paid.last - offset, rewards=paid.reward)
        return
    values = paid.terminal
    for _ in range(problem.horizon):
        found = action_values(model, values, rewards=paid.reward)
        yield found
        values = found.max(axis=1)


def best_action_values(problem: Problem, model: Model, sign: float = 1.0) -> list[Float[np.ndarray, "S A"]]:
    """`Q_t` of the best play in one model, t = 0 … T-1; a single one, for all times, over an infinite horizon."""
    return list(_backward_values(problem, model, _paid(problem, model, sign)))[::-1]


def _largest(problem: Problem) -> float:
    """The largest return, rounded down where a policy reaches it."""
    models, horizon = problem.models, problem.horizon
    if _cannot_tell_models(problem) and (problem.return_over == "infinite" or horizon > 1):
        return _end(problem, 1.0)
    moves = horizon * max(matrix.nnz for model in models for matrix in model.matrices) * len(models)
    if _cannot_tell_models(problem) or problem.return_over == "infinite" or moves > _MOST_EXACT_MOVES:
        return _end(problem, 1.0) - return_rounding(problem)
    return rounded_down(_exact_return(problem, known_actions(problem, horizon)))


def _exact_return(problem: Problem, actions: Int[np.ndarray, "T C"]) -> Fraction:
    """A lower bound, exact but for 2^-256, on the return of a deterministic table whose agent knows the model."""
    bits = bits_for(max(max(float(np.abs(one.rewards).max()), float(np.abs(one.terminal_rewards).max()))
                        for one in problem.models))  # fmt: skip
    prior, total = problem.secret_table.prior.tolist(), Fraction(0)
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


def _pooled(
    problem: Problem, weights: Sequence[Float[np.ndarray, " S"]], values: Sequence[Float[np.ndarray, "S A"]]
) -> Float[np.ndarray, "S A"]:
    """`Σ_k weights_k(s) Q_k(s,a)`, -inf for actions that are not available."""
    mask = problem.model.available
    total = sum(weight[:, None] * np.where(mask, value, 0.0) for weight, value in zip(weights, values, strict=True))
    return np.where(mask, total, -np.inf)


# Tables


def known_actions(problem: Problem, times: int, sign: float = 1.0) -> Int[np.ndarray, "T C"]:
    """The best actions if the agent knows all that pays: in each cell those of its model and state.

    `times` is the horizon; over an infinite horizon, how many copies of the same table are wanted.
    """
    models = problem.models
    if not problem.agent.knows_model:
        models = [models[int(np.argmax(problem.secret_table.prior))]]  # the only model that runs
    copies = problem.num_cells // (len(models) * problem.num_states)  # states of an automaton, which pays nothing
    result = np.empty((times, problem.num_cells), dtype=int)
    for number, model in enumerate(models):
        columns = slice(number * copies * problem.num_states, (number + 1) * copies * problem.num_states)
        for time, values in enumerate(_backward_values(problem, model, _paid(problem, model, sign)), 1):
            chosen = np.tile(np.argmax(values, axis=1), copies)
            result[slice(None) if problem.return_over == "infinite" else times - time, columns] = chosen
    return result


def one_hot(problem: Problem, actions: Int[np.ndarray, "*T C"]) -> Float[np.ndarray, "*T C A"]:
    """The tables of deterministic policies that take the given actions."""
    return np.eye(problem.num_actions)[actions]


def best_blind_actions(problem: Problem, sign: float = 1.0) -> Int[np.ndarray, "T C"]:
    """The best of the tables that sweeps reach from each model's own best, and from the best for the prior.

    Of an agent that does not see its state: from what the best of one that does is, averaged over its readings.
    """
    if not problem.agent.sees_state:
        seeing = problem.informed
        blind = is_blind(seeing)
        known = best_blind_actions(seeing, sign) if blind else known_actions(seeing, problem.horizon, sign)
        starts = [averaged_table(problem, one_hot(seeing, known)).argmax(axis=-1)]
    else:
        starts = _starts_of_models(problem, sign)
    best, best_value = np.zeros((problem.horizon, problem.num_cells), dtype=int), -np.inf
    for actions in starts:
        value = -np.inf
        while True:
            swept, reached = _sweep(problem, actions, sign)
            if reached <= value + return_slack(problem):
                break
            actions, value = swept, reached
        if value > best_value:
            best, best_value = actions, value
    return best


def _starts_of_models(problem: Problem, sign: float) -> list[Int[np.ndarray, "T C"]]:
    each = [best_action_values(problem, model, sign) for model in problem.models]
    size = problem.num_states
    starts = [[np.argmax(values, axis=1) for values in own] for own in each]
    weights = [np.full(size, weight) for weight in problem.secret_table.prior]
    starts.append([np.argmax(_pooled(problem, weights, together), axis=1) for together in zip(*each, strict=True)])
    copies = problem.num_cells // size  # the same whatever else the agent knows
    return [np.tile(np.array(start, dtype=int).reshape(problem.horizon, size), copies) for start in starts]


def averaged_table(problem: Problem, table: Float[np.ndarray, "T c A"]) -> Float[np.ndarray, "T C A"]:
    """How often an agent that sees its state takes each action, given the reading of one that does not; itself if it does.

    **Arguments:** `table`: of `problem.informed`, one for each time, or one for all.

    Readings that do not occur at a time have the average over all times; those that never occur take all actions alike.
    """
    if problem.agent.sees_state:
        return table
    hidden, horizon = build(problem.with_clock(), "timed"), problem.horizon
    row = problem.row_of(hidden.model_index, hidden.held, hidden.state)
    seeing = replace(hidden, cell=row, num_cells=problem.informed.num_cells)
    tables = np.broadcast_to(table, (horizon, *table.shape[1:]))
    found = np.zeros((horizon, problem.num_cells, problem.num_actions))
    for time, mass in enumerate(Chain(seeing, tables, stationary=False).occupancies[:-1]):
        np.add.at(found[time], hidden.cell, mass[:, None] * tables[time][row])
    found = np.where(problem.available, found, 0.0)
    even = uniform_table(problem)
    always = normalised(found.sum(axis=0), even)
    result = np.stack([normalised(one, always) for one in found]) if horizon else found
    return result if len(table) > 1 or not horizon else always[None]


def normalised(flow: Float[np.ndarray, "C A"], otherwise: Float[np.ndarray, "C A"]) -> Float[np.ndarray, "C A"]:
    """The probabilities of actions in each row; `otherwise` where it is never visited."""
    total = flow.sum(axis=1, keepdims=True)
    return np.where(total > 0, flow / np.where(total > 0, total, 1.0), otherwise)


def _sweep(problem: Problem, actions: Int[np.ndarray, "T C"], sign: float) -> tuple[np.ndarray, float]:
    """From the last decision to the first, the best action in each row for what leads there and what follows.

    The return is linear in the table of one time, and going backwards leaves the ways there as they are: it never falls.
    """
    hidden = build(problem.with_clock(), "timed")
    paid, mask = hidden.paid[0], problem.available
    play = Play(hidden, (paid,), mask[hidden.cell])
    *flows, _ = play.flows(actions[:, hidden.cell])
    occupied = [flow.sum(axis=1) for flow in flows]
    values, result = sign * paid.terminal, actions.copy()
    paid = replace(paid, reward=sign * paid.reward)
    states, rows = np.arange(hidden.num_states), np.arange(problem.num_cells)
    for time in range(problem.horizon - 1, -1, -1):
        each = expected_values(hidden, paid, values[None])[0].T
        pooled = sum_by_cell(hidden, occupied[time][:, None] * each)
        pooled = np.where(mask, pooled, -np.inf)
        better = pooled.max(axis=1) > pooled[rows, actions[time]]  # a state never met keeps its action
        result[time] = np.where(better, np.argmax(pooled, axis=1), actions[time])
        values = each[states, result[time][hidden.cell]]
    return result, float(hidden.start @ values)
