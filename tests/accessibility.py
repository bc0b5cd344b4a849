"""Structure and contrast of a page, by axe-core in the browser."""

from pathlib import Path

import pytest
from playwright.sync_api import Page

AXE = Path(__file__).parents[1] / ".venv" / "share" / "axe-core" / "axe.min.js"
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]


def violations(page: Page) -> list[str]:
    """What a page has against the rules for structure, names and contrast, each with the first elements concerned.

    The test is skipped without axe-core.
    """
    if not AXE.exists():
        pytest.skip("no axe-core on this machine: `make browser` fetches it")
    page.evaluate(AXE.read_text("utf-8"))
    options = {"runOnly": _RULES, "resultTypes": ["violations"], "preload": False}
    found = page.evaluate("async (options) => (await axe.run(document, options)).violations", options)
    return [f"{one['id']}: {[node['html'][:120] for node in one['nodes'][:3]]}" for one in found]
