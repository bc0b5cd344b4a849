"""Policies with a finite memory: what is remembered, files, lifting, playing, and what is refused."""

import numpy as np
import pytest

import veil
from tests.engine.runs import MEMORIES, random_policy, remembering_cases
from tests.policy.masked import knowing_problem, masked_problem
from tests.seeds import looped
from veil.policy.files import save_table
from veil.policy.memories import Controller, Memory, ObservationMemory, StateMemory, ZoneMemory
from veil.policy.memory import MemoryPolicy


def watched(horizon: int = 3, **changes) -> veil.Problem:
    return masked_problem(horizon).replace(agent_sees="state+observations", **changes)


# Kinds of memory


@looped(
    ("memory", "words"),
    [
        (ObservationMemory(), "memory of the last observation, time-dependent"),
        (ObservationMemory(2, clock=False), "memory of the last 2 observations, the same at all times"),
        (StateMemory(3), "memory of the last 3 states, time-dependent"),
        (ZoneMemory([[1, 2], [0]]), "memory of which of 2 zones were visited, time-dependent"),
        (Controller(), "a controller of 2 nodes, the same at all times"),
        (Controller(1, clock=True), "a controller of 1 node, time-dependent"),
    ],
)
def test_a_memory_describes_itself(memory: Memory, words: str):
    assert memory.describe() == words
    assert words.startswith(memory.name)
    assert memory.needs_observations == isinstance(memory, ObservationMemory)


def test_memories_are_values():
    assert ObservationMemory(np.int64(2)) == ObservationMemory(2) != StateMemory(2)  # type: ignore[arg-type]
    assert ZoneMemory([{"b", "a"}, 3]) == ZoneMemory((("a", "b"), [3, 3]))
    assert len({StateMemory(1), StateMemory(1, True), StateMemory(1, False)}) == 2
    with pytest.raises(AttributeError):
        StateMemory(1).k = 2  # type: ignore[misc]


