"""Result folders: read back as written, refused with the place where they are not whole, complete or absent."""

import json
import os
import resource
import threading
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import veil
from tests.seeds import looped
from veil.formats.results.document import FORMAT, encoded, result_schema
from veil.formats.results.folder import (
    DOCUMENT,
    Result,
    check_writable,
    read_result,
    write_result,
)
from veil.formats.results.history import history_csv, read_history
from veil.formats.results.scenario import Origin
from veil.planning.solution import History
from veil.problem.fingerprint import fingerprint
from veil.report.answer import audit

HEAD = b"iteration,opacity_bits,expected_return,multiplier,step,seconds"


@pytest.fixture(scope="module")
def solved() -> tuple[veil.Problem, veil.Solution]:
    problem = veil.gallery.load("two-rooms")
    return problem, veil.solve(problem, starts=1, iterations=3, progress=False, certificate=False)


@pytest.fixture
def folder(solved: tuple[veil.Problem, veil.Solution], tmp_path: Path) -> Path:
    write_result(tmp_path / "out", *solved, Origin("gallery:two-rooms"))
    return tmp_path / "out"


def test_a_result_comes_back(solved: tuple[veil.Problem, veil.Solution], folder: Path):
    problem, solution = solved
    for path in (folder, folder / DOCUMENT):
        found = read_result(path)
        assert found.document.format == FORMAT
        assert found.document.answer.opacity.bits == solution.opacity.bits
        assert found.document.answer.expected_return == solution.expected_return
        assert np.array_equal(found.history().rows(), solution.history.rows(), equal_nan=True)
        assert found.policy() == solution.policy
        assert found.scenario == "gallery:two-rooms"
        assert found.certificate is None
        assert found.document.problem.states == problem.num_states


def test_scenario_and_result_move_together(solved: tuple[veil.Problem, veil.Solution], tmp_path: Path):
    before = tmp_path / "before"
    before.mkdir()
    write_result(before / "out", *solved, Origin(str(before / "two.toml")))
    os.rename(before, tmp_path / "after")
    assert read_result(tmp_path / "after/out").scenario == str(tmp_path / "after/two.toml")


@looped("name", veil.gallery.names())
def test_every_problem_travels_with_its_result(name: str, tmp_path: Path):
    """With the text of its scenario or without, what is read back is the same problem, picture included, and answer."""
    problem = veil.gallery.load(name)
    policy = veil.MarkovPolicy.uniform(problem)
    found = audit(problem, policy, time_limit=1).solution
    for number, origin in enumerate((Origin(f"gallery:{name}"), None)):
        write_result(tmp_path / f"{name}-{number}", problem, found, origin)
        loaded = veil.load_result(tmp_path / f"{name}-{number}")
        assert loaded.problem is not None
        assert fingerprint(loaded.problem) == fingerprint(problem)
        assert loaded.problem.layout == problem.layout
        assert encoded(loaded) == encoded(found)
        assert (loaded.policy, loaded.threshold, loaded.status) == (policy, found.threshold, found.status)


