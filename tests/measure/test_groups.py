"""Secrets with several values: groups of states as coarser secrets, and wrong groups."""

import numpy as np
import pytest

import veil
from tests.seeds import looped
from veil.common.errors import InputError


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
