"""The verdict in two sentences, for every way a search can end, and answers read back from a folder."""

from dataclasses import replace
from pathlib import Path

import pytest

import veil
from veil.formats.results.folder import read_result, write_result
from veil.formats.results.scenario import Origin
from veil.report.answer import Answer, Claim, make_answer, verdict


def told(solution: veil.Solution, claim: Claim | None = None) -> str:
    return verdict(Answer(solution, claim, "", None))


def test_a_verdict_is_two_sentences_with_the_numbers(solved: veil.Solution):
    text = told(solved, Claim(solved.opacity.bits, 0.98761, "…"))
    measured, proven = text.split(". ")
    assert f"hides {solved.opacity.bits:.4f} of the secret's {solved.opacity.prior_bits:.4f} bits" in measured
    assert "(required: at least 0.3)" in measured
    assert proven == "Proven upper bound over all policies that meet the requirement: 0.9877 bits."
    assert told(solved).endswith(". No bound is proven.")


def test_other_endings(solved: veil.Solution):
    assert "return 0.1, below the required 0.3." in told(replace(solved, feasible=False, expected_return=0.1))
    bracket = replace(solved.opacity, method="bracket", lower=0.10009, upper=0.20001)
    assert "0.1000 to 0.2001" in told(replace(solved, opacity=bracket))
    text = told(solved, Claim(solved.opacity.bits - 0.2, 1.0, "…"))
    assert text.endswith(": 1.0000 bits; what this policy hides is not proven within the limit.")


def test_a_folder_gives_the_same_answer(paper: veil.Problem, solved: veil.Solution, tmp_path: Path):
    write_result(tmp_path / "out", paper, solved, Origin("gallery:paper-last-state"))
    found = make_answer(paper, read_result(tmp_path / "out"))
    assert found.note == solved.certificate_note == "it was not asked for"
    assert found.version == veil.__version__
    again = found.solution
    assert again.opacity == solved.opacity
    assert (again.status, again.seed, again.threshold) == (solved.status, solved.seed, solved.threshold)
    assert again.policy == solved.policy
    assert again.history.opacity_bits == pytest.approx(solved.history.opacity_bits, abs=0)
    assert verdict(found) == told(solved)
    assert make_answer(paper, found) is found


def test_what_does_not_belong_together(
    paper: veil.Problem, solved: veil.Solution, courier: veil.Problem, tmp_path: Path
):
    write_result(tmp_path / "out", paper, solved)
    with pytest.raises(veil.InputError, match="about another problem"):
        make_answer(courier, read_result(tmp_path / "out"))
    with pytest.raises(veil.InputError, match="expected a Solution"):
        make_answer(paper, solved.policy)  # type: ignore[arg-type]
