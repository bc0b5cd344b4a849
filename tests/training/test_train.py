"""`veil.train`: agents that hide through `step` alone, judged by a fresh observer; files, checkpoints and what is refused."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import veil
from veil.training import agent
from veil.training.episodes import Run, Step

SMALL: dict[str, Any] = {"num_envs": 64, "hidden": 16, "evaluation_runs": 900, "progress": False}


@pytest.fixture(scope="module")
def rooms() -> veil.Trained:
    return veil.train(veil.gallery.load("two-rooms"), iterations=60, rate=0.01, seed=1, **SMALL)


def test_a_small_problem_is_hidden_at_its_return(rooms: veil.Trained):
    problem = veil.gallery.load("two-rooms")
    best = veil.solve(problem, certificate=False).opacity.bits
    assert rooms.opacity is not None
    assert rooms.true_return is not None
    assert rooms.true_return > 0.7
    assert rooms.opacity.bits > best - 0.08
    policy = rooms.policy()
    assert veil.opacity(problem, policy).bits == pytest.approx(rooms.opacity.bits, abs=1e-9)
    assert rooms.expected_return.low - 0.02 < rooms.true_return < rooms.expected_return.high + 0.02
    # The observer's loss is at least the opacity, up to the error of 300 runs.
    assert rooms.opacity.bits - 0.12 < rooms.loss_bits.value < rooms.opacity.bits + 0.15
    assert rooms.loss_bits.low < rooms.loss_bits.value < rooms.loss_bits.high
    assert rooms.num_episodes == 60 * 64
    text = rooms.summary()
    assert "observer's loss" in text
    assert "hidden, by the model" in text
    draws = [rooms.act(0, random=np.random.default_rng(seed)) for seed in range(400)]
    assert np.mean(draws) == pytest.approx(policy.table[0, 0, 1], abs=0.08)


def test_a_trained_agent_is_written_and_read(rooms: veil.Trained, tmp_path: Path):
    rooms.save(tmp_path / "agent")
    assert sorted(path.name for path in (tmp_path / "agent").iterdir()) == ["agent.safetensors", "trained.json"]
    assert veil.Trained.load(tmp_path / "agent") == rooms
    (tmp_path / "agent" / "trained.json").write_text("{}")
    with pytest.raises(veil.VeilError, match="format None"):
        veil.Trained.load(tmp_path / "agent")
    with pytest.raises(veil.VeilError, match="does not hold a trained agent"):
        veil.Trained.load(tmp_path / "nothing")


def test_a_training_that_was_stopped_goes_on_as_if_it_had_not(tmp_path: Path):
    problem, path = veil.gallery.load("two-rooms"), tmp_path / "training"
    given: dict[str, Any] = {**SMALL, "iterations": 4, "seed": 3}
    whole = veil.train(problem, **given)
    stopped = veil.train(problem, checkpoint=path, **{**given, "progress": _Stop(2)})
    assert stopped.num_episodes == 2 * 64
    assert "2 of 4 iterations" in stopped.notes[0]
    resumed = veil.train(problem, checkpoint=path, resume=True, **given)
    assert all(np.array_equal(resumed.arrays[name], array) for name, array in whole.arrays.items())
    assert resumed.history == whole.history
    with pytest.raises(veil.VeilError, match=r"rate: 0\.002 there, 0\.5 here"):
        veil.train(problem, checkpoint=path, resume=True, **{**given, "rate": 0.5})


class _Stop:
    """Interrupts after some iterations, as Ctrl-C does."""

    def __init__(self, after: int):
        self.after = after

    def __call__(self, news: Any) -> None:
        if news.iteration == self.after:
            raise KeyboardInterrupt


class Slide(gymnasium.Env[Any, Any]):
    """A point on a line that is pushed; continuous readings, actions and states."""

    observation_space = gymnasium.spaces.Box(-10, 10, (2,))
    action_space = gymnasium.spaces.Box(-1, 1, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.goal = 0.0, float(self.np_random.choice([-1.0, 1.0]))
        return self.seen(), {}

    def seen(self) -> np.ndarray:
        return np.array([self.place, self.goal], dtype=np.float32)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.place += float(action[0])
        return self.seen(), self.place * self.goal, False, False, {}


@pytest.mark.slow
def test_continuous_states_actions_and_readings():
    """Which way the agent shall go is secret: who must go there tells it, who need not does not."""

    def secret(run: Run) -> str:
        return "right" if run.states[0][1] > 0 else "left"

    def observe(step: Step) -> float:
        return float(step.state[0] + step.random.normal(0, 0.1))

    given = {**SMALL, "horizon": 3, "iterations": 60, "rate": 0.01, "timed": False}
    free = veil.train(Slide, secret, observe, seed=2, **given)
    bound = veil.train(Slide, secret, observe, 5.0, seed=2, **given)  # of 6 at most
    assert free.loss_bits.value > 0.8
    assert bound.expected_return.value > 4
    assert bound.loss_bits.value < 0.75
    assert bound.opacity is None
    assert "a better observer may lose less" in bound.summary()
    assert bound.act(np.array([0.0, 1.0]), random=np.random.default_rng(0)).shape == (1,)
    with pytest.raises(veil.InputError, match="continuous states or actions"):
        bound.policy()


def test_advantages_are_the_discounted_sums_of_what_was_not_expected():
    random = np.random.default_rng(0)
    rewards, worth = random.normal(size=(2, 5, 3, 2))
    after = np.concatenate([worth[1:], np.zeros((1, 3, 2))])
    surprises = rewards + after - worth
    for time in range(5):
        expected = sum(0.9 ** (later - time) * surprises[later] for later in range(time, 5))
        assert agent.advantages(rewards, worth, 0.9)[time] == pytest.approx(expected)


def test_what_cannot_be_trained_is_refused():
    def secret(run: Run) -> bool:
        return bool(run.states[-1])

    def observe(step: Step) -> object:
        return step.state

    lake = "FrozenLake-v1"
    for env, given, message in (
        (lake, {"observe": observe}, "secret=… is missing: say what must stay hidden"),
        (lake, {"secret": secret}, "observe=… is missing"),
        (lake, {"secret": 5, "observe": observe}, "secret is 5, expected a function or a key"),
        (Slide, {"secret": secret, "observe": observe}, "no limit of steps: give horizon"),
        ("Nothing-v0", {"secret": secret, "observe": observe}, "Gymnasium cannot make 'Nothing-v0'"),
        (7, {"secret": secret, "observe": observe}, "env is 7, expected the name of an environment"),
        (lake, {"num_envs": 1}, "num_envs is 1, expected a whole number, 2 or more"),
        (lake, {"rate": 0}, "rate is 0"),
        (lake, {"min_return": "much"}, "min_return is 'much'"),
        (lake, {"min_return": np.nan}, "min_return is nan, expected a finite number"),
        (lake, {"time_limit": -1}, "time_limit is -1, expected seconds"),
        (lake, {"horizon": True, "secret": secret}, "horizon is True"),
        (lake, {"resume": True}, "resume needs checkpoint"),
        (veil.gallery.load("two-rooms"), {"horizon": 9}, "a problem has its own horizon"),
        (
            lake,
            {"secret": secret, "observe": lambda step: "x" if step.time else 1.5},
            "readings are names in some runs",
        ),
        (lake, {"secret": secret, "observe": lambda step: np.nan}, "a reading is not finite"),
        (
            lake,
            {"secret": secret, "observe": observe, "problem": veil.gallery.load("two-rooms")},
            "its problem 2 and 2",
        ),
    ):
        settings: dict[str, Any] = {"iterations": 1, "num_envs": 4, "hidden": 4, "progress": False, **given}
        if env == lake:
            settings = {"horizon": 3} | settings
        with pytest.raises(veil.InputError, match=message):
            veil.train(env, **settings)
