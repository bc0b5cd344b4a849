"""The file of a certificate: what is written is read again, and what is damaged, left out or of another kind is named."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

from tests.proof.test_witnesses import beliefs, case, endless, memory, path
from veil.common.errors import CertificateError, CertificateFileError
from veil.proof.certificate import Certificate

KINDS = (beliefs, endless, memory, path)


def rewritten(place: Path, head: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Other content under the same names, and the hash of it."""
    content = save(arrays)
    (place.parent / head["arrays"]).write_bytes(content)
    place.write_text(json.dumps(head | {"arrays_sha256": hashlib.sha256(content).hexdigest()}), "utf-8")


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_and_every_array_is_there_and_of_its_kind(kind: Any, tmp_path: Path):
    place = tmp_path / "proof.json"
    case(kind)[2].save(place)
    head = json.loads(place.read_text("utf-8"))
    arrays = load((tmp_path / head["arrays"]).read_bytes())
    for name in head:
        if name != "arrays_sha256":
            rewritten(
                place, {"arrays": head["arrays"]} | {key: value for key, value in head.items() if key != name}, arrays
            )
            if name != "arrays":
                with pytest.raises(
                    CertificateError, match=r"proof\.json is not a certificate|^the certificate: .* missing"
                ):
                    Certificate.load(place)
        if name in ("hidden", "quantities", "channels", "bounds", "register", "beliefs"):
            for wrong in (7, "x", [7, "x"], {"x": 7}):
                rewritten(place, head | {name: wrong}, arrays)
                with pytest.raises(CertificateError, match=rf"^the certificate: {name}: |is not a whole certificate"):
                    Certificate.load(place)
    rewritten(place, head | {"more": 1}, arrays)
    with pytest.raises(CertificateError, match=r"unknown \['more'\]"):
        Certificate.load(place)
    for name in arrays:
        if name != "values" and "path" not in name and "each" not in name:
            rewritten(place, head, {key: value for key, value in arrays.items() if key != name})
            with pytest.raises(CertificateError, match=r"proof\.json is not a whole certificate: KeyError"):
                Certificate.load(place)
    rewritten(place, head, arrays)
    assert Certificate.load(place) == case(kind)[2]


def test_files_that_are_missing_or_damaged_are_named(tmp_path: Path):
    place = tmp_path / "proof.json"
    with pytest.raises(CertificateFileError, match=r"^there is no certificate .*proof\.json$"):
        Certificate.load(place)
    with pytest.raises(CertificateFileError, match=r"cannot be read: it is a folder"):
        Certificate.load(tmp_path)
    case(path)[2].save(place)
    head = json.loads(place.read_text("utf-8"))
    arrays = tmp_path / head["arrays"]
    content = arrays.read_bytes()
    arrays.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(
        CertificateError, match=r"is damaged or belongs to another certificate: its hash is not that in"
    ):
        Certificate.load(place)
    arrays.unlink()
    with pytest.raises(CertificateFileError, match=r"the arrays of .*proof\.json cannot be read: .*No such file"):
        Certificate.load(place)
    for text, words in (("{", "cannot be read as a certificate"), ("[]", "is not a certificate of the form"),
                        ('{"form": "veil-certificate-7"}', "is not a certificate of the form"),
                        ('{"form": 1, "form": 2}', "a key comes twice")):  # fmt: skip
        place.write_text(text, "utf-8")
        with pytest.raises(CertificateError, match=words) as error:
            Certificate.load(place)
        assert error.type is CertificateError


def test_what_is_written_replaces_only_what_was_written_before(tmp_path: Path):
    """The same certificate gives the same bytes, in UTF-8; of another one the old arrays go."""
    place, (first, second) = tmp_path / "proof.json", (case(kind)[2] for kind in (path, memory))
    first.save(place)
    text = place.read_bytes()
    assert "≥".encode() in text
    assert text.endswith(b"}\n")
    names = sorted(json.loads(text))
    assert list(json.loads(text)) == names
    before = {one.name: one.read_bytes() for one in tmp_path.iterdir()}
    first.save(place)
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == before
    second.save(place)
    assert len(list(tmp_path.iterdir())) == 2
    assert Certificate.load(place) == second
    other = tmp_path / json.loads(place.read_text("utf-8"))["arrays"]
    other.write_bytes(b"mine")  # not what `save` wrote there: it stays
    first.save(place)
    assert other.read_bytes() == b"mine"
    foreign = tmp_path / "notes.json"
    foreign.write_text("mine", "utf-8")
    for wrong, words in ((foreign, "it exists, and veil did not write it"), (tmp_path, "not an ordinary file"),
                         (other / "proof.json", "proof.json: Not a directory")):  # fmt: skip
        with pytest.raises(CertificateFileError, match=f"cannot write the certificate to .*{words}"):
            first.save(wrong)
    assert foreign.read_text("utf-8") == "mine"
