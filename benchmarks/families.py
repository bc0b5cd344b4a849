"""A search on families of freshly seeded problems (`worlds`), beside what a user would write, at equal time.

`python -m benchmarks.families --family floors --half dev --seconds 60 --methods veil,adam,soft,jax --out out/families.json`
runs each method on each problem in a process of its own with one thread, and prints the report, which `--report FILE...`
prints again from such files. Every answer is measured in the same way afterwards: on 20,000 sequences of one seed, with exact
values of all constraints; one that misses a constraint counts as 0 bits. On a busy machine use `--processor`: the time
limits of veil are processor seconds then. `best_known.json` holds what any method found in any time: `--update-best` gives ten
times the seconds and writes what is better; together with `--report` it takes what is in the files.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import veil
from benchmarks.common import ROOT, machine_line, markdown_table, say, source_mark
from benchmarks.planning_baselines import softened, straight_line_jax, twenty_lines
from benchmarks.worlds import FAMILIES, HALVES, make
from veil.common.clock import Clock
from veil.problem.fingerprint import fingerprint

BEST_KNOWN = Path(__file__).parent / "best_known.json"
NEAR = 0.02  # bits below the best known that count as reaching it
_ADAM_STARTS = 4
_MEASURED = 20_000  # sequences
_GRACE = 300.0  # seconds for building, compiling and measuring, after which a process is ended
_MORE_TIME = 10
_BUSY = 20.0  # seconds for one processor second at most

Row = dict[str, Any]


def _veil(problem: veil.Problem, memory: Any, seconds: float) -> veil.Policy:
    return veil.solve(problem, memory=memory, time_limit=seconds, certificate=False, progress=False).policy


METHODS: dict[str, Callable[[veil.Problem, Any, float], veil.Policy]] = {
    "veil": _veil,
    "adam": lambda problem, memory, seconds: twenty_lines(problem, memory, seconds, _ADAM_STARTS),
    "jax": straight_line_jax,
    "soft": softened,
}


def run_one(job: Row) -> Row:
    """One method on one problem, and what its answer is worth."""
    if job["processor_clock"]:
        defaults = Clock.__init__.__kwdefaults__ or {}
        defaults["now"] = time.process_time  # all time limits from here on
    problem = make(job["family"], job["seed"], job["size"])
    begin = time.perf_counter(), time.process_time()
    policy = METHODS[job["method"]](problem, job["memory"], job["seconds"])
    wall, processor = time.perf_counter() - begin[0], time.process_time() - begin[1]
    hidden = veil.opacity(problem, policy, "sampled", sequences=job["sequences"], seed=2024)
    values = veil.constraint_values(problem, policy)
    return job | {
        "name": problem.name,
        "fingerprint": fingerprint(problem)[:16],
        "bits": hidden.bits,
        "std_error": hidden.std_error,
        "prior_bits": hidden.prior_bits,
        "feasible": all(one.met for one in values),
        "constraints": {one.text: one.value for one in values},
        "wall": wall,
        "processor": processor,
    }


def run_apart(job: Row, threads: int) -> Row:
    """`run_one` in a process of its own; the row says what went wrong instead, if anything did."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment = os.environ | dict.fromkeys(names, str(threads))
    if threads == 1:  # XLA has threads of its own
        environment["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    command = [sys.executable, "-m", "benchmarks.families", "--one", json.dumps(job)]
    patience = (_BUSY if job["processor_clock"] else 1.5) * job["seconds"] + _GRACE
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=patience)
    except subprocess.TimeoutExpired:
        return job | {"error": "it did not end"}
    if done.returncode:
        return job | {"error": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"rc {done.returncode}"}
    row = json.loads(done.stdout.splitlines()[-1])
    say(f"{row['name']}, {row['method']}: {row['bits']:.3f} bits, {_state(row)}, {row['wall']:.1f} s")
    return row


def _state(row: Row) -> str:
    return "feasible" if row["feasible"] else "misses a constraint"


def score(row: Row) -> float:
    """The bits of an answer; 0 if it misses a constraint or is none."""
    return float(row["bits"]) if row.get("feasible") else 0.0


def problem_key(row: Row) -> str:
    """What the best known is listed by: family, seed, size (the family's own by default) and policy class."""
    size = "" if row["size"] is None else f"/{row['size']}"
    return f"{row['family']}/{row['seed']}{size}/{row['memory']}"


def best_known(rows: Iterable[Row]) -> dict[str, Row]:
    """The best of `best_known.json` and of some rows, by problem; entries of problems that have changed do not count."""
    rows = list(rows)
    marks = {problem_key(row): row["fingerprint"] for row in rows if "fingerprint" in row}
    stored: dict[str, Row] = json.loads(BEST_KNOWN.read_text()) if BEST_KNOWN.exists() else {}
    result = {key: one for key, one in stored.items() if marks.get(key, one["fingerprint"]) == one["fingerprint"]}
    for row in rows:
        key = problem_key(row)
        if row.get("feasible") and score(row) > result.get(key, {"bits": -1.0})["bits"]:
            result[key] = {
                "bits": round(row["bits"], 4),
                "std_error": round(row["std_error"], 4),
                "method": row["method"],
                "seconds": row["seconds"],
                "fingerprint": row["fingerprint"],
            }
    return result


