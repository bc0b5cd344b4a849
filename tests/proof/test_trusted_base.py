"""How much has to be believed: the modules that the check of a certificate reaches, and their lines."""

import ast
import subprocess
import sys

import numpy as np

import veil
from tests.test_imports import MODULES, reached
from veil.proof.agent import Agent
from veil.proof.checking import check
from veil.proof.compiled import content_of
from veil.proof.described import described
from veil.proof.record import read_record

BASE = "veil.proof.checking"
FILES = ("veil.proof.verify_files", "veil.proof.certificate_file")  # what the numbers of `veil verify FOLDER` need
MOST_BRANCHES = 20
MOST_LINES = 3455
MOST_LINES_WITH_FILES = 3797


def lines(modules: set[str]) -> int:
    return sum(len(MODULES[name].read_text("utf-8").splitlines()) for name in modules)


def statements(modules: set[str]) -> int:
    """The lines that do something: no empty ones, comments, docstrings or imports."""
    count = 0
    for name in modules:
        text = MODULES[name].read_text("utf-8")
        tree, lines = ast.parse(text), text.splitlines()
        idle = {number for number, line in enumerate(lines, 1) if not line.strip() or line.strip().startswith("#")}
        for one in ast.walk(tree):
            words = one.value if isinstance(one, ast.Expr) else None
            if isinstance(one, ast.Import | ast.ImportFrom) or (
                isinstance(one, ast.stmt) and isinstance(words, ast.Constant)
            ):
                idle |= set(range(one.lineno, (one.end_lineno or one.lineno) + 1))
        count += len(lines) - len(idle)
    return count


def test_the_trusted_base_is_small():
    found = reached(BASE)
    table = {name: lines({name}) for name in sorted(found)}
    assert lines(found) <= MOST_LINES, table
    rooms = {name.split(".")[1] for name in found if "." in name}
    assert rooms == {"common", "proof"}


def test_what_reads_the_files_is_small():
    found = set[str]().union(*map(reached, FILES))
    assert lines(found) <= MOST_LINES_WITH_FILES, {name: lines({name}) for name in sorted(found - reached(BASE))}
    assert {name.split(".")[1] for name in found if "." in name} == {"common", "proof", "policy"}
    assert {name for name in found if name.startswith("veil.policy.")} == {"veil.policy.stored"}


def test_it_loads_nothing_else():
    code = f"import sys, {BASE}; print(*(name for name in sys.modules if name.startswith('veil.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert set(done.stdout.split()) - {"veil.common.writers"} <= reached(BASE)  # which the package itself loads


def branches(function: ast.AST) -> int:
    """How many ways a function divides: what has to be held in mind to read it."""
    kinds = (
        ast.If | ast.IfExp | ast.For | ast.While | ast.comprehension | ast.ExceptHandler | ast.Assert | ast.match_case
    )
    parts = list(ast.walk(function))
    operands = (len(one.values) - 1 for one in parts if isinstance(one, ast.BoolOp))
    return sum(isinstance(one, kinds) for one in parts) + sum(operands)


def test_no_function_of_a_verifier_has_many_branches():
    """Of both verifiers, and of the search for what they check."""
    names = [name for name in MODULES if name.startswith("veil.proof.") or name == "veil.verify_plain"]
    found = {(name, one.name): branches(one) for name in names
             for one in ast.walk(ast.parse(MODULES[name].read_text("utf-8")))
             if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}  # fmt: skip
    assert {"veil.proof.checking", "veil.verify_plain"} <= {name for name, _ in found}
    assert not {place: count for place, count in found.items() if count > MOST_BRANCHES}


def test_branches_are_counted():
    code = "def f(x):\n  if x and x or x:\n    return [y for y in x if y]\n  while x:\n    assert x\n  return 1 if x else 2"
    assert branches(ast.parse(code)) == 7  # if, two of its condition, comprehension, while, assert, if else


def test_bytes_and_tables_are_enough():
    problem = veil.gallery.load("two-rooms")
    policy = veil.MarkovPolicy.uniform(problem)
    claim = veil.certify(problem, policy, 1)
    agent = Agent("markov", [np.array(policy.table)])
    assert described(problem, policy)[0].digest == agent.digest
    found = check(claim, read_record(content_of(problem)), agent, None)
    assert found.policy.lower >= claim.lower


if __name__ == "__main__":
    base = reached(BASE)
    parts = {module: {module} for module in sorted(base)} | {
        "in all": base,
        "with what reads the files of a folder": set[str]().union(*map(reached, FILES)),
        "the second verifier": {"veil.verify_plain"},
    }
    for words, modules in parts.items():
        print(f"{lines(modules):5} lines, {statements(modules):4} of statements:  {words}")
