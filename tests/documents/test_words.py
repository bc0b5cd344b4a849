"""Words that were retired stay out of the documents and the examples."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What was retired, and what is written instead.
RETIRED = {
    r"watchers?": "observer",
    r"(with|without|has a|have a|no) clock|(with|without|has|have) a clock": "time-dependent",
    r"for ?ever": "infinite horizon",
    r"whatever": "any, regardless of",
    r"(policy|policies|players?) on the (whole )?history": "history policy",
    r"hide or show|hides? and shows?": "conceal or reveal",
    r"wears? (it |the secret )?away": "remaining uncertainty over time",
    r"such a (file|folder|proof|policy|graph)": "this file, a checkpoint",
    r"surer|surest": "P(posterior > 0.9)",
    r"(what )?each sensor costs?|costs? to see": "information leaked through each sensor",
    r"all is well": "all checks passed",
    r"worked out by hand": "known values",
    r"lets? (it )?pass|is let pass": "allow",
    r"a breath of": "a small weight of",
    r"now and then": "periodically",
    r"of (his|her|somebody's) own": "user",
    r"from elsewhere": "imported",
    r"nobody|somebody|whoever": "no agent, a user",
    r"no policy passes|can pass|all memory": "proven upper bound",
}
DOCUMENTS = [
    *(
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "CITATION.cff",
        "mkdocs.yml",
        "Makefile",
        "benchmarks/RESULTS.md",
    ),
    *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))),
    *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "examples").rglob("*.*"))),
]


def retired(text: str) -> list[str]:
    """Each retired word in a text, with what to write instead."""
    found = []
    for pattern, instead in RETIRED.items():
        for match in re.finditer(rf"\b(?:{pattern})\b", text, re.IGNORECASE):
            line = text.count("\n", 0, match.start()) + 1
            found.append(f"line {line}: {match[0]!r}, write: {instead}")
    return found


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if Path(name).suffix not in (".png", ".svg")])
def test_documents_use_the_words_of_the_glossary(name: str):
    assert not retired((ROOT / name).read_text("utf-8"))


@pytest.mark.parametrize("word", ["a watcher", "policies with a clock", "for ever", "No policy whatever"])
def test_a_retired_word_is_found(word: str):
    assert retired(f"It says {word} here.")
