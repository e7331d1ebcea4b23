"""The stage, on which the page's stories are told, answers in the forms of the API's description."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import jsonschema_rs
import pytest

from haulout.base.json_schema import schema_of
from haulout.console.openapi import description
from haulout.plan.document import Document
from tests.web.stage import SECRET, StageServer
from tests.web.stage_data import Stage

# Addresses of the stage for each operation that has an answer of JSON.
ADDRESSES: dict[str, tuple[tuple[str, Any], ...]] = {
    "fleet": (("fleet", None),),
    "causes": (("causes", None),),
    "failures": (("failures", None),),
    "budgets": (("budgets", None),),
    "rollouts": (("rollouts", None),),
    "installation": (("installation", None),),
    "works": (("works", None), ("works?limit=5&continue=5", None)),
    "records": (("records", None), ("records?outcome=open", None)),
    "calendar": (("calendar", None),),
    "begin_forecast": (("forecasts", {"changes": {}}),),
    "forecast": (("forecasts/1", None), ("forecasts/changed", None)),
    "node": (("nodes/a-r01-01", None), ("nodes/b-r02-01", None), ("nodes/c-r01-01", None)),
    "explain": (("explain/Skyhook/kernel", None), ("explain/NodeDisruptionBudget/night", None)),
    "whoami": (("whoami", None),),
    "act": (("acts", {"act": "start", "target": {"kind": "Node", "name": "a"}, "args": {}, "dryRun": True}),),
    "offers_of_all": (("acts", None),),
    "offers": (("acts/Node/a-r01-01", None), ("acts/Skyhook/kernel", None)),
}
# These have no answer of JSON, or one of the same form as their sibling for objects without a namespace.
OTHERS = {"login", "stream", "explain_namespaced", "offers_namespaced"}
API = description()
OPERATIONS = {made["operationId"]: made for methods in API["paths"].values() for made in methods.values()}
CASES = [(name, path, body) for name, asked in ADDRESSES.items() for path, body in asked]


def closed(schema: Any) -> Any:
    """Return a schema that allows no field that it does not name: a page must not read one that only the stage has."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: closed(each) for name, each in schema.items()}
    is_struct = isinstance(schema.get("properties"), dict) and schema.get("type") == "object"
    return {"additionalProperties": False, **found} if is_struct else found


@pytest.fixture(scope="module")
def stage() -> Iterator[StageServer]:
    with StageServer(Stage(240, hostile=True)) as served:
        yield served


def test_the_stage_answers_every_operation() -> None:
    assert OPERATIONS.keys() == {*ADDRESSES, *OTHERS}


@pytest.mark.parametrize(("name", "path", "body"), CASES, ids=[path for _, path, _ in CASES])
def test_an_answer_of_the_stage_has_the_form_of_the_description(
    name: str, path: str, body: Any, stage: StageServer
) -> None:
    (good,) = (status for status in OPERATIONS[name]["responses"] if status.startswith("2"))
    schema = OPERATIONS[name]["responses"][good]["content"]["application/json"]["schema"]
    validator = jsonschema_rs.Draft202012Validator(closed({**schema, "components": API["components"]}))
    headers = {"Cookie": f"haulout_session={SECRET}", "Content-Type": "application/json", "X-Haulout-Act": "stage-one"}
    with closing(http.client.HTTPConnection(stage.url.removeprefix("http://"), timeout=20)) as call:
        call.request("GET" if body is None else "POST", f"/api/v1/{path}", json.dumps(body) if body else None, headers)
        reply = call.getresponse()
        answer = json.loads(reply.read())
    assert str(reply.status) == good
    problems = [f"{'/'.join(map(str, each.instance_path))}: {each.message}" for each in validator.iter_errors(answer)]
    assert problems[:5] == []


@pytest.mark.parametrize("is_changed", [False, True])
def test_a_forecast_of_the_stage_has_the_form_of_a_plan(is_changed: bool) -> None:
    validator = jsonschema_rs.Draft202012Validator(closed(schema_of(Document)))
    plan = Stage(240).plan(changed=is_changed)
    assert [f"{'/'.join(map(str, each.instance_path))}: {each.message}" for each in validator.iter_errors(plan)] == []
