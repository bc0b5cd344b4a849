"""Learning from logs: counts by hand, truth within intervals, hidden states, files that are wrong."""

import json
import math
import re
from typing import Any

import numpy as np
import pytest
from scipy.special import betainc

import veil
from tests.cli.commands import veil as command
from tests.seeds import looped
from veil.common.clock import Clock
from veil.engine.chain import make_chain
from veil.engine.sampling import draw_runs
from veil.learning.fitted import DOCUMENT, POLICY, SCENARIO, fit_schema
from veil.learning.hidden import expected
from veil.learning.logs import UNKNOWN, read_logs
from veil.learning.parts import CHOICE, EMISSION

RUNS = [
    {"states": ["a", "b", "b"], "actions": ["go", "go"], "observations": ["dark", "lit", "lit"]},
    {"states": ["a", "a", "b"], "actions": ["go", "stay"], "observations": ["dark", "dark", "dark"]},
]
CSV = """run,time,state,action,observation
0,0,a,go,dark
1,0,a,go,dark
0,1,b,go,lit
1,1,a,stay,dark
0,2,b,,lit
1,2,b,,dark
"""


def recorded(problem: veil.Problem, policy: veil.Policy, runs: int, seed: int, *, hidden: bool = False) -> list[dict]:
    """Simulated runs in the form of a log; `problem` has an observer on states who does not see actions."""
    chain = make_chain(problem, policy)
    drawn = draw_runs(chain, runs, np.random.default_rng(seed))
    states = chain.hidden.state[drawn.states]
    kept = {"observations": drawn.events.tolist()}
    if not hidden:
        kept |= {"states": states.tolist(), "actions": drawn.actions.tolist()}
    return [{key: rows[run] for key, rows in kept.items()} for run in range(runs)]


@pytest.fixture(scope="module")
def rooms() -> veil.Problem:
    """Three rooms, noisy moves and a noisy sensor, so that every row has something to estimate."""
    moves = [[[0.7, 0.3, 0], [0, 0.8, 0.2], [0.1, 0, 0.9]], [[0.1, 0.9, 0], [0.2, 0, 0.8], [1, 0, 0]]]
    model = veil.Model(np.array(moves).transpose(1, 0, 2), np.zeros((3, 2)), [0.6, 0.4, 0])
    observer = veil.Observer([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]])
    return veil.Problem(model, observer, veil.LastState([2]), horizon=4)


@pytest.fixture(scope="module")
def acting() -> veil.MarkovPolicy:
    return veil.MarkovPolicy([[0.3, 0.7], [0.8, 0.2], [0.5, 0.5]])


def named(fitted: veil.Fitted) -> dict[tuple[str, str, str], float]:
    return {(one.part, one.given, one.value): one.probability for one in fitted.intervals}


# Counts by hand


def test_estimates_of_a_tiny_log_are_those_by_hand():
    fitted = veil.fit(RUNS, draws=2)
    found = named(fitted)
    assert found["start", "", "a"] == 1
    assert found["transition", "a, go", "b"] == found["transition", "a, go", "a"] == 0.5
    assert found["transition", "a, stay", "b"] == 1
    assert found["choice", "a", "go"] == pytest.approx(2.5 / 4)
    assert found["emission", "a", "dark"] == pytest.approx(3.5 / 4)
    assert found["emission", "b", "lit"] == pytest.approx(2.5 / 4)
    assert fitted.problem.horizon == 2
    assert fitted.problem.secret_values == ("a", "b")
    assert fitted.what == ("model", "sensors", "policy")
    # transitions 2 · ln ½, choices, emissions of a (3 dark) and of b (2 lit, 1 dark); the rest is certain
    by_hand = 2 * math.log(0.5) + 2 * math.log(2.5 / 4) + math.log(1.5 / 4) + 3 * math.log(3.5 / 4)
    by_hand += 2 * math.log(2.5 / 4) + math.log(1.5 / 4)
    assert fitted.log_likelihood == pytest.approx(by_hand)


