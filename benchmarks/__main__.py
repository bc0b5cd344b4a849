"""Run some benchmarks or all of them, and write what they found into `benchmarks/RESULTS.md`."""

import argparse
import importlib

from benchmarks import MODULES
from benchmarks.common import Settings, machine_line, say, source_mark
from benchmarks.results import write_section


def main() -> None:
    """Run each module named, or all; a section is written as soon as its module is done."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "modules", nargs="*", metavar="MODULE", help=f"one or more of {', '.join(MODULES)}; all if none"
    )
    parser.add_argument("--quick", action="store_true", help="one round each, printed and not written")
    options = parser.parse_args()
    for name in options.modules:
        if name not in MODULES:
            parser.error(f"unknown benchmark {name!r}, expected one of {', '.join(MODULES)}")
    for name in options.modules or MODULES:
        say(name, "starts")
        machine, source = machine_line(), source_mark()  # before the run, so that the load is that of others
        module = importlib.import_module(f"{__package__}.{name}")
        text = module.run(Settings(quick=options.quick))
        if source_mark() != source:
            text = f"**`src/veil` was edited during this run (it began as `{source}`): run it again.**\n\n{text}"
            say(name, "measured code that changed meanwhile: run it again")
        if options.quick:
            print(text)
        else:
            write_section(name, module.TITLE, f"{machine}; `src/veil` at `{source}`", text)
            say(name, "done; its section of benchmarks/RESULTS.md is replaced")


if __name__ == "__main__":
    main()
