"""The paper's algorithm: gradient ascent on the policy's parameters and descent on the multiplier of the return.

`θ ← θ + η ∇_θ [ H(Z|Y;θ) + Σ_k λ_k (V_k(θ) − δ) ]`, `λ_k ← max(0, λ_k − κ (V_k(θ) − δ))`, one constraint for the mean over the
start distribution or one for each start state, gradients exact or estimated from sampled runs, as in the paper.
"""

import hashlib
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from ..common.clock import OutOfTime
from ..common.errors import InputError
from ..engine.chain import Chain
from ..engine.compile import scaled_rows
from ..engine.sampled_returns import sampled_gradient
from ..engine.sampling import draw_runs
from ..policy.tables import softmax_pull_back
from .backend import Draw
from .channels import ALWAYS_EXACT_SECONDS, make_channels
from .iteration import Iteration, SearchState
from .mixing import contenders
from .objective import Objective
from .options import Optimizer, SolveOptions
from .parameters import NOISE, logits
from .plan import SHARE
from .starts import soft_starts
from .values import Values

# The steps where none are given. η of the plain step grows with the rows of the policy's table, among which the gradient is
# shared out: 10.8 for the 36 states of the paper, whose problems begin to oscillate at about 50. Optax's optimizers set
# their own scale. κ is for returns whose range is 1, about 1 on the paper's problems; divided by the square of the range it
# makes the search the same in every unit of reward, since λ is bits per unit of return.
_STEP_PER_ROW, _LONGEST_STEP = 0.3, 30.0
_OPTAX_STEP = 0.05
_MULTIPLIER_STEP = 0.2
_ITERATIONS = 1500  # with which the paper's problems converge


@dataclass(frozen=True, eq=False, kw_only=True)
class PrimalDualState(SearchState):
    """Everything that the next step needs; `best_multiplier` is the newest one, the nearest to that of the optimum."""

    theta: Float[np.ndarray, "T C A"]
    optimizer: dict[str, Any]


