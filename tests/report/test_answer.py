"""The verdict in one sentence, for every way a search can end, and answers read back from a folder."""

from dataclasses import replace
from pathlib import Path

import pytest

import veil
from veil.formats.results.folder import read_result, write_result
from veil.report.answer import Answer, Claim, bits_text, make_answer, question, upper_text, verdict


def told(problem: veil.Problem, solution: veil.Solution, claim: Claim | None = None) -> str:
    return verdict(problem, Answer(solution, claim, "", None))


def test_a_verdict_is_one_sentence_with_the_numbers(paper: veil.Problem, solved: veil.Solution):
    text = told(paper, solved, Claim(0.93, 0.98761, "…"))
    assert text.count(". ") == 0
    assert f"keeps {solved.opacity.bits:.4f} of {solved.opacity.prior_bits:.4f} bits" in text
    assert "where 0.3 is asked for" in text
    assert "no policy can keep more than 0.9877 bits" in text
    assert "nothing is proven" in told(paper, solved)


def test_other_endings(paper: veil.Problem, solved: veil.Solution):
    assert "but earns" in told(paper, replace(solved, feasible=False, expected_return=0.1))
    assert "asked for" not in told(paper, replace(solved, threshold=None))
    sampled = replace(solved.opacity, method="sampled", std_error=0.01)
    assert "(± 0.01, estimated)" in told(paper, replace(solved, opacity=sampled))
    bracket = replace(solved.opacity, method="bracket", lower=0.1, upper=0.2)
    assert "0.1000 to 0.2000" in told(paper, replace(solved, opacity=bracket))
    open_ = told(paper, replace(solved, goal="transparent"), Claim(0.0, 0.5, "…"))
    assert "The observer learns" in open_
    assert "it hides at most 0.5000 bits" in open_


def test_bounds_are_rounded_outwards():
    assert upper_text(0.12341) == "0.1235"
    assert bits_text(-1e-9) == "0.0000"


@pytest.mark.parametrize("name", veil.gallery.names())
def test_every_secret_has_its_question(name: str):
    assert question(veil.gallery.load(name)).endswith("?")


def test_a_folder_gives_the_same_answer(paper: veil.Problem, solved: veil.Solution, tmp_path: Path):
    write_result(tmp_path / "out", paper, solved, scenario="gallery:paper-last-state", note="not asked for")
    found = make_answer(paper, read_result(tmp_path / "out"))
    assert found.note == "not asked for"
    assert found.version == veil.__version__
    again = found.solution
    assert again.opacity == solved.opacity
    assert (again.status, again.seed, again.threshold) == (solved.status, solved.seed, solved.threshold)
    assert again.policy.probabilities == pytest.approx(solved.policy.probabilities, abs=0)
    assert again.history.opacity_bits == pytest.approx(solved.history.opacity_bits, abs=0)
    assert verdict(paper, found) == told(paper, solved)


def test_what_does_not_belong_together(
    paper: veil.Problem, solved: veil.Solution, courier: veil.Problem, tmp_path: Path
):
    write_result(tmp_path / "out", paper, solved)
    with pytest.raises(veil.InputError, match="about another problem"):
        make_answer(courier, read_result(tmp_path / "out"))
    with pytest.raises(veil.InputError, match="expected a Solution"):
        make_answer(paper, solved.policy)