@looped(
    ("make", "message"),
    [
        (lambda: ObservationMemory(0), "ObservationMemory: k is 0, expected a whole number, 1 or more"),
        (lambda: StateMemory(1.5), "StateMemory: k is 1.5"),  # type: ignore[arg-type]
        (lambda: StateMemory(True), "StateMemory: k is True"),
        (lambda: StateMemory(-1, clock="yes"), "2 defects\n.*k is -1.*\n.*clock is 'yes', expected True or False"),  # type: ignore[arg-type]
        (lambda: Controller(0), "nodes is 0, expected a whole number, from 1 to 10,000"),
        (lambda: Controller("2"), "nodes is '2'"),  # type: ignore[arg-type]
        (lambda: ZoneMemory([]), "0 zones are given, expected from 1 to 60"),
        (lambda: ZoneMemory("hall"), "zones are 'hall', expected a list of zones"),
        (lambda: ZoneMemory({1, 2}), "zones are {1, 2}, expected a list of zones"),  # type: ignore[arg-type]
        (lambda: ZoneMemory(None), "zones are None"),  # type: ignore[arg-type]
        (lambda: ZoneMemory([[], [1.5]]), "2 defects\n.*zone 0 is \\(\\).*\n.*zone 1 is \\(1.5,\\), expected names"),  # type: ignore[arg-type]
        (lambda: ZoneMemory([None]), "zone 0 is None"),  # type: ignore[arg-type]
        (lambda: ZoneMemory([[0]] * 61), "61 zones are given"),
        (lambda: ZoneMemory([[0]], clock=1), "clock is 1"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_memory_is_refused(make, message: str):
    with pytest.raises(veil.InputError, match=message):
        make()


def test_zones_must_exist():
    with pytest.raises(veil.InputError, match="zone 0: unknown state 'hal': did you mean 'hall'"):
        MemoryPolicy.uniform(watched(), ZoneMemory([["hal"]]))
    with pytest.raises(veil.InputError, match="zone 1: state 3 does not exist"):
        MemoryPolicy.uniform(watched(), ZoneMemory([[0], [3]]))


# Tables


def test_the_rows_are_named_in_order():
    names = MemoryPolicy.row_names(watched(1), ObservationMemory(1))
    assert names == ("hall (seen o0)", "shaft (seen o1)", "pit (seen o2)")
    names = MemoryPolicy.row_names(watched(2), StateMemory(1))
    assert names == (
        "hall (at the start)", "hall (coming from hall)", "hall (coming from shaft)", "shaft (coming from hall)",
        "shaft (coming from shaft)", "pit (coming from hall)", "pit (coming from pit)",
    )  # fmt: skip
    names = MemoryPolicy.row_names(knowing_problem(1), ZoneMemory([["hall"], ["pit"]]))
    assert names == ("no/hall (visited zone 0)", "no/pit (visited zone 0, 1)", "yes/shaft (visited zone 0)")
    names = MemoryPolicy.row_names(watched(1), Controller(2))
    assert names[:2] == ("hall (node 0)", "hall (node 1)")


def test_the_uniform_policy_takes_what_is_available():
    policy = MemoryPolicy.uniform(watched(2), StateMemory(1))
    assert policy.probabilities.shape == (2, 7, 3)
    np.testing.assert_allclose(policy.probabilities[0, 3], [0.5, 0, 0.5])  # no way up from the shaft
    controller = MemoryPolicy.uniform(watched(2), Controller(2))
    assert controller.probabilities.shape[1] == 6
    pit = MemoryPolicy.row_names(watched(2), Controller(2)).index("pit (node 1)")
    np.testing.assert_allclose(controller.probabilities[pit], [0.5, 0.5, 0, 0, 0, 0])


@looped("name", MEMORIES)
def test_softmax_and_logits_are_inverse(name: str):
    for case in remembering_cases(2, "automaton"):
        policy = random_policy(case.problem, MEMORIES[name], sparse=True)
        assert policy.timed == MEMORIES[name].clock
        assert policy.table.shape[0] == (case.problem.horizon if policy.timed else 1)
        again = MemoryPolicy.softmax(policy.logits(), case.problem, MEMORIES[name])
        np.testing.assert_allclose(again.probabilities, policy.probabilities, atol=1e-15)
        assert not policy.probabilities.flags.writeable


@looped(
    ("theta", "message"),
    [
        (np.zeros((2, 3)), "theta has shape \\(2, 3\\), expected \\(7, 3\\)"),
        (np.full((7, 3), np.nan), "expected a number or -inf"),
        (np.full((7, 3), -np.inf), "is -inf for every available action"),
        ([["a"] * 3] * 7, "theta is not an array of real numbers"),
    ],
)
def test_parameters_that_make_no_policy_are_refused(theta, message: str):
    with pytest.raises(veil.InputError, match=message):
        MemoryPolicy.softmax(theta, watched(2), StateMemory(1, clock=False))


@looped(
    ("memory", "table", "message"),
    [
        (StateMemory(1), [[0.5, 0.5]], "expected \\(time, state, action\\)"),
        (StateMemory(1, clock=False), [[[0.5, 0.5]]], "expected \\(state, action\\)"),
        (StateMemory(1, clock=False), [[0.5, 0.4]], "sums to 0.9"),
        ("timed", [[0.5, 0.5]], "memory is 'timed', expected one of veil.ObservationMemory"),
        (StateMemory, [[0.5, 0.5]], "expected one of veil.ObservationMemory"),
    ],
)
def test_a_table_that_is_no_policy_is_refused(memory, table, message: str):
    with pytest.raises(veil.InputError, match=message):
        MemoryPolicy(memory, table)


def test_a_policy_must_fit_the_problem():
    problem, memory = watched(2), StateMemory(1, clock=False)
    with pytest.raises(veil.InputError, match=r"shape \(1, 2, 3\), expected \(T, 7, 3\)[\s\S]*MemoryPolicy.row_names"):
        veil.opacity(problem, MemoryPolicy(memory, np.full((2, 3), 1 / 3)))
    with pytest.raises(veil.InputError, match=r"state 'shaft \(coming from hall\)' takes action 'up' with probability"):
        veil.opacity(problem, MemoryPolicy(memory, np.full((7, 3), 1 / 3)))
    with pytest.raises(veil.InputError, match="tables for 3 steps, expected one for each of the 2 decisions"):
        veil.opacity(problem, MemoryPolicy(StateMemory(1), np.full((3, 7, 3), 1 / 3)))
    entries = MemoryPolicy.uniform(problem, Controller(2)).probabilities.copy()
    entries[-1] = 1 / 6
    with pytest.raises(veil.InputError, match="takes action 'up, to node 0' with probability"):
        veil.opacity(problem, MemoryPolicy(Controller(2), entries))


# Lifting (what it plays like is tested with the engine)


@looped(
    ("smaller", "larger", "message"),
    [
        (ObservationMemory(2), ObservationMemory(1), "memory of the last 2 observations, which memory of the last obs"),
        (
            StateMemory(1),
            ObservationMemory(2),
            "memory of the last state, which memory of the last 2 observations",
        ),
        (ZoneMemory([[0]]), ZoneMemory([[1]]), "does not determine: use a larger memory"),
        (Controller(3), Controller(2), "a controller of 3 nodes, which a controller of 2 nodes"),
        (StateMemory(1), Controller(5, clock=True), "does not determine"),
        (
            StateMemory(1),
            StateMemory(2, clock=False),
            "it depends on the time, and .* does not hold it: use clock=True",
        ),
    ],
)
def test_a_memory_that_does_not_tell_enough_is_refused(smaller: Memory, larger: Memory, message: str):
    problem = watched(3)
    with pytest.raises(veil.InputError, match=message):
        MemoryPolicy.lift(problem, larger, MemoryPolicy.uniform(problem, smaller))


def test_a_lifted_controller_chooses_its_node_uniformly():
    problem = watched(2)
    lifted = MemoryPolicy.lift(problem, Controller(2), veil.MarkovPolicy.uniform(problem))
    np.testing.assert_allclose(lifted.probabilities, MemoryPolicy.uniform(problem, Controller(2)).probabilities)


# Files

SAVED: list[Memory] = [
    ObservationMemory(2), ObservationMemory(1, clock=False), StateMemory(3), ZoneMemory([["pit", "hall"], [1]]),
    ZoneMemory([[2, 0]], clock=False), Controller(2), Controller(3, clock=True),
]  # fmt: skip


@looped("memory", SAVED)
def test_a_saved_policy_comes_back_the_same(memory: Memory, tmp_path):
    problem = watched(2)
    policy = random_policy(problem, memory)
    policy.save(tmp_path / "policy")
    again = veil.load_policy(tmp_path / "policy")
    assert isinstance(again, MemoryPolicy)
    assert again.memory == policy.memory
    assert again.probabilities.tobytes() == policy.probabilities.tobytes()
    assert veil.opacity(problem, again, "exact") == veil.opacity(problem, policy, "exact")
    content = (tmp_path / "policy").read_bytes()
    again.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == content


@looped(
    "text",
    [
        "", "null", "[]", "{", '{"kind":"states"}', '{"kind":"dreams","k":1,"clock":true}',
        '{"kind":"states","k":0,"clock":true}', '{"kind":"states","k":1,"clock":true,"extra":1}',
        '{"kind":"zones","zones":[],"clock":true}', '{"kind":["states"],"k":1,"clock":true}', '{"k":1,"clock":true}',
    ],
)  # fmt: skip
def test_a_memory_that_cannot_be_read_is_refused(text: str, tmp_path):
    save_table(tmp_path / "policy", f"memory {text}", np.eye(2))
    with pytest.raises(veil.errors.PolicyFileError, match="policy whose memory cannot be read"):
        veil.load_policy(tmp_path / "policy")
