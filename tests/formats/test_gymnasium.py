"""Models from Gymnasium: FrozenLake, CliffWalking and Taxi are solved end to end and mean what the environments do."""

import sys
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest

import veil
from tests.seeds import looped
from veil.common.errors import InputError, MissingExtraError
from veil.formats.gymnasium import from_gymnasium
from veil.formats.imported import Imported
from veil.problem.observer import Observer


def newest(family: str) -> str:
    """The environment of a family that is not deprecated, whatever version of Gymnasium is installed."""
    versions = [spec.version or 0 for spec in gymnasium.registry.values() if spec.name == family]
    return f"{family}-v{max(versions)}"


def environment(family: str) -> Any:
    options: dict[str, Any] = {"map_name": "8x8"} if family == "FrozenLake" else {}
    return gymnasium.make(newest(family), **options)


def is_east(columns: int) -> Any:
    """An observer's camera: in which half of a grid."""
    return lambda state: "east" if state % columns >= columns / 2 else "west"


def lake(**options: Any) -> Imported:
    return from_gymnasium(newest("FrozenLake"), map_name="8x8", observe=is_east(8), noise=0.1, **options)


def cliff(**options: Any) -> Imported:
    return from_gymnasium(newest("CliffWalking"), observe=is_east(12), noise=0.1, **options)


def taxi(**options: Any) -> Imported:
    return from_gymnasium(
        newest("Taxi"), observe=lambda state: "north" if state // 100 < 2 else "south", noise=0.1, **options
    )


def destinations(read: Imported) -> veil.InitialState:
    return veil.InitialState({stop: read.states_where(f"destination={stop}") for stop in "RGYB"})


def played(env: Any, rule: np.ndarray, horizon: int) -> float:
    """The expected return, straight from the environment's table: an episode that ends pays nothing more."""
    table, total = env.unwrapped.P, 0.0
    alive = np.array(env.unwrapped.initial_state_distrib, dtype=float)
    for _ in range(horizon):
        following = np.zeros_like(alive)
        for state in np.flatnonzero(alive).tolist():
            for action, steps in table[state].items():
                for chance, reached, reward, ended in steps:
                    weight = alive[state] * rule[state, action] * chance
                    total += weight * float(reward)
                    following[reached] += 0.0 if ended else weight
        alive = following
    return total


CASES = {
    "FrozenLake": (lake, lambda read: "cell=H", 16, "50%"),
    "CliffWalking": (cliff, lambda read: "row=3 & col=11", 18, -60.0),
    "Taxi": (taxi, destinations, 10, -12.0),
}


@looped("family", CASES)
def test_solved_end_to_end(family: str):
    make, secret, horizon, threshold = CASES[family]
    read = make()
    problem = read.problem(secret(read), horizon, min_return=threshold)
    solution = veil.solve(problem, starts=1, iterations=4, certificate=False)
    assert solution.feasible
    assert solution.threshold is not None
    assert solution.expected_return >= solution.threshold - 1e-9
    assert isinstance(solution.policy, veil.MarkovPolicy)
    rule = solution.policy.probabilities
    assert played(environment(family), rule, horizon) == pytest.approx(solution.expected_return, abs=1e-9)
    assert veil.opacity(problem, solution.policy).bits == pytest.approx(solution.opacity.bits, abs=1e-12)
    assert solution.opacity.bits <= solution.opacity.prior_bits + 1e-12
    assert solution.opacity.bits > 0


def test_a_policy_is_played_in_the_environment_itself():
    read = cliff()
    problem = read.problem("row=3 & col=11", 13)
    safe = np.zeros((48, 4))
    safe[:, 1] = 1.0  # right along the third row
    safe[36] = [1, 0, 0, 0]
    safe[[11, 23, 35]] = [0, 0, 1, 0]
    policy = veil.MarkovPolicy(safe)
    env = gymnasium.make(newest("CliffWalking"))
    player, total, ended = policy.player(problem), 0.0, False
    state, _ = env.reset(seed=1)
    while not ended:
        state, reward, ended, _, _ = env.step(player.act(int(state)))
        total += float(reward)
    assert total == veil.expected_return(problem, policy) == -13


@looped(
    "observe",
    [
        "col",
        ("col",),
        lambda state: f"col={state % 12}",
        [f"col={state % 12}" for state in range(48)],
        {f"r{row}c{col}": f"col={col}" for row in range(4) for col in range(12)},
        {state: {f"col={state % 12}": 1.0} for state in range(48)},
        Observer(np.tile(np.eye(12), (4, 1)), [f"col={col}" for col in range(12)]),
    ],
)
def test_every_way_to_say_what_is_seen(observe: Any):
    read = from_gymnasium(newest("CliffWalking"), observe=observe)
    assert read.observer is not None
    assert read.observer.observations.all() == tuple(f"col={col}" for col in range(12))
    assert np.array_equal(read.observer.emissions, np.tile(np.eye(12), (4, 1)))


