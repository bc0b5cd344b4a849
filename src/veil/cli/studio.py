"""`veil studio`: a local web page on which a scenario is drawn, planned, looked at and played."""

from pathlib import Path
from typing import Annotated

import typer

from .shared import GALLERY, JsonOption, argument, complete_scenario, is_model_file, no_scenario, note, print_json


def studio(
    scenario: Annotated[
        str | None,
        argument(
            metavar="SCENARIO",
            help="A scenario file (.toml), or gallery:NAME; without it the studio starts a new one.",
            autocompletion=complete_scenario,
        ),
    ] = None,
    *,
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 for a free one.", min=0, max=65_535)] = 0,
    folder: Annotated[
        Path | None, typer.Option(help="Folder that keeps scenario and runs.", show_default="SCENARIO-studio")
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Open a page in the browser on which you draw, plan, look at and play a scenario.

    The server listens on 127.0.0.1 and admits browsers that open the printed link; each link admits one browser, once. A
    folder keeps the scenario and all runs, so nothing is lost when the page is closed or the server ends.

    Example: veil studio patrol.toml
    """
    from ..studio.serve import serve

    if scenario is not None and not scenario.startswith(GALLERY) and is_model_file(scenario):
        raise no_scenario(scenario)
    name = "veil" if scenario is None else scenario.removeprefix(GALLERY)
    place = Path(f"{Path(name).stem}-studio") if folder is None else folder

    def tell(address: str, *, first: bool) -> None:
        if as_json and first:
            print_json({"address": address, "folder": str(place)})
        elif not as_json:
            note(f"veil: {'open' if first else 'for another browser, open'} {address}")

    serve(place, scenario, port=port, opens=browser, tell=tell)
    if not as_json:
        note(f"veil: closed; the scenario and all runs are kept in {place}")
