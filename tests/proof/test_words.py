"""What a certificate says in words: each number on the side on which it holds, and what is not proven said to be so."""

from dataclasses import replace
from typing import Any

import pytest

from tests.proof.test_witnesses import case, pairs, plain
from veil.proof.claims import Sampled
from veil.proof.words import claim_words


@pytest.mark.parametrize(
    ("relation", "bound", "met", "sequences", "words"),
    [
        ("≥", None, True, 0, "return is at least 1.25."),
        ("≥", 1.0, True, 0, "return is at least 1.25."),
        ("≥", 1.4, True, 9, "return is at least 1.4 with confidence 1 − 1e-6."),
        ("≥", 2.0, False, 0, "return is at most 1.75, which misses the threshold."),
        ("≥", 1.5, False, 0, "keeps its threshold is not proven: the return lies within 0.25 of it."),
        ("≥", 1.625, False, 9, "is not proven: the return lies within 0.38 of it with confidence 1 − 1e-6."),
        ("≥", 1.75, False, 0, "is not proven: the return lies within 0.5 of it."),
        ("≤", None, True, 0, "return is at most 1.75."),
        ("≤", 2.0, True, 9, "return is at most 1.75 with confidence 1 − 1e-6."),
        ("≤", 1.6, True, 0, "return is at most 1.6."),
        ("≤", 1.0, False, 9, "return is at least 1.25 with confidence 1 − 1e-6, which misses the threshold."),
        ("≤", 1.5, False, 0, "is not proven: the return lies within 0.25 of it."),
        ("≤", 1.25, False, 0, "is not proven: the return lies within 0.5 of it."),
    ],
)
def test_what_is_said_of_a_quantity(relation: str, bound: float | None, met: bool, sequences: int, words: str):
    """Its value is 1.5 ± 0.25."""
    claim, first = case(plain)[2], case(plain)[2].quantities[0]
    told = replace(first, relation=relation, bound=bound, value=1.5, error=0.25, met=met, sequences=sequences)
    said = claim_words(replace(claim, quantities=(first, told)))
    assert said.endswith(words)
    assert (f"return {relation} {bound:g}" in said) if bound is not None else said.count(relation) == (relation == "≥")


@pytest.mark.parametrize(("relation", "words"), [("≥", "at least 0.333333333."), ("≤", "at most 0.333333334.")])
def test_values_are_rounded_to_the_side_on_which_they_hold(relation: str, words: str):
    claim, first = case(plain)[2], case(plain)[2].quantities[0]
    told = replace(first, relation=relation, bound=None, value=1 / 3, error=0.0)
    assert claim_words(replace(claim, quantities=(told,))).endswith(words)


@pytest.mark.parametrize(
    ("least", "most", "drawn", "words"),
    [
        (0.25, None, None, "H(q) is between 0.5000 and 0.7500 bits."),
        (0.6, None, None, "Not proven: H(q) ≥ 0.6; it is between 0.5000 and 0.7500 bits."),
        (None, 0.8, None, "H(q) is between 0.5000 and 0.7500 bits, a bound that the upper bound over all policies leaves out."),
        (0.6, 0.7, None, "Not proven: H(q) ≥ 0.6 and H(q) ≤ 0.7; it is between 0.5000 and 0.7500 bits, a bound that the upper"
         " bound over all policies leaves out."),
        (0.6, None, (0.65, 0.7), "H(q) is between 0.6500 and 0.7000 bits with confidence 1 − 1e-6."),
        (0.25, None, (0.65, 0.7), "H(q) is between 0.5000 and 0.7500 bits."),
        (0.65, None, (0.6, 0.7), "Not proven: H(q) ≥ 0.65; it is between 0.5000 and 0.7500 bits."),
    ],
)  # fmt: skip
def test_what_is_said_of_a_channel_with_bounds(least: Any, most: Any, drawn: tuple[float, float] | None, words: str):
    claim = case(pairs)[2]
    sampled = None if drawn is None else Sampled(*drawn, 100)
    told = replace(claim.channels[2], min=least, max=most, lower=0.5, upper=0.75, sampled=sampled)
    said = claim_words(replace(claim, channels=(*claim.channels[:2], told)))
    assert said.endswith(f". {words}")
    assert "in each of own and p (proven); proven upper bound on the least of them over all policies" in said
    assert (f" with H(q) ≥ {least!r}:" in said) == (least is not None)