class PrimalDual(Iteration[PrimalDualState]):
    """The method as a sequence of states. Settings that the paper leaves open have defaults with which its problems converge.

    θ begins at the uniform policy, perturbed by 0.01 times a normal draw of the seed, and λ at 0. Where gradients are sampled
    and exact values would take long, it begins at the first of `soft_starts`: on large models the uniform policy hardly ever
    reaches the secret, and the gradient is zero. The paper gives no discount for its experiments; the problem's own is used,
    1 in the gallery. A state keeps λ times the unit of each slack.

    **Arguments:** `objective`; `safe`, the table of largest return, the answer while nothing feasible is better; `options`, of
    which it uses `step` (η), `multiplier_step` (κ), `iterations`, `gradients`, `sequences` (M, for each sampled gradient, and
    as many again for that of the return), `optimizer`, `seed`, `start` and `objective`.

    **Raises:** `InputError` where sampled gradients cannot serve, or the optimizer cannot be made.
    """

    def __init__(self, objective: Objective, safe: Float[np.ndarray, "T C A"], options: SolveOptions):
        self.objective, self._safe, self._options = objective, safe, options
        if options.gradients == "sampled" and objective.space.problem.return_over == "infinite":
            words = "sampled returns end with the horizon, return_over='infinite' does not: use gradients='exact'"
            raise InputError("primal-dual with sampled gradients", [words])
        rows, given = objective.space.shape[0] * objective.space.shape[1], options.multiplier_step
        usual = min(_STEP_PER_ROW * max(1, rows), _LONGEST_STEP) if options.optimizer is None else _OPTAX_STEP
        self.iterations = _ITERATIONS if options.iterations is None else options.iterations
        self.step = usual if options.step is None else options.step
        unit = objective.unit if objective.min_opacity is None else 1.0
        self.multiplier_step = _MULTIPLIER_STEP / unit / unit if given is None else given
        self._slack_step = _MULTIPLIER_STEP if given is None else given * objective.units**2
        self._optimizer = None if options.optimizer is None else _Optax(options.optimizer, self.step)

    def describe(self) -> dict[str, object]:
        """The settings as they were used."""
        return {
            "step": self.step,
            "multiplier_step": self.multiplier_step,
            "iterations": self.iterations,
            "gradients": self._options.gradients,
            "sequences": self._options.sequences,
            "optimizer": describe_optimizer(self._options.optimizer),
        }

    def begin(self, known: Float[np.ndarray, "n T C A"] | None = None) -> PrimalDualState:
        """See `Iteration`."""
        count, theta, given = self.objective.num_constraints, self._first(), self._options.start
        tables = [self._safe, *([] if known is None else known)]
        tables += [] if given is None else [self.objective.space.table_of(given)]
        best, score = self.objective.best_of(tables)
        return PrimalDualState(
            iteration=0,
            theta=theta,
            best_multiplier=np.zeros(count),
            ends=np.zeros((0, 2)),  # there is one start
            best=best,
            best_score=score,
            history=np.zeros((0, 6 + count)),
            optimizer={} if self._optimizer is None else self._optimizer.begin(theta),
        )

    def _first(self) -> Float[np.ndarray, "T C A"]:
        """The parameters to begin with."""
        space, options = self.objective.space, self._options
        if options.start is not None:
            return logits(space, space.table_of(options.start))
        if self._only_samples:
            with suppress(OutOfTime):
                return logits(space, next(soft_starts(self.objective, self.objective.clock.share(SHARE))))
        return NOISE * np.random.default_rng(options.seed).normal(size=space.shape)

    def is_done(self, state: PrimalDualState) -> bool:
        """See `Iteration`."""
        return state.iteration >= self.iterations or not state.theta.size

    def advance(self, state: PrimalDualState) -> PrimalDualState:
        """One step of the policy, one of the multipliers."""
        table = self.objective.space.softmax(state.theta)
        exact = None if self._only_samples else self.objective.evaluate(table[None])
        sampled = self._sampled(table, state.iteration) if self._options.gradients == "sampled" else None
        values = sampled or exact
        assert values is not None
        gradient = softmax_pull_back(table, values.lagrangian_gradient(state.best_multiplier[None])[0])
        if self._optimizer is None:
            theta, leaves = state.theta + self.step * gradient, {}
        else:
            theta, leaves = self._optimizer.step(state.theta, gradient, state.optimizer)
        multiplier = np.maximum(0.0, state.best_multiplier - self._slack_step * values.slack[0])
        after = replace(state, iteration=state.iteration + 1, theta=theta, best_multiplier=multiplier, optimizer=leaves)
        return self._noted(after, table, exact or values, state.best_multiplier)

    @cached_property
    def _only_samples(self) -> bool:
        """Whether exact values, to follow the search by, cost more than the sampled gradients."""
        return self._options.gradients == "sampled" and self.objective.cost_seconds > ALWAYS_EXACT_SECONDS

    @cached_property
    def _on_samples(self) -> Objective:
        """The objective with all bits on samples."""
        options, channels = replace(self._options, evaluation="sampled"), self.objective.channels
        sampled = make_channels(self.objective.space, options, None, self.objective.team).backends
        return replace(self.objective, channels=replace(channels, backends=sampled))

    def _sampled(self, table: np.ndarray, iteration: int) -> Values:
        """Bits, bounded sums of rewards and their gradients from fresh runs, a stream of random numbers for each iteration."""
        objective, space, options = self.objective, self.objective.space, self._options
        stream = np.random.SeedSequence([options.seed, iteration, 0]).generate_state(1, np.uint64)[0] >> 1
        values = self._on_samples.evaluate(table[None], Draw(options.sequences, int(stream)))
        chain, paid = space.chain(table), space.hidden.paid
        bounds: list[tuple[Chain, int, float, float]] = []
        if objective.num_returns:
            least, unit = objective.threshold or 0.0, objective.unit
            bounds += [(_begun_at(chain, start), 0, least, unit) for start in objective.starts]
        bounds += [(chain, one.quantity, one.bound, one.sign * one.unit) for one in objective.others]
        share = max(2, options.sequences // max(1, len(bounds)))
        for number, (begun, quantity, bound, unit) in enumerate(bounds):
            objective.clock.check()
            generator, place = np.random.default_rng([options.seed, iteration, 1 + number]), objective.num_bits + number
            value, _, slope = sampled_gradient(begun, paid[quantity], draw_runs(begun, share, generator))
            values.slack[0, place], values.slack_gradient[0, place] = (value - bound) / unit, slope / unit
        return values

    def _noted(
        self, state: PrimalDualState, table: np.ndarray, values: Values, multiplier: np.ndarray
    ) -> PrimalDualState:
        """With the best feasible table so far, and one more line of history."""
        objective = self.objective
        # Estimates of the return are not trusted with feasibility.
        slack = objective.slacks(table[None]) if self._only_samples else values.slack
        if np.all(slack >= 0) and values.score[0] > state.best_score:
            state = replace(state, best=table, best_score=float(values.score[0]))
        prices = multiplier / objective.units
        price = float(prices[: objective.num_first].max(initial=0.0))
        bits, returned = float(values.bits[0]), float(values.returns[0])
        return state.told(objective.clock, "climbing", self.iterations, bits, returned, price, self.step, *prices)

    def unpack(self, arrays: dict[str, np.ndarray]) -> PrimalDualState:
        """See `Iteration`."""
        return PrimalDualState.of(arrays)

    def met(self, state: PrimalDualState) -> list[np.ndarray]:
        """The table of largest return."""
        return [self._safe]

    def candidates(self, state: PrimalDualState) -> Float[np.ndarray, "B T C A"]:
        """The best feasible table that was met, and the last one, made feasible."""
        return contenders(self.objective, state, self.objective.space.softmax(state.theta), self._safe)


def describe_optimizer(optimizer: str | Optimizer | None) -> str | None:
    """An optimizer as text: its name, or for an optax transformation what it does."""
    return optimizer if optimizer is None or isinstance(optimizer, str) else _Optax(optimizer, _OPTAX_STEP).describe()


def _begun_at(chain: Chain, start: np.ndarray) -> Chain:
    """The chain with another start; what is received first goes with it."""
    hidden = chain.hidden
    share = np.divide(start, hidden.start, out=np.zeros_like(start), where=hidden.start > 0)
    return Chain(
        replace(hidden, start=start, first=scaled_rows(share, hidden.first)), chain.table, stationary=chain.stationary
    )


class _Optax:
    """An optax transformation whose state is kept as NumPy arrays by their places."""

    def __init__(self, optimizer: str | Optimizer, step: float):
        try:
            import jax
            import optax
        except ImportError as error:
            raise InputError(
                "primal-dual", [f"optimizer={optimizer!r} needs optax: pip install 'veil[optax]'"]
            ) from error
        self._jax, self._optax = jax, optax
        rule: Any = optimizer
        if isinstance(optimizer, str):
            make = getattr(optax, optimizer, None)
            try:
                rule = make(step) if callable(make) else None
            except TypeError:  # optax has functions of other kinds too
                rule = None
        if not (hasattr(rule, "init") and hasattr(rule, "update")):
            raise InputError(
                "primal-dual",
                [f"optimizer is {optimizer!r}, expected the name of one of optax's, such as 'adam' or 'sgd', or an optax"
                 " transformation"],
            )  # fmt: skip
        self._rule: Optimizer = rule
        self._update = jax.jit(rule.update)
        self._structure: Any = None

    def begin(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """The leaves of the first state."""
        with self._jax.enable_x64(True):
            state = self._rule.init(self._jax.numpy.asarray(theta))
            self._structure = self._jax.tree_util.tree_structure(state)
            return self._leaves(state)

    def step(
        self, theta: np.ndarray, gradient: np.ndarray, leaves: dict[str, np.ndarray]
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """The next parameters, and the leaves of the next state."""
        if self._structure is None:
            self.begin(theta)
        with self._jax.enable_x64(True):
            state = self._jax.tree_util.tree_unflatten(self._structure, [leaves[name] for name in sorted(leaves)])
            # optax goes downhill
            updates, state = self._update(-gradient, state, theta)
            return theta + np.asarray(updates), self._leaves(state)

    def describe(self) -> str:
        """What tells it from others: the form of its state, and a hash of its first three steps on fixed gradients."""
        theta, leaves = np.zeros(4), self.begin(np.zeros(4))
        for slope in np.random.default_rng(0).normal(size=(3, 4)):
            theta, leaves = self.step(theta, slope, leaves)
        return f"{self._structure}, steps {hashlib.sha256(theta.tobytes()).hexdigest()[:16]}"

    def _leaves(self, state: object) -> dict[str, np.ndarray]:
        leaves = self._jax.tree_util.tree_leaves(state)
        return {f"{number:03d}": np.asarray(leaf) for number, leaf in enumerate(leaves)}
