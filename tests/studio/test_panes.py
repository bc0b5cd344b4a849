"""The panes Draw, Look and Play in a browser: a world is drawn, two policies are compared, both roles are played."""

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

import veil
from tests.studio.test_guarding import CORRIDOR
from veil.common.rounding import lower_text
from veil.formats.results.folder import write_result
from veil.formats.results.scenario import Origin
from veil.formats.scenario.load import read_scenario
from veil.studio.folders import RESULT, SCENARIO, asked
from veil.studio.runs import Runs
from veil.studio.server import StudioServer
from veil.studio.state import Studio

TIGER = Path(__file__).parent.parent / "formats" / "data" / "tiger.pomdp"
expect.set_options(timeout=30_000)  # a machine may be busy
OpenStudio = Callable[..., Page]


@pytest.fixture
def studio(studio: Studio) -> Studio:
    studio.open("gallery:office-patrol")
    return studio


def text_of(page: Page) -> str:
    return page.locator("#pane-draw textarea").input_value()


def problem_of(page: Page) -> veil.Problem:
    """What the text on the page means to the library."""
    return read_scenario(text_of(page)).problem


def press(page: Page, *keys: str) -> None:
    board = page.locator(".scroller")
    expect(page.locator("#draw-cell")).to_contain_text("row")  # the drawing is there
    for key in keys:
        board.press(key)


def cells(page: Page, count: int) -> None:
    """Wait until the text's drawing follows the painted cells."""
    expect(page.locator("#pane-draw .source > .note")).to_contain_text(f"{count} states")


def make_world(page: Page) -> None:
    """A new drawing of three rows and four columns."""
    page.locator("text=Open…").click()
    page.get_by_label("Rows").first.fill("3")
    page.get_by_label("Columns").first.fill("4")
    page.locator("text=Make").click()
    cells(page, 12)


def click_cell(page: Page, row: int, column: int, rows: int) -> None:
    box = page.locator(".scroller").bounding_box()
    assert box is not None
    size = float(page.locator(".scroller > div").evaluate("(space) => space.clientHeight")) / rows
    page.mouse.click(box["x"] + (column + 0.5) * size, box["y"] + (row + 0.5) * size)


def test_a_world_is_drawn(open_studio: OpenStudio):
    page = open_studio(pane="draw")
    make_world(page)
    click_cell(page, 1, 1, 3)  # the wall is the first tool
    cells(page, 11)
    page.locator("text=+ Sensor").click()
    expect(page.locator("[data-sign=a][aria-pressed=true]")).to_be_visible()
    page.locator(".settings [data-key=detection]").fill("0.75")
    page.locator(".settings [data-key=detection]").press("Enter")
    press(page, "Home", "ArrowUp", "ArrowUp", "ArrowRight", "ArrowRight", "Space", "ArrowDown", "Space")
    expect(page.locator("#draw-cell")).to_contain_text("row 1, column 2: in range of sensor a")
    press(page, "G", "ArrowRight", "Space")
    expect(page.locator("#draw-cell")).to_contain_text("row 1, column 3: goal (reward 0.2)")
    expect(page.locator("#pane-draw textarea")).to_have_value(re.compile(r"  S \. a \.\n  \. # a G\n  G \. \. \?\n"))
    made = problem_of(page)
    drawing = "S . a .\n. # a G\nG . . ?"
    world = veil.GridWorld.from_ascii(
        drawing, sensors={"a": {"detection": 0.75}, "c": {}, "d": {}}, slip=0.1, goal_reward=0.2
    )
    assert np.array_equal(made.model.rewards, world.model().rewards)
    assert made.model.num_transitions == world.model().num_transitions
    assert made.observer.sensors.keys() >= {"a"}
    assert made.horizon >= 2 + 3  # the secret in the far corner can be reached
    text = text_of(page)
    page.reload()
    expect(page.locator("#pane-draw textarea")).to_have_value(text)  # it was kept


