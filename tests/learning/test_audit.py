"""Audits of samples alone: bounds that hold on channels with known leakage, what is found, files, and what is refused."""

import json
import math

import numpy as np
import pytest
from validation.channels import Source, hidden_chains, known, readings, table, two_geometrics

import veil
from tests.cli.commands import veil as command
from veil.learning.audited import audit_schema

QUICK = ("counts", "chains")


def audited(source: Source, **settings) -> veil.Audit:
    return veil.audit(source.secrets, source.sequences, **{"curve": False, **settings})


# What is found, and that it is never too much


@pytest.mark.parametrize("predictors", [QUICK, None])
def test_the_bound_holds_and_finds_most(predictors):
    for source, share in (
        (table(0, 3000, 3, 6, 0.7), 0.9),
        (hidden_chains(5, 6000, mixed=0.8), 0.7),
        (readings(1, 3000, 2.0), 0.85),
    ):
        found = audited(source, predictors=predictors)
        assert share * source.leakage < found.leakage.value
        assert found.leakage.low < min(source.leakage, found.leakage.value)
        assert 0.5 * source.leakage < found.leakage.low
        assert found.guess_rate.low < source.guess
        assert found.guess_rate.value == pytest.approx(source.guess, abs=0.03)


@pytest.mark.parametrize("count", [20, pytest.param(400, marks=pytest.mark.slow)])
def test_the_bound_is_valid_in_almost_all_data_sets(count: int):
    """At 95% on both sides the lower end is too high in 2.5% of the data sets, if the predictor is as good as can be."""
    wrong = []
    for seed in range(count):
        runs = (200, 500, 1000)[seed % 3]
        source = table(seed, runs, 2 + seed % 3, 6, (0.1, 0.7, 50.0)[seed % 7 % 3])
        if audited(source, predictors="counts", seed=seed).leakage.low > source.leakage:
            wrong.append(seed)
    assert len(wrong) <= max(1, 0.04 * count), wrong


def test_nothing_is_found_where_there_is_nothing():
    rng = np.random.default_rng(0)
    secrets, sequences = rng.integers(0, 3, 1200), rng.integers(0, 4, (1200, 5))
    found = veil.audit(secrets, sequences, curve=False)
    assert found.leakage.low == 0
    assert found.leakage.value < 0.005
    assert found.telling == ()
    assert found.guess_rate.low <= 1 / 3 + 0.03


def test_a_certain_secret_is_found_whole():
    secrets = ["left", "right", "left", "up"] * 100
    sequences = [["x", name[0]] for name in secrets]
    found = veil.audit(secrets, sequences, curve=False)
    assert found.prior_bits == pytest.approx(1.5)
    assert found.leakage.value == pytest.approx(1.5, abs=0.02)
    assert found.plug_in is not None
    assert found.plug_in.value == pytest.approx(1.5, abs=0.01)
    assert found.guess_rate.value == 1


def test_the_interval_of_the_table_holds_the_leakage():
    """Where sequences repeat, counts with their bias corrected tell the leakage itself; plainly they tell too much."""
    inside, plain, corrected = [], [], []
    for seed in range(40):
        source = table(seed, 400, 3, 6, 20.0)
        found = audited(source, predictors="counts", seed=seed).plug_in
        assert found is not None
        inside.append(found.low <= source.leakage <= found.high)
        joint = np.zeros((3, 6))
        np.add.at(joint, (source.secrets, np.array(source.sequences)[:, 0]), 1 / 400)
        used, apart = joint > 0, np.outer(joint.sum(axis=1), joint.sum(axis=0))
        plain.append(np.sum(joint[used] * np.log2(joint[used] / apart[used])) - source.leakage)
        corrected.append(found.value - source.leakage)
    assert np.mean(inside) >= 0.85
    assert abs(np.mean(corrected)) < 0.3 * abs(np.mean(plain))
    assert audited(hidden_chains(0, 500), predictors="counts").plug_in is None  # most sequences occur once


@pytest.mark.slow
def test_the_bayes_risk_of_a_channel_with_ten_thousand_outputs():
    source = two_geometrics(0, 30_000)
    assert 1 - source.guess == pytest.approx(0.456, abs=0.002)
    found = audited(source)
    assert found.guess_rate.low <= source.guess <= found.guess_rate.high
    assert found.leakage.low <= source.leakage


