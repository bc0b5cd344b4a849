"""The multiplier of return: at which a soft response has just the return asked for."""

from collections.abc import Callable
from typing import NamedTuple

from ..common.errors import InfeasibleError
from ..common.logs import log2_of_tables
from ..engine.return_range import return_extremes
from ..problem.return_rounding import return_rounding
from .responses import AgentProblem, FlowPoint, Outcome, Tables
from .rule_tables import Entries

_TRIALS = 60  # of the multiplier; 2 to 6 suffice in practice, bisection alone would end within 50
_ROUNDING = 1e-9  # of the range of returns: a threshold this far from the largest is that return


class SoftResponse(NamedTuple):
    """A response at a multiplier λ: `value` is the soft value `max_π E[w + λ G] − KL` less `λ` times its own return."""

    multiplier: float
    value: float
    point: FlowPoint

    @property
    def earned(self) -> float:
        """Its return."""
        return self.point.outcome.expected_return


class MultiplierSearch:
    """Finds λ for each table of costs; the return of the soft response grows with λ.

    `max_return` is a policy of the largest return; `binds`: whether a multiplier is needed; `at_largest`: the threshold is the
    largest return, and only policies that attain it are left. `prior`: the policy that soft responses diverge from, the
    uniform one by default.

    **Raises:** `InfeasibleError` where the threshold is above the largest return.
    """

    def __init__(self, agent: AgentProblem, threshold: float | None, prior: Tables | None = None):
        self._agent, self._threshold = agent, threshold
        largest, tables = agent.max_return_response()
        self._prior = None if prior is None else [log2_of_tables(table) for table in prior]
        rounding = 0.0 if threshold is None else _rounding(agent)
        self.at_largest = threshold is not None and threshold > largest - rounding
        if threshold is not None and self.at_largest:
            if threshold > largest + rounding:
                raise InfeasibleError(
                    f"the required return is {threshold:.9g}, but the largest of any policy is {largest:.9g}:"
                    " lower min_return"
                )
            # Only policies of the largest return are left: choose among their actions, and nothing binds.
            self._prior = [log2_of_tables(table) for table in tables]
        self.binds = threshold is not None and not self.at_largest
        self.max_return = agent.flows(tables)
        # Of the return with respect to λ, both in units, from the last two trials.
        self._derivative: float | None = None

    def respond(
        self,
        costs: Entries,
        multiplier: float,
        surplus: float,
        stop: Callable[[], object],
        scale: float = 1.0,
    ) -> SoftResponse:
        """A soft response whose return is at least δ and, unless the search is cut short, at most δ + `surplus`.

        **Arguments:** `multiplier`, where to begin; `stop()` is called between trials: a true answer ends them with the
        best so far, made feasible by mixing in the policy of the largest return; it may also raise. `scale`: as for
        `AgentProblem.soft_response`.
        """
        if not self.binds:
            return self._at(costs, 0.0, scale)
        assert self._threshold is not None
        below: SoftResponse | None = None
        above: SoftResponse | None = None
        for trial in range(_TRIALS):
            found = self._at(costs, multiplier, scale)
            if found.earned >= self._threshold:
                if found.earned <= self._threshold + surplus or multiplier == 0:
                    return found
                self._learn(found, above, below)
                above = found
            else:
                self._learn(found, below, above)
                below = found
            if stop():
                break
            multiplier = self._next(below, above, self._threshold + surplus / 2, trial)
        if above is not None:
            return above
        assert below is not None
        return below._replace(point=self.feasible(below.point))

    def _at(self, costs: Entries, multiplier: float, scale: float) -> SoftResponse:
        value, tables = self._agent.soft_response(costs, multiplier, self._prior, scale)
        point = self._agent.flows(tables)
        return SoftResponse(multiplier, value - multiplier * point.outcome.expected_return, point)

    def _learn(self, now: SoftResponse, *others: SoftResponse | None) -> None:
        """The derivative from the newest trial and the last one before it at another multiplier."""
        for past in others:
            if past is not None and past.multiplier != now.multiplier:
                unit = self._agent.unit  # a quotient of the two would overflow for very large rewards
                found = (now.earned - past.earned) / unit / ((now.multiplier - past.multiplier) * unit)
                self._derivative = found if found > 0 else self._derivative

    def _next(self, below: SoftResponse | None, above: SoftResponse | None, target: float, trial: int) -> float:
        """Interpolation between both sides of the target return; a Newton step where only one side is known."""
        longer = 1.0 if trial < 2 else 1.5
        if below is not None and above is not None:
            edge = 0.02 if trial < 4 else 0.2  # a bend of the curve makes plain interpolation creep
            share = (target - below.earned) / max(above.earned - below.earned, 1e-300)
            return below.multiplier + min(max(share, edge), 1 - edge) * (above.multiplier - below.multiplier)
        if below is not None:
            first = 1 / self._agent.unit
            step = self._step(longer * (target - below.earned)) if self._derivative else max(first, below.multiplier)
            return below.multiplier + min(step, 4 * below.multiplier + 4 * first)
        assert above is not None
        step = self._step(longer * (above.earned - target)) if self._derivative else above.multiplier / 2
        return max(0.0, above.multiplier - step)

    def _step(self, more: float) -> float:
        """By how much λ moves for so much more return, to first order."""
        assert self._derivative is not None
        return more / self._agent.unit / self._derivative / self._agent.unit

    def feasible(self, point: FlowPoint, times: float = 1.0) -> FlowPoint:
        """The point itself if it has the return asked for, else mixed with the policy of the largest return.

        **Arguments:** `times`: how much of that is mixed in, times what is missing.
        """
        missing = 0.0 if self._threshold is None else self._threshold - point.outcome.expected_return
        if missing <= 0:
            return point
        spare = self.max_return.outcome.expected_return - point.outcome.expected_return
        return point.mixed(self.max_return, min(1.0, times * missing / max(spare, 1e-300)))

    def evaluated(self, point: FlowPoint) -> tuple[Tables, Outcome]:
        """The tables of a feasible point and their outcome, computed anew: rounding does not make them infeasible."""
        tables = self._agent.tables(point.flows)
        found = self._agent.flows(tables)
        if self.binds and self._threshold is not None and found.outcome.expected_return < self._threshold:
            tables = self._agent.tables(self.feasible(found, times=2.0).flows)
            return tables, self._agent.outcome(tables)
        return tables, found.outcome


def _rounding(agent: AgentProblem) -> float:
    """How close to the largest return a threshold counts as that return: what rounding may do to either."""
    ends = return_extremes(agent.problem)
    return _ROUNDING * (ends.largest - ends.smallest) + 2 * return_rounding(agent.problem) + agent.return_error()
