"""A package that adds to veil through entry points (a secret, a memory, a feature of observers, …), and tests that use it."""
