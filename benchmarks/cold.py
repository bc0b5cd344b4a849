"""A cold start: a fresh process that imports veil, solves one problem, and prints when it passed a number of bits.

`python -m benchmarks.cold NAME MIN_RETURN BITS TIME_LIMIT LAUNCHED`: a limit of 0 is none; LAUNCHED is the moment at which
the caller launched the process, in seconds since the epoch. Nothing is imported here but what a user would import.
"""

import json
import sys
import time


def main() -> None:
    """Solve, and print one line of JSON: seconds since the launch, bits and return."""
    name, (min_return, mark, limit, launched) = sys.argv[1], map(float, sys.argv[2:6])
    import veil  # here, since it is part of what is measured
    from veil.planning.solve import solve

    problem = veil.gallery.load(name).replace(min_return=min_return)
    imported = time.time() - launched
    passed: list[float] = []

    def watch(news) -> None:
        if not passed and news.opacity_bits >= mark and news.expected_return >= min_return:
            passed.append(time.time() - launched)

    solution = solve(problem, time_limit=limit or None, progress=watch, certificate=False)
    solved = time.time() - launched
    if not passed and solution.feasible and solution.opacity.bits >= mark:
        passed.append(solved)
    answer = {"imported": imported, "passed": passed[0] if passed else None, "solved": solved}
    print(json.dumps(answer | {"bits": solution.opacity.bits, "expected_return": solution.expected_return}))


if __name__ == "__main__":
    main()