def test_what_tells_most_comes_first():
    rng = np.random.default_rng(3)
    secret = rng.integers(0, 2, 2000)
    noise = rng.integers(0, 2, (2000, 3))
    seen = np.where(rng.random(2000) < 0.9, secret, 1 - secret) + 2  # at time 1: 2 or 3
    found = audited(Source(secret.tolist(), np.insert(noise, 1, seen, axis=1).tolist(), 0, 0), predictors=QUICK)
    told = 1 + 0.9 * math.log2(0.9) + 0.1 * math.log2(0.1)
    assert {(one.what, one.name) for one in found.telling} == {
        ("observation", "2"),
        ("observation", "3"),
        ("time", "1"),
    }
    assert [one.bits for one in found.telling] == pytest.approx([told] * 3, abs=0.04)
    assert found.leakage.value == pytest.approx(told, abs=0.05)


def test_the_learning_curve_ends_with_the_whole():
    source = hidden_chains(5, 4000, mixed=0.8)
    found = audited(source, predictors=QUICK, curve=True)
    assert [one.num_runs for one in found.curve] == [500, 1000, 2000, 4000]
    assert found.curve[-1].leakage == found.leakage
    assert found.curve[0].leakage.value < found.curve[-1].leakage.value


def test_the_answer_does_not_depend_on_names_or_on_the_order_of_values():
    source = table(2, 600, 3, 5, 0.7)
    renamed = ["cab"[value] for value in source.secrets]
    symbols = [[f"o{9 - symbol}" for symbol in row] for row in source.sequences]
    first, second = (audited(source, seed=4, predictors=QUICK), veil.audit(renamed, symbols, curve=False, seed=4))
    assert first == audited(source, seed=4, predictors=QUICK)
    assert second.prior_bits == pytest.approx(first.prior_bits)
    assert second.leakage.value == pytest.approx(first.leakage.value, abs=0.03)


def test_runs_of_different_lengths_show_when_they_end():
    rng = np.random.default_rng(0)
    secret = rng.integers(0, 2, 400)
    found = veil.audit(secret, [["tick"] * (3 + value) for value in secret], curve=False, predictors=QUICK)
    assert found.leakage.value == pytest.approx(1, abs=0.02)
    assert ("observation", "tick") in {(one.what, one.name) for one in found.telling}


def turned(runs: int, seed: int) -> Source:
    """How often a tick comes is random, noise comes between, and the secret is whether their number is odd."""
    rng = np.random.default_rng(seed)
    ticks = rng.random((runs, 6)) < 1 / 3
    secret = ticks.sum(axis=1) % 2
    seen = np.where(ticks, 2, rng.integers(0, 2, (runs, 6)))
    return Source(secret.tolist(), seen.tolist(), *known(np.diag(np.bincount(secret) / runs)))


def test_a_network_finds_what_needs_a_memory():
    """A chain or an n-gram of three observations does not tell whether a number is odd."""
    source = turned(2500, 1)
    others, both = (audited(source, predictors=("chains", *more)) for more in ((), ("recurrent",)))
    assert others.leakage.value < 0.1
    assert both.leakage.low > 0.9 * source.leakage
    few = audited(turned(300, 1), predictors="recurrent")
    assert dict(few.weights) == {"prior": pytest.approx(1), "recurrent": 0}  # too few runs to fit one


# Files and documents


def write_runs(folder, *, apart: bool) -> None:
    """40 runs as a CSV file with other names for its columns: what is seen last is the label."""
    lines, labels = ["episode,t,reading,outcome"], ["outcome,episode"]
    for run in range(40):
        label = "guilty" if run % 3 else "free"
        for time in range(2):
            lines.append(f"e{run},{time},{label[0] if time else 'x'},{'' if apart or time else label}")
        labels.append(f"{label},e{run}")
    (folder / "logs.csv").write_text("\n".join(lines))
    (folder / "labels.csv").write_text("\n".join(labels))


def test_the_command_reads_labels_from_the_logs_or_from_their_own_file(tmp_path):
    columns = "run=episode,time=t,observation=reading,label=outcome"
    write_runs(tmp_path, apart=False)
    inside = command(
        "audit", str(tmp_path / "logs.csv"), "--columns", columns, "--set", "audit.predictors=counts", "--json"
    )
    write_runs(tmp_path, apart=True)
    options = ("--labels", str(tmp_path / "labels.csv"), "--columns", columns, "--set", "audit.predictors=counts")
    apart = command("audit", str(tmp_path / "logs.csv"), *options, "--json", "-o", str(tmp_path / "audit.json"))
    assert inside.json == apart.json == json.loads((tmp_path / "audit.json").read_text())
    document = apart.json
    assert document["format"] == "veil-audit-1"
    assert set(document) == set(audit_schema()["required"])
    assert "no upper bound" in document["notes"][-1]
    assert document["leakage"]["low"] > 0.5
    assert document["prior_bits"] == pytest.approx(-(26 / 40) * math.log2(26 / 40) - (14 / 40) * math.log2(14 / 40))
    text = command("audit", str(tmp_path / "logs.csv"), *options).out
    assert "leaked" in text
    assert "at least" in text
    assert "Samples alone give no upper bound" in text


