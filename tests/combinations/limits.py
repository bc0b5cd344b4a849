"""The reasons of docs/limits.md, read from the page itself."""

from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "limits.md"


def reasons() -> list[str]:
    """The phrase of each row of the page's tables: the text in backquotes in its first column."""
    found = []
    for line in PAGE.read_text(encoding="utf-8").splitlines() if PAGE.exists() else ():
        cells = line.strip().strip("|").split("|")
        if line.startswith("| `") and len(cells) > 1:
            found.append(cells[0].strip().strip("`"))
    return found


def reason_of(message: str, known: list[str]) -> str | None:
    """The first listed phrase that a message contains."""
    return next((phrase for phrase in known if phrase in message), None)
