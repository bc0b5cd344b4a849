"""The example of feature policies on a small floor and a larger one."""

import importlib.util
from pathlib import Path

import veil

EXAMPLE = Path(__file__).parents[2] / "examples" / "features.py"


def test_a_policy_of_the_small_floor_plays_on_the_larger_one():
    spec = importlib.util.spec_from_file_location("features_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    small, large = example.floor(2), example.floor(3)
    found = veil.solve(small, features="coordinates", iterations=1, starts=1, certificate=False, progress=False)
    assert isinstance(found.policy, veil.FeaturePolicy)
    hidden = veil.opacity(large, found.policy, "sampled", seed=1, sequences=100)
    assert 0 <= hidden.bits <= hidden.prior_bits + 1e-9