def test_an_interval_is_that_of_the_beta_distribution():
    one = next(one for one in veil.fit(RUNS, draws=1, prior=2.0, confidence=0.8).intervals if one.part == "choice")
    assert (one.given, one.value, one.count) == ("a", "go", 2)
    assert betainc(4, 3, [one.low, one.high]) == pytest.approx([0.1, 0.9])


def test_a_certain_row_has_no_width():
    sure = [one for one in veil.fit(RUNS, draws=1).intervals if one.part == "start"]
    assert [(one.low, one.high) for one in sure] == [(1.0, 1.0)]


def test_rows_that_were_never_seen_are_those_of_the_problem(rooms):
    runs = [{"states": [0, 1], "actions": [0], "observations": [0, 0]}] * 3
    fitted = veil.fit(runs, rooms, draws=1)
    assert np.array_equal(fitted.problem.model.transitions[2], rooms.model.transitions[2])
    assert np.array_equal(fitted.problem.model.transitions[0, 1], rooms.model.transitions[0, 1])
    assert fitted.problem.model.transitions[0, 0].tolist() == [0.125, 0.875, 0]
    assert "5 of 6 rows of the transition probabilities" in fitted.summary()


def test_only_what_is_asked_for_is_estimated(rooms, acting):
    fitted = veil.fit(recorded(rooms, acting, 20, 0), rooms, "sensors", policy=acting, draws=2)
    assert fitted.problem.model == rooms.model
    assert fitted.problem.observer != rooms.observer
    assert fitted.policy == acting


def test_a_log_of_states_alone_is_a_markov_chain():
    fitted = veil.fit([{"states": ["a", "b", "a"]}, {"states": ["a", "a", "a"]}], draws=2)
    assert named(fitted)["transition", "a, step", "b"] == pytest.approx(1.5 / 4)
    assert fitted.opacity.bits == pytest.approx(fitted.opacity.prior_bits)


# Files


def test_all_forms_are_the_same_logs(tmp_path):
    (tmp_path / "r.csv").write_text(CSV)
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, RUNS)) + "\n")
    (tmp_path / "r.json").write_text(json.dumps({"seed": 0, "runs": RUNS}))
    fits = [veil.fit(source, draws=2) for source in (RUNS, *sorted(tmp_path.iterdir()))]
    assert all(one == fits[0] for one in fits)


def test_pairs_with_actions_are_observations_of_an_observer_who_sees_them(tmp_path):
    pairs = [
        {**run, "observations": ["dark", *zip(run["actions"], run["observations"][1:], strict=True)]} for run in RUNS
    ]
    logs = read_logs(pairs)
    assert logs.sees_actions
    assert logs.names["observation"] == ("dark", "lit")
    assert veil.fit(pairs, draws=1).problem.observer.sees_actions


def test_what_is_not_known_is_left_out():
    logs = read_logs([{"states": ["a", None, "b"], "actions": ["go", ""], "observations": [None, 3, 3]}])
    assert logs.state.tolist() == [0, UNKNOWN, 1]
    assert logs.action.tolist() == [0, UNKNOWN, UNKNOWN]
    assert logs.names["observation"] == ("3",)