def test_nothing_is_lost_while_answers_are_awaited(open_studio: OpenStudio):
    """A user may be faster than a busy server: strokes beside another change, a stroke across an answer, a reload."""
    page = open_studio(pane="draw")
    make_world(page)
    page.evaluate("""() => {
        const ask = window.fetch;
        window.fetch = async (...given) => {
            const answer = await ask(...given);
            await new Promise((done) => setTimeout(done, 400));
            return answer;
        };
    }""")
    horizon = page.locator(".fields [data-key=horizon]")
    horizon.fill("9")
    horizon.press("Enter")
    press(page, "Home", "ArrowUp", "ArrowUp", "ArrowRight", "Space")
    box = page.locator(".scroller").bounding_box()
    assert box is not None
    size = box["height"] / 3
    page.mouse.move(box["x"] + 1.5 * size, box["y"] + 1.5 * size)
    page.mouse.down()
    expect(page.locator("#pane-draw textarea")).to_have_value(re.compile("horizon = 9 .*  S # ", re.DOTALL))
    page.mouse.move(box["x"] + 2.5 * size, box["y"] + 1.5 * size)
    page.mouse.up()
    drawn = re.compile(r"horizon = 9 .*  S # \. \.\n  \. # # \.\n  G \. \. \?\n", re.DOTALL)
    expect(page.locator("#pane-draw textarea")).to_have_value(drawn)
    page.reload()
    expect(page.locator("#pane-draw textarea")).to_have_value(drawn)


@pytest.mark.slow
def test_a_finger_paints_and_moves_the_view_if_asked(chromium: Browser, server: StudioServer):
    context = chromium.new_context(viewport={"width": 390, "height": 900}, is_mobile=True, has_touch=True)
    try:
        page = context.new_page()
        page.goto(server.address)
        page.wait_for_selector("body[data-ready=yes]")
        expect(page.locator("#draw-cell")).to_contain_text("row")
        before, touches = text_of(page), context.new_cdp_session(page)
        box = page.locator(".scroller").bounding_box()
        assert box is not None
        size = float(page.locator(".scroller > div").evaluate("(space) => space.clientHeight")) / 5

        def drag(row: int) -> None:
            at = [{"x": box["x"] + (column + 0.5) * size, "y": box["y"] + (row + 0.5) * size} for column in range(3)]
            touches.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": at[:1]})
            for point in at[1:]:
                touches.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [point]})
            touches.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

        drag(4)
        expect(page.locator("#pane-draw textarea")).to_have_value(re.compile(r"\n  #  # #   \. \. \.\n"))
        painted = text_of(page)
        assert painted != before
        page.get_by_role("button", name="Move the view").click()
        drag(3)
        page.wait_for_timeout(500)
        assert text_of(page) == painted
    finally:
        context.close()


@pytest.mark.slow
def test_strokes_can_be_taken_back_and_done_again(open_studio: OpenStudio):
    page = open_studio(pane="draw")
    before = text_of(page)
    press(page, "X", "ArrowDown", "ArrowRight", "Space")
    expect(page.locator("#pane-draw textarea")).not_to_have_value(before)
    after = text_of(page)
    assert "\n  ?  X #" in after
    press(page, "Control+z")
    expect(page.locator("#pane-draw textarea")).to_have_value(before)
    expect(page.locator("#draw-cell")).to_contain_text("row 1, column 1: floor")
    page.locator("text=Redo").click()
    expect(page.locator("#pane-draw textarea")).to_have_value(after)
    with page.expect_download() as saved:
        page.locator("text=Save as TOML").click()
    assert saved.value.suggested_filename == "office-patrol.toml"
    assert saved.value.path().read_text() == after


