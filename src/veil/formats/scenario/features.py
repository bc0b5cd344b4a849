"""The features of an observer that a scenario gives, by the keys that their classes declare."""

from ...common.checks import Defects
from ...common.errors import VeilError
from ...common.suggest import suggestion
from ...problem.observers.feature import ObserverFeature
from ...problem.observers.registry import OBSERVERS
from .forms import validated
from .keys import made
from .models import ScenarioModel
from .schema import ObserverTable, feature_form
from .text import shown


def read_features(table: ObserverTable, model: ScenarioModel, defects: Defects) -> list[ObserverFeature]:
    """The features that the further keys of a table give, in the order of the file; every defect is noted."""
    found = [_feature(kind, given, model, defects) for kind, given in (table.model_extra or {}).items()]
    return [feature for feature in found if feature is not None]


def _feature(kind: str, given: object, model: ScenarioModel, defects: Defects) -> ObserverFeature | None:
    if kind not in OBSERVERS:
        known = (*ObserverTable.model_fields, *OBSERVERS)
        defects.add(f"is an unknown key: {suggestion(kind, known)}", kind)
        return None
    try:
        feature = OBSERVERS.get(kind)
        alone = feature.given_alone()
    except VeilError as error:
        defects.take(error, kind)
        return None
    part = defects if alone else defects.under(kind)
    given = {kind: given} if alone else given
    if not isinstance(given, dict):
        part.add(f"found {shown(given)}, expected a table")
        return None
    form = validated(feature_form(kind), given, part)
    return None if form is None else made(feature, form, model, part)
