"""The hidden chain: products by hand, what can be reached, and actions that are seen."""

import numpy as np
import pytest
import scipy.sparse as sp

import veil
from veil.engine.compile import build
from veil.engine.hidden import Emitter, Hidden
from veil.engine.kernel import DenseKernel


def plain_model(**options) -> veil.Model:
    """`cold` and `hot`, two actions; numbers that cannot be mixed up."""
    transitions = np.array([[[0.9, 0.1], [0.4, 0.6]], [[0.3, 0.7], [0.2, 0.8]]])
    return veil.Model(
        transitions, [[1, 2], [3, 4]], [0.75, 0.25], state_names=["cold", "hot"], action_names=["wait", "heat"],
        **options,
    )  # fmt: skip


EMISSIONS = np.array([[0.5, 0.25, 0.25], [0.0, 0.125, 0.875]])


def dense(hidden: Hidden) -> np.ndarray:
    assert isinstance(hidden.kernel, DenseKernel)
    return hidden.kernel.array


# With an automaton, by hand


def parity_problem(agent_knows: bool) -> veil.Problem:
    """Was `hot` entered an even or an odd number of times, the start counted?"""
    secret = veil.Automaton(
        transitions={("even", "h"): "odd", ("odd", "h"): "even", ("even", "c"): "even", ("odd", "c"): "odd"},
        initial="even",
        accepting={"odd"},
        labels={"hot": "h", "cold": "c"},
        agent_knows=agent_knows,
    )
    return veil.Problem(plain_model(), veil.Observer(EMISSIONS), secret, horizon=3)


def test_product_with_an_automaton_by_hand():
    """Hidden states in order: (even, cold), (even, hot), (odd, cold), (odd, hot)."""
    hidden = build(parity_problem(agent_knows=True))
    np.testing.assert_array_equal(hidden.cell, [0, 1, 2, 3])
    np.testing.assert_array_equal(hidden.state, [0, 1, 0, 1])
    np.testing.assert_array_equal(hidden.start, [0.75, 0, 0, 0.25])  # the automaton has read the start
    np.testing.assert_array_equal(hidden.label, [[1, 0], [1, 0], [0, 1], [0, 1]])
    wait = [[0.9, 0, 0, 0.1], [0.3, 0, 0, 0.7], [0, 0.1, 0.9, 0], [0, 0.7, 0.3, 0]]
    heat = [[0.4, 0, 0, 0.6], [0.2, 0, 0, 0.8], [0, 0.6, 0.4, 0], [0, 0.8, 0.2, 0]]
    np.testing.assert_array_equal(dense(hidden), [wait, heat])
    np.testing.assert_array_equal(hidden.paid[0].reward, [[1, 2], [3, 4], [1, 2], [3, 4]])
    np.testing.assert_array_equal(hidden.root, hidden.start[:, None] * EMISSIONS[[0, 1, 0, 1]])
    np.testing.assert_array_equal(hidden.emitters[0].emission, EMISSIONS[[0, 1, 0, 1]])
    assert (hidden.split_time, hidden.num_cells) == (3, 4)


def seen_hot(model: veil.Model) -> veil.Problem:
    secret = veil.Automaton({("no", "h"): "yes"}, "no", {"yes"}, {"hot": "h"}, "c", otherwise="stay", agent_knows=True)
    return veil.Problem(model, veil.Observer(EMISSIONS), secret, horizon=3)


def test_what_cannot_be_reached_is_left_out():
    """Who is in `hot` has seen it: (no, hot) does not occur."""
    hidden = build(seen_hot(plain_model()))
    np.testing.assert_array_equal(hidden.cell, [0, 2, 3])
    np.testing.assert_array_equal(hidden.state, [0, 0, 1])
    np.testing.assert_array_equal(hidden.start, [0.75, 0, 0.25])
    np.testing.assert_array_equal(hidden.label, [[1, 0], [0, 1], [0, 1]])
    np.testing.assert_array_equal(dense(hidden)[0], [[0.9, 0, 0.1], [0, 0.9, 0.1], [0, 0.3, 0.7]])
    assert hidden.num_cells == 4  # a policy still has a row for what cannot occur


# With several models, by hand


@pytest.mark.parametrize("agent_knows", [False, True])
def test_product_with_the_index_of_the_model_by_hand(agent_knows: bool):
    other = veil.Model(
        np.array([[[0, 1], [1, 0]], [[1, 0], [0, 1]]]), [[-1, -2], [-3, -4]], "hot", terminal_rewards=[7, 8],
        state_names=["cold", "hot"], action_names=["wait", "heat"],
    )  # fmt: skip
    secret = veil.WhichModel([0.25, 0.75], agent_knows=agent_knows)
    hidden = build(veil.Problem([plain_model(), other], veil.Observer(EMISSIONS), secret, horizon=3))
    np.testing.assert_array_equal(hidden.model_index, [0, 0, 1, 1])
    np.testing.assert_array_equal(hidden.state, [0, 1, 0, 1])
    np.testing.assert_array_equal(hidden.cell, [0, 1, 2, 3] if agent_knows else [0, 1, 0, 1])
    np.testing.assert_array_equal(hidden.start, [0.1875, 0.0625, 0, 0.75])
    np.testing.assert_array_equal(hidden.label, [[1, 0], [1, 0], [0, 1], [0, 1]])
    wait = [[0.9, 0.1, 0, 0], [0.3, 0.7, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]
    heat = [[0.4, 0.6, 0, 0], [0.2, 0.8, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    np.testing.assert_array_equal(dense(hidden), [wait, heat])
    np.testing.assert_array_equal(hidden.paid[0].reward, [[1, 2], [3, 4], [-1, -2], [-3, -4]])
    np.testing.assert_array_equal(hidden.paid[0].terminal, [0, 0, 7, 8])
    assert hidden.split_time == 0


# The paper's augmentation


def test_more_than_two_gibibytes_are_not_made_dense():
    table = sp.csr_array((2**14, 2**14 + 1))
    with pytest.raises(veil.TooLargeError, match=r"16,384 hidden states with 16,385 emissions need 2\.0 GiB"):
        _ = Emitter(np.ones(1, dtype=bool), table).emission
