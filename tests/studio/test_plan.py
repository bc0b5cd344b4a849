"""The pane Plan in a real browser: a run begins, moves, stops and goes on, and its numbers are the library's."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

import veil
from tests.studio.processes import SECONDS
from veil.studio.state import Studio

OpenStudio = Callable[..., Page]
WAIT = 1000 * SECONDS


def number(page: Page, run: str, name: str) -> float:
    return float(page.locator(f"[data-run='{run}'] [data-number={name}]").get_attribute("data-value") or "nan")


def test_a_world_is_planned_by_keyboard_alone(open_studio: OpenStudio, studio: Studio):
    page = open_studio(pane="plan", refused=True)
    page.locator("#plan-min_return").focus()
    page.keyboard.type("much")
    page.keyboard.press("Enter")
    expect(page.locator("#pane-plan .plan-form [role=alert]")).to_contain_text("min_return")
    for name, value in (("starts", "2"), ("iterations", "12")):
        page.locator("#pane-plan summary").press("Enter") if not page.locator(f"#plan-{name}").is_visible() else None
        page.locator(f"#plan-{name}").focus()
        page.keyboard.type(value)
    page.locator("#plan-min_return").focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("0.8")
    page.keyboard.press("Enter")
    run = page.locator("[data-run='1']")
    expect(run).to_have_attribute("data-state", "done", timeout=WAIT)
    known = veil.solve(veil.gallery.load("two-rooms", min_return=0.8), starts=2, iterations=12)
    assert known.certificate is not None
    assert number(page, "1", "bits") == known.opacity.bits
    assert number(page, "1", "return") == known.expected_return
    assert number(page, "1", "upper") == known.certificate.upper
    assert number(page, "1", "gap") == pytest.approx(known.certificate.gap, abs=1e-12)
    expect(run.locator("[data-number=bits]")).to_have_text(f"{known.opacity.bits:.4f} bits")
    page.reload()
    expect(run.locator("[data-number=bits]")).to_have_text(f"{known.opacity.bits:.4f} bits")
    assert page.locator("#plan-min_return").input_value() == "0.8"  # the form stays as it was


def test_stop_resume_and_remove(open_studio: OpenStudio, studio: Studio):
    page = open_studio(pane="plan", width=390)
    page.locator("#plan-method").select_option("primal-dual")
    page.locator("#pane-plan summary").click()
    page.locator("#plan-iterations").fill("1000000000")
    page.locator("#plan-seed").fill("3")
    studio.set_scenario(studio.scenario + "\n[solve]\nstep = 1e-6\nmethod = 'primal-dual'\n")
    page.locator("#pane-plan button[type=submit]").click()
    run = page.locator("[data-run='1']")
    expect(run.locator(".told")).to_contain_text("climbing", timeout=WAIT)
    before = run.locator(".told").inner_text()
    expect(run.locator(".told")).not_to_have_text(before, timeout=WAIT)  # the numbers move
    run.locator("[data-act=stop]").click()
    expect(run).to_have_attribute("data-state", "stopped", timeout=WAIT)
    assert number(page, "1", "bits") == studio.runs.get("1").answer["bits"]
    run.locator("[data-act=resume]").click()
    expect(run.locator(".told")).to_contain_text("climbing", timeout=WAIT)
    run.locator("[data-act=remove]").click()
    run.locator("[data-act=remove]").click()
    expect(run).to_have_count(0, timeout=WAIT)
    assert studio.runs.summaries() == []
    assert page.evaluate("document.documentElement.scrollWidth") == 390
