"""Rows that are no distributions: how many there are, and a remedy that works."""

import numpy as np
import pytest

import veil


def softmax(shape: tuple[int, ...]) -> np.ndarray:
    """Rows that were normalised in 32 bits."""
    logits = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    weights = np.exp(logits)
    return weights / weights.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("what", ["observer", "model"])
def test_rows_of_single_precision(what: str):
    """The remedy in the message, followed to the letter, makes the rows accepted."""
    rows = softmax((200, 1, 200) if what == "model" else (200, 7))

    def make(given: np.ndarray) -> None:
        if what == "model":
            veil.Model(given, np.zeros((200, 1)), 0)
        else:
            model = veil.Model(np.eye(200)[:, None], np.zeros((200, 1)), 0)
            veil.Problem(model, veil.Observer(given), veil.LastState({1}), 1)

    with pytest.raises(veil.InputError, match="Convert to float64 first, then divide by the sum") as caught:
        make(rows)
    wrong = np.count_nonzero(np.abs(rows.astype(float).sum(axis=-1) - 1) > 1e-9)
    assert wrong > 21
    assert f"{wrong - 20:,} more" in str(caught.value)
    assert "more than 20 defects" in str(caught.value)
    converted = rows.astype(np.float64)
    make(converted / converted.sum(axis=-1, keepdims=True))


def test_rows_that_are_far_from_one():
    with pytest.raises(veil.InputError, match=r"sums to 1\.2, expected 1: divide it by its sum"):
        veil.MarkovPolicy([[0.6, 0.6]])


def test_a_masked_array_is_refused():
    rows = np.ma.masked_array([[0.5, 0.5], [1.0, 0.0]], mask=[[False, True], [False, False]])
    with pytest.raises(veil.InputError, match="masked"):
        veil.MarkovPolicy(rows)
    with pytest.raises(veil.InputError, match="masked"):
        veil.Observer(rows)
    unmasked = np.ma.masked_array([[0.5, 0.5], [1.0, 0.0]], mask=False)
    np.testing.assert_array_equal(veil.MarkovPolicy(unmasked).probabilities, unmasked.data)


def test_a_tensor_with_a_gradient_is_refused_in_words():
    """Such a tensor raises a RuntimeError when it is read as an array."""

    class Tensor:
        def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")

    with pytest.raises(veil.InputError, match="detach"):
        veil.MarkovPolicy(Tensor())  # type: ignore[arg-type]
