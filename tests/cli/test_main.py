"""The command as a whole: help, start-up, one JSON document, exit codes, no tracebacks."""

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import warnings
from pathlib import Path

import pytest

import veil as package
from tests.cases import each
from tests.cli.commands import QUICK, SCENARIO, process, veil
from veil.cli import shared
from veil.cli.main import app

COMMANDS = [command.callback.__name__ for command in app.registered_commands if command.callback is not None]


def test_every_help_has_an_example_and_json():
    for command in COMMANDS:
        done = veil(command, "--help")
        assert done.code == 0
        assert not [piece for piece in ("Example: ", f"veil {command}", "--json") if piece not in done.out], command


def test_the_start_is_light():
    code = "import veil.cli.main, sys; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    heavy = {"numpy", "scipy", "jax", "safetensors", "pydantic", "rich", "matplotlib", "jaxtyping"}
    assert heavy.isdisjoint(done.stdout.split())


IN_THE_WAY = {
    "runs.csv": ("simulate", "gallery:two-rooms", "uniform", "-o"),
    "curve.csv": ("frontier", "gallery:two-rooms", "--points", "2", "--set", "solve.iterations=2", "-o"),
    "curve.json": ("frontier", "gallery:two-rooms", "--points", "2", "--set", "solve.iterations=2", "-o"),
    "audit.json": ("audit", "logs.csv", "--set", "audit.predictors=counts", "--set", "audit.curve=false", "-o"),
    "proof.json": ("measure", "gallery:two-rooms", "uniform", "--certificate"),
}


@pytest.mark.parametrize("name", IN_THE_WAY)
def test_a_file_of_the_user_stays_and_one_of_veil_is_replaced(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    command, place = IN_THE_WAY[name], tmp_path / name
    if command[0] == "audit":
        made = veil("simulate", "gallery:two-rooms", "uniform", "--runs", "50", "-o", "logs.csv")
        assert made.code == 0, made.err
    place.write_text("notes of mine\n", "utf-8")
    done = veil(*command, name)
    assert (done.code, place.read_text("utf-8")) == (2, "notes of mine\n")
    assert "choose another name" in done.err
    place.unlink()
    assert veil(*command, name).code == 0
    assert veil(*command, name).code == 0


def test_python_dash_m_and_the_version():
    done = process("--version")
    assert done.code == 0
    assert done.out.startswith("veil ")


def test_an_unknown_command_is_bad_input():
    assert veil("sovle").code == shared.BAD_INPUT
    assert veil("solve", "rooms.toml", "--no-such-option").code == shared.BAD_INPUT
    assert veil("solve").code == shared.BAD_INPUT
    assert "--set horizon=VALUE" in veil("solve", "rooms.toml", "--horizon", "3").err
    assert "--set solve.starts=VALUE" in veil("frontier", "rooms.toml", "--starts", "3").err
    assert veil("solve", "rooms.toml", "--time-limit", "nan").code == shared.BAD_INPUT
    assert veil("solve", "rooms.toml", "--set", "solve.goal=fame").code == shared.BAD_INPUT


RUNS = "run,time,state,action,observation\n0,0,hall,walk,0\n0,1,vault,wait,camera\n0,2,vault,,0\n"


@pytest.fixture(autouse=True)
def runs(home: Path) -> None:
    """Recorded runs of `rooms.toml`."""
    (home / "runs.csv").write_text(RUNS, encoding="utf-8")


ANSWERS = [
    ("inspect", "rooms.toml"),
    ("measure", "rooms.toml", "uniform"),
    ("measure", "rooms.toml", "uniform", "--details"),
    ("simulate", "rooms.toml", "uniform", "--runs", "2"),
    ("measure", "rooms.toml", "--attack", "--set", "attack.episodes=20", "--set", "attack.traces=1"),
    ("show", "gallery"),
    ("show", "formats"),
    ("show", "schema"),
    ("show", "schema", "result"),
    ("show", "installation"),
    ("show", "formula", "F a"),
    ("new", "layouts", "--from", "study"),
    ("new", "fresh"),
    ("new", "--from", "two-rooms"),
    ("convert", "rooms.toml", "rooms.npz"),
    ("frontier", "rooms.toml", "--points", "2", *QUICK),
    ("fit", "runs.csv", "--set", "fit.draws=2"),
    ("fit", "rooms.toml", "runs.csv", "--what", "policy", "--set", "fit.draws=2"),
    ("simulate", "rooms.toml", "uniform", "--observed", "-"),
]
WRITTEN = ("layouts.toml", "fresh.toml", "two-rooms.toml", "rooms.npz")


def test_json_is_one_document_and_nothing_else_and_plain_text_has_no_escapes(home: Path):
    def check(arguments: tuple[str, ...]) -> None:
        done = veil(*arguments, "--json", stdin="0\n")
        assert done.code == 0, done.err
        assert isinstance(done.json, dict)
        assert done.err == ""
        for name in WRITTEN:
            (home / name).unlink(missing_ok=True)
        done = veil(*arguments, stdin="0\n")
        assert done.code == 0, done.err
        assert done.out.strip()
        assert "\x1b" not in done.out

    each({" ".join(arguments): arguments for arguments in ANSWERS}, check)


BAD = [
    ("inspect", "absent.toml"),
    ("studio", "absent.toml", "--no-browser"),
    ("inspect", "broken.toml"),
    ("inspect", "gallery:no-such-thing"),
    ("measure", "rooms.toml", "absent.safetensors"),
    ("measure", "rooms.toml", "rooms.toml"),
    ("measure", "rooms.toml", "other.safetensors"),
    ("measure", "gallery:paper-false-alarms", "uniform", "--method", "exact", "--time-limit", "0.01"),
    ("solve", "rooms.toml", "-o", "rooms.toml"),
    ("solve", "rooms.toml", "--memory", "elephant"),
    ("solve", "rooms.toml", "--memory", "observations:1"),
    ("solve", "rooms.toml", "--checkpoint", "rooms.toml"),
    ("verify", "absent"),
    ("measure", "rooms.toml", "--attack", "--set", "attack.believes=other.safetensors"),
    ("measure", "rooms.toml", "--set", "measure.widt=1"),
    ("measure", "rooms.toml", "--set", "measure.width=thin"),
    ("measure", "rooms.toml", "--details", "--set", "measure.by=chance"),
    ("audit", "logs.csv", "--set", "horizon=3"),
    ("show", "schema", "policies"),
    ("show", "gallery", "schema"),
    ("study", "rooms.toml", "--workers", "many"),
    ("convert", "rooms.toml", "rooms.doc"),
    ("convert", "rooms.toml", "broken.toml"),
    ("fit", "absent.csv"),
    ("fit", "rooms.toml"),
    ("fit", "runs.csv", "--policy", "uniform"),
    ("fit", "runs.csv", "--set", "fit.secret=cellar"),
    ("fit", "rooms.toml", "runs.csv", "--what", "fame"),
    ("new", "rooms"),
    ("new", "--from", "no-such-thing"),
    ("frontier", "rooms.toml", "-o", "no/such/curve.csv", "--points", "2", *QUICK),
]


def test_bad_input_has_a_message_and_code_2_and_writes_nothing(home: Path):
    (home / "broken.toml").write_text("horizon = ", encoding="utf-8")
    other = package.gallery.load("paper-last-state")
    package.MarkovPolicy.uniform(other).save(home / "other.safetensors")
    before = sorted(home.rglob("*"))

    def check(arguments: tuple[str, ...]) -> None:
        answer = veil(*arguments, "--json")
        assert answer.code == shared.BAD_INPUT
        assert answer.err.startswith("veil: ")
        assert "Traceback" not in answer.err
        assert answer.json["error"]["exit_code"] == shared.BAD_INPUT
        assert answer.json["error"]["message"] in answer.err
        assert sorted(home.rglob("*")) == before

    each({" ".join(arguments): arguments for arguments in BAD}, check)


def test_a_reader_that_leaves_is_no_error(home: Path):
    code = f"{sys.executable} -m veil show gallery | head -c 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", code], capture_output=True, text=True, check=False, timeout=60, cwd=home
    )
    assert done.stderr == ""
    assert done.returncode == 0


