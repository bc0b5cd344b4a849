"""The paper's algorithm: gradient ascent on the policy's parameters and descent on the multiplier of the return.

`θ ← θ + η ∇_θ [ H(Z|Y;θ) + Σ_k λ_k (V_k(θ) − δ) ]`, `λ_k ← max(0, λ_k − κ (V_k(θ) − δ))`, one constraint for the mean over the
start distribution or one for each start state, gradients exact or estimated from sampled runs, as in the paper.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from ..engine.chain import Chain
from ..engine.sampled_returns import sampled_return_gradient
from ..engine.sampling import draw_runs
from ..opacity.sampled import sampled_gradient
from ..policy.tables import Policy, softmax_pull_back
from ..problem.checks import Defects, is_number
from ..problem.errors import InputError
from .starts import logits
from .task import Task, Values
from .watch import Progress, Watch


@dataclass(frozen=True)
class PrimalDualSettings:
    """The settings that the paper leaves open.

    **Attributes:** `step`, η, and `multiplier_step`, κ; `iterations`; `gradients`: `"exact"` or `"sampled"`, of opacity and
    return both; `sequences`: runs drawn for each sampled gradient; `optimizer`: None for the plain step of the paper, the
    name of one of optax's (`"adam"`), or an optax transformation, which then makes the step.
    """

    step: float = 2.0
    multiplier_step: float = 1.0
    iterations: int = 1000
    gradients: str = "exact"
    sequences: int = 1000
    optimizer: Any = None

    def __post_init__(self) -> None:
        defects = Defects("primal-dual")
        for name in ("step", "multiplier_step"):
            value = getattr(self, name)
            if not (is_number(value) and np.isfinite(value) and value > 0):
                defects.add(f"{name} is {value!r}, expected a number above 0")
        for name, least in (("iterations", 0), ("sequences", 2)):
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
                defects.add(f"{name} is {value!r}, expected a whole number, {least} or more")
        if self.gradients not in ("exact", "sampled"):
            defects.add(f"gradients is {self.gradients!r}, expected 'exact' or 'sampled'")
        defects.raise_if_any()

    def describe(self) -> dict[str, Any]:
        """The settings as plain values."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return found | {"optimizer": None if self.optimizer is None else str(self.optimizer)}


@dataclass(frozen=True, eq=False)
class PrimalDualState:
    """Everything that the next step needs."""

    iteration: int
    theta: Float[np.ndarray, "T C A"]
    multiplier: Float[np.ndarray, " K"]
    best: Float[np.ndarray, "T C A"]
    best_score: float
    best_multiplier: Float[np.ndarray, " K"]
    history: Float[np.ndarray, "k 6"]
    optimizer: tuple[np.ndarray, ...] = ()

    def arrays(self) -> dict[str, np.ndarray]:
        """The fields as arrays."""
        plain = {f.name: np.asarray(getattr(self, f.name), dtype=float) for f in fields(self) if f.name != "optimizer"}
        return plain | {f"optimizer.{number:03d}": leaf for number, leaf in enumerate(self.optimizer)}