def test_defects_appear_beside_their_places_while_typing(open_studio: OpenStudio):
    page = open_studio(pane="draw")
    area = page.locator("#pane-draw textarea")
    area.fill(text_of(page).replace("weS", "weq"))
    expect(page.locator(".defects li")).to_contain_text(["'q' has no meaning"])
    line = page.locator(".margin .wrong").inner_text()
    assert text_of(page).splitlines()[int(line) - 1].split()[2] == "weq"
    page.locator(".defects button", has_text="row 2, column 2").click()
    expect(page.locator("#draw-cell")).to_contain_text("“q”, which has no meaning")
    area.fill("horizon = ")
    expect(page.locator(".defects li")).to_contain_text(["it is not TOML"])
    area.fill("[graph]\nhorizon = 3")
    expect(page.locator(".defects li").first).to_be_visible()


@pytest.mark.slow
def test_a_message_that_comes_late_takes_nothing_back(open_studio: OpenStudio, studio: Studio):
    page = open_studio(pane="draw")
    before = text_of(page).replace('name = "office-patrol"\n', "", 1)  # so that it has the name of its file
    studio.set_scenario(before, name="first")
    expect(page.locator("#name")).to_have_text("first")  # the page listens
    with page.expect_response("**/api/scenario"):
        page.locator("#pane-draw textarea").fill(before.replace("horizon = 7", "horizon = 8"))
    stale = {"scenario": before, "name": "late", "edition": studio.edition - 1}
    studio.events.publish("scenario", stale)
    expect(page.locator("#name")).to_have_text("late")  # it has come
    assert "horizon = 8" in text_of(page)
    studio.set_scenario(before, name="newer")
    expect(page.locator("#pane-draw textarea")).to_have_value(before)


@pytest.mark.slow
def test_a_model_file_becomes_a_scene(open_studio: OpenStudio):
    page = open_studio(pane="draw")
    page.locator("text=Open…").click()
    page.get_by_label("Scenario, PRISM or POMDP file").set_input_files(TIGER)
    page.get_by_label("Last states that are secret").fill("index=0")
    page.locator(".asking").get_by_label("Decisions").fill("3")
    page.locator(".asking button").click()
    expect(page.locator("#pane-draw .scene svg .node")).to_have_count(2)
    assert problem_of(page).horizon == 3
    assert problem_of(page).model.states.all() == veil.from_pomdp(TIGER).model.states.all()


def add_run(studio: Studio) -> veil.Solution:
    """A run that is done, as its process leaves it."""
    problem, folder = read_scenario(studio.scenario).problem, studio.folder / "runs" / "1"
    folder.mkdir(parents=True)
    (folder / SCENARIO).write_text(studio.scenario)
    asked(studio.scenario, studio.name, None, {}).write(folder)
    solution = veil.solve(problem, starts=1, iterations=3, certificate=False)
    certificate = veil.certify(problem, solution.policy, time_limit=0.3)
    solution = dataclasses.replace(solution, certificate=certificate)
    write_result(folder / RESULT, problem, solution, Origin(str(folder / SCENARIO)))
    studio.runs = Runs(studio.folder / "runs", studio.events)
    return solution


@pytest.mark.slow
def test_two_policies_side_by_side_at_the_same_time(open_studio: OpenStudio, studio: Studio):
    solution = add_run(studio)
    page = open_studio(pane="look")
    sides = page.locator(".side")
    expect(sides.nth(1).locator("[data-figure=belief][data-drawn=yes]")).to_be_visible()
    problem = veil.gallery.load("office-patrol")
    measured = veil.opacity(problem, veil.MarkovPolicy.uniform(problem))
    for side, bits in zip(sides.all(), (solution.opacity.bits, measured.bits), strict=True):
        expect(side.locator("dd").first).to_contain_text(f"{bits:.4f} bits")
    sides.first.locator("[data-figure=occupancy] input[type=range]").fill("5")
    for output in page.locator(".side output").all():
        expect(output).to_contain_text("time 5 of 7")
    sides.nth(1).locator("select").select_option("1")
    page.locator("#tab-plan").click()
    page.locator("[data-run='1'] [data-act=look]").click()
    expect(sides.first.locator("select")).to_have_value("1")
    expect(sides.nth(1).locator("dd").first).to_contain_text(f"{solution.opacity.bits:.4f} bits")
    page.get_by_label("Same time").uncheck()
    sides.first.locator("[data-figure=occupancy] input[type=range]").fill("2")
    expect(sides.nth(1).locator("[data-figure=occupancy] output")).to_have_text("time 5 of 7")