def test_a_terminal_without_greek_is_no_error(home: Path):
    done = process("inspect", "rooms.toml", cwd=home, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.code == 0, done.err
    assert "\\u2026" in done.out


def test_tables_fit_a_terminal_and_have_no_escapes(home: Path):
    """On a terminal of 60 columns, in which names of files cannot write control characters either."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 60, 0, 0))
    command = [sys.executable, "-m", "veil", "show", "gallery"]
    names = os.environ | {"TERM": "xterm", "COLUMNS": ""}
    with subprocess.Popen(command, stdout=slave, stdin=slave, cwd=home, env=names) as child:
        os.close(slave)
        shown = b""
        with contextlib.suppress(OSError):  # which the end of a terminal is
            while part := os.read(master, 65536):
                shown += part
        assert child.wait(timeout=60) == 0
    os.close(master)
    lines = shown.decode().splitlines()
    assert max(map(len, lines)) <= 60
    assert any("two-rooms" in line for line in lines)
    assert b"\x1b" not in shown
    assert b"x1b" not in shown
    assert b"u001b" not in shown


def test_what_has_gone_is_answered_with_the_way_to_do_it_now():
    for words, now in (
        (["certify", "rooms.toml"], "veil measure SCENARIO POLICY --certificate"),
        (["study", "diff", "a", "b"], "veil study table FOLDER OTHER"),
        (["frontier", "rooms.toml", "--thresholds", "1,2"], "frontier.thresholds="),
    ):
        done = veil(*words)
        assert (done.code, now in done.err) == (2, True), done.err


def test_completion_knows_the_gallery_and_the_files(home: Path):
    (home / "folder").mkdir()
    assert shared.complete_scenario("ro") == ["rooms.toml"]
    assert shared.complete_scenario("gal") == ["gallery:"]
    assert shared.complete_scenario("gallery:two") == ["gallery:two-rooms"]
    for words, place, found in (("veil sol", 1, "solve"), ("veil measure rooms.toml fol", 3, "folder/")):
        done = process(cwd=home, _VEIL_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(place))
        assert done.out.split() == [found]


def test_ctrl_c_during_the_imports_is_no_traceback(tmp_path: Path):
    """A module that the command imports first interrupts it, as a person does who is quick."""
    (tmp_path / "typer.py").write_text("import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(10)\n")
    done = process("--version", PYTHONPATH=f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    assert done.code == shared.INTERRUPTED
    assert done.err == "veil: interrupted\n"


def test_a_formula_whose_automaton_nobody_can_read_is_refused_at_once(home: Path):
    done = veil("show", "formula", " & ".join(f"F a{number}" for number in range(9)), "-o", "out.svg")
    assert done.code == shared.BAD_INPUT
    assert "512 states" in done.err
    assert not (home / "out.svg").exists()


def test_rewards_at_the_end_of_the_range_give_no_warnings(home: Path):
    text = SCENARIO.replace("vault = 1.0", "vault = 1e308").replace("min_return = 0.5", "")
    (home / "large.toml").write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for command in (
            ("inspect", "large.toml"),
            ("measure", "large.toml", "uniform"),
            ("solve", "large.toml", *QUICK),
        ):
            done = veil(*command)
            assert done.code in (shared.SOLVED, shared.BAD_INPUT, shared.LIMIT), done.err
