"""The published form of scenario files: documented key by key, valid as JSON schema, and the reference up to date."""

import json
import runpy
from pathlib import Path

from tests.seeds import looped
from veil.formats.scenario import schema as scenario_schema
from veil.formats.scenario.schema import Table, schema

TABLES = [form for form in vars(scenario_schema).values() if isinstance(form, type) and issubclass(form, Table)]


def test_the_reference_is_up_to_date():
    docs = Path(__file__).parents[2] / "docs"
    written = runpy.run_path(str(docs / "site" / "reference.py"))["reference"]()
    remedy = "run: python docs/site/reference.py > docs/scenario-reference.md"
    assert (docs / "scenario-reference.md").read_text(encoding="utf-8") == written, remedy


@looped("form", TABLES)
def test_every_key_is_documented(form: type[Table]):
    assert form.__doc__
    assert not [name for name, field in form.model_fields.items() if not field.description]


def test_the_schema_is_json_without_null():
    found = schema()
    assert found == json.loads(json.dumps(found))
    assert '"null"' not in json.dumps(found)
    assert found["required"] == ["horizon"]
    assert set(found["properties"]) >= {"grid", "graph", "file", "models", "observer", "secret", "solve"}
    assert found["additionalProperties"] is False
