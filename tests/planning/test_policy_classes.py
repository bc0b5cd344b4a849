"""Classes of policies: what each is called, what it plays, and that a larger one never ends below a smaller one."""

from typing import Any

import numpy as np
import pytest

import veil
from tests.planning.small_problems import FEW, Interrupting, random_problem, reaches
from tests.policy.masked import knowing_problem, masked_problem
from tests.seeds import blocks, in_blocks
from veil.common.clock import UNLIMITED
from veil.planning.backend import Draw
from veil.planning.bits import sampled
from veil.planning.policy_class import make_space

CLASSES: Any = {
    "stationary Markov policies": "markov",
    "time-dependent policies": "timed",
    "policies with memory of the last observation": veil.ObservationMemory(1, clock=False),
    "policies with memory of the last 2 observations and a clock": veil.ObservationMemory(2),
    "policies with memory of the last state and a clock": veil.StateMemory(1),
    "policies with memory of the last 3 states": veil.StateMemory(3, clock=False),
    "policies with memory of whether a zone was visited": veil.ZoneMemory([["shaft"]], clock=False),
    "policies with memory of which of 2 zones were visited and a clock": veil.ZoneMemory([[0], ["shaft", "pit"]]),
    "policies with a controller of 2 nodes": veil.Controller(2),
    "policies with a controller of 3 nodes and a clock": veil.Controller(3, clock=True),
}
QUICK: Any = FEW | {"iterations": 3, "starts": 2}


def masked() -> veil.Problem:
    return masked_problem(3).replace(agent_sees="state+observations")


@pytest.mark.parametrize("words", CLASSES)
def test_every_class_is_searched_and_named_in_words(words: str):
    problem, memory = masked(), CLASSES[words]
    found = veil.solve(problem, memory=memory, **QUICK)
    assert found.policy_class == words
    assert found.needs_observations == isinstance(memory, veil.ObservationMemory)
    expected = {"markov": veil.MarkovPolicy, "timed": veil.TimedPolicy}
    assert type(found.policy) is (expected[memory] if isinstance(memory, str) else veil.MemoryPolicy)
    assert found.opacity == veil.opacity(problem, found.policy, "exact")
    assert found.expected_return == veil.expected_return(problem, found.policy)


@pytest.mark.parametrize("words", CLASSES)
def test_every_class_plays_like_a_markov_policy(words: str):
    """Actions that are not available stay shut; the answer is no worse than the stationary policy it begins from."""
    problem = masked()
    policy = veil.MarkovPolicy.softmax(np.random.default_rng(1).normal(size=(3, 3)), problem)
    found = veil.solve(problem, memory=CLASSES[words], start=policy, starts=1, iterations=0, **FEW)
    assert found.opacity.bits >= veil.opacity(problem, policy, "exact").bits - 1e-12


def test_a_policy_to_start_from_must_belong_to_the_class():
    problem = masked()
    timed = veil.TimedPolicy.softmax(np.random.default_rng(1).normal(size=(3, 3, 3)), problem)
    remembering = veil.MemoryPolicy.uniform(problem, veil.StateMemory(1))
    refused: list[tuple[Any, Any, str]] = [
        ("markov", timed, "it depends on the time"),
        (veil.Controller(2), timed, "it depends on the time"),
        ("markov", remembering, "memory of the last state"),
        ("timed", remembering, "memory of the last state"),
        ("markov", veil.MarkovPolicy(np.full((2, 3), 1 / 3)), "has shape"),
        ("markov", veil.MarkovPolicy(np.full((3, 3), 1 / 3)), "the action is not available there"),
        ("markov", 3, "expected a policy"),
    ]
    for memory, start, words in refused:
        with pytest.raises(veil.InputError, match=words):
            veil.solve(problem, memory=memory, start=start, **QUICK)
    assert veil.solve(problem, memory=veil.StateMemory(1), start=timed, **QUICK).feasible


@pytest.mark.parametrize("memory", ["Markov", "", None, 2, veil.StateMemory, ["timed"], np.ones(2)])
def test_another_class_is_refused_with_the_choices(memory: Any):
    with pytest.raises(veil.InputError, match="expected 'markov', 'timed'"):
        veil.solve(masked(), memory=memory)


def test_an_agent_who_does_not_see_cannot_remember_observations():
    with pytest.raises(veil.InputError, match="does not see the observations"):
        veil.solve(masked_problem(), memory=veil.ObservationMemory(1))


def test_what_the_agent_knows_of_the_secret_is_part_of_a_row():
    problem = knowing_problem()
    found = veil.solve(problem, memory="timed", **QUICK)
    assert isinstance(found.policy, veil.TimedPolicy)
    assert found.policy.probabilities.shape == (2, 6, 3)
    assert not found.policy.probabilities[:, ~problem.available].any()


# Larger classes


NESTED = ("markov", "timed", veil.StateMemory(1))


def bits_of_classes(seed: int, **settings: Any) -> list[float]:
    found = [veil.solve(random_problem(seed), memory=memory, **FEW | settings) for memory in NESTED]
    assert all(one.feasible for one in found), seed
    return [one.opacity.bits for one in found]


@in_blocks(2, 5)
def test_no_class_ends_below_a_smaller_one(seed: int):
    assert np.diff(bits_of_classes(seed, **QUICK)).min() >= -1e-3
    if seed in (0, 4):
        assert np.diff(bits_of_classes(seed, evaluation="sampled", sequences=20, **QUICK)).min() >= -1e-3


