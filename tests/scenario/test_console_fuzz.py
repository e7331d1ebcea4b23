"""The console's API against its own description: Schemathesis makes requests from openapi.json, right and wrong ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import schemathesis
import yaml
from hypothesis import HealthCheck, Phase, assume, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from haulout.base import yaml as strict_yaml
from haulout.console.operations import OPERATIONS
from haulout.embedded import CUSTOM_RESOURCE_DEFINITIONS
from haulout.surfaces.registry import definition
from tests.build.console import ConsoleCaller, running_console
from tests.build.served import Served
from tests.build.workloads import node
from tests.scenario.test_plan_surfaces import budget, maintenance
from tests.scenario.test_status import SETTINGS

# A stream does not end, so its answer cannot be compared; what it refuses has a test of its own.
ASKED = tuple(each.name for each in OPERATIONS if each.name != "stream")
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
PHASES = (Phase.explicit, Phase.generate)
# A longer first line is refused before it is known which path is meant.
LONGEST_ADDRESS = 6000


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleCaller]:
    folder: Path = tmp_path_factory.mktemp("console")
    with Served(folder) as served:
        (folder / "haulout.yaml").write_text(yaml.safe_dump(SETTINGS))
        names = ("nodedisruptionbudgets", "maintenancerecords", "nodemaintenances")
        definitions = [strict_yaml.load(definition(name)) for name in names]
        served.call(lambda world: [world.server.create(CUSTOM_RESOURCE_DEFINITIONS, each) for each in definitions])
        served.make(*map(node, ("a", "b", "c")), budget(1), maintenance("one", "a"), maintenance("two", "b"))
        with running_console(served) as made:
            assert made.login().status == 204
            made.until(lambda: made.read("fleet")["tables"].get("NodeMaintenance") == "listed")
            yield made


def operation(name: str) -> Any:
    text = (resources.files("haulout") / "console" / "openapi.json").read_text()
    schema: Any = schemathesis.openapi.from_dict(json.loads(text))
    found = [each.ok() for each in schema.get_all_operations()]
    return next(each for each in found if each.definition.raw["operationId"] == name)


def send(case: Any, console: ConsoleCaller) -> Any:
    headers = {"Cookie": console.cookie, "Host": console.host, "Sec-Fetch-Site": "same-origin"}
    base = f"http://{console.host}"
    assume(len(urlencode(case.query or {}, doseq=True)) < LONGEST_ADDRESS)
    return case.call(base_url=base, headers=headers, timeout=60)


def examples(count: int) -> settings:
    return settings(max_examples=count, deadline=None, phases=PHASES, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("name", ASKED)
def test_a_request_by_the_description_gets_an_answer_by_the_description(name: str, console: ConsoleCaller) -> None:
    @examples(15)
    @given(case=operation(name).as_strategy(generation_mode=GenerationMode.POSITIVE))
    def check(case: Any) -> None:
        case.validate_response(send(case, console), checks=CHECKS)

    check()


@pytest.mark.parametrize(
    "name", [name for name in ASKED if operation(name).definition.raw.keys() & {"parameters", "requestBody"}]
)
def test_a_request_against_the_description_is_refused(name: str, console: ConsoleCaller) -> None:
    @examples(15)
    @given(case=operation(name).as_strategy(generation_mode=GenerationMode.NEGATIVE))
    def check(case: Any) -> None:
        case.validate_response(send(case, console), checks=[*CHECKS, negative_data_rejection])

    check()


@pytest.mark.parametrize("since", ["-1", "x", "1e3", "9" * 17, "%00", "1" * 600])
def test_a_stream_from_no_number_is_refused(since: str, console: ConsoleCaller) -> None:
    answer = console.get(f"stream?since={since}")
    assert (answer.status, answer.json["code"]) == (400, "malformed")
