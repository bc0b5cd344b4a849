"""Names never decide a number: what reads alike, is permuted or looks like something else gives the same as unique names."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest

import veil
from tests.game.all_paths import hidden_bits
from tests.game.test_records import random_pairs, random_secrets
from tests.oracle import evaluate
from tests.proof.plain import code, saved, second
from tests.random_problems import distributions, random_case
from tests.seeds import blocks
from veil.common.errors import InputError
from veil.formats.policies.text import policy_from_csv, policy_from_json, policy_to_csv, policy_to_json
from veil.game.bounds import Bounds
from veil.game.solve import solve_game
from veil.problem.fingerprint import fingerprint
from veil.proof.compiled import content_of

ALIKE = (["a", "a & b", "a & b & b"], ["c", "b & c", "b & b & c"])
"""Observations of two observers whose tuples read alike, such as `a & b & c`."""
SAME = (["x", "y", "z"], ["x", "y", "z"])
NUMBERED = (["o1", "o0", "o2"], ["o2", "o1", "o0"])
"""The names that other observations would have without names."""


def three_steps(own: veil.Holds, other: veil.Holds) -> veil.Problem:
    """Action 0 stays or goes to s1, action 1 goes to s1 or s2; the observer sees nothing."""
    transitions = np.zeros((3, 2, 3))
    transitions[:, 0], transitions[:, 1] = [0.5, 0.5, 0], [0, 0.5, 0.5]
    model = veil.Model(transitions, np.zeros((3, 2)), [1, 0, 0])
    return veil.Problem(model, veil.Observer(np.ones((3, 1))), own, 3, pairs=[veil.Pair("p", secret=other)])


def formula(text: str) -> veil.Holds:
    return veil.Holds(text, agent_knows=True)


def test_memories_of_one_name_are_not_one_memory() -> None:
    """The memories of two formulas are both called q0, q1, …: a policy's rows are for the pairs of them."""
    problem = three_steps(formula("F s1"), formula("F s2"))
    policy = veil.MarkovPolicy(distributions(np.random.default_rng(0), problem.num_cells, 2))
    register, transitions = problem.agent.register, problem.model.transitions
    laws = {name: dict[bool, float]() for name in ("own", "p")}
    for run in product(range(3), repeat=4):
        chance, held = float(run[0] == 0), int(register.begins[run[0]])
        for here, there in pairwise(run):
            chance *= float(policy.probabilities[held * 3 + here] @ transitions[here, :, there])
            held = int(register.follows[held, there])
        for name, state in (("own", 1), ("p", 2)):
            laws[name][state in run] = laws[name].get(state in run, 0.0) + chance
    seen = {(int(register.begins[0]), 0, 0)}  # what is held, and whether s1 and s2 were visited
    for _ in range(3):
        seen |= {(int(register.follows[m, s]), one or s == 1, two or s == 2) for m, one, two in seen for s in range(3)}
    assert len({m for m, *_ in seen}) == len(seen) == problem.num_cells // 3
    for name, law in laws.items():
        expected = -sum(chance * math.log2(chance) for chance in law.values())
        assert veil.opacity(problem, policy, pair=name).bits == pytest.approx(expected, abs=1e-12)


def test_memories_of_two_names_can_be_one_memory() -> None:
    """Zones of two names over the same states are one memory: the rows are the same, and so are all numbers."""
    zones = [veil.Visited({name: [1]}, agent_knows=True) for name in ("here", "there")]
    problem = three_steps(formula("F s1"), formula("F s1")).replace(
        secret=zones[0], pairs=[veil.Pair("p", secret=zones[1])]
    )
    policy = veil.MarkovPolicy(distributions(np.random.default_rng(0), problem.num_cells, 2))
    assert veil.pair_values(problem, policy)[0].bits == pytest.approx(veil.opacity(problem, policy).bits, abs=1e-12)


