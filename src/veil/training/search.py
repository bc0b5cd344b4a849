"""The training: the agent plays, the observer is taught, the multiplier follows the return, the best agent is kept."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..common.clock import Clock, OutOfTime, Progress, interruptible
from ..planning.checkpoint import Checkpoint, read_checkpoint
from ..policy.markov import MarkovPolicy
from . import agent
from .coding import Coding
from .episodes import Episodes, Playing, play
from .observer import LearnedObserver
from .trained import Iteration, flat, nested

_PASSES, _PARTS = 4, 4  # through the runs of an iteration, and the parts of each
_SMOOTHING = 0.97
_GAIN, _PUSH = 0.1, 1.0  # how fast the multiplier follows what is missing of the return, and what that adds at once
_MOST_MULTIPLIER = 100.0
_AVERAGED = 0.95  # of the scale of returns, in an iteration
_CHECKS = 20  # how often an agent is compared with the best one so far
_MOST_CHECK_RUNS, _CHECK_ITERATIONS = 4000, 16  # and those of so many iterations
_LEAST_RATE = 0.1  # the share of the rate that is left at the end
_ENTROPY = 0.03  # what a nat of choice is worth at first
_CHECKPOINT_SECONDS = 60.0
_RECORDED = 200  # iterations of the history
_DOCUMENT = "document"


@dataclass(frozen=True)
class Settings:
    """What a training depends on beside its environment."""

    min_return: float | None
    timed: bool
    num_envs: int
    iterations: int
    hidden: int
    rate: float
    seed: int


@dataclass
class _State:
    """What changes in a training, but for the observer and the random numbers."""

    params: Any
    rest: Any
    mean: Any  # running mean of the parameters
    best: Any = None
    best_score: tuple[bool, float] = (False, -np.inf)
    multiplier: float = 0.0  # of returns divided by the scale
    scale: float = 0.0  # a running mean of their size; 0 before the first iteration
    iteration: int = 0
    history: list[Iteration] = field(default_factory=list)


class Search:
    """One training of an agent."""

    def __init__(self, playing: Playing, settings: Settings):
        self.playing, self.settings = playing, settings
        self.shape = agent.shape_of(playing.env, playing.horizon, settings.hidden, timed=settings.timed)
        if playing.problem is not None:
            agent.check_model(self.shape, playing.problem)
        self.generator = np.random.default_rng(settings.seed)
        self.observer = LearnedObserver(playing.horizon + 1, seed=settings.seed)
        params = agent.begin(self.generator, self.shape)
        self.state = _State(params, agent.rest(params), params)
        self.allowed = _allowed(playing)

    def run(self, clock: Clock, checkpoint: str | Path | None, *, resume: bool) -> list[str]:
        """Train until the iterations or the time are used; notes on the end."""
        file = None if checkpoint is None else Checkpoint(checkpoint, self._identity(), _CHECKPOINT_SECONDS)
        if resume and checkpoint is not None:
            arrays, seconds, _ = read_checkpoint(checkpoint, self._identity())
            self._restore(arrays)
            clock.resume_after(seconds)
        state, settings, notes = self.state, self.settings, []
        every = max(1, settings.iterations // _CHECKS)
        try:
            with clock, interruptible():
                while state.iteration < settings.iterations:
                    clock.check()
                    self._iterate()
                    state.iteration += 1
                    if state.iteration % every == 0 or state.iteration == settings.iterations:
                        self._consider()
                    if file is not None and file.is_due:
                        file.write(self._stored(), clock.spent)
                    last = state.history[-1]
                    told = (last.surprise_bits, last.expected_return, last.multiplier)
                    clock.report(Progress("train", state.iteration, settings.iterations, *told, clock.spent))
        except OutOfTime as stop:
            found = f"{state.iteration:,} of {settings.iterations:,} iterations"
            notes.append(f"Training ended after {found}: {stop.reason.value}.")
        if state.best is None:
            self._consider()
        if file is not None:
            file.write(self._stored(), clock.spent)
        return notes

    def sample(self, params: Any, count: int) -> tuple[list[str], list[list[object]], Float[np.ndarray, " n"]]:
        """Secrets, readings and returns of fresh runs of an agent."""
        values: list[str] = []
        readings: list[list[object]] = []
        returns: list[np.ndarray] = []
        while len(values) < count:
            played, _ = self._play(params)
            values += played.values
            readings += played.readings
            returns.append(played.returns)
        return values[:count], readings[:count], np.concatenate(returns)[:count]

    def _iterate(self) -> None:
        """Play, judge, improve the agent, teach the observer."""
        state, settings = self.state, self.settings
        played, recorded = self._play(state.params)
        surprise = self.observer.surprise(played.values, played.readings)
        price = self._price(played.returns)
        self._improve(played, surprise, price, recorded)
        self.observer.learn(played.values, played.readings)
        if state.iteration % max(1, settings.iterations // _RECORDED) == 0:
            means = float(played.returns.mean()), float(surprise.mean())
            episodes = (state.iteration + 1) * len(played.values)
            state.history.append(Iteration(state.iteration + 1, episodes, *means, price / state.scale))

    def _play(self, params: Any) -> tuple[Episodes, list[tuple[jax.Array, jax.Array, jax.Array]]]:
        """An episode in each environment, and what the networks said at each time."""
        space, shape = self.playing.env.single_action_space, self.shape
        keys = self.generator.integers(2**32, size=(self.playing.horizon, 2), dtype=np.uint32)
        recorded: list[tuple[jax.Array, jax.Array, jax.Array]] = []

        def act(states: np.ndarray, time: int) -> np.ndarray:
            times = np.full(len(states), time, dtype=np.int32)
            given = (self._states(states), times, keys[time], self.allowed)
            recorded.append(agent.act(params, *given, continuous=shape.continuous))
            actions = np.asarray(recorded[-1][0])
            if shape.continuous:
                return np.clip(actions.reshape(len(actions), *space.shape), space.low, space.high)
            return actions

        return play(self.playing, act, self.generator), recorded

    def _states(self, states: np.ndarray) -> np.ndarray:
        if self.shape.states:
            return states.astype(np.int32)
        return states.reshape(len(states), -1).astype(np.float32)

    def _price(self, returns: Float[np.ndarray, " N"]) -> float:
        """The multiplier of the return, which follows what is missing of `min_return`."""
        state, least = self.state, self.settings.min_return
        size = float(max(returns.std(), abs(returns.mean() - (least or 0.0)), 1e-6))
        state.scale = _AVERAGED * state.scale + (1 - _AVERAGED) * size if state.scale else size
        if least is None:
            return 0.0
        sure = 2 * float(returns.std()) / np.sqrt(self._check_runs)  # aim at a little more, which a sample can show
        missing = (least + sure - float(returns.mean())) / state.scale
        state.multiplier = float(np.clip(state.multiplier + _GAIN * missing, 0.0, _MOST_MULTIPLIER))
        return max(0.0, state.multiplier + _PUSH * missing)

    def _improve(
        self, played: Episodes, surprise: Float[np.ndarray, " N"], price: float, recorded: list[tuple[Any, Any, Any]]
    ) -> None:
        state, settings, alive = self.state, self.settings, played.alive
        worth = np.stack([np.asarray(worth) for *_, worth in recorded]) * alive[..., None]
        rewards = np.zeros(worth.shape)
        rewards[played.lengths - 1, np.arange(alive.shape[1]), 0] = surprise
        rewards[..., 1] = played.rewards / state.scale
        gains = agent.advantages(rewards, worth, _SMOOTHING)
        advantage = gains @ np.array([1.0, price])
        taken = advantage[alive]
        batch = {
            "states": self._states(played.states[:-1].reshape(alive.size, *played.states.shape[2:])),
            "times": np.repeat(np.arange(len(alive), dtype=np.int32), alive.shape[1]),
            "actions": _rows([one for one, *_ in recorded]),
            "log_chance": _rows([one for _, one, _ in recorded]),
            "advantage": ((advantage - taken.mean()) / (taken.std() + 1e-8)).ravel().astype(np.float32),
            "returns": (gains + worth).reshape(-1, worth.shape[-1]).astype(np.float32),
        }
        left = 1 - state.iteration / settings.iterations
        rate, entropy = settings.rate * max(_LEAST_RATE, left), _ENTROPY * left
        state.params, state.mean, state.rest = agent.improve(
            state.params, state.mean, state.rest, self._padded(batch), *self._order(alive), np.float32(rate),
            np.float32(entropy), self.allowed, continuous=self.shape.continuous,
        )  # fmt: skip

    @property
    def _check_runs(self) -> int:
        return min(_MOST_CHECK_RUNS, _CHECK_ITERATIONS * self.playing.env.num_envs)

    @property
    def _most_rows(self) -> int:
        """Decisions of an iteration, if no episode ends early: every iteration has arrays of this size, compiled once."""
        return self.playing.horizon * self.playing.env.num_envs

    def _padded(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        more = self._most_rows - len(batch["times"])
        return {name: np.concatenate([rows, np.repeat(rows[:1], more, axis=0)]) for name, rows in batch.items()}

    def _order(self, alive: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows of each step, drawn from the decisions that were taken, and which of them count."""
        rows, size = np.flatnonzero(alive), -(-self._most_rows // _PARTS)
        order, counts = (np.zeros((_PASSES * _PARTS, size), dtype=kind) for kind in (np.int32, np.float32))
        for step in range(_PASSES):
            for part, drawn in enumerate(np.array_split(self.generator.permutation(rows), _PARTS)):
                order[step * _PARTS + part, : len(drawn)] = drawn
                counts[step * _PARTS + part, : len(drawn)] = 1
        return order, counts

    def _consider(self) -> None:
        """Keep the running mean of the parameters if it earns enough in fresh runs and surprises the observer more."""
        state, least = self.state, self.settings.min_return
        values, readings, returns = self.sample(state.mean, self._check_runs)
        # An observer that lags behind a change of the agent is surprised by it: let it see this agent first.
        judge, cut, size = self.observer.copied(), 2 * self._check_runs // 3, self.playing.env.num_envs
        for first in range(0, cut - size + 1, size):
            judge.learn(values[first : first + size], readings[first : first + size])
        surprise, earned = float(judge.surprise(values[cut:], readings[cut:]).mean()), float(returns.mean())
        enough = least is None or earned >= least
        score = (enough, surprise if enough else earned)
        if state.best is None or score > state.best_score:
            state.best, state.best_score = state.mean, score

    def _identity(self) -> dict[str, object]:
        """What a checkpoint must have in common with a training."""
        env = self.playing.env
        spaces = f"{env.single_observation_space}, {env.single_action_space}"
        return {"kind": "train", **asdict(self.settings), "horizon": self.playing.horizon, "spaces": spaces}

    def _stored(self) -> dict[str, np.ndarray]:
        """Everything that the rest of the training depends on, as arrays."""
        state, observer = self.state, self.observer
        assert observer.learner is not None
        assert observer.coding is not None
        document = {
            "iteration": state.iteration, "multiplier": state.multiplier, "scale": state.scale,
            "best_score": list(state.best_score), "history": [asdict(one) for one in state.history],
            "generators": [one.bit_generator.state for one in (self.generator, observer.generator)],
            "coding": observer.coding.document(), "lessons": len(observer.lessons),
        }  # fmt: skip
        text = json.dumps(document).encode()
        arrays = {_DOCUMENT: np.frombuffer(text, dtype=np.uint8)}
        nets = {"params": state.params, "mean": state.mean, "best": state.best, "observer": observer.learner.params}
        for name, net in nets.items():
            arrays |= {f"{name}:{key}": array for key, array in flat({} if net is None else net).items()}
        for name, rest in (("rest", state.rest), ("observer rest", observer.learner.state)):
            arrays |= {f"{name}:{number}": np.asarray(one) for number, one in enumerate(jax.tree.leaves(rest))}
        for number, lesson in enumerate(observer.lessons):
            arrays |= {f"lesson {number}:{part}": array for part, array in enumerate(lesson)}
        return arrays

    def _restore(self, arrays: dict[str, np.ndarray]) -> None:
        document = json.loads(arrays[_DOCUMENT].tobytes())
        state, observer = self.state, self.observer

        def part(name: str) -> dict[str, np.ndarray]:
            return {key.split(":", 1)[1]: one for key, one in arrays.items() if key.startswith(f"{name}:")}

        def tree(name: str, like: Any) -> Any:
            found = part(name)
            leaves = [jnp.asarray(found[str(number)]) for number in range(len(found))]
            return jax.tree.unflatten(jax.tree.structure(like), leaves)

        observer.start(Coding.read(document["coding"]))
        assert observer.learner is not None
        observer.learner.params = jax.tree.map(jnp.asarray, nested(part("observer")))
        observer.learner.state = tree("observer rest", observer.learner.state)
        observer.lessons = [tuple(part(f"lesson {one}")[key] for key in "012") for one in range(document["lessons"])]  # pyright: ignore[reportAttributeAccessIssue]
        state.params, state.mean = (jax.tree.map(jnp.asarray, nested(part(name))) for name in ("params", "mean"))
        state.best = jax.tree.map(jnp.asarray, nested(part("best"))) or None
        state.rest = tree("rest", state.rest)
        state.iteration, state.multiplier, state.scale = (document[key] for key in ("iteration", "multiplier", "scale"))
        state.best_score = (bool(document["best_score"][0]), float(document["best_score"][1]))
        state.history = [Iteration(**one) for one in document["history"]]
        for one, kept in zip((self.generator, observer.generator), document["generators"], strict=True):
            one.bit_generator.state = kept


def _rows(recorded: list[Any]) -> np.ndarray:
    """What was recorded at each time, `(N, …)`, with a row for each time and episode."""
    table = np.stack([np.asarray(one) for one in recorded])
    return table.reshape(-1, *table.shape[2:])


def _allowed(playing: Playing) -> jax.Array | None:
    """The actions that can be taken in each cell of a problem that is stepped through; None if all can."""
    from .simulated import Simulated

    if not isinstance(playing.env, Simulated):
        return None
    found = MarkovPolicy.uniform(playing.env.problem).probabilities > 0
    return None if found.all() else jnp.asarray(found)
