"""Scenario files: one problem per TOML file, with the settings to solve it."""

from ..registry import Format, later

FORMAT = Format(
    (".toml",),
    "scenario files",
    read_problem=later("veil.formats.scenario.load:load"),
    write_problem=later("veil.formats.scenario.toml:write_scenario"),
)
