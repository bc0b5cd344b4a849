"""Scenario files: one problem per TOML file, with the settings to solve it."""
