"""The Plan pane: which settings there are, and runs that begin, stop, go on and are removed."""

from typing import Any

from .routes import Refused, Request, text_of
from .settings import choices
from .state import Studio


def show_choices(request: Request, studio: Studio) -> dict[str, Any]:
    """What the form offers."""
    return choices()


def start_run(request: Request, studio: Studio) -> dict[str, Any]:
    """Begin a run of the scenario on the page."""
    settings = request.get("settings", {})
    if not isinstance(settings, dict):
        raise Refused(400, f"settings is {type(settings).__name__}, expected an object")
    with studio.lock:
        text, name, base = studio.scenario, studio.title, studio.base
    return studio.runs.start(text, name, base, settings).summary()


def show_run(request: Request, studio: Studio) -> dict[str, Any]:
    """A run with everything that it reported."""
    run = studio.runs.get(text_of(request, "id"))
    return {**run.summary(), "moments": run.record.moments}


def stop_run(request: Request, studio: Studio) -> dict[str, Any]:
    """End a run with its best so far."""
    return studio.runs.stop(text_of(request, "id")).summary()


def resume_run(request: Request, studio: Studio) -> dict[str, Any]:
    """Let a run go on."""
    return studio.runs.resume(text_of(request, "id")).summary()


def remove_run(request: Request, studio: Studio) -> dict[str, Any]:
    """End a run and delete it."""
    studio.runs.remove(text_of(request, "id"))
    return {}
