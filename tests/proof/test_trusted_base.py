"""How much has to be believed: the modules that the check of a certificate reaches, and their lines."""

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
FILES = ("veil.proof.verify_files", "veil.proof.certificate_file")  # what `veil verify FOLDER` reaches
MOST_LINES = 4070
MOST_LINES_WITH_FILES = 5290


def lines(modules: set[str]) -> int:
    return sum(len(MODULES[name].read_text("utf-8").splitlines()) for name in modules)


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
    assert {name for name in found if name.startswith("veil.policy.")} == {"veil.policy.files"}


def test_it_loads_nothing_else():
    code = f"import sys, {BASE}; print(*(name for name in sys.modules if name.startswith('veil.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert set(done.stdout.split()) - {"veil.common.writers"} <= reached(BASE)  # which the package itself loads


def test_bytes_and_tables_are_enough():
    problem = veil.gallery.load("two-rooms")
    policy = veil.MarkovPolicy.uniform(problem)
    claim = veil.certify(problem, policy, 1)
    agent = Agent("markov", [np.array(policy.table)])
    assert described(problem, policy)[0].digest == agent.digest
    found = check(claim, read_record(content_of(problem)), agent, None)
    assert found.policy.lower >= claim.lower


if __name__ == "__main__":
    for module in sorted(reached(BASE)):
        print(f"{lines({module}):5}  {module}")
    print(f"{lines(reached(BASE)):5}  in all")
    print(f"{lines(set[str]().union(*map(reached, FILES))):5}  with what reads the files of a folder")
