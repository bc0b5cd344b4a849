"""Changes to the text of a scenario: the values change, and nothing else does."""

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.seeds import looped
from veil.common.errors import ScenarioError, VeilError
from veil.formats.gallery import names, scenario_text, starter
from veil.formats.scenario.edit import Change, edit


def lines_that_differ(before: str, after: str) -> set[str]:
    return set(after.splitlines()) - set(before.splitlines())


@looped(("place", "value", "line"), [
        (("horizon",), 9, "horizon = 9          # the number of decisions"),
        (("grid", "slip"), 0.25, "slip = 0.25           # probability that a move goes to one side, and to the other"),
        (("grid", "discount"), 0.9, "discount = 0.9"),
        (("grid", "sensors", "c", "detection"), 0.5,
         "detection = 0.5      # probability of a report when the guard is in range"),
        (("grid", "sensors", "e"), {"name": "gate", "detection": 0.7}, 'e = { name = "gate", detection = 0.7 }'),
        (("return_over",), "infinite", 'return_over = "infinite"'),
        (("solve", "starts"), 3, "starts = 3"),
        (("masks", "visible"), False, "visible = false"),
    ])  # fmt: skip
def test_one_line_changes(place: tuple[str, ...], value: object, line: str):
    before = starter("grid")
    after = edit(before, [(place, value)])
    assert line in lines_that_differ(before, after)
    assert len(lines_that_differ(before, after)) <= 2  # with the header of a table that was not there
    assert set(before.splitlines()) - set(after.splitlines()) <= {
        one for one in before.splitlines() if one.startswith(f"{place[-1]} =")
    }


def test_a_drawing_keeps_its_lines():
    after = edit(starter("grid"), [(("grid", "drawing"), "  S  .\n  \\  cG\n")])
    assert '\ndrawing = """\n  S  .\n  \\\\  cG\n"""\ngoal_reward' in after


@looped("place", [("min_return",), ("grid", "sensors", "d"), ("grid", "sensors", "c", "name"), ("secret",)])
def test_what_is_removed_is_gone(place: tuple[str, ...]):
    data = tomllib.loads(starter("grid"))
    found = tomllib.loads(edit(starter("grid"), [(place, None)]))
    for part in place[:-1]:
        data, found = data[part], found[part]
    assert found == {key: value for key, value in data.items() if key != place[-1]}


def test_removing_what_is_not_there_changes_nothing():
    text = scenario_text("two-rooms")
    assert edit(text, [(("grid", "sensors", "w", "cells"), None), (("min_opacity",), None)]) == text


def test_inline_tables_are_written_anew():
    after = edit(scenario_text("office-patrol"), [(("grid", "sensors", "w", "detection"), 0.5)])
    assert 'w = { name = "west", detection = 0.5, false_alarm = 0.02 }' in after


@looped("text", ["horizon = ", 'horizon = "3'])
def test_what_is_no_toml_is_refused(text: str):
    with pytest.raises(ScenarioError):
        edit(text, [(("horizon",), 3)])


def test_a_way_through_a_value_is_refused():
    with pytest.raises(VeilError, match="no table"):
        edit("horizon = 3\n", [(("horizon", "most"), 3)])


values = st.one_of(
    st.none(), st.booleans(), st.integers(-99, 99), st.floats(-9, 9), st.text(max_size=12),
    st.lists(st.integers(0, 9), max_size=3),
)  # fmt: skip
keys = st.sampled_from(["horizon", "grid", "sensors", "c", "drawing", "a b", "x.y", "observer", "new", '"'])


@settings(derandomize=True, max_examples=50, deadline=None)
@given(
    st.sampled_from(names()), st.lists(st.tuples(st.lists(keys, min_size=1, max_size=4).map(tuple), values), max_size=4)
)
def test_whatever_is_changed_the_rest_means_the_same_or_it_is_refused(name: str, changes: list[Change]):
    """The values are those asked for, and every other table is as before."""
    before = scenario_text(name)
    try:
        after = edit(before, changes)
    except VeilError:
        return
    data, found = tomllib.loads(before), tomllib.loads(after)
    touched = {place[0] for place, _ in changes}
    assert {key: value for key, value in found.items() if key not in touched} == {
        key: value for key, value in data.items() if key not in touched
    }
    if changes:
        place, value = changes[-1]
        for part in place:
            found = found.get(part) if isinstance(found, dict) else None
        assert found == value