def report(rows: Sequence[Row]) -> str:
    """A table of the families and methods, and one of all problems."""
    known = best_known(rows)
    families = list(dict.fromkeys(row["family"] for row in rows))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    summary: list[list[str]] = []
    for family in families:
        for method in methods:
            chosen = [row for row in rows if row["family"] == family and row["method"] == method]
            if chosen:
                summary.append([family, method, *_summary(chosen, known)])
    header = ["family", "method", "problems", "median bits", "median below best", "worst below best",
              f"within {NEAR:g} of best", "infeasible", "no answer", "processor seconds"]  # fmt: skip
    keys = list(dict.fromkeys(problem_key(row) for row in rows))
    cells = {(problem_key(row), row["method"]): _cell(row) for row in rows}
    each = [
        [key, _text(known.get(key, {}).get("bits")), *(cells.get((key, method), "") for method in methods)]
        for key in keys
    ]
    return f"{markdown_table(header, summary)}\n\n{markdown_table(['problem', 'best known', *methods], each)}"


def _summary(rows: list[Row], known: dict[str, Row]) -> list[str]:
    gaps = [max(0.0, known.get(problem_key(row), {"bits": 0.0})["bits"] - score(row)) for row in rows]
    reached = sum(gap <= NEAR and bool(row.get("feasible")) for gap, row in zip(gaps, rows, strict=True))
    missed, failed = sum(row.get("feasible") is False for row in rows), sum("error" in row for row in rows)
    bits, spent = _text(median(score(row) for row in rows)), f"{median(row.get('processor', 0.0) for row in rows):.0f}"
    share = f"{reached / len(rows):.0%}"
    return [str(len(rows)), bits, _text(median(gaps)), _text(max(gaps)), share, str(missed), str(failed), spent]


def _cell(row: Row) -> str:
    if "error" in row:
        return "no answer"
    return _text(row["bits"]) if row["feasible"] else f"({_text(row['bits'])})"


def _text(bits: float | None) -> str:
    return "" if bits is None else f"{bits:.3f}"


def run_all(jobs: list[Row], at_once: int, threads: int, out: Path | None) -> list[Row]:
    """All jobs; the file is written anew after each."""
    rows: list[Row] = []
    with ThreadPoolExecutor(at_once) as pool:
        for row in pool.map(lambda job: run_apart(job, threads), jobs):
            rows.append(row)
            if "error" in row:
                say(f"{problem_key(row)}, {row['method']}: {row['error']}")
            if out is not None:
                out.parent.mkdir(parents=True, exist_ok=True)
                out.write_text(json.dumps(rows, indent=1))
    return rows


def _listed(allowed: Iterable[str]) -> Callable[[str], list[str]]:
    def read(text: str) -> list[str]:
        names = list(allowed) if text == "all" else text.split(",")
        for name in names:
            if name not in allowed:
                raise argparse.ArgumentTypeError(f"unknown {name!r}, expected some of {', '.join(allowed)}, or all")
        return names

    return read


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.families", description=__doc__)
    parser.add_argument(
        "--family", type=_listed(FAMILIES), default=list(FAMILIES), help="some of them, or all (default)"
    )
    parser.add_argument("--half", choices=[*HALVES, "both"], default="dev")
    parser.add_argument("--seeds", help="these instead of a half, as 0,3,7")
    parser.add_argument("--size", type=int, help="about how many states, instead of the family's own")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each method and problem")
    parser.add_argument(
        "--methods", type=_listed(METHODS), default=list(METHODS), help="some of them, or all (default)"
    )
    parser.add_argument("--memory", choices=["timed", "markov"], default="timed")
    parser.add_argument("--sequences", type=int, default=_MEASURED, help="on which answers are measured")
    parser.add_argument("--processor", action="store_true", help="the seconds are processor seconds, on busy machines")
    parser.add_argument("--jobs", type=int, default=1, help="how many run at a time")
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    parser.add_argument("--out", type=Path, help="a JSON file for all rows")
    parser.add_argument(
        "--update-best", action="store_true", help=f"{_MORE_TIME} times the seconds; write {BEST_KNOWN.name}"
    )
    parser.add_argument(
        "--report", type=Path, nargs="+", metavar="FILE", help="print the report of these files; run nothing"
    )
    parser.add_argument("--one", help=argparse.SUPPRESS)
    return parser


def _jobs(options: argparse.Namespace) -> list[Row]:
    halves = HALVES.values() if options.half == "both" else [HALVES[options.half]]
    seeds = [seed for half in halves for seed in half]
    if options.seeds:
        seeds = [int(seed) for seed in options.seeds.split(",")]
    seconds = options.seconds * (_MORE_TIME if options.update_best else 1)
    shared = {"size": options.size, "memory": options.memory, "seconds": seconds, "sequences": options.sequences}
    shared["processor_clock"] = options.processor
    return [
        {"family": family, "seed": seed, "method": method, **shared}
        for family in options.family
        for seed in seeds
        for method in options.methods
    ]


def main() -> None:
    """Run the problems and methods named, or print a report."""
    options = _parser().parse_args()
    if options.one:
        print(json.dumps(run_one(json.loads(options.one))))
        return
    if options.report:
        rows = [row for file in options.report for row in json.loads(file.read_text())]
    else:
        rows = run_all(_jobs(options), options.jobs, options.threads, options.out)
    if options.update_best:
        BEST_KNOWN.write_text(json.dumps(dict(sorted(best_known(rows).items())), indent=1) + "\n")
    print(f"{machine_line()}; `src/veil` at `{source_mark()}`\n\n{report(rows)}")


if __name__ == "__main__":
    main()
