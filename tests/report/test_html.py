"""The page: everything is in it, nothing leaves it, names stay names, the same inputs give the same bytes."""

import base64
import html
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veil
from tests.report.problems import HARM
from tests.seeds import looped
from veil.report.answer import Claim
from veil.report.behaviour import behave
from veil.report.html import make_report, write_report

SECTIONS = {
    "policy", "occupancy", "belief", "revealing", "convergence", "over-time", "sources", "observer", "certificate",
    "settings",
}  # fmt: skip


class Elements(HTMLParser):
    """Every element with its attributes, and the text outside of scripts and styles."""

    def __init__(self, text: str):
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self.inside = tag

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside not in ("script", "style"):
            self.text += data


def unpack(packed: dict[str, Any], size: int) -> np.ndarray:
    """Frames as the page unpacks them."""
    place = np.frombuffer(base64.b64decode(packed["place"]), "<u4" if packed["wide"] else "<u2")
    root = np.frombuffer(base64.b64decode(packed["root"]), "<u2")
    frames = np.zeros((len(packed["begin"]) - 1, size))
    for number, (begin, end) in enumerate(zip(packed["begin"], packed["begin"][1:], strict=False)):
        frames[number, place[begin:end]] = (root[begin:end] / 65535) ** 2
    return frames


def data_of(text: str) -> dict:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert found is not None
    return json.loads(found[1])


@pytest.fixture(scope="module")
def page(paper: veil.Problem, solved: veil.Solution) -> str:
    return make_report(paper, solved, runs=4, sequences=5)


def test_every_part_is_there(page: str, paper: veil.Problem, solved: veil.Solution):
    elements = Elements(page)
    ids = {attributes.get("id") for _, attributes in elements.found}
    assert ids >= SECTIONS
    assert not ids & {"frontier", "attack", "advice"}  # nothing was computed that they could show
    assert f"hides {solved.opacity.bits:.4f} of" in elements.text
    assert "There is no certificate: it was not asked for." in elements.text
    assert "stationary Markov policies" in elements.text
    assert veil.__version__ in elements.text
    assert f"NumPy {np.__version__}" in elements.text
    assert "{" not in re.sub(r"<(script|style).*?</\1>", "", page, flags=re.S)  # no place was left open


def test_nothing_leaves_the_page(page: str):
    elements = Elements(page)
    assert not {tag for tag, _ in elements.found} & {"iframe", "object", "embed", "img", "audio", "video", "base"}
    links = [value for _, attributes in elements.found for name, value in attributes.items() if name in ("href", "src")]
    assert links == ["data:,"]
    assert "http://www.w3.org/2000/svg" in page
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", page)
    assert "@import" not in page
    assert "default-src 'none'" in page


def test_the_numbers_are_the_library_s(page: str, paper: veil.Problem, solved: veil.Solution):
    data, seen = data_of(page), behave(paper, solved.policy)
    frames = unpack(data["occupancy"]["frames"], paper.num_states)
    assert frames == pytest.approx(seen.occupancy, abs=1e-4)
    assert data["occupancy"]["times"] == list(range(11))
    assert data["convergence"]["bits"] == pytest.approx(solved.history.opacity_bits, abs=1e-6)
    assert data["frontier"]["chosen"] == pytest.approx([solved.expected_return, solved.opacity.bits], abs=1e-6)
    assert len(data["runs"]) == 4
    run = data["runs"][0]
    observer = veil.ObserverFilter(paper, solved.policy)
    for time, event in enumerate(run["seen"]):
        expected = observer.update(event)
        assert [line["y"][time] for line in run["lines"]] == pytest.approx(expected, abs=1e-5)
    assert unpack(run["belief"], 36)[-1] == pytest.approx(observer.belief, abs=1e-4)


def test_the_revealing_sequences_are_listed(page: str, paper: veil.Problem, solved: veil.Solution):
    rows = re.findall(r"<tr>(.*?)</tr>", page.split('id="sequences"')[1].split("</table>")[0], re.S)[1:]
    table = veil.measures.joint_table(paper, solved.policy).revealing(5)
    assert len(rows) == 5
    for row, one in zip(rows, table, strict=True):
        assert f"{one.probability:.3g}" in row
        assert f"{one.gain_bits:.4f}" in row
        assert f"{max(one.posterior.values()):.1%}" in row


def test_a_sample_is_called_one(page: str, paper: veil.Problem, solved: veil.Solution):
    text = Elements(make_report(paper, solved, time_limit=0)).text
    assert "share of the sample" in text
    assert "among 400 sampled runs" in text
    assert "share of the sample" not in page
    assert "among all 2,579 possible sequences" in page


def test_the_same_inputs_give_the_same_bytes(paper: veil.Problem, solved: veil.Solution, tmp_path: Path, page: str):
    write_report(tmp_path / "page.html", paper, solved, runs=4, sequences=5)
    assert (tmp_path / "page.html").read_text("utf-8") == page
    assert make_report(paper, solved, runs=4, sequences=5, seed=1) != page
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    with pytest.raises(veil.InputError, match="cannot be written"):
        write_report(tmp_path / "nowhere" / "page.html", paper, solved)


