"""The operations of the console's API as data: what each takes and answers. Handlers and description follow it."""

from __future__ import annotations

from typing import Any

import msgspec

from haulout.acts.answers import Done, Offers
from haulout.console.acting import KEY_FORM, ActRequest
from haulout.console.calendars import CalendarDocument
from haulout.console.documents import (
    BudgetsDocument,
    CausesDocument,
    FailuresDocument,
    FleetDocument,
    InstallationDocument,
    Login,
    NodePage,
    RecordsDocument,
    RolloutsDocument,
    WhoAmI,
    WorksDocument,
)
from haulout.console.forecasts import ForecastBegun, ForecastDocument, ForecastRequest
from haulout.console.records import POSITION_FORM
from haulout.explain.documents import ExplanationDocument, own_documents

NAME = {"type": "string", "minLength": 1, "maxLength": 253}
WHOLE = {"type": "integer", "minimum": 0, "maximum": 9_007_199_254_740_991}
LIMIT = {"type": "integer", "minimum": 1, "maximum": 500, "default": 100}
TEXT = {"type": "string", "maxLength": 512}
POSITION = {"type": "string", "pattern": POSITION_FORM}
INSTANT = {"type": "string", "format": "date-time"}


class Parameter(msgspec.Struct, frozen=True):
    """A parameter of an operation. `place`: `path`, `query` or `header`."""

    name: str
    place: str
    schema: dict[str, Any]
    help: str
    required: bool = False


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one path.

    `answers`: the structs that a good answer is one of; none: it has no body. `body`: the struct of the request's body.
    `status`: that of a good answer. `problems`: the codes of problems besides those that every operation may give.
    """

    name: str
    method: str
    path: str
    summary: str
    answers: tuple[type[msgspec.Struct], ...] = ()
    content_type: str = "application/json"
    body: type[msgspec.Struct] | None = None
    parameters: tuple[Parameter, ...] = ()
    status: int = 200
    problems: tuple[str, ...] = ()


def _segment(name: str, text: str) -> Parameter:
    return Parameter(name, "path", NAME, text, required=True)


_KIND = _segment("kind", "The kind, as in manifests or as kubectl names it.")
_NAMESPACE = _segment("namespace", "The namespace of the object.")
_NAME = _segment("name", "The name of the object.")
_PAGE = (
    Parameter("limit", "query", LIMIT, "The most objects of one page."),
    Parameter("continue", "query", WHOLE, "What the last page said to continue with."),
)
_READ = ("missing-right",)
_OF_OBJECT = ("missing-right", "not-found", "malformed")

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="login",
        method="POST",
        path="login",
        summary="Exchange the secret of the printed address for a session cookie, at the local door.",
        body=Login,
        status=204,
        problems=("wrong-secret", "not-found", "malformed", "cross-site", "not-json", "too-large"),
    ),
    Operation(
        name="fleet",
        method="GET",
        path="fleet",
        summary="The whole fleet, a row for each node.",
        answers=(FleetDocument,),
        problems=_READ,
    ),
    Operation(
        name="stream",
        method="GET",
        path="stream",
        summary="What changes, as server-sent events: rows, causes, failures, budgets, works, rollouts, installation, tables, resync.",
        content_type="text/event-stream",
        parameters=(Parameter("since", "query", WHOLE, "The `seq` of the picture that the page has."),),
        problems=("missing-right", "malformed"),
    ),
    Operation(
        name="causes",
        method="GET",
        path="causes",
        summary="The root causes for which nodes wait.",
        answers=(CausesDocument,),
        problems=_READ,
    ),
    Operation(
        name="failures",
        method="GET",
        path="failures",
        summary="What has failed or expired.",
        answers=(FailuresDocument,),
        problems=_READ,
    ),
    Operation(
        name="budgets",
        method="GET",
        path="budgets",
        summary="The NodeDisruptionBudgets and what they have left.",
        answers=(BudgetsDocument,),
        problems=_READ,
    ),
    Operation(
        name="rollouts",
        method="GET",
        path="rollouts",
        summary="The objects that change many nodes, and how far they are.",
        answers=(RolloutsDocument,),
        problems=_READ,
    ),
    Operation(
        name="installation",
        method="GET",
        path="installation",
        summary="The installation of Haulout in the cluster.",
        answers=(InstallationDocument,),
        problems=_READ,
    ),
    Operation(
        name="works",
        method="GET",
        path="works",
        summary="The maintenances, in pages.",
        answers=(WorksDocument,),
        parameters=_PAGE,
        problems=("missing-right", "malformed"),
    ),
    Operation(
        name="records",
        method="GET",
        path="records",
        summary="The logbook, newest first, in pages.",
        answers=(RecordsDocument,),
        parameters=(
            Parameter("node", "query", TEXT, "Only those of this node."),
            Parameter("surface", "query", TEXT, "Only those of this surface."),
            Parameter("outcome", "query", TEXT, "Only those with this outcome; `open`: those that have not ended."),
            Parameter("from", "query", INSTANT, "Only maintenances that were under way at or after this instant."),
            Parameter("to", "query", INSTANT, "Only maintenances that had begun before this instant."),
            Parameter("limit", "query", LIMIT, "The most records of one page."),
            Parameter("continue", "query", POSITION, "What the last page said to continue with."),
        ),
        problems=("missing-right", "malformed"),
    ),
    Operation(
        name="calendar",
        method="GET",
        path="calendar",
        summary="When the windows are open, in their time zones.",
        answers=(CalendarDocument,),
        parameters=(
            Parameter("from", "query", INSTANT, "The beginning; now if it is left out."),
            Parameter("to", "query", INSTANT, "The end, at most 93 days later; a week later if it is left out."),
        ),
        problems=("missing-right", "malformed", "not-yet"),
    ),
    Operation(
        name="begin_forecast",
        method="POST",
        path="forecasts",
        summary="Forecast the fleet, as it is or with changes. Nothing is written.",
        answers=(ForecastBegun,),
        body=ForecastRequest,
        status=202,
        problems=("missing-right", "malformed", "cross-site", "not-json", "too-large", "not-yet"),
    ),
    Operation(
        name="forecast",
        method="GET",
        path="forecasts/{id}",
        summary="How far a forecast is, and its result.",
        answers=(ForecastDocument,),
        parameters=(_segment("id", "The name of the forecast."),),
        problems=("missing-right", "not-found"),
    ),
    Operation(
        name="node",
        method="GET",
        path="nodes/{name}",
        summary="Everything about one node, asked afresh.",
        answers=(NodePage,),
        parameters=(_NAME,),
        problems=("missing-right", "not-found", "not-yet"),
    ),
    Operation(
        name="explain",
        method="GET",
        path="explain/{kind}/{name}",
        summary="What an object waits for, as `haulout explain -o json` prints it.",
        answers=(ExplanationDocument, *own_documents(is_namespaced=False)),
        parameters=(_KIND, _NAME),
        problems=(*_OF_OBJECT, "not-followed", "not-yet"),
    ),
    Operation(
        name="explain_namespaced",
        method="GET",
        path="explain/{kind}/{namespace}/{name}",
        summary="What an object of a namespace waits for.",
        answers=(ExplanationDocument, *own_documents(is_namespaced=True)),
        parameters=(_KIND, _NAMESPACE, _NAME),
        problems=(*_OF_OBJECT, "not-followed", "not-yet"),
    ),
    Operation(
        name="whoami",
        method="GET",
        path="whoami",
        summary="The caller, and which acts the caller may do.",
        answers=(WhoAmI,),
    ),
    Operation(
        name="act",
        method="POST",
        path="acts",
        summary="Do an act, or try it, with the caller's own credential.",
        answers=(Done,),
        body=ActRequest,
        parameters=(
            Parameter(
                "X-Haulout-Act",
                "header",
                {"type": "string", "pattern": KEY_FORM},
                "A new UUID for each act. The same one again gives the same answer, and nothing is written twice.",
                required=True,
            ),
        ),
        problems=(
            "missing-right",
            "not-possible",
            "changed",
            "refused",
            "invalid",
            "not-found",
            "malformed",
            "cross-site",
            "not-json",
            "too-large",
        ),
    ),
    Operation(
        name="offers_of_all",
        method="GET",
        path="acts",
        summary="The acts about the whole cluster.",
        answers=(Offers,),
        problems=_OF_OBJECT,
    ),
    Operation(
        name="offers",
        method="GET",
        path="acts/{kind}/{name}",
        summary="The acts for an object: whether it allows them, what they write, and whether the caller may.",
        answers=(Offers,),
        parameters=(_KIND, _NAME),
        problems=(*_OF_OBJECT, "invalid", "refused"),
    ),
    Operation(
        name="offers_namespaced",
        method="GET",
        path="acts/{kind}/{namespace}/{name}",
        summary="The acts for an object of a namespace.",
        answers=(Offers,),
        parameters=(_KIND, _NAMESPACE, _NAME),
        problems=(*_OF_OBJECT, "invalid", "refused"),
    ),
)
# What every operation may answer.
ALWAYS = ("not-logged-in", "too-many", "wrong-host", "cross-site", "failed", "no-answer", "wrong-method")
