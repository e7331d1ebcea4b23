"""Which NotifyMaintenances an in-box operator may act on, and whether a step is its own."""

from __future__ import annotations

from fnmatch import fnmatchcase

from haulout.cluster.rows import NodeRow
from haulout.surfaces.notify.config_file.rules import selector
from haulout.surfaces.notify.options import Match, Operator, Options
from haulout.surfaces.notify.wire import IN_BOX, OPERATOR_NAMES, OPERATORS, OWNER_PREFIX, NoticeRow


def may_act(options: Options, name: str, row: NoticeRow, node: NodeRow | None) -> bool:
    """Whether the operator is enabled, matches the maintenance, and is allowed by the maintenance's annotation."""
    operator: Operator = getattr(options.operators, name)
    return operator.enabled and _is_let(name, row) and matches(operator.match, row, node)


def _is_let(name: str, row: NoticeRow) -> bool:
    text = row.annotations.get(OPERATORS)
    if text is None:
        return True
    return name in {word.strip() for word in text.split(",")} & set(OPERATOR_NAMES)


def matches(match: Match, row: NoticeRow, node: NodeRow | None) -> bool:
    return (
        _is_one_of(row.key.namespace, match.namespaces)
        and _is_one_of(row.maintenance, match.maintenance_ids)
        and (not match.types or row.type in match.types)
        and (not match.selector or selector(match.selector).matches(row.labels))
        and (not match.node_selector or (node is not None and selector(match.node_selector).matches(node.labels)))
    )


def _is_one_of(text: str, globs: tuple[str, ...]) -> bool:
    return not globs or any(fnmatchcase(text, glob) for glob in globs)


def owner_mark(name: str) -> str:
    """Return the annotation that says that an in-box operator, not another client, has set its step's annotation."""
    return f"{OWNER_PREFIX}{name}"


def is_owned(row: NoticeRow, name: str) -> bool:
    return row.annotations.get(owner_mark(name)) == IN_BOX


def is_external(row: NoticeRow, name: str, annotation: str) -> bool:
    """Whether another client has taken this step: the annotation is set, and not by the in-box operator."""
    return annotation in row.annotations and not is_owned(row, name)