def test_changes_and_files_of_a_scenario_travel(tmp_path: Path):
    """A value of --set is in the text; a model file is beside it, or in a folder of its own is part of the text."""
    model = np.array([[[0.25, 0.75]], [[0.5, 0.5]]])
    for place in ("model.npz", "files/model.npz", "policy.safetensors.npz"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        np.savez(tmp_path / place, transitions=model, initial=[1.0, 0.0], rewards=np.zeros((2, 1)), emissions=np.eye(2))
        scenario = tmp_path / f"{Path(place).stem}.toml"
        scenario.write_text(
            f'horizon = 2\n[file]\npath = "{place}"\n[secret]\nkind = "last_state"\nstates = ["s1"]\n', encoding="utf-8"
        )
        opened = veil.gallery.open_scenario(str(scenario), ["horizon=5"])
        solution = veil.solve(opened.problem, starts=1, iterations=1, progress=False, certificate=False)
        write_result(tmp_path / "out", opened.problem, solution, Origin(str(scenario), ["horizon=5"], opened.text))
        (tmp_path / place).unlink()
        scenario.unlink()
        loaded = veil.Solution.load(tmp_path / "out")
        assert loaded.problem is not None
        assert loaded.problem.horizon == 5
        assert loaded.policy == solution.policy


def test_a_problem_that_is_large_travels_as_arrays(tmp_path: Path):
    """Its text would be beyond the limits of scenarios."""
    states = 4_000
    rng = np.random.default_rng(1)
    moves = [sparse.random_array((states, states), density=8 / states, format="csr", rng=rng) for _ in range(2)]
    moves = [sparse.csr_array(one + sparse.eye_array(states)) for one in moves]
    moves = [sparse.csr_array(one.multiply(1 / one.sum(axis=1)[:, None])) for one in moves]
    start = np.full(states, 1 / states)
    model = veil.Model(moves, np.zeros((states, 2)), start / start.sum())
    observer = veil.Observer(np.tile([0.5, 0.25, 0.25], (states, 1)), times=[1], silent=0)
    problem = veil.Problem(model, observer, veil.LastState([3]), 1)
    write_result(tmp_path / "out", problem, audit(problem, veil.MarkovPolicy.uniform(problem), time_limit=1).solution)
    assert (tmp_path / "out" / "model.npz").is_file()
    loaded = veil.load_result(tmp_path / "out").problem
    assert loaded is not None
    assert fingerprint(loaded) == fingerprint(problem)


def test_the_document_follows_its_schema(folder: Path):
    schema = result_schema()
    document = json.loads((folder / DOCUMENT).read_text("utf-8"))
    assert set(document) == set(schema["required"]) == set(schema["properties"])
    assert schema["properties"]["format"]["const"] == FORMAT


def test_absent_and_mixed_results(folder: Path, tmp_path: Path):
    with pytest.raises(veil.InputError, match="no result can be read"):
        read_result(tmp_path / "absent")
    (folder / "history.csv").write_text("changed")
    with pytest.raises(veil.InputError, match=r"history\.csv does not match its hash"):
        read_result(folder)
    assert isinstance(read_result(folder, check_files=False), Result)


def test_a_failed_write_leaves_nothing(solved: tuple[veil.Problem, veil.Solution], tmp_path: Path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))  # as on a disk that is full
    try:
        with pytest.raises(veil.VeilError, match="File too large"):
            write_result(tmp_path / "out", *solved)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_told_before(tmp_path: Path):
    (tmp_path / "file").write_text("")
    for bad in (tmp_path / "file", tmp_path / "file" / "inside"):
        with pytest.raises(veil.InputError, match="cannot be written"):
            check_writable(bad)
    check_writable(tmp_path / "new" / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@looped("name", ["policy.safetensors", "history.csv", "result.json", "certificate.json"])
def test_what_veil_did_not_write_is_not_replaced(solved: tuple[veil.Problem, veil.Solution], tmp_path: Path, name: str):
    folder = tmp_path / f"for {name}"
    folder.mkdir()
    (folder / name).write_bytes(b"mine")
    with pytest.raises(veil.InputError, match=f"{name}: it exists"):
        check_writable(folder)
    if name != "certificate.json":
        with pytest.raises(veil.InputError, match=f"{name}: it exists"):
            write_result(folder, *solved)
    assert (folder / name).read_bytes() == b"mine"
    assert [path.name for path in folder.iterdir()] == [name]


def test_writers_wait_for_each_other(solved: tuple[veil.Problem, veil.Solution], tmp_path: Path):
    """Threads that write to one folder at once: each finds the folder whole, and so does every reader after them."""
    failed: list[Exception] = []

    def write() -> None:
        try:
            for _ in range(10):
                write_result(tmp_path / "out", *solved)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert read_result(tmp_path / "out").policy() == solved[1].policy
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_history_with_several_multipliers_comes_back(tmp_path: Path):
    rows = np.array([[0, 0.1, np.nan, np.inf, 1e-300, 0.5, 3.0, -0.0], [1, 0.2, 1.0, 2.0, 0.25, 1.5, 4.0, 1 / 3]])
    (tmp_path / "h.csv").write_bytes(history_csv(History.of(rows)))
    assert (
        (tmp_path / "h.csv")
        .read_text()
        .startswith(
            "iteration,opacity_bits,expected_return,multiplier,step,seconds,multiplier_1,multiplier_2\n0,0.1,nan,inf,1e-300,"
        )
    )
    assert np.array_equal(read_history(tmp_path / "h.csv").rows(), rows, equal_nan=True)
    (tmp_path / "h.csv").write_bytes(history_csv(History.of([])))
    assert len(read_history(tmp_path / "h.csv")) == 0


@looped(
    ("text", "words"),
    [
        (b"a,b\n", "line 1: expected the columns"),
        (HEAD + b"\n0,1,2,3,4,5\n1,2,three,4,5,6\n", "line 3: could not convert string to float: 'three'"),
        (HEAD + b"\n0,1,2,3,4\n", "line 2: 5 cells found, expected 6"),
    ],
)
def test_a_history_that_is_wrong_is_refused_with_its_line(text: bytes, words: str, tmp_path: Path):
    (tmp_path / "h.csv").write_bytes(text)
    with pytest.raises(veil.InputError) as caught:
        read_history(tmp_path / "h.csv")
    assert words in str(caught.value)
