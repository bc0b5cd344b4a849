"""The table of requests: method and path, and the function that answers.

A function takes the request, one `dict` of the JSON body, the query and the parts of the path, and the `Studio`; it returns
what the answer's JSON holds. It raises `Refused` for a request that cannot be answered; a `VeilError` is told to the user too.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .state import Studio

Request = dict[str, Any]
Answer = Callable[[Request, "Studio"], dict[str, Any]]

# Functions are imported when first asked for, so that the page opens at once.
ROUTES: dict[tuple[str, str], str] = {
    ("GET", "/api/state"): "veil.studio.state:show",
    ("PUT", "/api/scenario"): "veil.studio.state:put_scenario",
    ("POST", "/api/check"): "veil.studio.drawing:check",
    ("POST", "/api/change"): "veil.studio.drawing:change",
    ("GET", "/api/gallery"): "veil.studio.drawing:show_gallery",
    ("POST", "/api/open"): "veil.studio.drawing:open_another",
    ("GET", "/api/runs/{id}/look"): "veil.studio.looking:look",
    ("POST", "/api/play"): "veil.studio.playing:start",
    ("GET", "/api/play/{play}"): "veil.studio.playing:show",
    ("POST", "/api/play/{play}"): "veil.studio.playing:act",
    ("GET", "/api/choices"): "veil.studio.planning:show_choices",
    ("POST", "/api/runs"): "veil.studio.planning:start_run",
    ("GET", "/api/runs/{id}"): "veil.studio.planning:show_run",
    ("POST", "/api/runs/{id}/stop"): "veil.studio.planning:stop_run",
    ("POST", "/api/runs/{id}/resume"): "veil.studio.planning:resume_run",
    ("DELETE", "/api/runs/{id}"): "veil.studio.planning:remove_run",
    ("GET", "/api/study"): "veil.studio.studies:show_study",
}


class Refused(Exception):
    """A request that is not answered: the HTTP status, a sentence why, and what else the page needs to know."""

    def __init__(self, status: int, message: str, **further: Any):
        super().__init__(message)
        self.status, self.further = status, further


def text_of(request: Request, name: str, default: str | None = None) -> str:
    """The text under a name in a request; raises `Refused` where there is something else."""
    found = request.get(name, default)
    if not isinstance(found, str):
        raise Refused(400, f"{name} is {type(found).__name__}, expected a text")
    try:
        found.encode()
    except UnicodeEncodeError:
        raise Refused(400, f"{name} has half of a surrogate pair, expected Unicode") from None
    return found
