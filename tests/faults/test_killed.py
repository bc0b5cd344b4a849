"""A search that is killed at any moment and taken up again ends as if it had never been disturbed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# A parent that has loaded everything forks a child for each attempt, so that a kill costs milliseconds. Every child takes
# up the checkpoint where there is one; the parent kills it after a random while, until one comes through.
_SCRIPT = """
import json, os, random, signal, sys, time
from pathlib import Path
import numpy as np
import veil
from veil.common.files import write_whole

folder, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
settings = json.loads(sys.argv[4])
problem = veil.gallery.load("paper-last-state", horizon=6, min_return=0.05)

def work(place):
    run = place / "run"
    resume = run if run.exists() else None
    found = veil.solve(problem, checkpoint=run, checkpoint_every=0, resume=resume, certificate=False, **settings)
    found.policy.save(place / "policy")
    rows = np.delete(found.history.rows(), 5, axis=1)  # without the seconds
    known = [found.status.name, found.opacity.bits, found.expected_return, found.price_bits, found.iterations]
    write_whole(place / "result", (place / "policy").read_bytes() + rows.tobytes() + repr(known).encode())

def attempt(place, wait):
    child = os.fork()
    if child == 0:
        try:
            work(place)
            os._exit(0)
        except BaseException as error:
            (place / "error").write_text(repr(error))
        os._exit(1)
    begin = time.monotonic()
    while wait is None or time.monotonic() - begin < wait:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            assert status == 0, (place / "error").read_text()
            return "ended", time.monotonic() - begin
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return ("killed", wait) if os.WIFSIGNALED(status) else ("ended", wait)

veil.solve(problem, certificate=False, **settings | {"iterations": 1})  # so that no child has to import anything
whole = folder / "whole"
whole.mkdir()
_, seconds = attempt(whole, None)
expected = (whole / "result").read_bytes()
generator, killed, rounds, left, resumed = random.Random(seed), 0, 0, 0, 0
while killed < kills:
    place = folder / f"round{rounds}"
    place.mkdir()
    rounds += 1
    outcome = "killed"
    while outcome == "killed":
        resumed += (place / "run").exists()
        wait = generator.uniform(0, 0.6 * seconds) if killed < kills else None
        outcome, _ = attempt(place, wait)
        killed += outcome == "killed"
    assert (place / "result").read_bytes() == expected, f"round {rounds} differs after {killed} kills"
    names = {path.name for path in place.iterdir() if not path.name.startswith((".run.", ".policy.", ".result."))}
    assert names == {"run", "policy", "result"}, names
    left += len(list(place.glob(".*")))
print(json.dumps({"killed": killed, "rounds": rounds, "left": left, "resumed": resumed, "seconds": seconds}))
"""

ASCENT = {"starts": 3, "iterations": 30}
PRIMAL_DUAL = {"method": "primal-dual", "gradients": "sampled", "sequences": 60, "iterations": 30}


def killed(folder: Path, kills: int, seed: int, settings: dict[str, object]) -> dict[str, float]:
    command = [sys.executable, "-c", _SCRIPT, str(folder), str(kills), str(seed), json.dumps(settings)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["killed"] >= kills
    assert found["resumed"] > 0
    return found


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    "settings", [ASCENT, pytest.param(PRIMAL_DUAL, marks=pytest.mark.slow)], ids=["ascent", "primal-dual"]
)
def test_a_few_kills(tmp_path: Path, settings: dict[str, object]):
    killed(tmp_path, 6, 1, settings)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("settings", [ASCENT, PRIMAL_DUAL], ids=["ascent", "primal-dual"])
def test_a_hundred_kills_each(tmp_path: Path, settings: dict[str, object]):
    found = killed(tmp_path, 100, 2, {**settings, "iterations": 60})
    print(found)
