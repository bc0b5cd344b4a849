"""A saved policy opens as the class it was."""

import numpy as np
import pytest

import veil
from tests.seeds import looped
from veil.policy.files import save_table


@looped(
    ("policy", "kind"),
    [
        (veil.MarkovPolicy([[0.5, 0.5]]), veil.MarkovPolicy),
        (veil.TimedPolicy([[[0.5, 0.5]]]), veil.TimedPolicy),
        (veil.TimedPolicy(np.zeros((0, 2, 2))), veil.TimedPolicy),
    ],
)
def test_the_class_comes_back(policy, kind, tmp_path):
    policy.save(tmp_path / "policy")
    again = veil.load_policy(tmp_path / "policy")
    assert type(again) is kind
    assert isinstance(again, veil.MarkovPolicy | veil.TimedPolicy | veil.MemoryPolicy)
    assert again.probabilities.shape == policy.probabilities.shape


def test_a_kind_from_the_future_is_refused(tmp_path):
    save_table(tmp_path / "policy", "quantum", np.eye(2))
    with pytest.raises(
        veil.errors.PolicyFileError,
        match="unknown kind 'quantum', expected one of \\['features', 'history', 'markov', 'memory', 'timed'\\]",
    ):
        veil.load_policy(tmp_path / "policy")


@looped(
    ("kind", "table", "expected"),
    [
        ("markov", [[0.5, 0.4]], "row \\(state 0\\) sums to 0.9"),
        ("markov", [[[0.5, 0.5]]], "expected \\(state, action\\)"),
        ("timed", [[0.5, 0.5]], "expected \\(time, state, action\\)"),
        ("markov", [[np.nan, 1.0]], "entry \\(state 0, action 0\\) is nan"),
    ],
)
def test_numbers_that_are_no_policy_are_refused(kind: str, table: list, expected: str, tmp_path):
    save_table(tmp_path / "policy", kind, np.array(table))
    with pytest.raises(veil.InputError, match=expected):
        veil.load_policy(tmp_path / "policy")
