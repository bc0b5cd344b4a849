"""The command that an interrupted search advises continues it, into the same folder."""

from pathlib import Path

import pytest

import veil
from tests.cli.commands import NO_PROOF, QUICK, SCENARIO
from tests.cli.commands import veil as run
from tests.planning.small_problems import Interrupting


@pytest.mark.parametrize("reports", [2, 20])
def test_a_search_interrupted_in_any_class_is_resumed_into_its_folder(
    reports: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    Path("rooms.toml").write_text(SCENARIO, encoding="utf-8")
    first = veil.solve(
        veil.load("rooms.toml"), memory="timed", starts=2, iterations=12, certificate=False, checkpoint="run.ck",
        progress=Interrupting(reports),
    )  # fmt: skip
    assert first.status.name == "INTERRUPTED"
    first.save("out", scenario="rooms.toml")
    command = ("solve", "rooms.toml", "--memory", "timed", *QUICK, *NO_PROOF)
    resumed, whole = (
        run(*command, "-o", "out", "--checkpoint", "run.ck", "--json"),
        run(*command, "-o", "whole", "--json"),
    )
    assert resumed.code == whole.code, resumed.err
    assert resumed.json["answer"]["opacity"] == whole.json["answer"]["opacity"]