class PrimalDual:
    """The method as a sequence of states.

    **Arguments:** `task`; `safe`, the table of largest return, the answer while nothing feasible is better; `settings`;
    `seed` of the sampled runs and of the start; `start`: a policy to begin from, by default the uniform one, a
    little perturbed.
    """

    def __init__(self, task: Task, safe: np.ndarray, settings: PrimalDualSettings, seed: int, start: Policy | None):
        self.task, self._safe, self.settings, self._seed, self._start = task, safe, settings, seed, start
        if settings.gradients == "sampled" and task.space.problem.return_over == "infinite":
            raise InputError("primal-dual", ["sampled returns end with the horizon, return_over='infinite' does not:"
                                             " use gradients='exact'"])  # fmt: skip
        if settings.gradients == "sampled" and task.min_opacity is not None:
            raise InputError("primal-dual", ["min_opacity needs gradients='exact'"])
        self._optimizer = None if settings.optimizer is None else _Optax(settings.optimizer, settings.step)
        # The paper's multipliers are for returns in their own unit.
        self._unit = task.unit if task.min_opacity is None else 1.0

    def begin(self) -> PrimalDualState:
        """The state before the first iteration."""
        space, count = self.task.space, self.task.num_constraints
        noise = 0.01 * np.random.default_rng(self._seed).normal(size=space.shape)
        theta = noise if self._start is None else logits(space, space.table_of(self._start))
        values = self.task.evaluate(self._safe[None])
        return PrimalDualState(
            iteration=0,
            theta=theta,
            multiplier=np.zeros(count),
            best=self._safe,
            best_score=float(values.score[0]) if values.feasible[0] else -np.inf,
            best_multiplier=np.zeros(count),
            history=np.zeros((0, 6)),
            optimizer=() if self._optimizer is None else self._optimizer.begin(theta),
        )

    def is_done(self, state: PrimalDualState) -> bool:
        """Whether all iterations were made."""
        return state.iteration >= self.settings.iterations or not state.theta.size

    def advance(self, state: PrimalDualState, watch: Watch) -> PrimalDualState:
        """One step of the policy, one of the multipliers."""
        space, settings = self.task.space, self.settings
        table = space.softmax(state.theta)
        monitored = None if self._only_samples else self.task.evaluate(table[None], watch.check)
        if settings.gradients == "exact":
            assert monitored is not None
            values = monitored
        else:
            values = self._sampled(table, state.iteration)
        multiplier = state.multiplier
        slope = values.score_slope[0] + np.einsum("k,ktca->tca", multiplier, values.slack_slope[0] * self._unit)
        gradient = softmax_pull_back(table, slope)
        if self._optimizer is None:
            theta, leaves = state.theta + settings.step * gradient, ()
        else:
            theta, leaves = self._optimizer.step(state.theta, gradient, state.optimizer)
        surplus = values.slack[0] * self._unit
        after = replace(
            state,
            iteration=state.iteration + 1,
            theta=theta,
            multiplier=np.maximum(0.0, multiplier - settings.multiplier_step * surplus),
            optimizer=leaves,
        )
        return self._noted(after, table, values if monitored is None else monitored, multiplier, watch)

    @property
    def _only_samples(self) -> bool:
        """Whether exact values, to follow the search by, cost more than the sampled gradients."""
        return self.settings.gradients == "sampled" and self.task.secrecy.cost_seconds > 0.05

    def _sampled(self, table: np.ndarray, iteration: int) -> Values:
        """Opacity, return and their slopes from fresh runs, a stream of random numbers for each iteration."""
        task, space, settings = self.task, self.task.space, self.settings
        chain = space.chain(table)
        found, slope = sampled_gradient(chain, sequences=settings.sequences, seed=_stream(self._seed, iteration, 0))
        rows = [] if task.threshold is None else list(task.starts)
        share = max(2, settings.sequences // max(1, len(rows)))
        slacks, slack_slopes, returns = [], [], np.nan
        for number, start in enumerate(rows):
            generator = np.random.default_rng([self._seed, iteration, 1 + number])
            begun = _begun_at(chain, start)
            value, _, value_slope = sampled_return_gradient(space.problem, begun, draw_runs(begun, share, generator))
            slacks.append((value - (task.threshold or 0.0)) / task.unit)
            slack_slopes.append(value_slope / task.unit)
            returns = value
        shape = (len(rows), *space.shape)
        return Values(
            score=np.array([task.sign * found.bits]),
            score_slope=task.sign * slope[None],
            slack=np.array(slacks).reshape(1, -1),
            slack_slope=np.array(slack_slopes).reshape(1, *shape),
            secrecy=np.array([found.bits]),
            returns=np.array([returns]),
        )

    def _noted(
        self, state: PrimalDualState, table: np.ndarray, values: Values, multiplier: np.ndarray, watch: Watch
    ) -> PrimalDualState:
        # Estimates of the return are not trusted with feasibility.
        feasible = bool(np.all(self.task.slacks(table[None]) >= 0)) if self._only_samples else bool(values.feasible[0])
        if feasible and values.score[0] > state.best_score:
            state = replace(
                state, best=table, best_score=float(values.score[0]), best_multiplier=multiplier * self._unit
            )
        price = float(multiplier.max(initial=0.0))
        bits, returned = float(values.secrecy[0]), float(values.returns[0])
        row = (state.iteration, bits, returned, price, self.settings.step, watch.seconds)
        watch.tell(
            Progress("climbing", state.iteration, self.settings.iterations, bits, returned, price, watch.seconds)
        )
        return replace(state, history=np.vstack([state.history, row]))

    def unpack(self, arrays: dict[str, np.ndarray]) -> PrimalDualState:
        """The state of the arrays in a checkpoint."""
        leaves = tuple(arrays[name] for name in sorted(arrays) if name.startswith("optimizer."))
        plain: dict[str, Any] = {name: array for name, array in arrays.items() if not name.startswith("optimizer.")}
        plain["iteration"], plain["best_score"] = int(arrays["iteration"]), float(arrays["best_score"])
        return PrimalDualState(**plain, optimizer=leaves)

    def candidates(self, state: PrimalDualState) -> Float[np.ndarray, "1 T C A"]:
        """The best feasible table that was met."""
        return state.best[None]


def _stream(seed: int, iteration: int, number: int) -> int:
    """One seed for each use, far from all others."""
    return int(np.random.SeedSequence([seed, iteration, number]).generate_state(1, np.uint64)[0] >> 1)


def _begun_at(chain: Chain, start: np.ndarray) -> Chain:
    """The chain with another start; what is received first goes with it."""
    hidden = chain.hidden
    share = np.divide(start, hidden.start, out=np.zeros_like(start), where=hidden.start > 0)
    return Chain(
        replace(hidden, start=start, root=hidden.root * share[:, None]), chain.table, stationary=chain.stationary
    )


class _Optax:
    """An optax transformation whose state is kept as a tuple of NumPy arrays."""

    def __init__(self, optimizer: Any, step: float):
        try:
            import jax
            import optax
        except ImportError as error:
            raise InputError(
                "primal-dual", [f"optimizer={optimizer!r} needs optax: pip install 'veil[optax]'"]
            ) from error
        self._jax, self._optax = jax, optax
        if isinstance(optimizer, str):
            make = getattr(optax, optimizer, None)
            if not callable(make):
                raise InputError("primal-dual", [f"optax has no optimizer {optimizer!r}: for example 'adam', 'sgd'"])
            optimizer = make(step)
        self._rule: Any = optimizer

    def begin(self, theta: np.ndarray) -> tuple[np.ndarray, ...]:
        """The leaves of the first state."""
        with self._jax.enable_x64(True):
            return self._leaves(self._rule.init(self._jax.numpy.asarray(theta)))

    def step(
        self, theta: np.ndarray, gradient: np.ndarray, leaves: tuple[np.ndarray, ...]
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """The next parameters, and the leaves of the next state."""
        with self._jax.enable_x64(True):
            point = self._jax.numpy.asarray(theta)
            kept = self._jax.tree_util.tree_structure(self._rule.init(point))
            state = self._jax.tree_util.tree_unflatten(kept, [self._jax.numpy.asarray(leaf) for leaf in leaves])
            # optax goes downhill
            updates, state = self._rule.update(-self._jax.numpy.asarray(gradient), state, point)
            return np.asarray(self._optax.apply_updates(point, updates)), self._leaves(state)

    def _leaves(self, state: Any) -> tuple[np.ndarray, ...]:
        return tuple(np.asarray(leaf) for leaf in self._jax.tree_util.tree_leaves(state))
