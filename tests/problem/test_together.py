"""Observers who share what they see: the product of their channels, the law of collusion, sensors, files, refusals."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

import veil
from tests.random_problems import distributions
from tests.seeds import in_blocks
from veil.formats.scenario.load import read_scenario


def random_case(seed: int, sees_actions: bool = False, on_actions: bool = False) -> tuple[veil.Problem, veil.Observer]:
    """A problem whose observer is the first of two, and the second."""
    rng = np.random.default_rng(seed)
    model = veil.Model(distributions(rng, 3, 2, 3), np.zeros((3, 2)), distributions(rng, 3))
    one = veil.Observer(distributions(rng, *((2,) if on_actions else ()), 3, 2), ["a", "b"], sees_actions)
    two = veil.Observer(
        distributions(rng, *((2,) if on_actions and seed % 2 else ()), 3, 3), ["c", "d", "e"],
        sees_initial=not on_actions,
    )  # fmt: skip
    return veil.Problem(model, one, veil.LastState([0]), 3), two


@in_blocks(6, 6, 6)
def test_the_product_of_the_channels(seed: int) -> None:
    """Each pair has the product of both probabilities, on states and on actions."""
    problem, two = random_case(seed, on_actions=seed >= 3)
    both, one = veil.Together(problem.observer, two), problem.observer
    wide = [np.broadcast_to(part.emissions, (2, 3, part.num_observations)) for part in (one, two)]
    expected = np.einsum("aso,asp->asop", *wide).reshape(2, 3, -1)
    np.testing.assert_allclose(np.broadcast_to(both.emissions, (2, 3, 6)), expected, atol=1e-15)
    assert both.observations.all()[:2] == ("a & c", "a & d")


@pytest.mark.parametrize("sees_actions", [False, True])
def test_collusion_never_raises_what_is_hidden(sees_actions: bool) -> None:
    """For every policy, together they know at least as much as either; one who sees nothing adds nothing."""
    for seed in range(10):
        problem, two = random_case(seed, sees_actions)
        policy = veil.MarkovPolicy(distributions(np.random.default_rng([seed, 1]), 3, 2))

        def hidden(observer: veil.Observer, problem=problem, policy=policy) -> float:
            return veil.opacity(problem.replace(observer=observer), policy, "exact").bits

        alone = [hidden(problem.observer), hidden(two)]
        assert hidden(veil.Together(problem.observer, two)) <= min(alone) + 1e-12
        assert hidden(veil.Together(problem.observer, veil.Observer(np.ones((3, 1))))) == pytest.approx(
            alone[0], abs=1e-12
        )
        three = veil.Together(problem.observer, two, two.replace(observation_names=["x", "y", "z"]))
        assert hidden(three) <= hidden(veil.Together(problem.observer, two)) + 1e-12


def test_sensors_and_silence() -> None:
    """Sensors of both can be muted in the product; muting all of one leaves the other alone."""
    problem = veil.gallery.load("hospital-robot", horizon=3)
    both = problem.observer
    assert set(both.sensors) == {"west", "east", "south"}
    assert both.silent is not None
    policy = veil.MarkovPolicy.uniform(problem)
    text = veil.gallery.scenario_text("hospital-robot").replace("horizon = 6", "horizon = 3")
    alone = read_scenario(text[: text.index("[[observers]]")]).problem
    muted = problem.replace(observer=both.without_sensor("south"))
    assert veil.opacity(muted, policy).bits == pytest.approx(veil.opacity(alone, policy).bits, abs=1e-12)
    assert veil.opacity(problem, policy).bits < veil.opacity(alone, policy).bits
    for name, other in itertools.combinations(both.sensors, 2):
        assert both.without_sensor(name).without_sensor(other).num_observations == both.num_observations


def test_a_thousand_states() -> None:
    """Sparse emissions stay sparse: pairs that no state emits are left out."""
    one = veil.Observer(sp.csr_array(np.eye(1000)))
    both = veil.Together(one, one.replace(observation_names=[f"p{number}" for number in range(1000)]))
    assert both.shape == (1000, 1000)
    assert both.matrices[0].nnz == 1000


def test_scenario_files() -> None:
    """`[[observers]]`: defects name their entry."""
    text = veil.gallery.scenario_text("hospital-robot")
    with pytest.raises(veil.VeilError, match="nothing says what it sees"):
        read_scenario(text + "\n[[observers]]\nsees_actions = true\n")
    with pytest.raises(veil.VeilError, match="sensor 'south'"):
        read_scenario(text + '\n[[observers]]\nsensors.south = { states = ["r0c0"], detection = 0.5 }\n')


def test_what_is_refused() -> None:
    """Every reason why observers cannot be joined."""
    one = veil.Observer(np.eye(3))
    for others, words in [
        ((), "no observers"),
        ((one, veil.Observer(np.eye(2))), "3 and 2 states"),
        ((one, "x"), "expected a veil.Observer"),
    ]:
        with pytest.raises(veil.InputError, match=words):
            veil.Together(*others)  # pyright: ignore[reportArgumentType]
    wide = veil.Observer(np.full((1, 2000), 1 / 2000))
    with pytest.raises(veil.TooLargeError, match="more than"):
        veil.Together(wide, wide)
