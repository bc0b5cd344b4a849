"""Models as NumPy and SciPy files: what is written is what is read, by NumPy itself too."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tests.random_problems import random_case
from tests.seeds import looped
from veil.common.errors import InputError, ModelFileError
from veil.formats import gallery
from veil.formats.arrays.files import from_arrays, load_sparse
from veil.formats.imported import Imported
from veil.problem.fingerprint import fingerprint
from veil.problem.model import Model
from veil.problem.observer import Observer
from veil.problem.problem import Problem
from veil.problem.secrets.last_state import LastState


@looped("seed", range(20))
def test_random_models_come_back_to_the_last_bit(seed: int, tmp_path: Path):
    problem = random_case(seed).problem
    path = tmp_path / "model.npz"
    Imported(problem.model, problem.observer).save(path)
    read = from_arrays(path)
    assert read.observer is not None
    secret = LastState([0])
    written, again = (
        Problem(m, o, secret, 2) for m, o in ((problem.model, problem.observer), (read.model, read.observer))
    )
    assert fingerprint(again) == fingerprint(written)
    first = path.read_bytes()
    read.save(path)
    assert path.read_bytes() == first


def test_names_variables_and_labels_come_back(tmp_path: Path):
    problem = gallery.load("office-patrol")
    size = problem.num_states
    variables = {"row": np.arange(size) // 5, "door": np.array(["open", "shut"])[np.arange(size) % 2]}
    labels = {"far": np.arange(size) > 3}
    Imported(problem.model, problem.observer, valuations=variables, labels=labels).save(tmp_path / "a.npz")
    read = from_arrays(tmp_path / "a.npz")
    assert read.observer is not None
    assert read.model.states.all() == problem.model.states.all()
    assert read.model.actions.all() == problem.model.actions.all()
    assert read.observer.observations.all() == problem.observer.observations.all()
    assert np.array_equal(
        read.mask('row=1 & door=open & "far"'), (np.arange(size) // 5 == 1) & (np.arange(size) % 2 == 0)
    )


def test_files_that_numpy_wrote(tmp_path: Path):
    transitions = np.array([[[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0], [0.25, 0.75]]])
    for save in (np.savez, np.savez_compressed):
        save(
            tmp_path / "a.npz",
            transitions=np.asfortranarray(transitions),
            rewards=np.array([1, 2], dtype=np.int32),
            initial=np.array([True, False]),
            discount=np.float32(0.5),
            surprise=np.zeros(3),
        )
        read = from_arrays(tmp_path / "a.npz")
        assert np.array_equal(read.model.transitions, transitions)
        assert read.model.rewards.tolist() == [[1, 1], [2, 2]]
        assert read.model.initial.tolist() == [1, 0]
        assert read.model.discount == 0.5
        assert read.observer is None
        assert read.notes == ("array 'surprise' is unknown and was left out",)
    with np.load(tmp_path / "a.npz", allow_pickle=False) as loaded:
        assert np.array_equal(loaded["transitions"], transitions)


def test_numpy_reads_what_we_write(tmp_path: Path):
    model = gallery.load("two-rooms").model
    Imported(model).save(tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz", allow_pickle=False) as loaded:
        stacked = sp.csr_array(
            (loaded["transitions_data"], loaded["transitions_indices"], loaded["transitions_indptr"]),
            shape=(model.num_actions * model.num_states, model.num_states),
        ).toarray()
    rows = stacked.reshape(model.num_actions, model.num_states, -1)
    assert np.array_equal(rows.transpose(1, 0, 2), model.transitions)


def test_rows_may_be_missing_where_the_action_is_not_available(tmp_path: Path):
    available = np.array([[True, False], [True, True]])
    stays = sp.csr_array(np.eye(2))
    model = Model(
        [stays, sp.csr_array(np.array([[0.0, 0.0], [1.0, 0.0]]))], [0.0, 1.0], [1.0, 0.0], available=available
    )
    Imported(model, Observer(np.eye(2), sees_initial=False, sees_actions=True)).save(tmp_path / "a.npz")
    read = from_arrays(tmp_path / "a.npz")
    assert np.array_equal(read.model.available, available)
    assert read.observer is not None
    assert (read.observer.sees_initial, read.observer.sees_actions) == (False, True)


@looped("kind", ["csr", "csc", "coo"])
def test_matrices_that_scipy_wrote(kind: str, tmp_path: Path):
    dense = np.random.default_rng(1).dirichlet(np.ones(4), size=4)
    dense[dense < 0.2] = 0
    dense /= dense.sum(axis=1, keepdims=True)
    for container in (sp.csr_array(dense), sp.csr_matrix(dense)):
        sp.save_npz(tmp_path / "m.npz", container.asformat(kind))
        assert np.array_equal(load_sparse(tmp_path / "m.npz").toarray(), dense)
    model = Model([load_sparse(tmp_path / "m.npz"), sp.csr_array(np.eye(4))], np.zeros(4), np.ones(4) / 4)
    assert np.array_equal(model.transitions[:, 0], dense)


@looped(
    ("changes", "words"),
    [
        ({"format": np.array(b"dia")}, "its format is 'dia'"),
        ({"shape": np.array([2])}, "'shape' is [2], expected two sizes"),
        ({"shape": np.array([2**40, 2])}, "1,099,511,627,776 rows and 2 columns, expected fewer"),
        ({"indices": np.array([0, 9])}, "'indices' is wrong, expected whole numbers from 0 to 1"),
        ({"data": None}, "no array 'data'"),
        ({"data": np.array(["a", "b"])}, "'data' is of type <U1"),
    ],
)
def test_matrices_that_are_none(changes: dict[str, Any], words: str, tmp_path: Path):
    good = sp.csr_array(np.eye(2))
    parts: dict[str, Any] = {
        "format": np.array(b"csr"),
        "shape": np.array([2, 2]),
        "data": good.data,
        "indices": good.indices,
        "indptr": good.indptr,
    }
    np.savez(tmp_path / "m.npz", **{key: value for key, value in (parts | changes).items() if value is not None})
    with pytest.raises(ModelFileError) as caught:
        load_sparse(tmp_path / "m.npz")
    assert words in str(caught.value)


def test_a_limit_can_be_raised(tmp_path: Path):
    np.savez_compressed(tmp_path / "b.npz", rewards=np.zeros((2**17, 1)), initial=np.zeros(1))
    with pytest.raises(ModelFileError, match="raise limit_bytes"):
        from_arrays(tmp_path / "b.npz", limit_bytes=2**18)
    with pytest.raises((ModelFileError, InputError), match="transitions"):
        from_arrays(tmp_path / "b.npz", limit_bytes=2**21)


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path):
    with pytest.raises(ModelFileError, match="cannot be written"):
        Imported(gallery.load("two-rooms").model).save(tmp_path / "missing" / "a.npz")
    assert not list(tmp_path.iterdir())
