"""Certificate files: the same bytes in every process, and whole ones whenever whoever writes them is killed."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import veil
from veil.proof.certificate import Certificate
from veil.proof.certify import certify
from veil.proof.verify import verify

_MAKE = """
import sys, veil
from veil.proof.certify import certify
from veil.game.solve import solve_game
problem = veil.gallery.load("paper-initial-state", horizon=5).replace(min_return="50%")
game = solve_game(problem, gap=0.0, iterations=15)
for number, policy in enumerate((game.policy(problem), veil.MarkovPolicy.uniform(problem))):
    certify(problem, policy, game=game).save(f"{sys.argv[1]}/{number}.json")
"""

_SAVE_FOR_EVER = """
import sys
from pathlib import Path
from veil.proof.certificate import Certificate
folder = Path(sys.argv[1])
both = [Certificate.load(folder / name / "one.json") for name in ("old", "new")]
print("ready", flush=True)
while True:
    for one in both:
        one.save(folder / "one.json")
"""


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


@pytest.mark.slow
def test_two_processes_write_the_same_bytes(tmp_path):
    found = []
    for seed in ("1", "2"):
        folder = tmp_path / seed
        folder.mkdir()
        environment = os.environ | {"PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", _MAKE, str(folder)], check=True, env=environment, timeout=300)
        found.append(digests(folder))
    assert len(found[0]) == 4
    assert found[0] == found[1]


@pytest.mark.skipif(sys.platform == "win32", reason="kills a process at once")
def test_whoever_is_killed_while_saving_leaves_the_old_one_or_the_new_one(tmp_path):
    problem = veil.gallery.load("paper-last-state", horizon=4).replace(min_return=None)
    policies = [veil.MarkovPolicy.uniform(problem), veil.TimedPolicy(veil.TimedPolicy.uniform(problem).probabilities)]
    for name, policy in zip(("old", "new"), policies, strict=True):
        (tmp_path / name).mkdir()
        certificate = certify(problem, policy, 10.0, gap=0.05)
        certificate.save(tmp_path / name / "one.json")
        certificate.save(tmp_path / "one.json")  # a child that is killed before it saves leaves this one
    seen = set()
    for attempt in range(4):
        child = subprocess.Popen(
            [sys.executable, "-c", _SAVE_FOR_EVER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        child.stdout.readline()
        try:
            child.wait(timeout=0.02 + 0.03 * attempt)
        except subprocess.TimeoutExpired:
            child.kill()
        child.wait()
        child.stdout.close()
        loaded = Certificate.load(tmp_path / "one.json")
        fits = [policy for policy in policies if loaded.policy_hash == policy.digest()]
        verify(loaded, problem, fits[0])
        seen.add(loaded.policy_hash)
    assert seen <= {policy.digest() for policy in policies}