@pytest.mark.slow
def test_the_observer_is_played(open_studio: OpenStudio, studio: Studio):
    solution, problem = add_run(studio), veil.gallery.load("office-patrol")
    page = open_studio(pane="play")
    page.locator("[data-role=observer]").click()
    for time in range(1, problem.horizon + 1):
        page.locator("text=Next observation").click()
        expect(page.locator("#pane-play .now").first).to_have_text(f"Time {time} of {problem.horizon}")
    seen = page.locator(".seen span").all_inner_texts()
    page.get_by_label("Value of the secret").select_option("secret")
    page.get_by_label("Probability of your guess").fill("90")
    page.get_by_role("button", name="Guess").click()
    observer = veil.ObserverFilter(problem, solution.policy)
    for event in seen:
        observer.update(event)
    outcome = page.locator(".outcome").inner_text()
    truth = re.search(r"it was (\w+)", outcome)
    assert truth is not None
    value = problem.secret_values.index(truth[1])
    yours, bayes = (float(bits) for bits in re.findall(r"costs ([0-9.]+) bits", outcome))
    assert bayes == pytest.approx(-np.log2(observer.posterior[value]), abs=6e-4)
    assert yours == pytest.approx(-np.log2(0.9 if truth[1] == "secret" else 0.1), abs=6e-4)
    expect(page.locator("[data-row=best]")).to_contain_text(f"{solution.opacity.bits:.3f}")
    assert solution.certificate is not None
    expect(page.locator("[data-row=proven]")).to_contain_text(lower_text(solution.certificate.lower))
    page.locator("#pane-play [data-figure=belief] input[type=range]").fill(str(problem.horizon))
    shown = page.locator("#pane-play .observing .bar div").evaluate_all(
        "(all) => all.map((bar) => Number(bar.dataset.p))"
    )
    assert shown == pytest.approx(observer.posterior, abs=1e-5)
    page.locator("text=Next run").click()
    expect(page.locator("#pane-play .now").first).to_have_text(f"Time 0 of {problem.horizon}")


def test_the_agent_is_played_with_the_keyboard_and_the_game_survives_a_reload(open_studio: OpenStudio):
    page = open_studio(pane="play")
    problem = veil.gallery.load("office-patrol")
    page.locator("[data-role=agent]").press("Enter")
    observer = veil.ObserverFilter(problem, veil.MarkovPolicy.uniform(problem))

    def compare(time: int) -> None:
        expect(page.locator("#pane-play .now")).to_contain_text(f"Time {time} of")
        seen = page.locator("#pane-play .now b").nth(1).inner_text()
        observer.update(seen)
        shown = page.locator("#pane-play .bar div").evaluate_all("(all) => all.map((bar) => Number(bar.dataset.p))")
        assert shown == pytest.approx(observer.posterior, abs=1e-9)

    compare(0)
    for time, key in enumerate(["ArrowLeft", "ArrowLeft", "ArrowUp"], 1):
        page.locator(".walk").press(key)
        compare(time)
    page.reload()
    page.wait_for_selector("body[data-ready=yes]")
    expect(page.locator("#pane-play .now")).to_contain_text("Time 3 of")
    for time in range(4, problem.horizon + 1):
        page.locator(".walk").press("Space" if time % 2 else "1")
        compare(time)
    expect(page.locator(".outcome")).to_contain_text("The secret was")
    expect(page.locator("[data-row=policy]")).to_contain_text("0.248")


