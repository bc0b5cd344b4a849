"""Secrets with several values: groups of states and states of an automaton, against exact arithmetic and as coarser secrets."""

import random
from dataclasses import replace

import numpy as np
import pytest

import veil
from tests.engine.chains import small_case
from tests.oracle import SecretSpec, evaluate
from tests.random_problems import Case, _automaton
from tests.seeds import looped
from veil.common.errors import InputError

COUNT = 30


def groups_of(rng: random.Random, states: int) -> tuple[tuple[int, ...], ...]:
    """Up to three groups that do not overlap; most leave some states out."""
    drawn = [rng.randrange(4) for _ in range(states)]
    found = [tuple(s for s in range(states) if drawn[s] == number) for number in range(3)]
    return tuple(members for members in found if members) or ((0,),)


def check(problem: veil.Problem, case: Case, secret: SecretSpec) -> None:
    answer = evaluate(replace(case.spec, secret=secret))
    found = veil.opacity(problem, case.policy, method="exact")
    assert found.bits == pytest.approx(answer.bits, abs=1e-11)
    assert found.prior_bits == pytest.approx(answer.prior_bits, abs=1e-11)
    assert len(problem.secret_values) == answer.num_values


@pytest.mark.parametrize("kind", ["last", "at"])
def test_groups_of_states_are_those_of_the_fractions(kind: str):
    for seed in range(COUNT):
        case, rng = small_case(f"groups {seed}", kind), random.Random(seed)
        groups = groups_of(rng, case.spec.num_states)
        named = {f"group {number}": members for number, members in enumerate(groups)}
        time = case.spec.secret.time
        secret = veil.LastState(groups=named) if kind == "last" else veil.StateAt(time, groups=named)
        check(case.problem.replace(secret=secret), case, replace(case.spec.secret, groups=groups))


def test_states_of_an_automaton_are_those_of_the_fractions():
    for seed in range(COUNT):
        case = small_case(f"automaton {seed}", "automaton")
        read = _automaton(case.spec)
        secret = veil.AutomatonState(read.transitions, read.initial, read.labels, agent_knows=read.agent_knows)
        problem = case.problem.replace(secret=secret)
        spec = replace(case.spec.secret, kind="automaton_state")
        reached = len(problem.secret_values)  # a state that nothing leads to is no state of the automaton
        if reached == len(spec.step):
            check(problem, case, spec)
        parts = veil.opacity(problem, case.policy, "exact").bits
        assert veil.opacity(case.problem, case.policy, "exact").bits <= parts + 1e-12  # accepting or not is coarser


def test_a_set_is_one_group():
    problem = veil.gallery.load("paper-last-state", horizon=4)
    states = [problem.model.states[int(s)] for s in np.flatnonzero(problem.secret_table.label[0, 0])]
    policy = veil.MarkovPolicy.uniform(problem)
    grouped = problem.replace(secret=veil.LastState(groups={"secret": states}))
    assert grouped.secret_values == ("secret", "elsewhere")
    assert veil.opacity(grouped, policy).bits == pytest.approx(veil.opacity(problem, policy).bits, abs=1e-12)
    apart = problem.replace(secret=veil.LastState(groups={name: [name] for name in states}))
    assert len(apart.secret_values) == len(states) + 1
    assert veil.opacity(apart, policy).bits >= veil.opacity(problem, policy).bits - 1e-12


def test_groups_are_solved_with_a_certificate():
    base = veil.gallery.load("two-rooms", min_return=None).replace(horizon=2)
    problem = base.replace(secret=veil.StateAt(1, groups={"a": ["office"], "b": ["vault"]}))
    assert problem.secret_values == ("a", "b")
    found = veil.solve(problem, starts=1, iterations=5)
    assert found.certificate is not None
    veil.verify(found.certificate, problem, found.policy)
    assert "group" in problem.secret.describe(problem)


@looped(
    ("secret", "words"),
    [
        (veil.LastState(), "neither states nor groups"),
        (veil.LastState([0], {"a": [1]}), "both given"),
        (veil.LastState(groups={"a": [0], "b": [0]}), "in group 'a' too"),
        (veil.LastState(groups={"a": ["attic"]}), "unknown state 'attic'"),
        (veil.LastState(groups=[0]), "groups: found a list"),  # pyright: ignore[reportArgumentType]
        (veil.LastState(groups={"elsewhere": [0]}), "rename the group"),
        (veil.StateAt(1), "neither states nor groups"),
        (veil.AutomatonState({("q", "x"): "q"}, "q", {0: "y"}), "reads label 'x'"),
    ],
)
def test_wrong_groups_are_refused(secret: veil.LastState, words: str):
    with pytest.raises(InputError, match=words):
        veil.gallery.load("two-rooms").replace(secret=secret)
