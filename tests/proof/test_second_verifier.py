"""The second verifier, `verify_certificate.py`, beside the first: both hold or refuse the same certificates."""

import ast
import importlib.util
import random
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import veil
from tests.problem.all_runs import Watcher, model
from tests.proof.cases import constrained, random_policy, random_problem, with_path
from tests.proof.corruptions import corrupt
from tests.seeds import blocks
from veil.common.errors import CertificateError
from veil.formats.results.folder import CERTIFICATE, POLICY, PROBLEM, problem_content
from veil.problem.fingerprint import write_content

SCRIPT = Path(__file__).parents[2] / "verify_certificate.py"


def load():
    spec = importlib.util.spec_from_file_location("verify_certificate", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


second = load()


def saved(folder: Path, problem: veil.Problem, policy: veil.Policy, certificate: veil.Certificate) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    content = problem_content(problem)
    assert content is not None
    (folder / PROBLEM).write_bytes(content)
    policy.save(folder / POLICY)
    certificate.save(folder / CERTIFICATE)
    return folder


def code(folder: Path) -> int:
    return second.main([str(folder)])[1]


def case(seed: int) -> tuple[veil.Problem, veil.Policy, veil.Certificate] | None:
    problem = random_problem(seed, work=300, most_pairs=400)
    if seed % 5 == 4 and len(problem.models) == 1:
        problem = with_path(problem, seed)
    if seed % 3 == 0 and problem.return_over == "horizon":
        problem = constrained(problem, seed)
    policy = random_policy(problem, ("markov", "timed", "history", "told")[seed % 4], seed)
    if problem.return_over != "horizon":
        return None
    return problem, policy, veil.certify(problem, policy, time_limit=0.2, gap=0.05, progress=False)


def claims_more(lie: veil.Certificate, honest: veil.Certificate) -> bool:
    numbers = (lie.lower, lie.upper, lie.expected_return, lie.return_error)
    if not all(isinstance(number, float) and np.isfinite(number) for number in numbers):
        return False
    off = abs(lie.expected_return - honest.expected_return) - abs(lie.return_error)
    return lie.lower > honest.lower + 1e-6 or lie.upper < honest.upper - 1e-6 or off > 1e-6


def check_seed(seed: int, folder: Path) -> int:
    """Both verifiers on a certificate and on corrupted copies of it; how many were compared."""
    made = case(seed)
    if made is None:
        return 0
    problem, policy, certificate = made
    veil.verify(certificate, problem, policy)
    assert code(saved(folder, problem, policy, certificate)) == 0
    compared, rng = 1, random.Random(seed)
    for _ in range(4 if problem.horizon else 0):
        _, lie, other = corrupt(rng, certificate, policy)
        try:
            folder = saved(folder, problem, other, lie)
        except (CertificateError, TypeError, ValueError, AttributeError):
            continue  # cannot even be written
        try:
            veil.verify(lie, problem, other)
            assert code(folder) == 0  # a change that leaves the claim true, as a larger upper bound
            compared += 1
        except CertificateError:
            # Words, seals and ways to compute are beyond the second verifier; a number that claims more is not.
            if claims_more(lie, certificate):
                assert code(folder) == 1
                compared += 1
    return compared


@pytest.mark.parametrize("block", blocks(20, 40, 10))
def test_both_agree(block: range, tmp_path: Path):
    for seed in block:
        check_seed(seed, tmp_path / "result")


@pytest.mark.slow
def test_both_agree_on_a_thousand(tmp_path: Path):
    assert sum(check_seed(seed, tmp_path / "result") for seed in range(1000, 2100)) >= 1000


def test_a_rule_that_proves_too_much_is_refused_by_both(tmp_path: Path):
    """No threshold, rewards below zero, and a multiplier: the bound would fall as low as one likes."""
    model = veil.Model(np.full((2, 1, 2), 0.5), [[-1.0], [-1.0]], [0.5, 0.5])
    problem = veil.Problem(model, veil.Observer(np.ones((2, 1))), veil.LastState({1}), 2)
    policy = veil.MarkovPolicy.uniform(problem)
    honest = veil.certify(problem, policy, time_limit=1)
    assert honest.witness is not None
    assert code(saved(tmp_path / "result", problem, policy, honest)) == 0
    lie = replace(honest, witness=replace(honest.witness, multiplier=0.5), lower=0.0, upper=0.1)
    with pytest.raises(CertificateError):
        veil.verify(lie, problem, policy)
    assert code(saved(tmp_path / "result", problem, policy, lie)) == 1


def test_what_it_does_not_cover_is_said(tmp_path: Path):
    problem = random_problem(1, work=300, most_pairs=400)
    policy = random_policy(problem, "controller", 1)
    certificate = veil.certify(problem, policy, time_limit=0.2, progress=False)
    text, found = second.main([str(saved(tmp_path / "result", problem, policy, certificate))])
    assert found == 2
    assert "kind 'memory'" in text
    assert second.main([])[1] == 2


def test_it_stands_alone():
    """Nothing is imported that Python does not bring."""
    for node in ast.walk(ast.parse(SCRIPT.read_text("utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert all(name.partition(".")[0] in sys.stdlib_module_names for name in names)


@pytest.mark.parametrize(
    ("parts", "secret", "words"),
    [
        ({"times": "end"}, veil.Trajectory(), "a whole path, and an observer that depends on time"),
        ({"untimed": True}, None, "no clock"),
    ],
)
def test_observers_that_it_does_not_cover_are_not_read_as_others(
    parts: dict, secret: veil.Trajectory | None, words: str
):
    base = veil.gallery.load("two-rooms").replace(horizon=2)
    problem = base.replace(observer=base.observer.replace(**parts), secret=secret or base.secret)
    content = bytearray()
    write_content(problem, content.extend)
    module = load()
    with pytest.raises(module.NotCovered, match=words):
        module.Problem(bytes(content))


@pytest.mark.parametrize("kind", ["end", "times", "start", "steps and start"])
def test_observers_that_depend_on_time(kind: str, tmp_path: Path) -> None:
    """The time of each move decides what it shows; more bits than are hidden, or a smaller bound, are refused."""
    rng = np.random.default_rng(3)
    own, foe = (
        Watcher.make(name, rng, 2).observer(prefix, sensors=False) for name, prefix in ((kind, ""), ("at", "x"))
    )
    pair = veil.Pair("foe", foe, min=0.01)
    problem = veil.Problem(model(rng), own, veil.LastState([0]), 2, "20%", pairs=[pair])
    for policy in (random_policy(problem, "timed", 1), veil.solve(problem, method="game", certificate=False).policy):
        proof = veil.certify(problem, policy, time_limit=1)
        assert code(saved(tmp_path / "honest", problem, policy, proof)) == 0
        for lie in (replace(proof, lower=proof.lower + 1e-6), replace(proof, upper=proof.lower - 1e-6)):
            assert code(saved(tmp_path / "lie", problem, policy, lie)) == 1
    clockless = problem.replace(observer=Watcher.make("untimed", rng, 2).observer(sensors=False), pairs=())
    uniform = veil.MarkovPolicy.uniform(clockless)
    proof = veil.certify(clockless, uniform, time_limit=1)
    assert code(saved(tmp_path / "clockless", clockless, uniform, proof)) == 2
