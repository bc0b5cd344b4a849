"""Additions to veil: each is one module here and one entry point in pyproject.toml."""
