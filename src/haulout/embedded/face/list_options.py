"""The query of a list or watch request: versions, pages and time limits, checked as the real server checks them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from haulout.embedded.rules import refusals
from haulout.embedded.rules.refusals import Problem, forbidden_field, unsupported_value


class ListOptions(msgspec.Struct, frozen=True):
    """The options of a list or watch request: version, page, initial events, bookmarks and time limit."""

    version: str = ""
    match: str = ""
    limit: int = 0
    token: str = ""
    watch: bool = False
    initial: bool | None = None
    bookmarks: bool = False
    timeout: int | None = None


def read_list_options(query: Mapping[str, str]) -> ListOptions:
    """Return the options in a query. Raises `BadRequest` and `Invalid` as the real server does."""
    watch = query.get("watch", "") in {"1", "true", "True"}
    initial = {"true": True, "1": True, "false": False, "0": False}.get(query.get("sendInitialEvents", ""))
    options = ListOptions(
        version=query.get("resourceVersion", ""),
        match=query.get("resourceVersionMatch", ""),
        limit=_integer(query.get("limit")) or 0,
        token=query.get("continue", ""),
        watch=watch,
        initial=initial,
        bookmarks=query.get("allowWatchBookmarks", "") in {"1", "true", "True"},
        timeout=_integer(query.get("timeoutSeconds")),
    )
    if problems := _watch_problems(options) if watch else _list_problems(options):
        raise refusals.invalid("ListOptions", "meta.k8s.io", "", problems)
    return options


def _integer(text: str | None) -> int | None:
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise refusals.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def _watch_problems(options: ListOptions) -> list[Problem]:
    field = "resourceVersionMatch"
    if options.initial is None:
        if not options.match:
            return []
        return [
            forbidden_field(field, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
        ]
    problems = []
    if options.match != "NotOlderThan":
        problems.append(
            forbidden_field(field, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
        )
        if options.match:
            problems.append(unsupported_value(field, options.match, ("NotOlderThan",)))
    if options.token:
        problems.append(forbidden_field("continue", "continue is forbidden for watch"))
    return problems


def _list_problems(options: ListOptions) -> list[Problem]:
    field, problems = "resourceVersionMatch", []
    if options.match:
        if not options.version:
            problems.append(
                forbidden_field(field, "resourceVersionMatch is forbidden unless resourceVersion is provided")
            )
        if options.token:
            problems.append(forbidden_field(field, "resourceVersionMatch is forbidden when continue is provided"))
        if options.match not in {"Exact", "NotOlderThan"}:
            problems.append(unsupported_value(field, options.match, ("Exact", "NotOlderThan", "")))
        elif options.match == "Exact" and options.version == "0":
            text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            problems.append(forbidden_field(field, text))
    if options.initial is not None:
        problems.append(forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return problems


def read_version(version: str, refusal: str = "") -> int:
    """Return a resourceVersion as a number.

    An invalid one is a `BadRequest` that begins with `refusal`; without `refusal` an unclassified error, as for a GET.
    """
    if version and not version.isdecimal():
        problem = f'resourceVersion: Invalid value: "{version}": strconv.ParseUint: parsing "{version}": invalid syntax'
        raise refusals.bad_request(f"{refusal}{problem}") if refusal else refusals.unclassified_error(problem)
    return int(version or "0")