def test_simulated_runs_are_audited_as_they_are_written(tmp_path):
    path, scenario = tmp_path / "runs.csv", "gallery:two-rooms"
    assert command("simulate", scenario, "uniform", "--runs", "2000", "--seed", "3", "-o", str(path)).code == 0
    found = veil.audit_logs(path, predictors=QUICK, curve=False)
    opacity = veil.opacity(veil.gallery.load("two-rooms"), veil.MarkovPolicy.uniform(veil.gallery.load("two-rooms")))
    assert found.leakage.low < opacity.leakage_bits < found.leakage.high + 0.02
    labels = {str(number): "odd" if number % 2 else "even" for number in range(2000)}
    assert veil.audit_logs(path, labels, predictors=QUICK, curve=False).leakage.low == 0


def test_continuous_readings_and_truth_values_are_read_from_json_lines(tmp_path):
    source, path = readings(2, 500, 2.0), tmp_path / "runs.jsonl"
    runs = zip(source.secrets, source.sequences, strict=True)
    path.write_text("".join(json.dumps({"observations": seen, "label": bool(value)}) + "\n" for value, seen in runs))
    found = veil.audit_logs(path, predictors=QUICK, curve=False)
    assert found == audited(source, predictors=QUICK)
    assert found.num_observations == 16


def test_what_cannot_be_audited_is_refused(tmp_path):
    some = [["x"]] * 20
    for secrets, sequences, message in (
        (["a", "b"] * 10, [*some, ["y"]], "there are 20 secrets and 21 sequences"),
        (["a"] * 20, some, "the secret is 'a' in every run"),
        (["a", "b"], [["x"], ["y"]], "there are 2 runs, expected 20 or more"),
        ([], [], "there are no runs"),
        (range(20), some, "the secret has 20 values in 20 runs, too few runs of each"),
        (["a", None] * 10, some, "secret 1 is 'None', expected a name or a number: leave runs without a secret out"),
        (["a", math.nan] * 10, some, "secret 1 is 'nan'"),
        (["a", "b"] * 10, [*some[1:], "xy"], "sequence 19 is 'xy', expected a list"),
        (["a", "b"] * 10, [*some[1:], [math.inf]], r"sequence 19 is '\[inf\]', expected names, finite numbers"),
        (["a", "b"] * 10, [*some[1:], [["x"]]], "sequence 19"),
        (["a", "b"] * 10, [[]] * 20, "every sequence is empty"),
        ("ab" * 10, some, "secrets is 'abab"),
        (["a", "b"] * 10, 5, "sequences is '5'"),
    ):
        with pytest.raises(veil.InputError, match=message):
            veil.audit(secrets, sequences)  # pyright: ignore[reportArgumentType]
    pairs = (["a", "b"] * 10, some)
    for settings, message in (
        ({"confidence": 1}, "confidence is 1"),
        ({"bins": 1}, "bins is 1"),
        ({"seed": -1}, "seed is -1"),
        ({"predictors": "oracle"}, "predictors has 'oracle', expected some of 'counts'"),
        ({"predictors": []}, "predictors has"),
    ):
        with pytest.raises(veil.InputError, match=message):
            veil.audit(*pairs, **settings)  # pyright: ignore[reportArgumentType]
    write_runs(tmp_path, apart=True)
    columns = {"run": "episode", "time": "t", "observation": "reading", "label": "outcome"}
    with pytest.raises(veil.InputError, match="no run has a label"):
        veil.audit_logs(tmp_path / "logs.csv", columns=columns)
    with pytest.raises(veil.InputError, match="run 'e1' has no label"):
        veil.audit_logs(tmp_path / "logs.csv", {"e0": "a"}, columns=columns)
    with pytest.raises(veil.InputError, match="the labels have run 'e99', which the logs do not have"):
        veil.audit_logs(tmp_path / "logs.csv", {f"e{run}": "a" for run in (*range(40), 99)}, columns=columns)
    for text, message in (
        ("run,outcome\n0,a\n", r"line 1: the columns are 'run', 'outcome', expected episode and outcome"),
        ("episode,outcome\ne0,a\ne0,b\n", r"line 3: run 'e0' has the labels 'a' and 'b'"),
        ("episode,outcome\ne0\n", "line 2: 1 cells found, expected 2"),
        ("", "line 1: its first line is empty, expected the names of columns"),
    ):
        (tmp_path / "labels.csv").write_text(text)
        with pytest.raises(veil.VeilError, match=message):
            veil.audit_logs(tmp_path / "logs.csv", tmp_path / "labels.csv", columns=columns)
