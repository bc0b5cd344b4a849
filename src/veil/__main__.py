"""`python -m veil`: the same as the command `veil`."""

from .cli.main import run

if __name__ == "__main__":
    run()