def test_several_variables_noise_and_what_is_left_out():
    read = from_gymnasium(newest("CliffWalking"), observe=("row", "col"), noise=0.2, sees_actions=True)
    assert read.observer is not None
    assert read.observer.sees_actions
    assert read.observer.observations[13] == "row=1, col=1"
    assert read.observer.emissions[13, 13] == pytest.approx(0.8)
    partly = from_gymnasium(newest("CliffWalking"), observe={"r0c0": {"beam": 0.7, "nothing": 0.3}, 5: "beam"})
    assert partly.observer is not None
    assert partly.observer.observations.all() == ("beam", "nothing")
    assert partly.observer.emissions[[0, 5, 6]] == pytest.approx(np.array([[0.7, 0.3], [1, 0], [0, 1]]))
    with pytest.raises(InputError, match="has no entry for state 'r0c1'"):
        from_gymnasium(newest("CliffWalking"), observe={0: "beam"}, otherwise=None)


class Small(gymnasium.Env):
    """Three states: a step from 0 may end in 1, which can also be passed on the way to 2, where all ends."""

    P: ClassVar[Any] = {
        0: {0: [(0.5, 1, 1.0, True), (0.5, 1, 0.0, False)], 1: [(1.0, 2, 2.0, True)]},
        1: {0: [(1.0, 2, 5.0, True)], 1: [(1.0, 0, 0.0, False)]},
        2: {0: [(1.0, 2, 9.0, True)], 1: [(1.0, 2, 9.0, True)]},
    }
    initial_state_distrib: Any = (1.0, 0.0, 0.0)


def test_a_state_that_can_end_an_episode_or_not_is_copied():
    read = from_gymnasium(Small(), observe=["a", "b", "c"], variables={"far": [False, True, True]})
    assert read.model.states.all() == ("s0", "s1", "s2", "s1 (ended)")
    assert read.observer is not None
    assert read.observer.emissions.argmax(axis=1).tolist() == [0, 1, 2, 1]
    assert read.states_where("far") == (1, 2, 3)
    assert any("copies such as 's1 (ended)'" in note for note in read.notes)
    rule = np.array([[0.7, 0.3], [0.6, 0.4], [0.5, 0.5]])
    problem = read.problem(veil.LastState([3]), 6)
    found = veil.expected_return(problem, veil.MarkovPolicy(np.vstack([rule, rule[1]])))
    assert found == pytest.approx(played(Small(), rule, 6), rel=1e-14)
    function = from_gymnasium(Small(), observe=lambda state: "abc"[state])
    assert function.observer is not None
    assert np.array_equal(function.observer.emissions, read.observer.emissions)


def test_starts_and_names_that_are_given():
    read = from_gymnasium(
        Small(), initial={"y": 0.25, 0: 0.75}, state_names=["x", "y", "z"], action_names=["go", "turn"], discount=0.5
    )
    assert read.model.initial.tolist() == [0.75, 0.25, 0, 0]
    assert read.model.actions.all() == ("go", "turn")
    assert read.model.discount == 0.5
    assert from_gymnasium(Small(), initial=1, state_names="s{}".format).model.initial[1] == 1


@looped(
    ("changes", "options", "words"),
    [
        ({"P": None}, {}, "no transition table"),
        ({"P": {0: {0: [(1.0, 7, 0.0, False)]}}}, {}, "leads to 7, expected a state from 0 to 0"),
        ({"P": {0: {0: [(1.0, 0)]}}}, {}, "P[0][0] holds (1.0, 0)"),
        ({"P": {0: {1: [(1.0, 0, 0.0, False)]}}}, {}, "P[0] is dict, expected a mapping from actions 0, 1"),
        ({"P": {0: {0: [(0.5, 0, 0.0, False)]}}, "initial_state_distrib": [1.0]}, {}, "sums to 0.5"),
        ({"P": {0: {0: []}}, "initial_state_distrib": [1.0]}, {}, "P[0][0] is [], expected a list of steps"),
        ({"initial_state_distrib": None}, {}, "give initial="),
        ({}, {"initial": {"nowhere": 1.0}}, "unknown state 'nowhere': known are 's0', 's1', 's2'"),
        ({}, {"variables": {"x": [1]}}, "'x' has shape (1,)"),
        ({}, {"observe": "colour"}, "unknown variable 'colour'"),
        ({}, {"observe": ["a", "b"]}, "unknown variable 'a'"),
        ({}, {"observe": lambda state: "a", "noise": 0.1}, "two or more to confuse"),
        ({}, {"map_name": "8x8"}, "only for the name of an environment"),
    ],
)
def test_what_is_not_understood_is_refused(changes: dict[str, Any], options: dict[str, Any], words: str):
    with pytest.raises(InputError) as caught:
        from_gymnasium(type("Changed", (Small,), changes)(), **options)
    assert words in str(caught.value)


