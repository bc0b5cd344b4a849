"""Hooks of the documentation site: pages that live outside `docs/`, links to them, and formulas as MathML.

Formulas are converted when the site is built, so that a page needs no script and no network to show them.
"""

import html
import posixpath
import re
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
# Files outside `docs/` that are pages of the site, with their addresses there.
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/RESULTS.md": "benchmarks.md",
    "validation/RESULTS.md": "validation.md",
    "reproduction/reproduction.md": "reproduction.md",
    "src/veil/proof/README.md": "verification.md",
}
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#:\s]+)(#[^)\s]*)?\)")
FENCE = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)
# A function that `takes` options has one parameter for all of them in its source; callers give them by name.
OPTIONS = re.compile(r'(<span class="n">options</span><span class="p">:</span> <span class="n">\w+Options</span>)')
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that live outside `docs/`, and the figures of those that are generated."""
    for source, address in PAGES.items():
        files.append(File.generated(config, address, content=(ROOT / source).read_text(encoding="utf-8")))
    for folder in ("benchmarks", "reproduction"):
        for path in sorted((ROOT / folder / "figures").glob("*.png")):
            files.append(File.generated(config, f"{folder}/figures/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links at the site's pages; a link to a file that is no page becomes its text."""
    address = page.file.src_uri
    source = next((path for path, there in PAGES.items() if there == address), f"docs/{address}")

    def relink(link: re.Match[str]) -> str:
        image, text, target, anchor = link.groups()
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        there = PAGES.get(path, path.removeprefix("docs/"))
        if files.get_file_from_path(there) is None:
            return text
        return f"{image}[{text}]({posixpath.relpath(there, posixpath.dirname(address) or '.')}{anchor or ''})"

    parts = FENCE.split(markdown)
    return "".join(part if part.startswith("```") else LINK.sub(relink, part) for part in parts)


def on_page_content(html: str, **_: object) -> str:
    """Replace each formula by MathML, which every browser of today draws itself; show options as named arguments."""
    return FORMULA.sub(_formula, OPTIONS.sub(r'<span class="o">**</span>\1', html))


def _formula(found: re.Match[str]) -> str:
    return convert(html.unescape(found[2]), display="block" if found[1] == "div" else "inline")
