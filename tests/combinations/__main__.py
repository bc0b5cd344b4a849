"""`python -m tests.combinations --count 300 --seed 5`: the share refused, by reason, and every failure."""

import argparse
import sys
import time
import traceback

from .calls import ask
from .cases import random_case
from .run import run
from .sample import covering, drawn, parse


def main() -> int:
    """Run a sample, all pairs, or one combination."""
    parser = argparse.ArgumentParser(prog="python -m tests.combinations", description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="how many random triples")
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--pairs", action="store_true", help="every pair of values with every call")
    parser.add_argument("--only", default="", help="only combinations whose text contains this")
    parser.add_argument("--one", help="one combination, as a failure prints it; shows where it fails")
    parser.add_argument("--seconds", type=float, help="stop after this time")
    parser.add_argument("--times", action="store_true", help="print the seconds of each call")
    given = parser.parse_args()
    if given.one:
        one = parse(given.one)
        try:
            case = random_case(dict(one.features), one.seed, one.call == "sensor_costs")
            ask(case, one.call)
        except Exception:
            traceback.print_exc()
            return 1
        print("answered, and equal to all runs")
        return 0
    listed = covering(given.seed) if given.pairs else drawn(given.count, given.seed)
    began = time.monotonic()
    tally = run((one for one in listed if given.only in one.text), seconds=given.seconds)
    print(tally.text())
    if given.times:
        for call, seconds in sorted(tally.seconds.items(), key=lambda item: -item[1]):
            print(f"{seconds:8.1f} s  {call}")
    print(f"{time.monotonic() - began:.0f} s")
    return 1 if tally.failed or tally.unlisted else 0


if __name__ == "__main__":
    sys.exit(main())
