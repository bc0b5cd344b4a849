"""What the last bits of a result depend on: the processor and the numerical libraries."""

import platform
from pathlib import Path

import numpy as np
import scipy
import scipy.linalg  # loads SciPy's own BLAS, so that it is found below whatever ran before
from threadpoolctl import threadpool_info


def environment() -> dict[str, str]:
    """The processor, the C library, Python, NumPy, SciPy, and each BLAS with the kernels that it chose."""
    found = {
        "processor": _processor(),
        "libc": "-".join(platform.libc_ver()),
        "python": ".".join(platform.python_version_tuple()[:2]),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }
    loaded = [library for library in threadpool_info() if library["user_api"] == "blas"]
    # Other packages may bring a BLAS of their own, which has no part in the results.
    own = [library for library in loaded if "numpy" in library["filepath"] or "scipy" in library["filepath"]]
    libraries = own or loaded
    words = {f"{one['internal_api']} {one['version']} {one.get('architecture', '')}".strip() for one in libraries}
    return found | {"blas": ", ".join(sorted(words))}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    facts = dict(line.replace("\t", "").split(":", 1) for line in reversed(lines) if ":" in line)
    told = [facts.get(name, "").strip() for name in ("model name", "cpu family", "model", "stepping")]
    return " ".join(told).strip() or platform.processor()
