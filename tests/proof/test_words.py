"""What a certificate says in words: each number on the side on which it holds, and what is not proven said to be so."""

from dataclasses import replace
from typing import Any

import pytest

from tests.proof.test_witnesses import case, pairs, plain
from veil.proof.claims import Sampled
from veil.proof.compiled import record_of
from veil.proof.words import bound_words, claim_words


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


def test_whose_sight_a_bound_is_about():
    record, words = record_of(case(pairs)[0]), "all that each observer sees, independently given the states"
    assert words in bound_words(record, "opaque", several=True)
    assert "all that the observer sees" in bound_words(record, "opaque")


EXACT, PART = {"lower": 0.25}, {"lower": 0.25, "window": (3, 4)}


@pytest.mark.parametrize(
    ("channel", "changes", "words"),
    [
        (EXACT, {}, "Gap: 0.5000 bits; 0.2500 due to the policy class (the solver knows a history policy that hides 0.5000"
         " bits; a better policy of this class may gain a part), 0.2500 due to the solver"),
        (EXACT, {"best_known": 0.125}, "Gap: 0.5000 bits; 0.0000 due to the policy class"),
        (PART, {}, "0.2500 due to the policy class or to the lower bound, which is not exact (the"),
        ({"lower": 0.0, "window": (3, 4)}, {}, "not known, since nothing is proven of what the policy hides."),
        ({"lower": 0.0}, {}, "Gap: 0.7500 bits; 0.5000 due to the policy class"),
        (EXACT, {"best_known": None}, "Gap: 0.5000 bits; its parts are not known, since no game was solved."),
        (EXACT, {"policy_class": "a history policy; its agent sees all"}, "Gap: 0.5000 bits, all of it due to the solver"),
        (PART | {"sampled": Sampled(0.5, 0.75, 9)}, {}, "Gap: 0.2500 bits with confidence 1 − 1e-6; 0.5000 bits proven."),
        (EXACT | {"sampled": Sampled(0.5, 0.75, 9)}, {}, "Gap: 0.5000 bits; 0.2500 due"),
    ],
)  # fmt: skip
def test_the_parts_of_the_gap(channel: dict[str, Any], changes: dict[str, Any], words: str):
    """Between 1/4 and 3/4, where a policy that hides half a bit is known; a late agent hides at most 5/8."""
    claim = case(plain)[2]
    every, late = claim.bounds
    own, bounds = replace(claim.channels[0], **channel), (replace(every, upper=0.75), replace(late, upper=0.625))
    told = replace(claim, channels=(own,), **{"bounds": bounds, "best_known": 0.5} | changes)
    assert words in told.summary()
    assert ("a policy can gain at most 0.3750 bits" in told.summary()) == (
        "a better policy" in told.summary() and own.lower > 0
    )
    assert told.class_gap is None or told.class_gap + (told.solver_gap or 0.0) == pytest.approx(told.gap)
    alone = replace(told, bounds=bounds[:1])
    assert "a policy can gain at most" not in alone.summary()
    missed = replace(told, quantities=tuple(replace(one, met=False) for one in told.quantities))
    assert "Gap" not in missed.summary()
    assert repr(missed) == repr(told).removesuffix("bits)") + "bits, not feasible)"
