"""Certificates written in the first form of the file: read, in the words of today, and verified."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import veil
from veil.common.errors import CertificateError
from veil.problem.fingerprint import fingerprint
from veil.proof.claim import claim_words

DATA = Path(__file__).parent / "data" / "form1"
NAMES = ("markov", "timed", "memory", "history", "transparent")


def problem() -> veil.Problem:
    moves = [
        [[0.75, 0.25, 0.0], [0.25, 0.25, 0.5]],
        [[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]],
        [[0.25, 0.5, 0.25], [0.0, 0.5, 0.5]],
    ]
    model = veil.Model(np.array(moves), [[0.0, 1.0], [0.5, 0.0], [0.25, 0.0]], [0.5, 0.25, 0.25])
    observer = veil.Observer([[0.75, 0.25], [0.25, 0.75], [0.5, 0.5]])
    return veil.Problem(model, observer, veil.LastState({2}), horizon=3, min_return=0.75)


def policy(name: str) -> veil.Policy:
    return veil.load_policy(DATA / f"{'markov' if name == 'transparent' else name}-policy.safetensors")


@pytest.mark.parametrize("name", NAMES)
def test_it_is_read_and_verified(name: str, tmp_path: Path):
    certificate = veil.Certificate.load(DATA / f"{name}.json")
    found = veil.verify(certificate, problem(), policy(name))
    assert found.policy.lower >= certificate.lower
    written = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    assert written["form"] == "veil-certificate-1"
    assert (certificate.lower, certificate.upper) == (written["lower"], written["upper"])
    assert certificate.claim == claim_words(certificate) != written["claim"]
    certificate.save(tmp_path / "now.json")
    again = veil.Certificate.load(tmp_path / "now.json")
    assert json.loads((tmp_path / "now.json").read_text(encoding="utf-8"))["form"] == "veil-certificate-5"
    veil.verify(again, problem(), policy(name))


def test_the_third_form_has_no_further_constraints(tmp_path: Path):
    veil.Certificate.load(DATA / "markov.json").save(tmp_path / "now.json")
    head = json.loads((tmp_path / "now.json").read_text(encoding="utf-8"))
    assert (head.pop("constraints"), head.pop("hide"), head.pop("pairs")) == ([], ["own"], [])
    assert head["witness"].pop("prices") == []
    (tmp_path / "now.json").write_text(json.dumps(head | {"form": "veil-certificate-3"}), encoding="utf-8")
    third = veil.Certificate.load(tmp_path / "now.json")
    veil.verify(third, problem(), policy("markov"))
    limited = problem().replace(constraints=[veil.Return(max=1.5)])
    asked = replace(third, problem_hash=fingerprint(limited))
    with pytest.raises(CertificateError, match=r"constraints: they are \[\], expected 1"):
        veil.verify(asked, limited, policy("markov"))


def test_forged_words_of_the_first_form_are_not_repeated(tmp_path: Path):
    head = json.loads((DATA / "markov.json").read_text(encoding="utf-8"))
    (tmp_path / head["arrays"]).write_bytes((DATA / head["arrays"]).read_bytes())
    head["claim"] = "hides everything"
    (tmp_path / "forged.json").write_text(json.dumps(head), encoding="utf-8")
    assert "everything" not in veil.Certificate.load(tmp_path / "forged.json").summary()
    head["policy_class"] = "a policy of God"
    (tmp_path / "forged.json").write_text(json.dumps(head), encoding="utf-8")
    with pytest.raises(CertificateError, match="policy_class"):
        veil.verify(veil.Certificate.load(tmp_path / "forged.json"), problem(), policy("markov"))
