"""Formulas: text, meaning, automata; and the secrets made of them."""

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veil
from tests.seeds import looped
from veil.problem.formulas.automaton import FormulaAutomaton
from veil.problem.formulas.formula import Formula

UNARY, BINARY, PAST = ("!", "X", "WX", "F", "G"), ("&", "|", "->", "<->", "U", "R", "W"), ("Y", "O", "H")


def random_text(rng: random.Random, depth: int, names: tuple[str, ...]) -> str:
    if depth == 0 or rng.random() < 0.15:
        return rng.choice((*names, *names, "true", "last"))
    operator = rng.choice((*UNARY, *BINARY, *PAST, "S"))
    first = random_text(rng, depth - 1, names)
    if operator in UNARY + PAST:
        return f"{operator} ({first})"
    return f"(({first}) {operator} ({random_text(rng, depth - 1, names)}))"


def alphabet(names: tuple[str, ...]) -> list[frozenset[str]]:
    return [frozenset(some) for size in range(len(names) + 1) for some in itertools.combinations(names, size)]


def words(letters: list[frozenset[str]], most: int) -> Iterator[tuple[frozenset[str], ...]]:
    for size in range(1, most + 1):
        yield from itertools.product(letters, repeat=size)


def check_formula(seed: int) -> None:
    """The automaton accepts exactly the words on which the formula holds, and no smaller one does."""
    rng = random.Random(seed)
    names = ("a", "b", "c")[: 3 if seed % 20 == 0 else 1 + seed % 2]
    formula = Formula(random_text(rng, rng.randint(1, 4), names))
    letters = alphabet(names)
    found = formula.automaton(letters)
    for word in words(letters, {1: 6, 2: 4, 3: 3}[len(names)]):
        assert found.accepts(word) == formula.holds(word), (formula.text, word)
    assert len(found.accepting) == count_classes(found)


def count_classes(automaton: FormulaAutomaton) -> int:
    """How many states accept different sets of words: told apart pair by pair, by the table-filling algorithm."""
    size = len(automaton.accepting)
    apart = automaton.accepting[:, None] != automaton.accepting[None, :]
    while True:
        more = apart.copy()
        for column in automaton.step.T:
            more |= apart[np.ix_(column, column)]
        if (more == apart).all():
            break
        apart = more
    reached, fresh = {0}, [0]
    while fresh:
        fresh = [int(q) for state in fresh for q in automaton.step[state] if int(q) not in reached]
        reached |= set(fresh)
    assert len(reached) == size
    return len({tuple(row) for row in (~apart).tolist()})


@pytest.mark.parametrize(
    "start", [*range(0, 200, 50), *(pytest.param(start, marks=pytest.mark.slow) for start in range(200, 500, 50))]
)
def test_automata_accept_what_the_formulas_mean(start: int):
    for seed in range(start, start + 50):
        check_formula(seed)


@pytest.mark.slow
def test_automata_of_five_thousand_formulas():
    for seed in range(1000, 6000):
        check_formula(seed)


@looped(
    ("text", "run", "holds"),
    [
        ("F (badge & X F vault) & G !alarm", [[], ["badge"], [], ["vault"]], True),
        ("F (badge & X F vault) & G !alarm", [["vault"], ["badge"]], False),
        ("F (badge & X F vault) & G !alarm", [["badge"], ["vault", "alarm"]], False),
        ("G (open -> O key)", [["key"], [], ["open"]], True),
        ("G (open -> O key)", [["open"], ["key"]], False),
        ("H F a", [["a"]], True),  # read at time 0
        ("F (last & H a)", [["a"], ["a"]], True),
        ("F (last & H F b)", [[], ["b"], []], False),
        ("F (last & Y F last)", [[], []], True),
        ("a W b", [["a"], ["a"]], True),
        ("a U b", [["a"], ["a"]], False),
        ("X true", [[]], False),
        ("WX false", [[]], True),
    ],
)
def test_what_formulas_mean(text: str, run: list[list[str]], holds: bool):
    formula = Formula(text)
    assert formula.holds(run) is holds
    assert formula.automaton().accepts([frozenset(letter) for letter in run]) is holds


@looped(
    ("short", "long"),
    [
        ("a U b U c", "a U (b U c)"),
        ("a & b | c", "(a & b) | c"),
        ("a -> b -> c", "a -> (b -> c)"),
        ("!a U b", "(!a) U b"),
        ("F a & G b", "(F a) & (G b)"),
        ("not a and b or c", "((! a) & b) | c"),
        ("x>3 & door=open", '"x>3" & "door=open"'),
        ("x > 3", '"x>3"'),
    ],
)
def test_what_binds_more_strongly(short: str, long: str):
    assert Formula(short).root == Formula(long).root


@looped("text", ["a U b", "!(a & F b) | G (c -> O d)", 'F "r0 c1" & x>=2', "last R true"])
def test_a_tree_is_written_as_it_is_read(text: str):
    root = Formula(text).root
    assert Formula(str(root)).root == root


