"""A package that adds a secret, a method and a file format to veil through entry points, and tests that use it."""
