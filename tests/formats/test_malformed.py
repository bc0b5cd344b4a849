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
    "only comments": ("# nothing\n\n", None, "states"),
    "unknown statement": ("hello: 3\n", 1, "beginning of a statement"),
    "no colon": ("discount 0.9\n", 1, "expected ':'"),
    "discount too large": ("discount: 1.5\n", 1, "[0, 1]"),
    "discount is a word": ("discount: high\n", 1, "discount"),
    "discount is nan": ("discount: nan\n", 1, "discount"),
    "discount twice": ("discount: 0.5\ndiscount: 0.5\n", 2, "given again"),
    "values of another kind": ("values: money\n", 1, "'reward' or 'cost'"),
    "a billion states": ("states: 1000000000\nactions: 1\n", 1, "from 1 to"),
    "states beyond every number": ("states: " + "9" * 5000 + "\n", 1, "from 1 to"),
    "no states": ("states: 0\n", 1, "from 1 to"),
    "negative states": ("states: -3\n", 1, "name of a state"),
    "many states times actions": ("states: 4000000\nactions: 6000\nT: * identity", 3, "raise limit"),
    "more actions than may be": ("states: 2\nactions: 70000\n", 2, "from 1 to"),
    "name begins with a digit": ("states: 1st 2nd\n", 1, "name of a state"),
    "a name twice": ("states: a b\n a\n", 2, "named twice"),
    "no names": ("states:\nactions: 2\n", 1, "0 names"),
    "start before states": ("start: uniform\nstates: 2\n", 1, "before 'states'"),
    "start that does not sum": (HEAD.replace("start: 0", "start: 0.5 0.6") + "T: * identity", 6, "sums to 1.1"),
    "start too short": ("states: 3\nactions: 1\nstart: 0.5 0.5\nT: 0 identity\n", 4, "number 3 of 3"),
    "start of nobody": ("states: a b\nstart: c\n", 2, "expected a state"),
    "start include of nobody": ("states: a b\nactions: 1\nstart include:\nT: 0 identity", 3, "at least one"),
    "start exclude all": ("states: a b\nactions: 1\nstart exclude: a b\nT: 0 identity", 3, "leaves no state"),
    "start after T": (GOOD.replace("start: 0", "") + "start: 0", 10, "after the first T"),
    "states after T": ("states: 2\nactions: 1\nT: 0 identity\nobservations: 2\n", 4, "after the first T"),
    "T before actions": ("states: 2\nT: 0 identity\n", 2, "expected the sizes first"),
    "unknown action": (HEAD + "T: c identity\n", 7, "known are 'a', 'b'"),
    "index of no state": (HEAD + "T: a : 2 : 0 1.0\n", 7, "from 0 to 1"),
    "index of no observation": (HEAD + "O: a : 0 : 5 1.0\n", 7, "from 0 to 1"),
    "probability too large": (HEAD + "T: a : 0 : 0 1.5\n", 7, "[0, 1]"),
    "negative probability": (HEAD + "T: a : 0 -0.5 1.5\n", 7, "-0.5 found"),
    "probability is inf": (HEAD + "T: a : 0 : 0 inf\n", 7, "'inf' found"),
    "probability is 1_0": (HEAD + "T: a : 0 : 0 1_0\n", 7, "'1_0' found"),
    "digits of another script": (HEAD + "T: a : 0 : 0 ١\n", 7, "expected a probability"),
    "row too short": (HEAD + "T: a : 0\n1.0\nT: b identity\n", 9, "number 2 of 2"),
    "row too long": (HEAD + "T: a : 0\n1.0 0.0 0.0\n", 8, "after the last number"),
    "matrix too short": (HEAD + "T: a\n1.0 0.0\n0.0\n", 9, "the file ends after 3 of 4"),
    "matrix of words": (HEAD + "T: a\n1.0 zero\n0 1\n", 8, "'zero' found for number 2"),
    "identity of a row": (HEAD + "T: a : 0 identity\n", 7, "'identity' found"),
    "identity that is not square": (
        GOOD.replace("observations: 2", "observations: 3") + "O: a identity",
        10,
        "'identity'",
    ),
    "row sums to 0.9": (HEAD + "T: a identity\nT: b\n0.5 0.5\n0.5 0.4\nO: * uniform\n", 8, "sums to 0.9"),
    "row is missing": (HEAD + "T: a identity\nT: b : 0 : 0 1.0\nO: * uniform\n", None, "is not given"),
    "observation row is missing": (HEAD + "T: * identity\nO: a uniform\nO: b : 0 uniform", None, "observation row"),
    "observation sums to 2": (HEAD + "T: * identity\nO: * uniform\nO: a : 1 1 1", 9, "next state 1) sums to 2"),
    "O without observations": ("states: 1\nactions: 1\nT: 0 identity\nO: 0 uniform", 4, "no observations"),
    "reward without a value": (GOOD + "R: a : 0 : 0 : 0\n", 10, "the end of the file found"),
    "reward of an action alone": (GOOD + "R: a 5\n", 10, "expected ':'"),
    "reward is a word": (GOOD + "R: a : 0 : 0 : 0 much\n", 10, "'much' found"),
    "reward rows too short": (GOOD + "R: a : 0\n1 2 3\n", 11, "the file ends after 3 of 4"),
    "wildcards that expand too far": ("states: 5000\nactions: 4\nT: * uniform\n", 3, "expand to more than"),
    "clearing over and over": ("states: 60\nactions: 16000\n" + "T: * : * : * 0\n" * 5000, None, "is not given"),
    "a row for every state": (
        "states: 20000\nactions: 1\nT: 0 : *\n" + "0.00005 " * 20000,
        3,
        "expand to more than",
    ),
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
    "intervals": (DRN.replace("value_type: double", "value_type: double-interval"), 3, "double or rational"),
    "states are a word": (DRN.replace("@nr_states\n4", "@nr_states\nmany"), 11, "'many' found"),
    "a billion states": (DRN.replace("@nr_states\n4", "@nr_states\n1000000000"), 40, "4 found, expected 1000000000"),
    "fewer states than there are": (DRN.replace("@nr_states\n4", "@nr_states\n3"), 33, "next state 3"),
    "more choices than there are": (DRN.replace("@nr_choices\n7", "@nr_choices\n9"), 40, "7 found, expected 9"),
    "a gap in the states": (DRN.replace("state 2 {", "state 3 {"), 29, "expected state 2"),
    "a step that goes nowhere": (DRN.replace("1 : 0.75", "9 : 0.75"), 19, "next state 9"),
    "a step without a probability": (DRN.replace("1 : 0.75", "1 0.75"), 19, "<next state>"),
    "a probability of two": (DRN.replace("1 : 0.75", "1 : 2"), 19, "[0, 1]"),
    "a row of 0.95": (DRN.replace("1 : 0.75", "1 : 0.7"), 18, "sums to 0.95"),
    "a step twice": (DRN.replace("1 : 0.75", "0 : 0.75"), 19, "given before"),
    "a placeholder that is none": (DRN.replace("0 : $slip", "0 : $slap"), 18, "'$slap' found"),
    "a division by zero": (DRN.replace("1 : 1/4", "1 : 1/0"), 25, "'1/0' found"),
    "rewards that are words": (DRN.replace("[1, 0]\n\t\t0 : $", "[1, x]\n\t\t0 : $"), 17, "'x' found"),
    "rewards without an end": (DRN.replace("east [1, 0]", "east [1, 0"), 17, "expected 'action'"),
    "no observation": (DRN.replace("state 1 {1}", "state 1"), 22, "in braces"),
    "an observation that is a word": (DRN.replace("state 1 {1}", "state 1 {one}"), 22, "in braces"),
    "no start": (DRN.replace(" init", ""), 40, "'init'"),
    "a state without choices": (DRN.replace("\taction __NOLABEL__\n\t\t3 : 1\n", ""), 38, "no choices"),
    "a choice without steps": (DRN.replace("\t\t3 : 1\n", ""), 39, "no steps"),
    "a line of nonsense": (DRN.replace("\t\t3 : 1\n", "nonsense\n"), 39, "'nonsense' found"),
    "an action before any state": (DRN.replace("state 0 {0} [0, 0] init\n", ""), 16, "inside a state"),
    "no model": (DRN.partition("@model")[0], 14, "'@model'"),
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
    "an empty file": (lambda: b"", "NumPy .npz"),
    "an archive cut short": (lambda: archive(**STAY)[:-30], "NumPy .npz"),
    "no arrays": (lambda: archive(), "no array 'rewards'"),
    "no start": (lambda: archive(rewards=np.zeros(1), transitions=np.ones((1, 1, 1))), "no array 'initial'"),
    "no transitions": (lambda: archive(rewards=np.zeros(1), initial=np.ones(1)), "'transitions'"),
    "a pickled object": (lambda: archive(**STAY | {"rewards": np.array([{}])}), "'rewards' is of type object"),
    "rewards of text": (lambda: archive(**STAY | {"rewards": np.array(["a"])}), "'rewards' is of type <U1"),
    "complex numbers": (lambda: archive(**STAY | {"rewards": np.array([1j])}), "'rewards' is of type complex128"),
    "names of numbers": (lambda: archive(**STAY, state_names=np.array([1.0])), "'state_names' is of type float64"),
    "a header that declares much": (lambda: bomb((2**40,), 8), "'rewards' has shape"),
    "a header that is negative": (lambda: bomb((-5,), 8), "header that is not understood"),
    "zeros without end": (lambda: bomb((2**24,), 2**27), "'rewards' has 134,2"),
    "less than the header says": (lambda: bomb((100,), 8), "does not have as many numbers"),
    "more than the header says": (lambda: bomb((1,), 80), "does not have as many numbers"),
    "a header of brackets": (lambda: deep(b"(" * 4000), "header that is not understood"),
    "a header that is code": (lambda: deep(b"__import__('os').getcwd()"), "header that is not understood"),
    "many axes": (lambda: bomb((1,) * 10, 8), "three axes"),
    "a damaged array": (lambda: deep(b"").replace(b"\x93NUMPY", b"\x93NUMPX"), "CRC"),
    "rows that do not sum": (lambda: archive(**STAY | {"transitions": np.full((1, 1, 1), 0.5)}), "sums to 0.5"),
    "shapes that do not fit": (lambda: archive(**STAY | {"rewards": np.zeros((3, 3))}), "rewards has shape (3, 3)"),
    "indices out of range": (
        lambda: archive(**SPARSE | {"transitions_indices": np.array([0, 7])}),
        "'transitions_indices' is wrong",
    ),
    "indices that are not whole": (
        lambda: archive(**SPARSE | {"transitions_indices": np.array([0.5, 1])}),
        "'transitions_indices' is wrong",
    ),
    "pointers that fall": (
        lambda: archive(**SPARSE | {"transitions_indptr": np.array([0, 3, 2])}),
        "'transitions_indptr' is wrong",
    ),
    "pointers of another size": (
        lambda: archive(**SPARSE | {"transitions_indptr": np.array([0, 2, 2, 2])}),
        "'transitions_indptr' has 4",
    ),
    "data of another length": (lambda: archive(**SPARSE | {"transitions_data": np.ones(5)}), "expected one length"),
    "dense and sparse": (lambda: archive(**SPARSE, transitions=np.ones((1, 1, 1))), "not both"),
    "a variable too short": (lambda: archive(**STAY, **{"variable:x": np.zeros(4)}), "'variable:x' has shape (4,)"),
    "a discount that is a list": (lambda: archive(**STAY, discount=np.zeros(3)), "'discount' has shape (3,)"),
    "emissions of other states": (lambda: archive(**STAY, emissions=np.ones((3, 1))), "emissions has shape (3, 1)"),
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