def test_the_second_verifier_reads_rows_by_their_memory(tmp_path: Path) -> None:
    """A file in which the rows of a policy are for another memory than that of a pair is refused."""
    problem, other = (three_steps(formula("F s1"), formula(text)) for text in ("F s1", "F s2"))
    policy = veil.MarkovPolicy(np.eye(2)[[0, 1, 0, 0, 0, 0]])
    honest = veil.certify(problem, policy, 1, hide="p", progress=False)
    folder = saved(tmp_path / "it", problem, policy, honest)
    assert code(folder) == 0
    forged = content_of(other).replace(fingerprint(other).encode(), fingerprint(problem).encode())
    (folder / "problem.bin").write_bytes(forged)
    text = (folder / "certificate.json").read_text("utf-8")
    text = text.replace(honest.record_hash, second.hashlib.sha256(forged).hexdigest())
    lower = "\n".join('  "lower": 0.0,' if '"lower"' in line else line for line in text.splitlines())
    (folder / "certificate.json").write_text(lower, "utf-8")
    said, found = second.main([str(folder)])
    assert found == 5, said


def test_which_model_runs_is_one_event() -> None:
    """The secret of a pair cannot have another prior over the models: bounds on the return would be for another law."""
    models = [veil.Model(distributions(np.random.default_rng(n), 2, 2, 2), np.zeros((2, 2)), [1, 0]) for n in (0, 1)]
    problem = veil.Problem(models, veil.Observer(np.eye(2)), veil.WhichModel([0.5, 0.5]), 2)
    problem.replace(pairs=[veil.Pair("p", secret=veil.WhichModel([0.5, 0.5], names=["model1", "model0"]))])
    with pytest.raises(InputError, match="weights"):
        problem.replace(pairs=[veil.Pair("p", secret=veil.WhichModel([0.1, 0.9]))])


def with_observations(problem: veil.Problem, names: tuple[list[str], ...]) -> veil.Problem:
    """The observations of the own observer and of each pair's called otherwise."""
    own, *others = [observer.replace(observation_names=given[: observer.num_observations])
                    for observer, given in zip(
                        [problem.observer, *(one.observer for one in problem.pairs if one.observer is not None)],
                        names * 3, strict=False)]  # fmt: skip
    made = iter(others)
    pairs = [replace(one, observer=None if one.observer is None else next(made)) for one in problem.pairs]
    return problem.replace(observer=own, pairs=pairs)


@pytest.mark.parametrize("block", blocks(3, 60, 3))
def test_pairs_whose_observations_read_alike(block: range, tmp_path: Path) -> None:
    """The game, its policy on what several see, its certificate and both verifiers, against all paths one by one."""
    for seed in block:
        plain = (random_pairs if seed % 2 else random_secrets)(seed)
        names = ("own", *(one.name for one in plain.pairs))
        expected = solve_game(plain, hide=names, gap=0.05)
        for given in (ALIKE, SAME, NUMBERED):
            problem = with_observations(plain, given)
            game = solve_game(problem, hide=names, gap=0.05)
            assert (game.lower, game.upper) == (expected.lower, expected.upper), seed
            policy = game.policy()
            truth = hidden_bits(problem, policy)
            values = [veil.opacity(problem, policy, "exact", pair=name).bits for name in names]
            assert values == pytest.approx([truth[name] for name in names], abs=1e-12), seed
            proof = veil.certify(problem, policy, hide=", ".join(names), game=Bounds.of(game), progress=False)
            assert proof.lower <= min(truth.values()) + 1e-12, seed
            assert proof.upper >= expected.lower - 1e-9, seed
            veil.verify(proof, problem, policy)
            assert code(saved(tmp_path / "it", problem, policy, proof)) in (0, 2), seed


