"""The features of an observer that a scenario gives, by the keys that their classes declare."""

from ...common.checks import Defects
from ...common.errors import VeilError
from ...common.suggest import suggestion
from ...problem.observers.feature import ObserverFeature
from ...problem.observers.registry import OBSERVERS
from .forms import validated
from .keys import read_keys
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
    before = len(defects)
    try:
        feature = OBSERVERS.get(kind)
        alone = feature.given_alone()
        part = defects if alone else defects.under(kind)
        given = {kind: given} if alone else given
        if not isinstance(given, dict):
            part.add(f"found {shown(given)}, expected a table")
            return None
        form = validated(feature_form(kind), given, part)
        table = {} if form is None else read_keys(feature.keys, form, model, part)
        return feature(**table) if len(defects) == before else None
    except VeilError as error:
        defects.take(error, kind)
        return None
