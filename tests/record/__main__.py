"""`python -m tests.record`: write the frozen file, or compare it with what is found now."""

import argparse
import sys
import time

from .cases import CASES
from .environment import environment
from .frozen import FILE, read, unlike, write
from .values import shown

_MOST_SHOWN = 5  # differences of a case that are told


def main() -> int:
    """Make or compare the record; the exit code of a comparison is 1 where something differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.record", description=__doc__)
    parser.add_argument(
        "--compare", action="store_true", help="print what differs from the frozen file, and write nothing"
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these cases; the others keep their frozen values")
    parser.add_argument("--times", action="store_true", help="tell how long each case takes")
    options = parser.parse_args()
    unknown = sorted(set(options.only or ()) - set(CASES))
    if unknown:
        parser.error(f"there is no case {', '.join(unknown)}")
    names = options.only or list(CASES)
    if options.only and not options.compare and read()["environment"] != environment():
        parser.error(f"{FILE.name} was made in another environment: all of it must be made anew")
    found = {}
    for name in names:
        begin = time.monotonic()
        found[name] = CASES[name].run()
        if options.times:
            print(f"{time.monotonic() - begin:8.2f} s  {name}", file=sys.stderr)
    if options.compare:
        return compare(found)
    write((read()["cases"] if options.only else {}) | found)
    print(f"{len(found)} cases written to {FILE}")
    return 0


def compare(found: dict) -> int:
    """Print a table of what differs."""
    frozen = read()
    same = frozen["environment"] == environment()
    print("the same environment: bit for bit" if same else "another environment: within tolerances")
    different = 0
    for name, value in found.items():
        places = unlike(frozen, name, value)
        different += bool(places)
        for place, old, new in places[:_MOST_SHOWN]:
            print(f"{name}\n    {place}\n        frozen {shown(old)}\n        found  {shown(new)}")
        if len(places) > _MOST_SHOWN:
            print(f"    and {len(places) - _MOST_SHOWN} more places")
    print(f"{different} of {len(found)} cases differ")
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