def test_a_tuple_of_observations_that_reads_like_one_that_never_comes(tmp_path: Path) -> None:
    """Own sees that the run is in 1, the other that it is in 2: `beep & flash & door` is what both receive in 0."""
    rng, proven = np.random.default_rng(1), []
    model = veil.Model(distributions(rng, 3, 2, 3), rng.uniform(size=(3, 2)), [0.5, 0.25, 0.25])
    for own, other in ((["beep", "beep & flash"], ["door", "flash & door"]), (["1", "2"], ["3", "4"])):
        problem = veil.Problem(
            model, veil.Observer(np.eye(2)[[0, 1, 0]], own), veil.LastState({0}), 2,
            pairs=[veil.Pair("p", veil.Observer(np.eye(2)[[1, 1, 0]], other))],
        )  # fmt: skip
        game = solve_game(problem, hide=("own", "p"), gap=1e-3)
        policy = game.policy()
        assert min(hidden_bits(problem, policy).values()) == pytest.approx(game.lower, abs=1e-9)
        proof = veil.certify(problem, policy, hide="own, p", game=Bounds.of(game), progress=False)
        assert code(saved(tmp_path / "it", problem, policy, proof)) == 0
        proven.append((proof.lower, proof.upper))
    assert proven[0] == proven[1]


def test_tuples_of_observations_that_read_alike() -> None:
    """Observers share, of four tuples three, two of which read alike: beep & (flash & door), (beep & flash) & door."""
    problem = veil.Problem(
        veil.Model(np.full((4, 2, 4), 0.25), np.zeros((4, 2)), [0.25] * 4),
        veil.Observer(np.eye(2)[[0, 1, 0, 1]], ["beep", "beep & flash"]), veil.LastState({1}), 2,
    )  # fmt: skip
    other = veil.Observer(np.eye(2)[[1, 0, 0, 0]], ["door", "flash & door"])
    plain = problem.observer.replace(observation_names=["1", "2"]), other.replace(observation_names=["3", "4"])
    alike, unique = veil.Together(problem.observer, other), veil.Together(*plain)
    np.testing.assert_array_equal(alike.emissions, unique.emissions)
    assert len(set(alike.observations.all())) == 3
    policy = veil.MarkovPolicy.uniform(problem)
    bits = [veil.opacity(problem.replace(observer=one), policy, "exact").bits for one in (alike, unique)]
    assert bits[0] == bits[1]


def renamed(problem: veil.Problem, states: list[str], actions: list[str], seen: list[str]) -> veil.Problem:
    """The same problem under other names; the secret gives states by number."""
    models = [
        veil.Model(
            one.matrices, one.rewards, one.initial, one.discount, one.terminal_rewards, states, actions,
            available=one.available,
        )
        for one in problem.models
    ]  # fmt: skip
    observer = problem.observer.replace(observation_names=seen)
    secret, number = problem.secret, problem.model.states.find
    if isinstance(secret, veil.Automaton):
        secret = replace(secret, labels={number(state): letter for state, letter in secret.labels.items()})
    return problem.replace(model=models if len(models) > 1 else models[0], observer=observer, secret=secret)


NAMINGS: list[Callable[[str, int], list[str]]] = [
    lambda letter, size: [f"{letter}{(number + 1) % size}" for number in range(size)],  # those of other numbers
    lambda _, size: [str(size - 1 - number) for number in range(size)],  # numbers themselves
    lambda _, size: ["/".join("q" * (number + 1)) for number in range(size)],  # joined names of others
    lambda _, size: ["own", "none", "return", "holds", "silent", "elsewhere", "secret"][:size],
]


@pytest.mark.parametrize("block", blocks(20, 200, 20))
def test_random_problems_under_names_of_others(block: range, tmp_path: Path) -> None:
    """Opacity, return, certificate and both verifiers under names that collide or are permuted, against the oracle."""
    for seed in block:
        case = random_case(seed)
        plain, truth = case.problem, evaluate(case.spec)
        sizes = zip("sao", (plain.num_states, plain.num_actions, plain.observer.num_observations), strict=True)
        naming = NAMINGS[seed % len(NAMINGS)]
        problem = renamed(plain, *(naming(letter, size) for letter, size in sizes))
        policy = case.policy
        assert veil.opacity(problem, policy, "exact").bits == pytest.approx(truth.bits, abs=1e-10), seed
        assert veil.expected_return(problem, policy) == pytest.approx(veil.expected_return(plain, policy), abs=1e-12)
        if seed % 5:
            continue
        proofs = [veil.certify(one, policy, 0.5, progress=False) for one in (plain, problem)]
        assert (proofs[0].lower, proofs[0].expected_return) == (proofs[1].lower, proofs[1].expected_return), seed
        veil.verify(proofs[1], problem, policy)
        assert code(saved(tmp_path / "it", problem, policy, proofs[1])) in (0, 2), seed


