"""A browser for tests of pages: the system's Chromium, driven by Playwright."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

SECONDS = 60.0  # that a test waits for something: far more than it takes, since a busy machine is no failure
expect.set_options(timeout=1000 * SECONDS)


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser; the test is skipped where there is none."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine: `make browser` installs it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


def window(browser: Browser, width: int = 1280, *, dark: bool = False) -> BrowserContext:
    """A window of a width, in light or dark."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, is_mobile=width < 600, color_scheme="dark" if dark else "light"
    )
    context.set_default_timeout(1000 * SECONDS)
    return context
