"""What commands without iterations say on a terminal while they work."""

import io
import time

import pytest

from veil.cli.progress import working


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("seconds", "quiet", "told"), [(0.0, False, False), (2.3, True, False), (2.3, False, True)])
def test_work_that_takes_seconds_is_told_on_a_terminal(
    seconds: float, quiet: bool, told: bool, monkeypatch: pytest.MonkeyPatch
):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with working("checking", quiet=quiet):
        time.sleep(seconds)
    assert ("checking" in terminal.getvalue()) is told


def test_nothing_is_told_where_nobody_looks(capsys: pytest.CaptureFixture[str]):
    with working("checking"):
        pass
    assert capsys.readouterr().err == ""