BAD = {
    "": 1, "F (": 4, "a &": 4, "a b": 3, "x>3 &": 6, '"': 1, "F G": 4, "(a": 1, "a)": 2, "U a": 1, "a U": 4, "@": 1,
    "a <- b": 3, "F ()": 4, "a U U b": 5, '"" & a': 1, "& a": 1, "a & & b": 5, "a | ": 5, "-> a": 1, "a -> ": 6, "!": 2,
    "F": 2, "X X": 4, "((a)": 1, "(a))": 4, "a U (b": 5, "a ! b": 3, "a F b": 3, "a true": 3, "true false": 6, "a S": 4,
    "S a": 1, "a W": 4, "a R R": 5, "'a": 1, 'F "b': 3, "a && ": 6, "a || || b": 6, "a <->": 6, "<-> a": 1, "#": 1,
    "a # b": 3, "a, b": 2, "[a]": 1, "{a}": 1, "a; b": 2, "F a G": 5, "G(a -> )": 8, "a = ": 3, "= 3": 1, "3": 1, "3 > x": 1,
    "a U b)": 6, "(": 2, ")": 1, "()": 2, "Y": 2, "H O": 4, "WX": 3, "a $ b": 3, "last last": 6, "a∧b": 2,
}  # fmt: skip


@looped(("text", "column"), BAD.items())
def test_bad_formulas_name_the_column(text: str, column: int):
    with pytest.raises(veil.InputError, match=rf"column {column}: .*(expected|not closed)"):
        Formula(text)


def test_formulas_of_unreasonable_size_are_refused():
    with pytest.raises(veil.InputError, match="inside each other"):
        Formula("X " * 1000 + "a")
    with pytest.raises(veil.InputError, match="characters"):
        Formula("a & " * 5000 + "a")
    with pytest.raises(veil.InputError, match="found a int"):
        Formula(3)  # type: ignore[arg-type]
    with pytest.raises(veil.errors.TooLargeError, match="more than 100 states"):
        Formula("G (a -> " + "X " * 12 + "b)").automaton(most_states=100)
    with pytest.raises(veil.InputError, match="14 propositions"):
        Formula(" & ".join(f"F p{number}" for number in range(14))).automaton()


@looped(
    "text",
    [
        "F (a & F (b & F (c & F (a & F (b & F (c & F (a & F b)))))))",
        "a U (b U (c U (a U (b U (c U (a U (b U c)))))))",
        "G F G F G F G F a",
        "G (a -> F (b & G (c -> F (a & G (b -> F c)))))",
    ],
)
def test_deep_nests_stay_small(text: str):
    assert len(Formula(text).automaton().accepting) <= 10


# Secrets


def test_zones():
    base = veil.gallery.load("two-rooms", min_return=None)
    states = base.model.states.all()
    zones = {"near": [states[0]], "far": [states[-1]]}
    policy = veil.MarkovPolicy.uniform(base)
    visited = base.replace(secret=veil.Visited(zones))
    by_formulas = base.replace(secret=veil.Holds(["F near", "F far"], zones))
    assert veil.opacity(visited, policy).bits == pytest.approx(veil.opacity(by_formulas, policy).bits, abs=1e-12)
    assert set(visited.secret_values) == {"none", "near", "far", "near and far"}
    first = base.replace(secret=veil.FirstReached(zones))
    either = ["(!far) U near", "(!near) U (far & !near)"]
    as_formulas = base.replace(secret=veil.Holds(either, zones))
    assert veil.opacity(first, policy).bits == pytest.approx(veil.opacity(as_formulas, policy).bits, abs=1e-12)


def test_formulas_are_planned_for_and_certified():
    base = veil.gallery.load("two-rooms", min_return=None)
    name = base.model.states[base.num_states - 1]
    problem = base.replace(secret=veil.Holds(f'F "{name}"', agent_knows=True))
    assert problem.secret_values == ("does not hold", "holds")
    found = veil.solve(problem, starts=2, iterations=20, progress=False, time_limit=20)
    assert found.certificate is not None
    veil.verify(found.certificate, problem, found.policy)


def test_a_scenario_with_a_formula(tmp_path: Path):
    text = (Path(veil.__file__).parent / "formats/gallery/two-rooms.toml").read_text("utf-8")
    begin = text.index("[secret]")
    end = text.find("\n[", begin + 1)
    secret = '[secret]\nkind = "formula"\nformulas = ["F (vault & O desk)"]\nlabels.desk = ["office"]\n'
    path = tmp_path / "scenario.toml"
    path.write_text(text[:begin] + secret + (text[end:] if end > 0 else ""), encoding="utf-8")
    problem = veil.load(path)
    assert problem.secret == veil.Holds(["F (vault & O desk)"], {"desk": [0]})
    problem.save(tmp_path / "again.toml")
    assert veil.load(tmp_path / "again.toml").secret_values == problem.secret_values
    path.write_text(path.read_text("utf-8").replace("O desk)", "O desk"), encoding="utf-8")
    with pytest.raises(veil.InputError, match=r"formulas.*column 3"):
        veil.load(path)


@looped(
    ("secret", "words"),
    [
        (veil.Holds("F valut", {"vault": [0]}), "did you mean 'vault'"),
        (veil.Holds("F (", {}), "column 4"),
        (veil.Holds([], {}), "one or several texts"),
        (veil.Holds("F a", {"a": ["nowhere"]}), "nowhere"),
        (veil.Holds(3, {}), "found a int"),  # type: ignore[arg-type]
        (veil.Visited({}), "1 to 12"),
        (veil.Visited({f"z{n}": [0] for n in range(13)}), "13 zones"),
        (veil.FirstReached({"a": ["nowhere"]}), "nowhere"),
        (veil.Visited(["a"]), "expected a mapping"),  # type: ignore[arg-type]
    ],
)
def test_bad_secrets_are_refused(secret: Any, words: str):
    with pytest.raises(veil.InputError, match=words):
        veil.gallery.load("two-rooms").replace(secret=secret)
