"""Writes the table of rights in docs/security.md from the same declarations as the roles of `haulout rbac`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from haulout.core.rights import CLUSTER, DEFAULT, EACH, HOME, Right, Role
from haulout.manifests.rights import all_roles, default_names, options
from haulout.surfaces.registry import surfaces

PAGE = Path(__file__).parent.parent / "docs" / "security.md"
BEGIN, END = "<!-- rights: python -m tools.rights -->\n", "<!-- end of rights -->\n"
PLACES = {
    CLUSTER: "everywhere",
    HOME: "its own namespace",
    DEFAULT: "`default`",
    **{name: f"`{default}`" for name, default in default_names().items()},
}
ABROAD = tuple(role for each in surfaces() for role in each.workload_roles)


def table() -> str:
    """Return the table of rights, which stands between two marks of the page."""
    head = "| Role | Where | What | Verbs | For | Option |\n|---|---|---|---|---|---|\n"
    rows = [row for role in (*all_roles(), *ABROAD) if role.bound for row in _rows(role)]
    return f"\n{head}{''.join(rows)}\n"


def _rows(role: Role) -> Iterator[str]:
    where = "the workload cluster" if role in ABROAD else PLACES.get(role.place, "each namespace that is listed")
    for right in role.rights:
        cells = (f"`{role.name}`", where, _what(right), ", ".join(right.verbs), right.purpose, _option(role, right))
        yield f"| {' | '.join(cells)} |\n"


def _what(right: Right) -> str:
    kinds = ", ".join(f"`{resource}{f'.{right.group}' if right.group else ''}`" for resource in right.resources)
    names = ["the listed names" if name == EACH else f"`{name}`" for name in right.names]
    return f"{kinds}: {', '.join(names)}" if names else kinds


def _option(role: Role, right: Right) -> str:
    if right.unless:
        return f"without `--{right.unless.replace('_', '-')}`"
    option = options().get(right.option or role.option)
    if option is None:
        return ""
    flag = f"`--{option.name.replace('_', '-')}`"
    return f"{flag}, on by default" if option.default else flag


def page() -> str:
    """Return the page with the current table in it."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table()}{END}{after}"


def main() -> int:
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
