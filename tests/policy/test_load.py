"""A saved policy opens as the class it was."""

import numpy as np

import veil
from tests.seeds import looped


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
