"""Checkpoints: a search that goes on from one ends with the same bytes; anything else is refused with the reason."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veil
from tests.planning.small_problems import FEW, Interrupting, random_problem
from veil.common.clock import Progress
from veil.common.errors import CheckpointError
from veil.planning.checkpoint import Checkpoint, read_checkpoint

PROBLEM = random_problem(5)
ASCENT: Any = FEW | {"starts": 3, "iterations": 24}
EXACT: Any = FEW | {"method": "primal-dual", "iterations": 12}
SAMPLED: Any = EXACT | {"iterations": 8, "gradients": "sampled", "sequences": 40}
FRESH: Any = FEW | {"evaluation": "sampled", "starts": 2, "iterations": 8}
ADAM: Any = EXACT | {"iterations": 8, "optimizer": "adam"}


def result_bytes(solution: veil.Solution, folder: Path) -> bytes:
    """Everything in an answer but wall times."""
    solution.policy.save(folder / "policy")
    rows = np.delete(solution.history.rows(), 5, axis=1)
    known = (
        solution.status.name, solution.opacity.bits, solution.expected_return, solution.feasible, solution.price_bits,
        solution.stationarity_bits, solution.iterations,
    )  # fmt: skip
    return (folder / "policy").read_bytes() + rows.tobytes() + repr(known).encode()


class Interrupt:
    """Ctrl-C during one iteration."""

    def __init__(self, at: int):
        self.at = at

    def __call__(self, news: Progress) -> None:
        if news.iteration == self.at:
            raise KeyboardInterrupt


def check_resumed(problem: veil.Problem, settings: dict[str, Any], at: list[int], folder: Path) -> None:
    """A run interrupted after each of some iterations, one after the other, ends as an undisturbed one."""
    folder.mkdir(exist_ok=True)
    whole = result_bytes(veil.solve(problem, **settings), folder)
    run = folder / "run"
    for iteration in at:
        resume = run if run.exists() else None
        interrupted: dict[str, Any] = settings | {"progress": Interrupt(iteration)}
        stopped = veil.solve(problem, checkpoint=run, resume=resume, **interrupted)
        assert stopped.status is veil.Status.INTERRUPTED
        assert stopped.feasible
        assert iteration - 1 <= stopped.iterations <= iteration
    for _ in range(2):
        assert result_bytes(veil.solve(problem, resume=run, **settings), folder) == whole


def test_the_ascent_resumes_exactly_in_every_phase(tmp_path: Path):
    check_resumed(PROBLEM, ASCENT, [2, 5, 8, 9, 11, 12, 13, 17, 22], tmp_path)


@pytest.mark.parametrize("settings", [EXACT, SAMPLED, FRESH])
def test_other_methods_resume_exactly(tmp_path: Path, settings: dict[str, Any]):
    check_resumed(PROBLEM, settings, [2, 5], tmp_path)


@pytest.mark.slow
def test_primal_dual_with_optax_resumes_exactly(tmp_path: Path):
    optax = pytest.importorskip("optax")
    check_resumed(PROBLEM, ADAM, [5], tmp_path)
    check_resumed(PROBLEM, ADAM | {"optimizer": optax.adamw(0.1), "iterations": 4}, [3], tmp_path / "own")


def test_several_constraints_and_the_reversed_question_resume_exactly(tmp_path: Path):
    problem = random_problem(0).replace(min_return=-2.0)
    for number, more in enumerate(({"per_start": True}, {"min_opacity": 0.1})):
        check_resumed(problem, EXACT | {"iterations": 4} | more, [3], tmp_path / str(number))


@pytest.mark.slow
@pytest.mark.parametrize("settings", [ASCENT, EXACT, SAMPLED, FRESH])
def test_resuming_after_any_single_iteration(settings: dict[str, Any], tmp_path: Path):
    for iteration in range(1, settings["iterations"] + 1):
        check_resumed(PROBLEM, settings, [iteration], tmp_path / str(iteration))


@pytest.mark.parametrize("reports", [2, pytest.param(5, marks=pytest.mark.slow), 8])
@pytest.mark.parametrize("evaluation", ["auto", "sampled"])
def test_an_interrupted_search_goes_on_in_the_class_where_it_was(evaluation: str, reports: int, tmp_path: Path):
    problem, path = random_problem(1), tmp_path / "run"
    settings: dict[str, Any] = {
        "memory": veil.StateMemory(1), "evaluation": evaluation, "sequences": 20, "iterations": 3, "starts": 2,
        "certificate": False,
    }  # fmt: skip
    whole = veil.solve(problem, progress=False, **settings)
    first = veil.solve(problem, progress=Interrupting(reports), checkpoint=path, **settings)
    assert first.status is veil.Status.INTERRUPTED
    assert first.feasible
    assert first.policy_class == whole.policy_class
    assert isinstance(first.policy, veil.MemoryPolicy)
    resumed = veil.solve(problem, progress=False, resume=path, **settings)
    assert resumed.policy == whole.policy
    assert resumed.iterations == whole.iterations
    np.testing.assert_array_equal(resumed.history.opacity_bits, whole.history.opacity_bits)


def test_a_run_stopped_by_its_time_limit_resumes_exactly(tmp_path: Path):
    whole = result_bytes(veil.solve(PROBLEM, **ASCENT), tmp_path)
    run, resume, stops = tmp_path / "run", None, 0
    while True:
        found = veil.solve(PROBLEM, checkpoint=run, resume=resume, time_limit=0.05 * 1.5**stops, **ASCENT)
        if found.status not in (veil.Status.TIME_LIMIT, veil.Status.NOT_SEARCHED):
            break
        resume, stops = run if run.exists() else None, stops + 1
        assert stops < 40
    assert result_bytes(found, tmp_path) == whole


# Refused


def test_a_checkpoint_of_something_else_is_refused_with_what_differs(tmp_path: Path):
    run = tmp_path / "run"
    veil.solve(PROBLEM, checkpoint=run, **EXACT)
    content = run.read_bytes()

    def refusal(problem: veil.Problem = PROBLEM, **changes: Any) -> str:
        settings: dict[str, Any] = EXACT | changes
        with pytest.raises(CheckpointError) as caught:
            veil.solve(problem, resume=run, **settings)
        return str(caught.value)

    assert "problem: " in refusal(random_problem(5).replace(min_return="10%"))
    assert "seed: 0 there, 1 here" in refusal(seed=1)
    assert "seed" not in refusal(iterations=13)
    assert "iterations: 12 there, 13 here" in refusal(iterations=13)
    assert "memory: 'markov' there, 'timed' here" in refusal(memory="timed")
    assert "method: 'primal-dual' there, 'ascent' here" in refusal(method="ascent")
    assert "goal: 'opaque' there, 'transparent' here" in refusal(goal="transparent")
    assert "step: None there, 0.5 here" in refusal(step=0.5)
    assert "start: None there" in refusal(start=veil.MarkovPolicy.uniform(PROBLEM))
    run.write_bytes(content[: len(content) // 2])
    assert "cannot be read" in refusal()
    run.write_bytes(content[:-8] + b"damaged!")
    assert "damaged" in refusal()
    run.unlink()
    veil.MarkovPolicy.uniform(PROBLEM).save(run)
    assert "is not a checkpoint" in refusal()
    run.unlink()
    assert "there is no checkpoint" in refusal()


def test_where_nothing_can_be_written_is_told_before_the_search(tmp_path: Path):
    told: list[Progress] = []
    scenario = tmp_path / "scenario.toml"
    scenario.write_text("[model]")
    places = [(tmp_path / "nowhere" / "run", "there is no directory"), (tmp_path, "is not a checkpoint")]
    settings: dict[str, Any] = EXACT | {"progress": told.append}
    for place, words in (*places, (scenario, "is not a checkpoint")):
        with pytest.raises(CheckpointError, match=words):
            veil.solve(PROBLEM, checkpoint=place, **settings)
    assert not told
    assert scenario.read_text() == "[model]"


# Ctrl-C


_CHILD = """
import json, sys, veil
told = lambda news: print("going", flush=True) if news.iteration == 3 else None
problem = veil.gallery.load("office-patrol")
found = veil.solve(problem, certificate=False, checkpoint=sys.argv[1], progress=told, **json.loads(sys.argv[2]))
found.policy.save(sys.argv[1] + ".policy")
print(json.dumps([found.status.name, found.feasible, found.iterations, found.expected_return]))
"""


@pytest.mark.parametrize(
    "settings",
    [{"starts": 30}, pytest.param({"method": "primal-dual", "iterations": 100_000}, marks=pytest.mark.slow)],
)
def test_ctrl_c_returns_the_best_policy_and_leaves_a_checkpoint(tmp_path: Path, settings: dict[str, Any]):
    run, problem = tmp_path / "run", veil.gallery.load("office-patrol")
    child = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", _CHILD, str(run), json.dumps(settings)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "going\n"
    child.send_signal(signal.SIGINT)
    out, errors = child.communicate(timeout=60)
    assert (child.returncode, errors) == (0, "")
    status, feasible, iterations, value = json.loads(out)
    assert (status, feasible) == ("INTERRUPTED", True)
    policy = veil.load_policy(f"{run}.policy")
    assert veil.expected_return(problem, policy) == pytest.approx(value)
    resumed = veil.solve(problem, resume=run, time_limit=0, **FEW | settings)
    assert resumed.iterations == iterations >= 2


# The file


IDENTITY: Any = {"problem": "abc", "seed": 3, "start": None, "own": {"step": 0.1}}


def some_arrays() -> dict[str, np.ndarray]:
    return {
        "iteration": np.asarray(7.0),
        "score": np.asarray(-np.inf),
        "theta": np.random.default_rng(0).normal(size=(2, 3, 4)),
        "turned": np.arange(6.0).reshape(2, 3).T,
        "none": np.zeros((0, 6)),
        "optimizer.000": np.asarray(5, dtype=np.int32),
    }


def written(path: Path) -> Path:
    Checkpoint(path, IDENTITY, 0.0).write(some_arrays(), 12.5)
    return path


def test_what_is_written_is_read_with_shapes_and_types_and_has_the_same_bytes(tmp_path: Path):
    arrays, seconds, _ = read_checkpoint(written(tmp_path / "run"), IDENTITY)
    assert seconds == 12.5
    for name, array in some_arrays().items():
        assert (arrays[name].dtype, arrays[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(arrays[name], array)
    assert written(tmp_path / "again").read_bytes() == (tmp_path / "run").read_bytes()


def test_other_files_are_refused(tmp_path: Path):
    (tmp_path / "text").write_text(json.dumps(IDENTITY))
    (tmp_path / "empty").write_bytes(b"")
    for name in ("text", "empty"):
        with pytest.raises(CheckpointError, match="cannot be read"):
            read_checkpoint(tmp_path / name, IDENTITY)
    with pytest.raises(CheckpointError):
        read_checkpoint(tmp_path, IDENTITY)


def test_every_cut_and_every_damaged_byte_is_noticed(tmp_path: Path):
    path = written(tmp_path / "run")
    content = path.read_bytes()
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        with pytest.raises(CheckpointError):
            read_checkpoint(path, IDENTITY)
    expected = some_arrays()
    for place in range(0, len(content), 3):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        try:
            arrays, seconds, _ = read_checkpoint(path, IDENTITY)
        except CheckpointError:
            continue
        assert seconds == 12.5
        assert all(np.array_equal(arrays[name], expected[name]) for name in expected)


def test_a_write_that_fails_is_told_and_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = written(tmp_path / "run")
    content = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(CheckpointError, match="No space left"):
        Checkpoint(path, IDENTITY, 1.0).write({"theta": np.ones(3)}, 20.0)
    monkeypatch.undo()
    assert path.read_bytes() == content
    assert [found.name for found in tmp_path.iterdir()] == ["run"]


def test_what_a_killed_process_left_is_removed_once_it_is_old(tmp_path: Path):
    old, new, other = tmp_path / ".run.abcd1234", tmp_path / ".run.efgh5678", tmp_path / ".runner.abcd1234"
    for path in (old, new, other):
        path.write_bytes(b"a part")
    hour = time.time() - 3600
    os.utime(old, (hour, hour))
    os.utime(other, (hour, hour))
    Checkpoint(tmp_path / "run", IDENTITY, 1.0)
    assert sorted(found.name for found in tmp_path.iterdir()) == [".run.efgh5678", ".runner.abcd1234"]
