"""Pictures of automata: conditions say exactly which letters an arrow takes, and the SVG is well formed."""

import random
from xml.etree import ElementTree

import pytest

import veil
from tests.problem.test_formulas import random_text
from tests.seeds import in_blocks
from veil.problem.formulas.drawing import conditions, to_svg


def true_of(condition: str, letter: frozenset[str]) -> bool:
    """A condition evaluated on a letter, from its words."""
    return any(
        all(part == "true" or (part.lstrip("!") in letter) != part.startswith("!") for part in term.split(" & "))
        for term in condition.split(" | ")
    )


@in_blocks(40, 40, 40)
def test_conditions_are_those_of_the_arrows(seed: int):
    rng = random.Random(seed)
    automaton = veil.Formula(random_text(rng, 3, ("a", "b", "c"))).automaton()
    arrows = conditions(automaton)
    for here, row in enumerate(automaton.step.tolist()):
        for letter, there in zip(automaton.letters, row, strict=True):
            taken = [end for (begin, end), words in arrows.items() if begin == here and true_of(words, letter)]
            assert "…" in "".join(arrows.values()) or taken == [there]
    if len(automaton.accepting) <= 60:
        assert ElementTree.fromstring(to_svg(automaton)).tag.endswith("svg")


def test_names_are_escaped():
    picture = veil.Formula('F "<script>" & G !"a&b"').svg()
    assert "<script>" not in picture
    ElementTree.fromstring(picture)


def test_too_many_states_are_refused():
    many = veil.Formula(" & ".join(f"F p{number}" for number in range(6)))
    with pytest.raises(veil.TooLargeError, match="at most 60 states, the automaton has 64"):
        many.svg()


def test_a_state_that_accepts_nothing_more_is_left_out():
    picture = veil.Formula("G a").svg()
    assert "rejected" in picture
    assert picture.count(">q") == 2  # before anything is read, and while it holds