def test_environments_that_there_are_not():
    with pytest.raises(InputError, match="Gymnasium cannot make it"):
        from_gymnasium("NoSuchLake-v1")


def test_without_gymnasium_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(MissingExtraError, match=r"veil\[gym\]"):
        from_gymnasium("FrozenLake-v1")


# Models that are estimated from runs


class Steps(gymnasium.Env[Any, Any]):
    """`Small` without its table, and with two states that no run reaches."""

    observation_space: Any = gymnasium.spaces.Discrete(5)
    action_space: Any = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.state = 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        listed = Small.P[self.state][action]
        drawn = listed[int(self.np_random.choice(len(listed), p=[step[0] for step in listed]))]
        _, self.state, reward, ended = drawn
        return self.state, reward, ended, False, {}


def test_a_model_is_estimated_from_runs():
    """The estimate tends to the model of the table, its intervals hold the probabilities, and it says what it does not know."""
    exact, found = from_gymnasium(Small()), from_gymnasium(Steps(), episodes=4000, seed=3)
    assert found.rollouts is not None
    assert found.model.states.all()[:5] == ("s0", "s1", "s2", "s3", "s4")
    assert "s1 (ended)" in found.model.states.all()
    assert found.rollouts.unvisited == [3, 4]
    assert found.rollouts.untried == []
    assert found.rollouts.visits.sum() == found.rollouts.count.sum() >= 4000
    horizon = 5
    for name in ("s0", "s1"):
        state = found.model.states.all().index(name)
        assert found.model.rewards[state] == pytest.approx(exact.model.rewards[state], abs=0.1)
    for one in found.rollouts.intervals(0.999):
        true = sum(step[0] for step in Small.P[one.state][one.action] if step[1] == one.following)
        assert one.low <= true <= one.high
        assert one.low <= one.probability <= one.high
    uniform = [
        veil.expected_return(problem, veil.MarkovPolicy.uniform(problem))
        for problem in (
            read.observing(lambda state: "any").problem(veil.LastState([1]), horizon) for read in (exact, found)
        )
    ]
    assert uniform[1] == pytest.approx(uniform[0], abs=0.15)
    text = found.summary()
    assert "estimated from 4,000 episodes" in text
    assert "2 states were never visited, such as 's3'" in text


def test_what_was_never_tried_is_not_available():
    found = from_gymnasium(Steps(), episodes=50, explore=lambda state: 0)
    assert found.rollouts is not None
    assert found.rollouts.untried == [(0, 1), (1, 1)]
    assert not found.model.available[[0, 1], [1, 1]].any()
    assert found.model.available[[0, 1], [0, 0]].all()
    assert "2 pairs were never tried, and are not available, such as 'a1' in 's0'" in found.summary()
    again = from_gymnasium(Steps(), episodes=50, explore=lambda state: 0)
    assert again.rollouts == found.rollouts


def test_a_table_and_runs_agree_on_frozen_lake():
    exact = from_gymnasium("FrozenLake-v1", is_slippery=True)
    found = from_gymnasium("FrozenLake-v1", is_slippery=True, episodes=3000, seed=1)
    assert found.rollouts is not None
    tried = found.rollouts.visits >= 300
    assert tried.sum() >= 16
    for action in range(4):
        errors = np.abs(
            found.model.matrices[action][:16, :16].toarray() - exact.model.matrices[action][:16, :16].toarray()
        )
        assert errors[tried[:, action]].max() < 0.12


def test_runs_that_cannot_be_played_are_refused():
    lake, pole = "FrozenLake-v1", "CartPole-v1"
    cases: Any = (
        (pole, {}, r"it has no transition table env\.unwrapped\.P: estimate the model from runs with episodes=10_000"),
        (
            pole,
            {"episodes": 5},
            r"observation_space is Box.*, expected Discrete from 0 on: number the states by a wrapper",
        ),
        (lake, {"episodes": 0}, "episodes is 0, expected a whole number, 1 or more"),
        (lake, {"steps": 5}, "give episodes=…"),
        (
            lake,
            {"episodes": 2, "explore": lambda state: 9},
            "action of explore is 9, expected a whole number from 0 to 3",
        ),
        (lake, {"episodes": 2, "explore": lambda state: "up"}, "action of explore is 'up', expected a whole number"),
        (lake, {"episodes": 2, "explore": 3}, "explore is 3, expected a function"),
    )
    for env, given, message in cases:
        with pytest.raises(InputError, match=message):
            from_gymnasium(env, **given)
