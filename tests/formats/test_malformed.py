"""Malformed model files: each refused with a message that names the place, quickly and in little memory."""

import functools
import io
import os
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cases import each
from tests.formats.classics import DATA
from veil.common.errors import ModelFileError, VeilError
from veil.formats.arrays.files import from_arrays, load_sparse
from veil.formats.drn.files import from_drn
from veil.formats.pomdp.files import from_pomdp

HEAD = "discount: 0.9\nvalues: reward\nstates: 2\nactions: a b\nobservations: 2\nstart: 0\n"
GOOD = HEAD + "T: * identity\nO: * uniform\nR: a : * : * : * 1\n"
DRN = (DATA / "corridor.drn").read_text(encoding="utf-8")
MEMORY = 2**27

POMDP = {
    "empty file": ("", None, "states"),
    "unknown statement": ("hello: 3\n", 1, "beginning of a statement"),
    "no colon": ("discount 0.9\n", 1, "expected ':'"),
    "discount too large": ("discount: 1.5\n", 1, "[0, 1]"),
    "discount twice": ("discount: 0.5\ndiscount: 0.5\n", 2, "given again"),
    "values of another kind": ("values: money\n", 1, "'reward' or 'cost'"),
    "a billion states": ("states: 1000000000\nactions: 1\n", 1, "from 1 to"),
    "many states times actions": ("states: 4000000\nactions: 6000\nT: * identity", 3, "raise limit"),
    "name begins with a digit": ("states: 1st 2nd\n", 1, "name of a state"),
    "a name twice": ("states: a b\n a\n", 2, "named twice"),
    "start before states": ("start: uniform\nstates: 2\n", 1, "before 'states'"),
    "start that does not sum": (HEAD.replace("start: 0", "start: 0.5 0.6") + "T: * identity", 6, "sums to 1.1"),
    "start too short": ("states: 3\nactions: 1\nstart: 0.5 0.5\nT: 0 identity\n", 4, "number 3 of 3"),
    "start exclude all": ("states: a b\nactions: 1\nstart exclude: a b\nT: 0 identity", 3, "leaves no state"),
    "start after T": (GOOD.replace("start: 0", "") + "start: 0", 10, "after the first T"),
    "T before actions": ("states: 2\nT: 0 identity\n", 2, "expected the sizes first"),
    "index of no state": (HEAD + "T: a : 2 : 0 1.0\n", 7, "from 0 to 1"),
    "negative probability": (HEAD + "T: a : 0 -0.5 1.5\n", 7, "-0.5 found"),
    "probability is 1_0": (HEAD + "T: a : 0 : 0 1_0\n", 7, "'1_0' found"),
    "row too short": (HEAD + "T: a : 0\n1.0\nT: b identity\n", 9, "number 2 of 2"),
    "row too long": (HEAD + "T: a : 0\n1.0 0.0 0.0\n", 8, "after the last number"),
    "identity of a row": (HEAD + "T: a : 0 identity\n", 7, "'identity' found"),
    "row sums to 0.9": (HEAD + "T: a identity\nT: b\n0.5 0.5\n0.5 0.4\nO: * uniform\n", 8, "sums to 0.9"),
    "row is missing": (HEAD + "T: a identity\nT: b : 0 : 0 1.0\nO: * uniform\n", None, "is not given"),
    "O without observations": ("states: 1\nactions: 1\nT: 0 identity\nO: 0 uniform", 4, "no observations"),
    "reward without a value": (GOOD + "R: a : 0 : 0 : 0\n", 10, "the end of the file found"),
    "reward of an action alone": (GOOD + "R: a 5\n", 10, "expected ':'"),
    "wildcards that expand too far": ("states: 5000\nactions: 4\nT: * uniform\n", 3, "expand to more than"),
    "clearing over and over": ("states: 60\nactions: 16000\n" + "T: * : * : * 0\n" * 5000, None, "is not given"),
    "emissions too large": (
        "states: 4000\nactions: 1\nobservations: 4000\nT: 0 identity\nO: * : * : 0 1",
        None,
        "expected at most",
    ),
    "bytes that are no text": (b"states: 2\n\xff\xfe\n", 2, "is not UTF-8"),
    "null bytes": ("states: 2\nactions: 1\nT: 0 \x00", 3, "found for number 1"),
}

DRN_FILES = {
    "empty": ("", 1, "'@model'"),
    "no type": (DRN.replace("@type: POMDP\n", ""), 13, "@type"),
    "continuous time": (DRN.replace("POMDP", "CTMC"), 2, "DTMC, MDP or POMDP"),
    "unknown section": (DRN.replace("@parameters", "@surprise"), 4, "'@surprise' found"),
    "parameters": (DRN.replace("@parameters\n", "@parameters\np q"), 5, "expected none"),
    "a billion states": (DRN.replace("@nr_states\n4", "@nr_states\n1000000000"), 40, "4 found, expected 1000000000"),
    "a gap in the states": (DRN.replace("state 2 {", "state 3 {"), 29, "expected state 2"),
    "a step that goes nowhere": (DRN.replace("1 : 0.75", "9 : 0.75"), 19, "next state 9"),
    "a probability of two": (DRN.replace("1 : 0.75", "1 : 2"), 19, "[0, 1]"),
    "a row of 0.95": (DRN.replace("1 : 0.75", "1 : 0.7"), 18, "sums to 0.95"),
    "a step twice": (DRN.replace("1 : 0.75", "0 : 0.75"), 19, "given before"),
    "a division by zero": (DRN.replace("1 : 1/4", "1 : 1/0"), 25, "'1/0' found"),
    "rewards that are words": (DRN.replace("[1, 0]\n\t\t0 : $", "[1, x]\n\t\t0 : $"), 17, "'x' found"),
    "no observation": (DRN.replace("state 1 {1}", "state 1"), 22, "in braces"),
    "no start": (DRN.replace(" init", ""), 40, "'init'"),
    "a state without choices": (DRN.replace("\taction __NOLABEL__\n\t\t3 : 1\n", ""), 38, "no choices"),
    "a line of nonsense": (DRN.replace("\t\t3 : 1\n", "nonsense\n"), 39, "'nonsense' found"),
}


