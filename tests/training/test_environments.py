"""Problems as environments that only have `step`, episodes of any vector environment, the wrapper that pays for surprise."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

import veil
from veil.training.episodes import Episodes, Playing, Run, Step, Watching, play
from veil.training.simulated import READING, SECRET, Simulated


def drawn(problem: veil.Problem, count: int) -> Episodes:
    """Episodes of the uniform policy."""
    env, random = Simulated(problem, count), np.random.default_rng(1)
    sums = veil.MarkovPolicy.uniform(problem).probabilities.cumsum(axis=1)

    def act(states: np.ndarray, time: int) -> np.ndarray:
        return (random.random((count, 1)) > sums[states]).sum(axis=1)

    return play(Playing(env, problem.horizon, Watching(SECRET, READING), None), act, np.random.default_rng(2))


# The secrets: at the end, at the start, what an automaton saw, which model; with and without a first reading, seen actions.
@pytest.mark.parametrize("name", ["paper-initial-state", "courier-depots", "network-probe", "badge-doors"])
def test_steps_follow_the_problem(name: str):
    """The mean return, and the mean surprise of an observer who knows the model, are those of exact passes."""
    problem, count = veil.gallery.load(name), 600
    policy, runs = veil.MarkovPolicy.uniform(problem), drawn(problem, count)
    error = runs.returns.std() / np.sqrt(count)
    assert abs(runs.returns.mean() - veil.expected_return(problem, policy)) < 4 * error
    bits = []
    for value, readings in zip(runs.values, runs.readings, strict=True):
        observer = veil.ObserverFilter(problem, policy)
        for time, reading in enumerate(readings):
            if reading is not None:
                assert isinstance(reading, str)
                pair = time > 0 and problem.observer.sees_actions
                observer.update(tuple(reading.split(", ")) if pair else reading)  # pyright: ignore[reportArgumentType]
        bits.append(-np.log2(observer.posterior[observer.values.index(value)]))
    exact = veil.opacity(problem, policy).bits
    assert abs(np.mean(bits) - exact) < 4 * np.std(bits) / np.sqrt(count)


def test_a_problem_that_cannot_be_stepped_through_is_refused():
    with pytest.raises(veil.InputError, match="the secret is a Trajectory, expected one with a single value"):
        Simulated(veil.gallery.load("smart-meter"))
    rooms = veil.gallery.load("two-rooms")
    with pytest.raises(veil.InputError, match="the observer has no clock"):
        Simulated(rooms.replace(observer=rooms.observer.replace(untimed=True, silent=rooms.observer.observations[0])))
    model = veil.Model(np.eye(2)[:, None], [[1.0], [0.0]], [0.5, 0.5], discount=0.9)
    problem = veil.Problem(model, veil.Observer(np.eye(2)), veil.LastState([0]), 2, return_over="infinite")
    with pytest.raises(veil.InputError, match="infinite horizon"):
        Simulated(problem)


class Count(gymnasium.Env[Any, Any]):
    """Counts up to 3, or a drawn number, and ends; info has the count, its parity and a reading of two numbers."""

    observation_space = gymnasium.spaces.Discrete(10)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.count, self.last = 0, int(self.np_random.integers(1, 4))
        return 0, {"sight": np.array([0.0, 1.0])}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.count += 1
        return self.count, float(self.count), self.count == self.last, False, {"sight": np.array([self.count, -1.0])}


def parity(run: Run) -> str:
    assert len(run.states) == len(run.actions) + 1 == len(run.rewards) + 1 == len(run.infos)
    return "odd" if run.states[-1] % 2 else "even"


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_episodes_end_where_the_environment_ends_them(mode: str):
    env = SyncVectorEnv([Count] * 20, autoreset_mode=mode)

    def observe(step: Step) -> object:
        assert (step.action is None) == (step.time == 0)
        return None if step.time == 1 else step.state

    playing = Playing(env, 6, Watching(parity, observe), None)
    runs = play(playing, lambda states, time: np.zeros(20, dtype=int), np.random.default_rng(0))
    last = runs.lengths
    assert set(last) == {1, 2, 3}
    assert runs.values == ["odd" if one % 2 else "even" for one in last]
    assert runs.readings == [[0, None, 2, 3][: one + 1] for one in last]
    assert runs.returns.tolist() == [one * (one + 1) / 2 for one in last]
    again = play(playing, lambda states, time: np.zeros(20, dtype=int), np.random.default_rng(0))
    assert again.lengths.tolist() == last.tolist()
    cut = play(
        Playing(env, 2, Watching(parity, "sight"), None),
        lambda states, time: np.zeros(20, int),
        np.random.default_rng(0),
    )
    assert cut.lengths.tolist() == np.minimum(last, 2).tolist()
    assert [len(row) for row in cut.readings] == (cut.lengths + 1).tolist()
    with pytest.raises(veil.InputError, match="observe='smell' is no key of the environment's info, which has 'sight'"):
        play(Playing(env, 2, Watching(parity, "smell"), None), lambda *_: np.zeros(20, int), np.random.default_rng(0))


def test_the_wrapper_pays_for_surprise_and_the_observer_learns():
    """The last count tells the parity: once the observer has learnt it, nothing is paid."""
    observer = veil.LearnedObserver(4, every=64, hidden=8, rate=0.03)
    env = veil.SurpriseReward(Count(), observer, parity, lambda step: step.state, weight=2.0)
    paid = []
    for number in range(640):
        env.reset(seed=number)
        total, over, info = 0.0, False, {}
        while not over:
            _, reward, over, _, info = env.step(0)
            total += float(reward)
        paid.append(info["surprise_bits"])
        assert total == pytest.approx(info["task_return"] + 2 * info["surprise_bits"])
    assert paid[0] == 0
    assert np.mean(paid[-64:]) < 0.1
    hidden = veil.SurpriseReward(Count(), veil.LearnedObserver(4, every=64, hidden=8), parity, lambda step: None)
    with pytest.raises(veil.InputError, match="weight is"):
        veil.SurpriseReward(Count(), observer, parity, lambda step: None, weight="all")  # pyright: ignore[reportArgumentType]
    assert hidden.reset(seed=1)[0] == 0


def test_a_wrapper_that_cannot_work_is_refused():
    for env, observer, settings, message in (
        (Count(), None, {}, "observer is None, expected a veil.LearnedObserver"),
        (3, veil.LearnedObserver(4), {}, "env is 3, expected an environment of Gymnasium"),
        (Count(), veil.LearnedObserver(4), {"weight": np.inf}, "weight is inf, expected a finite number"),
    ):
        with pytest.raises(veil.InputError, match=message):
            veil.SurpriseReward(env, observer, parity, "sight", **settings)  # pyright: ignore[reportArgumentType]
    with pytest.raises(veil.InputError, match="hidden is 0, expected a whole number, 1 or more"):
        veil.LearnedObserver(4, hidden=0)


class Broken(Count):
    """Its rewards are no numbers."""

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        return (*super().step(action)[:1], np.nan, *super().step(action)[2:])


def test_a_reward_that_is_no_number_is_refused():
    playing = Playing(SyncVectorEnv([Broken] * 2), 3, Watching(parity, "sight"), None)
    with pytest.raises(veil.InputError, match="the environment's reward is nan at time 0, expected a finite number"):
        play(playing, lambda *_: np.zeros(2, int), np.random.default_rng(0))