def test_rows_of_a_table_that_read_alike_are_read_back(tmp_path: Path) -> None:
    """Rows `model/state` of a policy's table in a text file: `m/s/t` is (m, s/t) and (m/s, t)."""
    models = [
        veil.Model(distributions(np.random.default_rng(n), 2, 2, 2), np.zeros((2, 2)), [1, 0], state_names=["s/t", "t"])
        for n in (0, 1)
    ]
    secret = veil.WhichModel(names=["m", "m/s"], agent_knows=True)
    problem = veil.Problem(models, veil.Observer(np.eye(2)), secret, 2)
    policy = veil.MarkovPolicy(distributions(np.random.default_rng(2), 4, 2))
    for write, read in ((policy_to_json, policy_from_json), (policy_to_csv, policy_from_csv)):
        write(tmp_path / "policy", problem, policy)
        assert read(tmp_path / "policy", problem) == policy


def test_masks_over_names_that_read_alike() -> None:
    """A state called s/x under the mask y, and a state s under the mask x/y."""
    bits = []
    for states, sensors in ((["s", "s/x"], ["y", "x/y"]), (["s", "t"], ["y", "z"])):
        observer = veil.Observer(
            distributions(np.random.default_rng(4), 2, 3), ["s", "s/x", "off"],
            sensors={sensors[0]: {0: 2}, sensors[1]: {1: 2}}, silent="off",
        )  # fmt: skip
        model = veil.Model(
            distributions(np.random.default_rng(5), 2, 2, 2), np.zeros((2, 2)), [1, 0], state_names=states
        )
        problem = veil.Masks().apply(veil.Problem(model, observer, veil.LastState({1}), 2))
        bits.append(veil.opacity(problem, veil.MarkovPolicy.uniform(problem), "exact").bits)
    assert bits[0] == bits[1]


def test_values_that_read_alike_have_their_own_probability() -> None:
    """The set of the zones a and b, and the set of a zone called `a and b`; a zone called none."""
    model = veil.Model(np.full((5, 1, 5), 0.2), np.zeros((5, 1)), [0.2] * 5)
    zones = {"a": [0], "b": [1], "a and b": [2], "none": [3]}
    problem = veil.Problem(model, veil.Observer(np.ones((5, 1))), veil.Visited(zones), 1)
    assert len(set(problem.secret_values)) == len(problem.secret_values)
    table = veil.measures.joint_table(problem, veil.MarkovPolicy.uniform(problem))
    for sequence in table.revealing():
        assert math.fsum(sequence.posterior.values()) == pytest.approx(1.0, abs=1e-12)


def test_a_further_reward_cannot_be_called_return() -> None:
    """`return` is the first reward, in constraints, certificates and tasks."""
    rewards = {"time": np.ones((2, 1)), "return": np.zeros((2, 1))}
    with pytest.raises(InputError, match="rename"):
        veil.Model(np.full((2, 1, 2), 0.5), rewards, [1, 0])


def test_a_task_names_one_quantity() -> None:
    """Two formulas that read alike are two quantities where their labels differ."""
    model = veil.Model(distributions(np.random.default_rng(0), 3, 2, 3), np.zeros((3, 2)), [1, 0, 0])
    limits = [veil.Probability("F x", min=0.1, labels={"x": [state]}) for state in (1, 2)]
    problem = veil.Problem(model, veil.Observer(np.eye(3)), veil.LastState({1}), 2, constraints=limits)
    with pytest.raises(InputError, match=r"P\(F x\)"):
        veil.solve(problem, task="P(F x)", iterations=1, certificate=False, progress=False)