def archive(**arrays: object) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=True, **arrays)  # pyright: ignore[reportArgumentType]
    return buffer.getvalue()


def bomb(shape: tuple[int, ...], content: int, name: str = "rewards") -> bytes:
    """An archive with an array whose header says one thing and whose content is so many zeros."""
    buffer, member = io.BytesIO(), io.BytesIO()
    np.lib.format.write_array_header_1_0(member, {"descr": "<f8", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(f"{name}.npy", member.getvalue() + bytes(content))
    return buffer.getvalue()


def deep(text: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("rewards.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
    return buffer.getvalue()


STAY = {"transitions": np.ones((1, 1, 1)), "rewards": np.zeros((1, 1)), "initial": np.ones(1)}
SPARSE = {
    "transitions_data": np.ones(2),
    "transitions_indices": np.array([0, 1]),
    "transitions_indptr": np.array([0, 1, 2]),
    "rewards": np.zeros((2, 1)),
    "initial": np.array([1.0, 0.0]),
}
NPZ = {
    "not an archive": (lambda: b"hello", "NumPy .npz"),
    "an archive cut short": (lambda: archive(**STAY)[:-30], "NumPy .npz"),
    "no start": (lambda: archive(rewards=np.zeros(1), transitions=np.ones((1, 1, 1))), "no array 'initial'"),
    "a pickled object": (lambda: archive(**STAY | {"rewards": np.array([{}])}), "'rewards' is of type object"),
    "names of numbers": (lambda: archive(**STAY, state_names=np.array([1.0])), "'state_names' is of type float64"),
    "a header that declares much": (lambda: bomb((2**40,), 8), "'rewards' has shape"),
    "zeros without end": (lambda: bomb((2**24,), 2**27), "'rewards' has 134,2"),
    "less than the header says": (lambda: bomb((100,), 8), "does not have as many numbers"),
    "a header of brackets": (lambda: deep(b"(" * 4000), "header that is not understood"),
    "many axes": (lambda: bomb((1,) * 10, 8), "three axes"),
    "a damaged array": (lambda: deep(b"").replace(b"\x93NUMPY", b"\x93NUMPX"), "CRC"),
    "rows that do not sum": (lambda: archive(**STAY | {"transitions": np.full((1, 1, 1), 0.5)}), "sums to 0.5"),
    "indices out of range": (
        lambda: archive(**SPARSE | {"transitions_indices": np.array([0, 7])}),
        "'transitions_indices' is wrong",
    ),
    "pointers of another size": (
        lambda: archive(**SPARSE | {"transitions_indptr": np.array([0, 2, 2, 2])}),
        "'transitions_indptr' has 4",
    ),
    "data of another length": (lambda: archive(**SPARSE | {"transitions_data": np.ones(5)}), "expected one length"),
    "dense and sparse": (lambda: archive(**SPARSE, transitions=np.ones((1, 1, 1))), "not both"),
    "a variable too short": (lambda: archive(**STAY, **{"variable:x": np.zeros(4)}), "'variable:x' has shape (4,)"),
}


def refused(load: Callable[[Path], object], path: Path) -> VeilError:
    tracemalloc.start()
    try:
        with pytest.raises(VeilError) as caught:
            load(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MEMORY
    assert str(path) in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("cases", "load", "suffix"),
    [(POMDP, from_pomdp, "pomdp"), (DRN_FILES, functools.partial(from_drn, reward_model="steps"), "drn")],
)
def test_texts_are_refused_with_their_line(cases: dict[str, Any], load: Any, suffix: str, tmp_path: Path):
    path = tmp_path / f"bad.{suffix}"

    def check(case: tuple[str | bytes, int | None, str]) -> None:
        text, line, words = case
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        error = refused(load, path)
        assert isinstance(error, ModelFileError)
        assert words in str(error)
        assert line is None or error.line == line, str(error)

    each(cases, check)


def test_npz_files_are_refused_with_their_array(tmp_path: Path):
    path = tmp_path / "bad.npz"

    def check(case: tuple[Callable[[], bytes], str]) -> None:
        path.write_bytes(case[0]())
        error = refused(from_arrays, path)
        assert case[1] in str(error), error

    each(NPZ, check)


def test_what_is_no_file_is_refused(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    for load in (from_pomdp, from_drn, from_arrays, load_sparse):
        for path in (tmp_path / "missing", tmp_path, "a\0b", tmp_path / "pipe", "/dev/zero"):
            with pytest.raises(VeilError):
                load(path)


def test_the_good_ones_pass(tmp_path: Path):
    (tmp_path / "good.pomdp").write_text(GOOD, encoding="utf-8")
    from_pomdp(tmp_path / "good.pomdp")
    (tmp_path / "good.drn").write_text(DRN, encoding="utf-8")
    from_drn(tmp_path / "good.drn", reward_model="steps")
    for number, arrays in enumerate((STAY, SPARSE)):
        (tmp_path / f"{number}.npz").write_bytes(archive(**arrays))
        from_arrays(tmp_path / f"{number}.npz")
