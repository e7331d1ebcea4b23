"""No module outside of a surface's folder names the surface, except those that its declaration names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import haulout
from haulout.surfaces.registry import names, surfaces

SOURCES = Path(haulout.__file__).parent
# Why each of them imports a surface without being declared.
KNOWN = {
    "haulout.demo.show": "the demonstration shows profiles and packages at work",
}
# Why each of them has the name of a surface in a text.
NAMED = {
    "haulout.app.announcements": "the log of messages has been called notify for longer than the surface exists",
    "haulout.cli.options": "the help of --config says that profiles have a file that may stand for haulout.yaml",
    "haulout.cli.package": "its help is about packages for hosts",
    "haulout.clients.esx": "it is the client of what the surface is called after",
    "haulout.clients.kubernikus": "it is the client of what the surface is called after",
    "haulout.core.budgets.declare": "a right that all surfaces share has one form with profiles and one without",
    "haulout.core.surface_names": "it lists the folders of surfaces",
    "haulout.demo.images": "the demonstration shows profiles at work",
    "haulout.demo.show": "the demonstration shows profiles and packages at work",
    "haulout.demo.waves": "the demonstration shows packages at work",
    "haulout.model.node": "the API server notes who set a label under the name of the label",
    "haulout.plan.command": "an error message says which surfaces can be asked for a maintenance",
    "haulout.plugins.checks.kubernikus_count": "a plugin of profiles that asks Kubernikus",
    "haulout.plugins.triggers.eviction": "a plugin of profiles that drains for them",
    "haulout.settings.file": "an error message has an example",
}


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)


def _paths() -> dict[str, Path]:
    """Return every module outside of the surfaces with its file."""
    paths = {
        ".".join(("haulout", *path.relative_to(SOURCES).with_suffix("").parts)).removesuffix(".__init__"): path
        for path in SOURCES.rglob("*.py")
    }
    return {name: path for name, path in paths.items() if not name.startswith("haulout.surfaces.")}


def _modules() -> dict[str, set[str]]:
    """Yield every module outside of the surfaces with its imports."""
    return {name: set(_imports(path)) for name, path in _paths().items()}


def _declared() -> set[str]:
    """Return the modules that declarations name by a path."""
    paths = set()
    for each in surfaces():
        paths |= {each.part, each.plugins, *each.programs.values(), *(explained.command for explained in each.explains)}
        if each.original is not None:
            paths |= {each.original.starts, *each.original.commands.values()}
    return {path.partition(":")[0] for path in paths}


def _folders_of_programs() -> tuple[str, ...]:
    """Return the packages of programs that have a folder of their own. Such a program imports its commands by their names."""
    return tuple(
        f"{path.rpartition('.')[0]}."
        for each in surfaces()
        for path in each.programs.values()
        if path.count(".") > len(("haulout", "cli"))
    )


def _texts(path: Path) -> Iterator[str]:
    """Yield the texts of a module that are not docstrings."""
    tree = ast.parse(path.read_text())
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    first = [node.body[0] for node in ast.walk(tree) if isinstance(node, documented) and node.body]
    docstrings = {id(each.value) for each in first if isinstance(each, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def test_only_what_a_surface_declares_has_its_name_in_a_text() -> None:
    word = re.compile(rf"\b({'|'.join(names())})\b")
    elsewhere = {
        name: path for name, path in _paths().items() if not name.startswith(("haulout.agent.", "haulout.authoring."))
    }
    naming = {name for name, path in elsewhere.items() if any(map(word.search, _texts(path)))}
    assert {name for name in naming - _declared() if not name.startswith(_folders_of_programs())} <= NAMED.keys()


def test_only_what_a_surface_declares_imports_it() -> None:
    modules = _modules()
    folders = tuple(f"haulout.surfaces.{name}." for name in names())
    importing = {name for name, imports in modules.items() if any(each.startswith(folders) for each in imports)}
    allowed = _declared() | KNOWN.keys()
    allowed |= {name for name in modules if name.startswith(_folders_of_programs())}
    # Commands are imported by their names. What can be reached from them without a declaration must import no surface.
    reached = {name for name in modules if name.startswith(("haulout.cli.", "haulout.app.main"))} - allowed
    seen: set[str] = set()
    while reached:
        seen |= reached
        reached = {each for name in reached for each in modules[name] if each in modules} - seen - allowed
    assert importing & seen == set()