def test_names_stay_names(hostile_solution: tuple[veil.Problem, veil.Solution], tmp_path: Path):
    problem, solution = hostile_solution
    write_report(tmp_path / "page.html", problem, solution)
    text = (tmp_path / "page.html").read_bytes().decode("utf-8")
    assert text.count("<script") == 2
    assert text.count("</script>") == 2
    assert "<img" not in text
    assert html.escape(HARM[1]) in text
    assert data_of(text)["scene"]["names"] == list(HARM)
    assert data_of(text)["policy"]["actions"] == [HARM[0] + "!", HARM[2] + "!"]


def test_a_certificate_is_told_in_words(paper: veil.Problem, solved: veil.Solution):
    text = make_report(paper, solved, certificate=Claim(0.9, 0.95001, "hides 0.9 of <1> bits.\nThe policy: a test."))
    assert "hides 0.9 of &lt;1&gt; bits" in text
    assert "Proven upper bound over all policies that meet the requirement: 0.9501 bits" in text  # rounded up
    assert data_of(text)["convergence"]["upper"] == 0.95001


def test_the_tiles_subtract_as_they_are_shown(paper: veil.Problem, solved: veil.Solution):
    upper = solved.opacity.bits + 0.012345
    text = make_report(paper, solved, certificate=Claim(0.5, upper, "A claim."))
    tiles = dict(re.findall(r"<dt>([^<]*)</dt><dd>([0-9.]+) bits", text))
    shown = [round(1e4 * float(tiles[name])) for name in ("Proven at most", "Hidden", "Gap")]
    assert shown[0] - shown[1] == shown[2]
    assert shown[0] >= 1e4 * upper


def test_timed_policies_have_a_frame_a_decision(courier: veil.Problem, timed: veil.TimedPolicy, solved: veil.Solution):
    answer = replace(solved, policy=timed, threshold=None)
    data = data_of(make_report(courier, answer, frontier=None))
    assert data["policy"]["timed"]
    assert len(data["policy"]["laws"]) == len(data["policy"]["moves"]) == courier.horizon
    assert not data["scene"]["grid"]


@looped("name", ["network-probe", "badge-doors", "convoy-checkpoint", "two-rooms"])
def test_every_kind_of_secret(name: str, solved: veil.Solution):
    problem = veil.gallery.load(name)
    answer = replace(solved, policy=veil.MarkovPolicy.uniform(problem))
    assert data_of(make_report(problem, answer))["horizon"] == problem.horizon


def test_policies_with_memory_and_on_the_history(courier: veil.Problem, solved: veil.Solution):
    memory = veil.MemoryPolicy.uniform(courier, veil.StateMemory(1))
    data = data_of(make_report(courier, replace(solved, policy=memory)))
    assert data["policy"]["timed"]  # what it does in a state, memory averaged over, changes with time
    rooms = veil.gallery.load("two-rooms")
    game = veil.solve(rooms, method="game", certificate=False)
    text = make_report(rooms, game)
    assert data_of(text)["horizon"] == 1
    assert f"The policy hides {game.opacity.bits:.4f}" in text


@pytest.mark.slow
def test_a_long_run_is_thinned_out(solved: veil.Solution):
    problem = veil.gallery.load("two-rooms").replace(horizon=700, min_return=None)
    answer = replace(solved, policy=veil.MarkovPolicy.uniform(problem), threshold=None)
    data = data_of(make_report(problem, answer, runs=2))
    times = data["runs"][0]["times"]
    assert (times[0], times[-1], len(times)) == (0, 700, 600)
    assert len(data["occupancy"]["times"]) == 121
    assert len(data["runs"][0]["belief"]["begin"]) == 601


def test_the_page_has_the_proven_bounds_of_the_curve_and_of_the_answer():
    problem = veil.gallery.load("two-rooms")
    answer = veil.solve(problem, starts=2, iterations=10, certificate_time_limit=20)
    curve = veil.frontier(problem, 3, starts=2, iterations=10, proof_seconds=20)
    assert answer.certificate is not None
    shown = data_of(make_report(problem, answer, frontier=curve))["frontier"]["bounds"]
    expected = sorted(
        [(one.threshold, one.upper_bits) for one in curve.points] + [(answer.threshold, answer.certificate.upper)]
    )
    assert [x for x, _ in shown] == pytest.approx([x for x, _ in expected], abs=1e-6)
    assert [y for _, y in shown] == pytest.approx(np.minimum.accumulate([y for _, y in expected]), abs=1e-6)
    plain = veil.frontier(problem, 3, starts=2, iterations=10)
    assert data_of(make_report(problem, answer, frontier=plain))["frontier"]["bounds"] == []


@pytest.mark.slow
def test_ten_thousand_states_fit_in_five_megabytes(large_page: Path):
    assert large_page.stat().st_size < 5_000_000
