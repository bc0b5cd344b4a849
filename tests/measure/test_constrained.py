"""Probabilities of formulas against Storm, through a product with the automaton that is made here."""

import numpy as np
import pytest

import veil
from tests.formats.storm import stormpy, value
from tests.problem.test_constraints import make_problem
from tests.seeds import in_blocks

FORMULAS = ("G !bad", "F (bad & X F good)", "good U bad", "F bad & G (bad -> X !bad)", "G F good", "O bad & !good")
LABELS = {"bad": ["s2"], "good": ["s1", "s3"]}


def product_drn(problem: veil.Problem, table: np.ndarray, formula: str) -> str:
    """The chain of a policy over (time, automaton state, state), as text of Storm's explicit format."""
    model, horizon = problem.model, problem.horizon
    letters = [frozenset(name for name, where in LABELS.items() if f"s{state}" in where) for state in range(4)]
    automaton = veil.Formula(formula).automaton(letters)
    read = [
        [int(automaton.step[q, automaton.letters.index(letter)]) for letter in letters]
        for q in range(len(automaton.step))
    ]
    numbers: dict[tuple[int, int, int], int] = {}
    rows: list[tuple[str, dict[int, float]]] = []

    def number(key: tuple[int, int, int]) -> int:
        return numbers.setdefault(key, len(numbers) + 1)

    first = {number((0, read[0][s], s)): float(model.initial[s]) for s in range(4) if model.initial[s] > 0}
    done = 0
    while done < len(numbers):
        time, q, state = list(numbers)[done]
        done += 1
        if time == horizon:
            label = " yes" if automaton.accepting[q] else ""
            rows.append((label, {numbers[time, q, state]: 1.0}))
            continue
        law = np.einsum("a,as->s", table[time, state], model.transitions[state])
        rows.append(("", {number((time + 1, read[q][s], s)): float(law[s]) for s in range(4) if law[s] > 0}))
    lines = ["@type: DTMC", "@parameters", "", "@reward_models", "", "@nr_states", str(len(rows) + 1), "@nr_choices"]
    lines += [str(len(rows) + 1), "@model"]
    for place, (label, row) in enumerate([(" init", first), *rows]):
        lines += [
            f"state {place}{label}",
            "\taction 0",
            *(f"\t\t{there} : {chance!r}" for there, chance in sorted(row.items())),
        ]
    return "\n".join(lines) + "\n"


@in_blocks(12, 48, 12)
def test_probabilities_of_formulas_against_storm(tmp_path, seed: int):
    formula = FORMULAS[seed % len(FORMULAS)]
    problem = make_problem([veil.Probability(formula, max=1.0, labels=LABELS)], seed, 2 + seed % 4, min_return=None)
    table = np.random.default_rng([seed, 3]).dirichlet(np.ones(2), size=(problem.horizon, 4))
    (found,) = veil.constraint_values(problem, veil.TimedPolicy(table))
    (tmp_path / "product.drn").write_text(product_drn(problem, table, formula))
    built = stormpy().build_model_from_drn(str(tmp_path / "product.drn"))
    assert found.value == pytest.approx(value(built, 'P=? [F "yes"]'), abs=1e-9)