@pytest.mark.parametrize(
    ("seed", "settings"),
    [
        # samples of a class between prefer a worse policy
        pytest.param(13, {"evaluation": "sampled", "iterations": 20}, marks=pytest.mark.slow),
        (139, {"iterations": 40}),  # the return of the smaller answer rounds below the aim
        (152, {"iterations": 40}),  # the smaller answer, on the aim itself, rounds below it in the larger class
    ],
)
def test_no_class_ends_below_a_smaller_one_in_hard_cases(seed: int, settings: dict[str, Any]):
    assert np.diff(bits_of_classes(seed, **settings)).min() >= -1e-9


@pytest.mark.parametrize("settings", [{"iterations": 40}, {"iterations": 20, "evaluation": "sampled"}])
@pytest.mark.parametrize("block", blocks(0, 200, 20))
def test_no_class_ends_below_a_smaller_one_on_many_problems(settings: dict[str, Any], block: range):
    for seed in block:
        assert np.diff(bits_of_classes(seed, **settings)).min() >= -1e-3, seed


def test_what_more_memory_can_do():
    """The first state is seen no more after a step; only a policy that remembers it can act on it, and pays for it."""
    moves = np.zeros((4, 2, 4))
    moves[0, :, 2] = moves[1, :, 2] = moves[3, :, 3] = 1
    moves[2, 0, 2] = moves[2, 1, 3] = 1
    model = veil.Model(moves, np.zeros((4, 2)), [0.5, 0.5, 0, 0])
    observer = veil.Observer(np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    problem = veil.Problem(model, observer, veil.InitialState(), 2)
    for memory, least in (("timed", 1.0), (veil.StateMemory(1), 0.0)):
        found = veil.solve(problem, memory=memory, goal="transparent", **FEW)  # type: ignore[arg-type]
        assert found.opacity.bits == pytest.approx(least, abs=1e-3)


def test_the_history_begins_with_the_answers_of_the_smaller_classes():
    problem = random_problem(1)
    small, large = (veil.solve(problem, memory=memory, **QUICK) for memory in ("timed", veil.StateMemory(1)))
    np.testing.assert_array_equal(large.history.iteration, [0, 0, *range(1, 4)])
    assert large.history.opacity_bits[1] == pytest.approx(small.opacity.bits, abs=1e-9)
    assert large.history.expected_return[1] == pytest.approx(small.expected_return, abs=1e-9)
    assert large.iterations == 3
    given = veil.solve(problem, memory="timed", start=veil.MarkovPolicy.uniform(problem), **QUICK)
    np.testing.assert_array_equal(given.history.iteration, range(1, 4))  # a given policy takes their place
    sampled = veil.solve(problem, memory="timed", evaluation="sampled", sequences=20, **QUICK)
    assert sampled.history.iteration.tolist()[-3:] == [1, 2, 3]
    assert np.all(np.diff(sampled.history.seconds) >= 0)


def test_where_the_time_ends_in_a_smaller_class_its_policy_is_the_answer():
    problem = random_problem(1)
    found = veil.solve(problem, memory="timed", time_limit=0.0, **FEW)
    assert reaches(problem, found)
    assert isinstance(found.policy, veil.TimedPolicy)
    assert found.policy_class == "time-dependent policies"


def test_an_interrupt_in_a_smaller_class_says_so():
    found = veil.solve(random_problem(1), memory="timed", progress=Interrupting(1), certificate=False)
    assert found.status is veil.Status.INTERRUPTED
    assert isinstance(found.policy, veil.TimedPolicy)
    assert "during the search of stationary Markov policies" in found.detail


# Rows that no run reaches


def corner_grid() -> veil.Problem:
    """A grid of which a tenth is reached in the time, with a formula that its constraint follows."""
    world = veil.GridWorld(
        40,
        40,
        slip=0.1,
        starts=(0, 0),
        goals={(3, 3): 1.0},
        secrets=[(4, 5)],
        sensors=[veil.Sensor("a", [(3, 2)], 0.9)],
    )
    crossed = veil.Probability("F crossed", min=0.1, labels={"crossed": [82]})
    return world.problem(16, min_return="20%").replace(constraints=[crossed])


@pytest.mark.parametrize("memory", ["timed", "markov"])
def test_rows_that_no_run_reaches_are_left_out_and_change_nothing(memory: str):
    problem = corner_grid()
    whole = make_space(problem, memory)
    part = whole.on_reachable_rows()
    assert part.shape[1] < 0.2 * whole.shape[1]
    assert part.on_reachable_rows() is part
    table = part.softmax(np.random.default_rng(0).normal(size=part.shape))
    policy = part.policy(table)
    np.testing.assert_allclose(part.table_of(policy), table, atol=1e-15)
    full = whole.table_of(policy)
    for here, there in zip(whole.summed(full[None], (0, 1)), part.summed(table[None], (0, 1)), strict=True):
        for one, other in zip(here, there, strict=True):
            one = one[..., part.rows, :] if one.ndim > 1 else one
            np.testing.assert_array_equal(one, other)
    one, other = (
        sampled(space, Draw(50, 1))(given[None], UNLIMITED) for space, given in ((whole, full), (part, table))
    )
    np.testing.assert_array_equal(one.values, other.values)
    np.testing.assert_array_equal(one.gradient[:, :, part.rows], other.gradient)