def test_a_wrong_file_is_refused_with_its_line(tmp_path):
    for name, text, message in (
        ("r.csv", "", r"r\.csv, line 1: its first line is empty"),
        ("r.csv", "run,state\n0,a\n", r"line 1: the columns are 'run', 'state', expected run, time"),
        ("r.csv", "run,time,state,state\n", r"line 1: two columns are called 'state'"),
        ("r.csv", "run,time,state\n0,0\n", r"line 2: 2 cells found, expected 3"),
        ("r.csv", "run,time,state\n0,0,a\n0,2,a\n", r"line 3: run '0' has time '2', expected 1"),
        ("r.csv", "run,time,state\n0,1e9,a\n", r"line 2: run '0' has time '1e9', expected 0"),
        ("r.csv", 'run,time,state\n0,0,"a\n', r"line \d: not a CSV file"),
        ("r.csv", "run,time,state\n", "there are no runs"),
        ("r.csv", "run,time,state\n0,0," + "a" * 2000 + "\n", "more than 1,000 characters"),
        ("r.jsonl", '{"states": ["a"]}\n[1]\n', "line 2: found '\\[1\\]', expected"),
        ("r.jsonl", '{"states": ["a"\n', "line 1: not JSON"),
        ("r.jsonl", "[" * 100_000, "line 1: not JSON: lists or objects are nested"),
        ("r.jsonl", '{"states": "ab"}', "line 1: states is 'ab', expected a list"),
        ("r.jsonl", '{"states": [1.5]}', "line 1: states has '1.5', expected names, whole numbers"),
        ("r.jsonl", '{"observations": [NaN]}', "line 1: observations has 'nan', expected names, finite numbers"),
        ("r.jsonl", '{"states": ["a", "b"], "observations": ["x"]}', "line 1: 1 observations for 2 times"),
        ("r.json", "[]", 'expected a document {"runs"'),
        ("r.txt", "", r"its extension is not one of \.csv, \.jsonl, \.json"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(veil.VeilError, match=message):
            veil.fit(tmp_path / name)


def test_labels_without_a_secret_are_the_secret_with_a_model_for_each():
    """Each run is from the model of its label: its transitions, and how often it runs, are counted apart."""
    labelled = [{**run, "label": label} for run, label in zip(RUNS, ("loud", "calm"), strict=True)]
    fitted = veil.fit([*labelled, labelled[0]], draws=1)
    assert fitted.problem.secret_values == ("calm", "loud")
    assert fitted.problem.secret_table.weights == pytest.approx([1.5 / 4, 2.5 / 4])
    found = named(fitted)
    assert found["secret", "", "loud"] == 2.5 / 4
    assert found["transition", "loud: a, go", "b"] == pytest.approx(2.5 / 3)  # the other run went from a to a
    assert found["transition", "calm: a, go", "a"] == pytest.approx(1.5 / 2)
    calm, loud = fitted.problem.models
    assert (
        calm.transitions[1, 0].tolist() == loud.transitions[1, 0].tolist()
    )  # from b, where calm never was: that of all runs
    assert fitted.opacity.prior_bits == pytest.approx(-(1.5 / 4) * math.log2(1.5 / 4) - (2.5 / 4) * math.log2(2.5 / 4))


def test_labels_name_the_models_that_ran():
    """Of a scenario with several models each is estimated from the runs that are labelled with it."""
    leaves = (0.1, 0.8)
    both = [veil.Model([[[1 - leave, leave]], [[0.3, 0.7]]], [[0], [0]], [1, 0]) for leave in leaves]
    problem = veil.Problem(both, veil.Observer([[0.8, 0.2], [0.1, 0.9]]), veil.WhichModel(names=["x", "y"]), 5)
    chain = make_chain(problem, veil.MarkovPolicy.uniform(problem))
    drawn = draw_runs(chain, 4000, np.random.default_rng(0))
    state, which = chain.hidden.state[drawn.states], chain.hidden.model_index[drawn.states[:, 0]]
    runs = [
        {"states": state[run].tolist(), "observations": drawn.events[run].tolist(), "label": "xy"[which[run]]}
        for run in range(4000)
    ]
    fitted = veil.fit(runs, problem, draws=1)
    assert fitted.what == ("model", "sensors", "policy")
    for found, known in zip(fitted.problem.models, problem.models, strict=True):
        assert found.transitions == pytest.approx(known.transitions, abs=0.03)
    with pytest.raises(veil.InputError, match="label 'z' is not the name of a model, expected one of 'x', 'y'"):
        veil.fit([*runs, {**runs[0], "label": "z"}], problem)
    with pytest.raises(veil.InputError, match="label the runs with the names of the models"):
        veil.fit([{key: run[key] for key in ("states", "observations")} for run in runs], problem, "model")


def test_a_label_is_never_ignored_in_silence(rooms, tmp_path):
    labels = [{**run, "label": label} for run, label in zip(RUNS, ("secret", "elsewhere"), strict=True)]
    told: list[tuple[list[dict], str]] = [
        ([{**run, "label": "secret"} for run in RUNS], "labels of 2 runs agree with the secret"),
        (labels, "labels differ from the secret in 1 of 2 runs"),
        ([{**run, "label": "guilty"} for run in RUNS], "labels are not used: 'guilty' is not a value of the secret"),
    ]
    for runs, message in told:
        fitted = veil.fit(runs, secret=veil.LastState(["b"]), draws=1)
        assert any(message in note for note in fitted.notes), fitted.notes
    with pytest.raises(veil.InputError, match=r"all runs have the label 'guilty': say what is secret"):
        veil.fit(told[2][0])
    with pytest.raises(veil.InputError, match="the runs have 101 labels, expected at most 100"):
        veil.fit([{**RUNS[0], "label": f"run {number}"} for number in range(101)])
    with pytest.raises(veil.InputError, match="run '1' has no label, and others have"):
        veil.fit([labels[0], RUNS[1]])
    with pytest.raises(veil.InputError, match=r"no states were recorded.*veil\.audit"):
        veil.fit([{"observations": ["x"], "label": "guilty"}])
    hidden = [{"observations": [0, 1], "secret": "guilty"}]
    assert any("veil audit measures" in note for note in veil.fit(hidden, rooms, "policy").notes)
    (tmp_path / "r.csv").write_text("run,time,state,secret,label\n0,0,a,x,x\n")
    with pytest.raises(veil.errors.ModelFileError, match=r"'secret' and 'label' could both be the label"):
        veil.fit(tmp_path / "r.csv")
    (tmp_path / "r.csv").write_text("run,time,state,label\n0,0,a,x\n0,1,a,y\n")
    with pytest.raises(veil.errors.ModelFileError, match=r"line 3: run '0' has the labels 'x' and 'y'"):
        veil.fit(tmp_path / "r.csv")


def test_columns_and_keys_can_be_called_otherwise(tmp_path):
    renamed = CSV.replace("run,time,state,action,observation", "episode,t,room,move,seen")
    (tmp_path / "r.csv").write_text(renamed)
    columns = {"run": "episode", "time": "t", "state": "room", "action": "move", "observation": "seen"}
    keys = {"state": "room", "action": "move", "observation": "seen"}
    runs = [dict(zip(keys.values(), run.values(), strict=True)) for run in RUNS]
    known = veil.fit(RUNS, draws=2)
    assert veil.fit(tmp_path / "r.csv", columns=columns, draws=2) == known
    assert veil.fit(runs, columns=keys, draws=2) == known
    option = ",".join(f"{name}={column}" for name, column in columns.items())
    done = command("fit", str(tmp_path / "r.csv"), "--columns", option, "--set", "fit.draws=2", "--json")
    assert done.json["opacity"]["bits"] == known.opacity.bits
    for wrong, message in (
        ({"run": "episodes"}, r"line 1: the columns are 'episode', 't', .* expected episodes, time"),
        ({"step": "t"}, "unknown field 'step', expected some of run, time"),
        ({"run": 3}, "run is 3, expected the name of a column"),
    ):
        with pytest.raises(veil.VeilError, match=message):
            veil.fit(tmp_path / "r.csv", columns=wrong)  # pyright: ignore[reportArgumentType]
    assert "expected NAME=COLUMN" in command("fit", str(tmp_path / "r.csv"), "--columns", "run").err


def test_rewards_are_the_means_of_what_was_paid(tmp_path):
    """The reward of a moment with an action is that of state and action; of the last one, that of the state."""
    lines = ["run,time,state,action,observation,reward", "0,0,a,go,dark,1", "0,1,b,go,lit,", "0,2,b,,lit,5"]
    lines += ["1,0,a,go,dark,4", "1,1,a,stay,dark,-1", "1,2,b,,dark,7"]
    (tmp_path / "r.csv").write_text("\n".join(lines))
    paid = [{**RUNS[0], "rewards": [1, None, 5]}, {**RUNS[1], "rewards": [4, -1, 7]}]
    for logs in (tmp_path / "r.csv", paid):
        fitted = veil.fit(logs, draws=1)
        model = fitted.problem.model
        assert fitted.what == ("model", "sensors", "policy", "rewards")
        assert model.rewards[0].tolist() == [2.5, -1]
        assert model.rewards[1].tolist() == [0, 0]
        assert model.terminal_rewards.tolist() == [0, 6]
        assert any("means of 5 that were recorded" in note for note in fitted.notes)
    unused = veil.fit(paid, veil.fit(RUNS, draws=1).problem, "sensors", draws=1)
    assert any("rewards are not used" in note for note in unused.notes)
    with pytest.raises(veil.InputError, match="no reward was recorded"):
        veil.fit(RUNS, veil.fit(RUNS, draws=1).problem, "rewards")
    with pytest.raises(veil.InputError, match="run 1: the reward is 'much', expected a finite number"):
        veil.fit([{**RUNS[0], "rewards": ["much", 1]}])


def test_an_empty_run_is_refused(rooms):
    for empty in ({"states": []}, {"states": [], "actions": [], "observations": []}, {"actions": []}):
        with pytest.raises(veil.InputError, match="run 3: nothing was recorded: leave the run out"):
            veil.fit([*RUNS, empty])
    unseen = rooms.replace(observer=veil.Observer([[1, 0], [1, 0], [0, 1]], sees_initial=False))
    with pytest.raises(veil.InputError, match="run 1: nothing was recorded"):
        veil.fit([{"observations": []}], unseen, "policy")


def test_wrong_names_and_settings_are_refused(rooms, tmp_path):
    (tmp_path / "r.csv").write_text("run,time,state,action\n0,0,s0,a0\n0,1,s7,\n")
    with pytest.raises(veil.InputError, match=r"line 3: unknown state 's7'"):
        veil.fit(tmp_path / "r.csv", rooms)
    changes: list[tuple[dict[str, Any], str]] = [
        ({"prior": 0}, "prior is 0"),
        ({"prior": float("inf")}, "prior is inf"),
        ({"time_limit": float("nan")}, "time_limit is nan"),
        ({"confidence": 1.0}, "confidence is 1.0"),
        ({"draws": 0}, "draws is 0"),
        ({"what": "model"}, "needs a problem"),
    ]
    for change, message in changes:
        with pytest.raises(veil.InputError, match=re.escape(message)):
            veil.fit(RUNS, **change)
    for what, message in (
        ("senors", "what has 'senors'"),
        ([], "what is empty"),
        ([["model"]], "what has"),
        (5, "what is 5"),
    ):
        with pytest.raises(veil.InputError, match=message):
            veil.fit([{"states": [0]}], rooms, what)  # pyright: ignore[reportArgumentType]
    with pytest.raises(veil.InputError, match="neither actions nor observations"):
        veil.fit([{"states": [0, 1]}], rooms)
    with pytest.raises(veil.InputError, match="no states were recorded: give the scenario"):
        veil.fit([{"observations": ["x"]}])
    with pytest.raises(veil.InputError, match="the problem has a secret"):
        veil.fit(RUNS, rooms, secret=veil.LastState([0]))
    with pytest.raises(veil.InputError, match="expected a policy"):
        veil.fit([{"states": [0]}], rooms, policy=np.eye(3))  # pyright: ignore[reportArgumentType]
    many = [{"states": [f"s{i}"], "observations": [f"o{i}"]} for i in range(5000)]
    with pytest.raises(veil.TooLargeError, match="5,000 states and 5,000"):
        veil.fit(many)


def test_an_action_that_is_not_available_is_refused_unless_the_model_is_estimated():
    runs = [{"states": ["a", "b", "b"], "actions": ["stay", "go"]}]
    known = veil.fit(
        [{"states": ["a", "b", "b"], "actions": ["go", "go"]}, {"states": ["b", "b"], "actions": ["stay"]}], draws=1
    )
    with pytest.raises(veil.InputError, match="run 1: action 'stay' is not available in state 'a'"):
        veil.fit(runs, known.problem, "policy")
    assert veil.fit(runs, known.problem, draws=1).problem.model.available.all()


# Consistency


def test_intervals_contain_the_truth(rooms, acting):
    fitted = veil.fit(recorded(rooms, acting, 2000, 1), rooms, draws=1)
    truth = {
        "start": lambda one: rooms.model.initial[rooms.model.states.find(one.value)],
        "transition": lambda one: rooms.model.transitions[
            rooms.model.states.find(one.given.split(", ")[0]), rooms.model.actions.find(one.given.split(", ")[1]),
            rooms.model.states.find(one.value)],
        "emission": lambda one: rooms.observer.emissions[
            rooms.model.states.find(one.given), rooms.observer.observations.find(one.value)],
        "choice": lambda one: acting.probabilities[
            rooms.model.states.find(one.given), rooms.model.actions.find(one.value)],
    }  # fmt: skip
    inside = [one.low <= truth[one.part](one) <= one.high for one in fitted.intervals]
    assert len(inside) == 2 + 11 + 6 + 6
    assert np.mean(inside) >= 0.85
    known = veil.opacity(rooms, acting).bits
    assert fitted.opacity.bits == pytest.approx(known, abs=0.02)


def chancy(num_states: int, seed: int) -> tuple[veil.Problem, veil.MarkovPolicy]:
    """Many start states in three groups, and sensors that tell little of the group or nothing, or what the state is."""
    rng = np.random.default_rng(seed)
    moves = np.zeros((num_states, 2, num_states))
    for row in moves.reshape(-1, num_states):
        row[rng.choice(num_states, 3, replace=False)] = rng.dirichlet(np.ones(3))
    model = veil.Model(moves, np.zeros((num_states, 2)), np.full(num_states, 1 / num_states))
    groups = {f"group {k}": list(range(k, num_states, 3)) for k in range(3)}
    weak, rich = 0.1 * rng.dirichlet(np.ones(3), size=num_states) + 0.3, rng.dirichlet(np.ones(3), size=num_states)
    problem = veil.Problem(model, veil.Observer(rich if seed % 2 else weak), veil.InitialState(groups), horizon=3)
    return problem, veil.MarkovPolicy(rng.dirichlet(np.ones(2), size=num_states))


@pytest.mark.parametrize(
    ("num_states", "runs", "repeats"),
    [
        (20, 100, 4),
        pytest.param(20, 100, 60, marks=pytest.mark.slow),
        pytest.param(100, 1000, 40, marks=pytest.mark.slow),
    ],
)
def test_the_interval_of_the_opacity_holds_the_truth_and_the_estimate(num_states: int, runs: int, repeats: int):
    """Draws from a posterior lie on one side where noise looks like structure; with the bias corrected they do not."""
    missed, biased, better = [], [], []
    for seed in range(repeats):
        problem, policy = chancy(num_states, seed)
        fitted = veil.fit(recorded(problem, policy, runs, seed), problem, draws=50, seed=seed)
        assert fitted.opacity_interval is not None
        assert fitted.corrected_bits is not None
        low, high = fitted.opacity_interval
        assert low <= fitted.opacity.bits <= high, f"seed {seed}"
        assert low <= fitted.corrected_bits <= high, f"seed {seed}"
        known = veil.opacity(problem, policy).bits
        if not low <= known <= high:
            missed.append(seed)
        biased.append(fitted.opacity.bits - known)
        better.append(fitted.corrected_bits - known)
    assert len(missed) <= 1 + repeats // 10, missed  # of 60 at 95%, 8 or more have a probability of 1%
    if repeats > 10:
        weak = np.arange(repeats) % 2 == 0
        assert abs(np.mean(np.array(better)[weak])) < 0.5 * abs(np.mean(np.array(biased)[weak]))


def test_the_interval_of_the_opacity_on_sparse_rows(rooms, acting):
    known = veil.opacity(rooms, acting).bits
    for seed in range(4):
        found = veil.fit(recorded(rooms, acting, 20, seed), rooms, draws=30, seed=seed).opacity_interval
        assert found is not None
        assert found[0] <= known <= found[1], f"seed {seed}"


def test_no_interval_is_given_that_is_not_covered(rooms, acting):
    """Too few draws, asked for or allowed by the time; hidden states, whose expected counts are no counts."""
    runs = recorded(rooms, acting, 40, 0)
    for change, reason in (
        ({"draws": 19}, "it needs 20 draws or more, draws=19"),
        ({"draws": 100, "time_limit": 0.0}, "the time limit allowed"),
    ):
        settings: dict[str, Any] = change
        fitted = veil.fit(runs, rooms, **settings)
        assert fitted.opacity_interval is None, change
        assert reason in fitted.summary()
        assert fitted.corrected_bits is None
        assert "interval  " not in fitted.summary()
        assert fitted.document()["opacity_interval"] is None
        assert set(fitted.document()) == set(fit_schema()["required"])
    hidden = veil.fit(recorded(rooms, acting, 40, 0, hidden=True), rooms, "sensors", policy=acting)
    assert hidden.opacity_interval is None
    assert all(math.isnan(one.low) and math.isnan(one.high) for one in hidden.intervals)
    assert "States are hidden" in hidden.summary()


def test_the_same_seed_gives_the_same_fit_and_more_runs_a_narrower_one(rooms, acting):
    runs = recorded(rooms, acting, 400, 2)
    few, again, many = (veil.fit(some, rooms, draws=30, seed=3) for some in (runs[:40], runs[:40], runs))
    assert few == again
    assert few.opacity_interval is not None
    assert many.opacity_interval is not None
    assert np.ptp(few.opacity_interval) > np.ptp(many.opacity_interval)


# Hidden states


@looped(("names", "prior"), [({EMISSION}, 0.5), ({CHOICE}, 0.5), ({EMISSION, CHOICE}, 0.5), ({EMISSION, CHOICE}, 1e-3)])
@pytest.mark.slow
def test_expectation_maximisation_never_loses(rooms, acting, names, prior):
    logs = read_logs([*recorded(rooms, acting, 100, 4, hidden=True), {"observations": [0, 1]}]).numbered(
        {"state": rooms.model.states, "action": rooms.model.actions, "observation": rooms.observer.observations}
    )
    found = expected(logs, rooms, veil.MarkovPolicy.uniform(rooms), names, prior, Clock(None))
    assert len(found.objective) > 3
    assert np.diff(found.objective).min() > -1e-9 * abs(found.objective[0])
    assert found.objective[-1] > found.objective[0]
    moments = {EMISSION: 100 * 5 + 2, CHOICE: 100 * 4 + 1}
    for name, table in found.parts.tables.items():
        assert table.count.sum() == pytest.approx(moments[name])


def test_the_log_likelihood_of_hidden_runs_is_that_of_the_smoother(rooms, acting):
    runs = recorded(rooms, acting, 50, 5, hidden=True)
    fitted = veil.fit(runs, rooms, "sensors", policy=acting, draws=1)
    smoother = veil.smoother(fitted.problem, acting)
    total = sum(math.log(smoother.smooth(run["observations"]).probability) for run in runs)
    assert fitted.log_likelihood == pytest.approx(total)


def test_sensors_are_found_without_states(rooms, acting):
    blurred = rooms.replace(observer=veil.Observer([[0.7, 0.3], [0.6, 0.4], [0.4, 0.6]]))
    runs = recorded(rooms, acting, 4000, 6, hidden=True)
    fitted = veil.fit(runs, blurred, "sensors", policy=acting, draws=1, prior=0.01)
    assert (
        fitted.log_likelihood >= veil.fit(runs, blurred, "sensors", policy=acting, draws=1, time_limit=0).log_likelihood
    )
    assert fitted.problem.observer.emissions[0, 0] == pytest.approx(0.9, abs=0.1)
    assert fitted.problem.observer.emissions[2, 0] == pytest.approx(0.2, abs=0.1)
    assert "States are hidden" in fitted.summary()


def test_hidden_runs_that_do_not_fit_are_refused(rooms):
    for runs, what, message in (
        ([{"observations": [0, 1]}], "model", "a model cannot be estimated"),
        ([{"observations": [0, None]}], "policy", "run 1: an observation is missing"),
        ([{"observations": [0] * 6}], "policy", "a run has 5 decisions"),
    ):
        with pytest.raises(veil.InputError, match=message):
            veil.fit(runs, rooms, what)
    sure = rooms.replace(observer=veil.Observer(np.eye(3)))
    with pytest.raises(veil.InputError, match="run 2: this observation is impossible"):
        veil.fit([{"observations": [0, 1]}, {"observations": [0, 2]}], sure, "policy")


# What is written


def test_a_fit_is_saved_and_read_by_the_rest(rooms, acting, tmp_path):
    fitted = veil.fit(recorded(rooms, acting, 50, 7), rooms, draws=2)
    for _ in range(2):  # a fit may replace a fit
        fitted.save(tmp_path / "fit")
    assert sorted(one.name for one in (tmp_path / "fit").iterdir()) == sorted([SCENARIO, POLICY, DOCUMENT])
    assert sorted(one.name for one in tmp_path.iterdir()) == ["fit"]
    problem, policy = veil.load(tmp_path / "fit" / SCENARIO), veil.load_policy(tmp_path / "fit" / POLICY)
    assert policy == fitted.policy
    assert veil.opacity(problem, policy).bits == pytest.approx(fitted.opacity.bits)
    document = json.loads((tmp_path / "fit" / DOCUMENT).read_text())
    assert document["opacity"]["bits"] == fitted.opacity.bits
    assert len(document["intervals"]) == len(fitted.intervals)


def test_a_folder_with_other_files_is_not_touched(rooms, acting, tmp_path):
    fitted = veil.fit(recorded(rooms, acting, 5, 7), rooms, draws=1)
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(veil.InputError, match=r"it holds 'mine\.txt'"):
        fitted.save(tmp_path)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / SCENARIO).write_text("mine")
    with pytest.raises(veil.InputError, match="without a fit"):
        fitted.save(tmp_path / "own")
    with pytest.raises(veil.InputError, match="not a folder"):
        fitted.save(tmp_path / "mine.txt")
    assert (tmp_path / "own" / SCENARIO).read_text() == "mine"


def test_the_command_reads_what_simulate_writes_and_writes_what_measure_reads(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number, output in enumerate((["-o", "runs.csv"], ["--json"])):
        done = command("simulate", "gallery:two-rooms", "uniform", "--runs", "300", *output)
        assert done.code == 0
        if number:
            (tmp_path / "runs.json").write_text(done.out)
    same = ("--set", "fit.draws=5")
    told = [command("fit", "gallery:two-rooms", f"runs.{kind}", *same, "--json") for kind in ("csv", "json")]
    assert told[0].json == told[1].json
    done = command("fit", "gallery:two-rooms", "runs.csv", *same, "-o", "fitted")
    assert "written to fitted" in done.out
    measured = command("measure", "fitted/scenario.toml", "fitted/policy.safetensors", "--json")
    assert measured.json["opacity"]["bits"] == pytest.approx(told[0].json["opacity"]["bits"])
    assert measured.json["opacity"]["bits"] == pytest.approx(0.451205, abs=0.05)


def test_observers_who_see_actions_or_report_on_actions_are_fitted_too():
    """The gallery's observers on (action, next state) and with actions, from the runs that the command simulates."""
    every = ("model", "sensors", "policy")
    for name, what in (("badge-doors", every), ("network-probe", every)):  # of the second a label names the model
        problem = veil.gallery.load(name)
        runs = command("simulate", f"gallery:{name}", "uniform", "--runs", "300", "--json").json["runs"]
        fitted = veil.fit(runs, problem, draws=1)
        known = veil.opacity(problem, veil.MarkovPolicy.uniform(problem)).bits
        assert fitted.what == what
        assert fitted.opacity.bits == pytest.approx(known, abs=0.1)
        assert any("labels of 300 runs agree with" in note for note in fitted.notes) == (name == "badge-doors")
