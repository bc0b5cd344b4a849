"""`python -m veil`, and the entry point of the command `veil`: it imports nothing before it can handle Ctrl-C."""

import sys

_INTERRUPTED = 130


def main() -> None:
    """Start the command line."""
    try:
        from .cli.main import run

        run()
    except KeyboardInterrupt:
        print("veil: interrupted", file=sys.stderr)
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
