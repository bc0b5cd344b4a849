"""`veil verify`: a proof holds, and whatever is changed in it or around it is noticed."""

import json
from pathlib import Path

import pytest

from tests.cli.commands import NO_PROOF, veil
from tests.seeds import looped
from veil import InputError, load_result
from veil.cli import shared


def test_a_result_is_verified(result: Path):
    done = veil("verify", result)
    assert done.code == 0, done.err
    assert "the certificate holds" in done.out
    assert veil("verify", result / "result.json").code == 0
    assert veil("verify", result / "certificate.json").code == 0
    found = veil("verify", result, "--json").json
    assert found["holds"]
    assert found["lower"] <= found["recomputed_lower"]
    assert found["recomputed_upper"] <= found["upper"]


def test_a_certificate_of_its_own(result: Path):
    done = veil("measure", "rooms.toml", result, "--certificate", "proof.json", "--proof-time-limit", "1", "--json")
    assert done.code == 0, done.err
    assert done.json["certificate"]["lower"] <= done.json["certificate"]["upper"]
    alone = veil("verify", "proof.json")
    assert alone.code == shared.BAD_INPUT
    assert "veil verify SCENARIO POLICY CERTIFICATE" in alone.err
    assert veil("verify", "rooms.toml", result, "proof.json").code == 0
    assert veil("verify", "rooms.toml", "uniform", "proof.json").code == shared.REJECTED
    assert veil("verify", "gallery:two-rooms", result, "proof.json").code == shared.REJECTED


def test_a_certificate_of_queries(tmp_path: Path):
    place, plan = "gallery:camera-guard", tmp_path / "plan"
    proof = plan / "certificate.json"
    done = veil("solve", place, "--method", "queries", "--time-limit", "5", "-o", plan, "--json")
    assert done.code == 0, done.err
    found = veil("verify", plan, "--json").json
    assert found["holds"]
    bounds = done.json["answer"]["settings"]
    assert bounds["lower"] - 1e-4 <= found["lower"] <= bounds["upper"] <= found["upper"] + 1e-9
    assert bounds["compared"]["all sensors at once"] <= bounds["upper"] <= bounds["compared"]["nothing asked"]
    claim = json.loads(proof.read_text("utf-8"))
    claim["beliefs"]["lower"] = claim["channels"][0]["upper"]
    proof.write_text(json.dumps(claim), encoding="utf-8")
    assert veil("verify", plan).code == shared.REJECTED
    priced = veil("solve", place, "--method", "queries", "--set", "solve.task=-0.5*return", *NO_PROOF, "--json")
    assert priced.code == 0, priced.err
    refused = veil("solve", place, "--method", "queries", "--set", "solve.task=0.5*return", *NO_PROOF, "-o", "other")
    assert (refused.code, "a price of the return alone" in refused.err) == (2, True)


@looped("field", ["lower", "upper", "expected_return", "problem_hash", "policy_hash"])
def test_a_changed_claim(result: Path, field: str):
    path = result / "certificate.json"
    claim = json.loads(path.read_text("utf-8"))
    wrong = json.loads(json.dumps(claim))
    (channel, *_), (bound, *_), (earned, *_) = (wrong[name] for name in ("channels", "bounds", "quantities"))
    if field == "lower":
        channel["lower"] = channel["upper"] = bound["upper"] + 1
    elif field == "upper":
        bound["upper"] = channel["lower"] / 2
    elif field == "expected_return":
        earned["value"] += 0.1
    else:
        wrong[field] = "0" * 64
    path.write_text(json.dumps(wrong), encoding="utf-8")
    assert veil("verify", result).code == shared.REJECTED
    path.write_text(json.dumps(claim), encoding="utf-8")


TOLD = ("status", "message", "policy_class", "method", "objective", "detail", "doubts", "price_bits", "mixture_gain_bits",
        "stationarity_bits", "iterations", "seconds", "seed", "settings", "repeatable", "plan")  # fmt: skip
# What tells of the search or is an estimate; and a result may say that less was reached than the certificate proves.
NOT_PROVEN = {f"answer.{name}" for name in TOLD} | {"answer.feasible", "answer.opacity.method", "answer.opacity.num_sequences",
              "answer.opacity.std_error", "answer.opacity.reason", "problem.scenario", "problem.changes"}  # fmt: skip


def edited(document: dict, place: str) -> dict:
    """The document with another value at a place."""
    head, _, rest = place.partition(".")
    if rest:
        return document | {head: edited(document[head], rest)}
    value = document[head]
    if isinstance(value, bool):
        return document | {head: not value}
    other = value + 1 if isinstance(value, int) else value + 0.05 if isinstance(value, float) else ["else"]
    return document | {head: f"{value} or more" if isinstance(value, str) else other}


def places(document: dict, under: str = "") -> list[str]:
    """The path of every value in a document."""
    found = []
    for key, value in document.items():
        inner = isinstance(value, dict) and key not in ("settings", "plan")
        found += places(value, f"{under}{key}.") if inner else [f"{under}{key}"]
    return found


def test_every_number_and_word_that_can_be_checked_is_checked(result: Path):
    """One edited entry of result.json after the other: the document no longer says what the files beside it prove."""
    path = result / "result.json"
    document = json.loads(path.read_text("utf-8"))
    checked = [
        place
        for place in places(document)
        if place.partition(".")[0] in ("problem", "answer", "certificate") and place not in NOT_PROVEN
    ]
    assert len(checked) > 15
    for place in checked:
        path.write_text(json.dumps(edited(document, place)), encoding="utf-8")
        assert veil("verify", result).code in (shared.REJECTED, shared.BAD_INPUT), place
        assert veil("report", result, "-o", result / "page.html").code in (shared.REJECTED, shared.BAD_INPUT), place
        assert not (result / "page.html").exists()
    path.write_text(json.dumps(document), encoding="utf-8")
    assert veil("verify", result).code == shared.SOLVED


def test_a_scenario_that_has_changed(result: Path, home: Path):
    """The result is still about the problem in its folder, and the change is told; a scenario that is named must fit."""
    assert "rooms.toml is unchanged" in veil("verify", result).out
    text = (home / "rooms.toml").read_text("utf-8")
    (home / "rooms.toml").write_text(text.replace("detection = 0.7", "detection = 0.8"), encoding="utf-8")
    done = veil("verify", result)
    assert (done.code, "rooms.toml has changed since" in done.out) == (shared.SOLVED, True)
    done = veil("report", result)
    assert (done.code, "rooms.toml has changed since" in done.err) == (shared.SOLVED, True)
    assert veil("verify", "rooms.toml", result).code == shared.REJECTED
    measured = veil("report", "rooms.toml", result, "-o", "measured.html")
    assert measured.code == 0, measured.err  # the policy in the changed scenario, without the proof of the other one
    page = (home / "measured.html").read_text("utf-8")
    assert "Convergence of the search" not in page
    assert "Simulated attack" in page


def test_another_problem_in_the_folder(result: Path):
    """It is neither verified nor reported nor loaded as the one of the result; a damaged one cannot be checked."""
    path = result / "scenario.toml"
    text = path.read_text("utf-8")
    path.write_text(text.replace("detection = 0.7", "detection = 0.8"), encoding="utf-8")
    assert veil("verify", result).code == shared.REJECTED
    assert veil("report", result).code == shared.BAD_INPUT
    with pytest.raises(InputError, match=r"scenario\.toml does not match its hash"):
        load_result(result)
    path.write_text("[", encoding="utf-8")
    assert veil("verify", result).code == shared.BAD_INPUT