def test_the_guard_is_played_with_the_keyboard(open_studio: OpenStudio, studio: Studio):
    studio.set_scenario(CORRIDOR, name="corridor")
    page = open_studio(pane="play")
    page.locator("[data-role=guard]").press("Enter")
    expect(page.locator("#pane-play .now")).to_contain_text("Question 1 of 4")
    page.get_by_role("button", name="What would the rules ask?").press("Enter")
    expect(page.locator("#pane-play [role=status]").nth(1)).to_contain_text("The greedy rule asks")
    asked = read_scenario(CORRIDOR).problem
    observer = veil.ObserverFilter(asked, veil.MarkovPolicy.uniform(asked))
    for number, key in enumerate("1213", 1):
        page.locator("#pane-play .asking button").first.press(key)
        expect(page.locator(".seen span")).to_have_count(number)
        action, _, answer = page.locator(".seen span").last.inner_text().partition(" · ")
        observer.update((action, answer))
        shown = page.locator("#pane-play .bar div").evaluate_all("(all) => all.map((bar) => Number(bar.dataset.p))")
        assert shown == pytest.approx(observer.posterior, abs=1e-9)
    expect(page.locator(".outcome")).to_contain_text("You are left with")
    expect(page.locator("[data-row=you]")).to_contain_text("0.25")  # the east camera was asked once
    expect(page.locator("[data-row=greedy]")).to_be_visible()


def test_a_cone_is_added_dragged_and_set(open_studio: OpenStudio, studio: Studio):
    page = open_studio(pane="draw")
    press(page, "Home")
    page.locator("text=+ Cone").click()
    chosen = page.locator("[data-shape=camera-1]")
    expect(chosen).to_have_attribute("aria-pressed", "true")
    box = page.locator(".scroller").bounding_box()
    assert box is not None
    rows = float(page.locator(".fields [data-key=rows]").input_value())
    size = float(page.locator(".scroller > div").evaluate("(space) => space.clientHeight")) / rows
    page.mouse.move(box["x"] + 0.5 * size, box["y"] + 1.5 * size)
    page.mouse.down()
    page.mouse.move(box["x"] + 2.5 * size, box["y"] + 1.5 * size)
    page.mouse.up()
    expect(page.locator("#pane-draw textarea")).to_have_value(
        re.compile(r"centre = \[1, 0\], radius = 2, direction = 0")
    )
    page.locator(".settings [data-key=angle]").fill("60")
    page.locator(".settings [data-key=angle]").press("Enter")
    expect(page.locator("#pane-draw textarea")).to_have_value(re.compile("angle = 60"))
    assert "camera-1" in problem_of(page).observer.sensors
    page.locator("text=Remove this cone").click()
    expect(chosen).to_have_count(0)
    assert "camera-1" not in text_of(page)


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
@pytest.mark.slow
def test_nothing_sticks_out_sideways(open_studio: OpenStudio, width: int, dark: bool):
    page = open_studio(pane="draw", width=width, dark=dark)
    for pane in ("draw", "play"):
        page.locator(f"#tab-{pane}").click()
        assert page.evaluate("document.documentElement.scrollWidth") == width
    page.locator("[data-role=observer]").click()
    page.locator("text=To the end").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.slow
def test_nothing_is_painted_before_the_drawing_is_there(open_studio: OpenStudio):
    page = open_studio(pane="play")
    page.route("**/api/check", lambda route: None)  # which is never answered
    page.locator("#tab-draw").click()
    page.reload()
    page.wait_for_selector("body[data-ready=yes]")
    before = text_of(page)
    page.locator(".scroller").press("Space")
    page.locator(".scroller").press("Shift+ArrowRight")
    page.wait_for_timeout(500)  # the text would follow after 150 ms
    assert text_of(page) == before
