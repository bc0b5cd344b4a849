"""The example of a network that is trained through `veil.jax`, on a small floor."""

import importlib.util
from pathlib import Path

import veil

EXAMPLE = Path(__file__).parents[2] / "examples" / "neural_policy.py"


def test_a_network_earns_what_is_asked_and_hides_bits():
    spec = importlib.util.spec_from_file_location("neural_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    problem = example.floor(4)
    assert example.features(problem).shape == (problem.num_states, 16)
    least = veil.max_return(problem) / 2
    logits, history = example.trained(problem, least, steps=80, sequences=32, rate=0.03)
    policy = veil.MarkovPolicy.softmax(logits, problem)
    assert veil.expected_return(problem, policy) >= least
    assert history[0][1] < 0.2 * least  # the first network is not trained
    free, _ = example.trained(problem, 1e-9, steps=20, sequences=32)
    hidden, most = (
        veil.opacity(problem, one, "sampled", sequences=500, seed=1).bits
        for one in (policy, veil.MarkovPolicy.softmax(free, problem))
    )
    assert 0.2 < hidden < most
