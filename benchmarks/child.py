"""One piece of work in a process of its own: `python -m benchmarks.child MODULE:FUNCTION ARGUMENTS-AS-JSON`.

The function prepares the work and returns it as a callable. The peak is the resident memory of the whole process
(`VmHWM`), interpreter and libraries included, with the mark set back just before the work. `getrusage` is not used on
Linux: a child's `ru_maxrss` begins at the resident memory of the process that started it.
"""

import importlib
import json
import resource
import sys
import time


def main() -> None:
    """Prepare, measure, and print one line of JSON."""
    module, function = sys.argv[1].split(":")
    work = getattr(importlib.import_module(module), function)(**json.loads(sys.argv[2]))
    reset_peak()
    before = peak_bytes()
    begin = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - begin
    print(json.dumps({"seconds": seconds, "before_bytes": before, "peak_bytes": peak_bytes(), "result": result}))


def reset_peak() -> None:
    """Set the high-water mark back to what is resident now, where the system lets us."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass


def peak_bytes() -> int:
    """The most memory that was resident so far."""
    try:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


if __name__ == "__main__":
    main()
