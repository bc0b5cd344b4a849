"""Run a command from a small process, so that its peak memory is its own.

On Linux the peak memory of a process includes that of the process it was started from, until it runs its program, and a
test worker may be large.
"""

import json
import os
import subprocess
import sys

_LAUNCH = """
import json, os, resource, subprocess, sys
limit = int(sys.argv[1])
if limit:
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
done = subprocess.run(sys.argv[2:], capture_output=True, text=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([done.returncode, done.stdout, done.stderr, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""


def run_small(command: list[str], *, data_limit: int = 0, timeout: float = 300) -> tuple[int, str, str, float, float]:
    """Exit code, standard output, standard error, seconds of processor time and peak memory in MiB of a command.

    **Arguments:** `data_limit`: the most bytes of data that the command may allocate, 0 for no limit.
    """
    names = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    launch = [sys.executable, "-I", "-c", _LAUNCH, str(data_limit), *command]
    done = subprocess.run(launch, capture_output=True, text=True, env=names, timeout=timeout, check=True)
    code, out, err, seconds, mebibytes = json.loads(done.stdout)
    return code, out, err, seconds, mebibytes
