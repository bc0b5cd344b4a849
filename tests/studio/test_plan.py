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


@pytest.mark.slow
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
    shown = [run.locator(f"[data-number={name}]").inner_text().split()[0] for name in ("upper", "bits", "gap")]
    assert float(shown[0]) - float(shown[1]) == pytest.approx(float(shown[2]), abs=1e-9)  # the tiles subtract
    expect(run.locator("[data-number=bits]")).to_have_text(f"{known.opacity.bits:.4f} bits")
    page.reload()
    expect(run.locator("[data-number=bits]")).to_have_text(f"{known.opacity.bits:.4f} bits")
    assert page.locator("#plan-min_return").input_value() == "0.8"  # the form stays as it was


@pytest.mark.slow
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


def test_a_share_typed_into_the_form_is_planned(open_studio: OpenStudio, studio: Studio):
    studio.set_scenario(studio.scenario + "\n[solve]\nstarts = 1\niterations = 2\n")
    page = open_studio(pane="plan")
    page.locator("#plan-min_return").fill("80%")
    page.locator("#plan-certificate").uncheck()
    page.locator("#pane-plan button[type=submit]").click()
    run = page.locator("[data-run='1']")
    expect(run).to_have_attribute("data-state", "done", timeout=WAIT)
    expect(run.locator(".told")).to_contain_text("Threshold on the return: 0.8")


@pytest.mark.slow
def test_a_frontier_cut_off_by_its_limit_says_what_is_missing(open_studio: OpenStudio, studio: Studio):
    studio.open("gallery:paper-last-state")
    page = open_studio(pane="plan")
    page.locator("#plan-kind").select_option("frontier")
    page.locator("#plan-time_limit").fill("0.2")
    page.locator("#pane-plan button[type=submit]").click()
    run = page.locator("[data-run='1']")
    expect(run).to_have_attribute("data-state", "done", timeout=WAIT)
    found = len(studio.runs.get("1").summary()["points"])
    assert found < 10, "the curve was complete before its limit"
    expect(run.locator(".note").first).to_contain_text(f"{found} of 10 points")
    expect(run.locator(".told")).to_contain_text(f"{10 - found} of 10 points missing: give it more time")


@pytest.mark.slow
def test_a_failed_run_shows_its_reason_instead_of_numbers(open_studio: OpenStudio):
    page = open_studio(pane="plan")
    page.locator("#plan-min_return").fill("1.5")
    page.locator("#pane-plan button[type=submit]").click()
    run = page.locator("[data-run='1']")
    expect(run).to_have_attribute("data-state", "failed", timeout=WAIT)
    expect(run.locator(".told")).to_contain_text("1.5")
    expect(run.locator(".tiles")).to_be_hidden()
