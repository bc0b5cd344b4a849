"""The process in which Storm parses and builds a program: it has limits, and may crash without harm to the one that asked.

Started by `veil.formats.prism.process` as a script, with a request in JSON on standard input: the module path, the program,
the folder for the answer, the constants and the limits. The answer is `model.json`, or `error.json`.
"""

import json
import sys
from pathlib import Path
from typing import Any

MEMORY, STORM, MISSING, OLD, UNDEFINED = "memory", "storm", "missing", "old", "undefined"


def main() -> None:
    """Answer one request."""
    request = json.load(sys.stdin)
    sys.path[:] = request["path"]
    _limit(request["memory_bytes"], request["seconds"])
    folder = Path(request["folder"])
    try:
        error = _build(request, folder)
    except MemoryError:
        error = [MEMORY, ""]
    if error is not None:
        (folder / "error.json").write_text(json.dumps(error), encoding="utf-8")


def _limit(memory_bytes: int, seconds: float) -> None:
    """Limit memory, processor time and core files; the parent watches the time as well, but it may be killed."""
    try:
        import resource
    except ImportError:  # Windows, for which there is no stormpy
        return
    for kind, most in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CPU, int(seconds) + 5),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _build(request: dict[str, Any], folder: Path) -> list[str] | None:
    """Write what was built, or return the kind and words of what is wrong."""
    try:
        import stormpy  # pyright: ignore[reportMissingImports]: an extra that not everybody has
    except ImportError:
        return [MISSING, ""]
    if not hasattr(stormpy, "build_model_from_drn") or not callable(getattr(stormpy, "BuilderOptions", None)):
        return [OLD, str(getattr(stormpy, "__version__", "unknown"))]
    try:
        program = stormpy.parse_prism_program(request["program"])
        if request["constants"]:
            program, _ = stormpy.instantiate_constants(program, request["constants"])
        undefined = sorted(constant.name for constant in program.get_undefined_constants())
        if undefined:
            return [UNDEFINED, ", ".join(undefined)]
        options = stormpy.BuilderOptions(build_full=True)
        options.set_build_observation_valuations()
        options.set_exploration_checks(True)  # without it a value outside the range of its variable wraps around
        built = stormpy.build_model(program, options=options)
    except (RuntimeError, ValueError, TypeError, stormpy.exceptions.StormError) as error:
        return [STORM, str(error)]
    from veil.formats.prism.built import exported

    (folder / "part.json").write_text(json.dumps(vars(exported(built))), encoding="utf-8")
    (folder / "part.json").replace(folder / "model.json")
    return None


if __name__ == "__main__":
    main()
