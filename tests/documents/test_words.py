"""Words that were retired stay out of every text that users read: documents, help texts, messages, docstrings, the report."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Terms that the glossary replaced: kept out of every text, docstrings included.
TERMS = {
    r"watchers?": "observer",
    # An observer may well have no clock (`untimed=True`); of a policy it is said otherwise.
    r"(policy|policies|agent|class|controller) (with|without|that has|that have) (a|no) clock": "time-dependent",
    r"for ?ever": "infinite horizon",
    r"no policy whatever": "proven upper bound over all policies",
    r"(policy|policies|players?) on the (whole )?history": "history policy",
    r"hide or show|hides? and shows?": "conceal or reveal",
    r"wears? (it |the secret )?away": "remaining uncertainty over time",
    r"surer|surest": "P(posterior > 0.9)",
    r"(what )?each sensor costs?|costs? to see": "information leaked through each sensor",
    r"no policy passes|no policy can pass|all memory": "proven upper bound",
    r"lets? (it )?pass|is let pass|a breath of": "allow, slack",
}
# Turns of phrase: kept out of documents, messages, help texts and the report.
PHRASES = {
    r"whatever": "any, regardless of",
    r"such a (file|folder|proof|policy|graph)": "this file, a checkpoint",
    r"all is well": "all checks passed",
    r"worked out by hand": "known values",
    r"now and then": "periodically",
    r"of (his|her|somebody's) own": "user",
    r"from elsewhere": "imported",
    r"nobody|somebody|whoever": "no agent, a user",
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
        "validation/RESULTS.md",
        "reproduction/reproduction.md",
    ),
    *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "src").rglob("README.md"))),
    *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))),
    *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "examples").rglob("*.*"))),
]


PACKAGE = sorted((ROOT / "src" / "veil").rglob("*.py"))
PAGES = [
    path for path in (ROOT / "src" / "veil").rglob("*.*") if path.suffix in (".jinja", ".js", ".css", ".html", ".toml")
]


ANY = re.compile("|".join(TERMS | PHRASES), re.IGNORECASE)


def retired(text: str, words: dict[str, str]) -> list[str]:
    """Each retired word in a text, with what to write instead."""
    if not ANY.search(text):
        return []
    found = []
    for pattern, instead in words.items():
        for match in re.finditer(rf"\b(?:{pattern})\b", text, re.IGNORECASE):
            line = text.count("\n", 0, match.start()) + 1
            found.append(f"line {line}: {match[0]!r}, write: {instead}")
    return found


def texts(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Every string in a module with its line, and whether it is a docstring that only developers read."""
    tree = ast.parse(path.read_text("utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {id(node.body[0].value) for node in ast.walk(tree)
                  if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)}  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value, id(node) in docstrings and path.parent.name != "cli"


def test_every_text_uses_the_words_of_the_glossary():
    written = [ROOT / name for name in DOCUMENTS if Path(name).suffix not in (".png", ".svg")]
    found = [
        f"{path.relative_to(ROOT)}, {defect}"
        for path in (*written, *PAGES)
        for defect in retired(path.read_text("utf-8"), TERMS | PHRASES)
    ]
    found += [
        f"{path.relative_to(ROOT)}, string at line {number}, its {defect}"
        for path in PACKAGE
        for number, text, is_docstring in texts(path)
        for defect in retired(text, TERMS if is_docstring else TERMS | PHRASES)
    ]
    assert min(len(written), len(PAGES), len(PACKAGE)) > 20
    assert not found


def test_a_retired_word_is_found():
    for word in ("a watcher", "policies with a clock", "for ever", "No policy whatever"):
        assert retired(f"It says {word} here.", TERMS | PHRASES), word
