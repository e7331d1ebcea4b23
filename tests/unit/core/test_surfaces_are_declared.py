"""Nothing outside a surface's folder names the surface, except what its declaration leads to."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import haulout
from haulout.surfaces.registry import names, surfaces

SOURCES = Path(haulout.__file__).parent
# Why each of them names a surface.
KNOWN = {
    "haulout.demo.show": "the demonstration shows profiles and packages at work",
}


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)


def _modules() -> dict[str, set[str]]:
    """Every module outside of the surfaces with what it imports."""
    found = {}
    for path in SOURCES.rglob("*.py"):
        name = ".".join(("haulout", *path.relative_to(SOURCES).with_suffix("").parts)).removesuffix(".__init__")
        if not name.startswith("haulout.surfaces."):
            found[name] = set(_imports(path))
    return found


def _declared() -> set[str]:
    """The modules that declarations lead to by a path."""
    paths = set()
    for each in surfaces():
        paths |= {each.part, each.plugins, *each.programs.values(), *(explained.command for explained in each.explains)}
        if each.original is not None:
            paths |= {each.original.starts, *each.original.commands.values()}
    return {path.partition(":")[0] for path in paths}


def test_only_what_a_surface_declares_imports_it() -> None:
    modules = _modules()
    folders = tuple(f"haulout.surfaces.{name}." for name in names())
    importing = {name for name, imports in modules.items() if any(each.startswith(folders) for each in imports)}
    allowed = _declared() | KNOWN.keys()
    # The commands of a program that has a folder of its own: it imports them by their names.
    folders_of_programs = tuple(
        f"{path.rpartition('.')[0]}."
        for each in surfaces()
        for path in each.programs.values()
        if path.count(".") > len(("haulout", "cli"))
    )
    allowed |= {name for name in modules if name.startswith(folders_of_programs)}
    # Commands are imported by their names. What can be reached from them without a declaration must import no surface.
    reached = {name for name in modules if name.startswith(("haulout.cli.", "haulout.app.main"))} - allowed
    seen: set[str] = set()
    while reached:
        seen |= reached
        reached = {each for name in reached for each in modules[name] if each in modules} - seen - allowed
    assert importing & seen == set()
