"""docs/stability.md names what other packages may import, and the packages that tests install import nothing else."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import haulout

TOP = Path(__file__).parents[3]
PAGE = (TOP / "docs/stability.md").read_text()
STABLE = {
    module: set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", section, re.MULTILINE))))
    for module, section in re.findall(r"^### `([\w.]+)`\n(.*?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL)
}
PROVISIONAL = set(re.findall(r"`(haulout\.[\w.]+)`", PAGE.partition("### Provisional")[2]))


def imports(package: str) -> Iterator[tuple[str, str]]:
    """Yield what the modules of a package import from Haulout: the module and the name."""
    for path in sorted((TOP / "tests" / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "haulout":
                yield from ((node.module or "", each.name) for each in node.names)


@pytest.mark.parametrize("module", STABLE)
def test_the_stable_names_are_those_that_the_module_exports(module: str) -> None:
    loaded = importlib.import_module(module)
    assert STABLE[module] == {*loaded.__all__}
    assert [name for name in loaded.__all__ if not hasattr(loaded, name)] == []


def test_all_four_modules_are_described() -> None:
    assert {*STABLE} == {
        "haulout.core.declaration",
        "haulout.core.surface",
        "haulout.plugins.api",
        "haulout.runtime.probes",
    }


def test_plugins_need_stable_names_alone() -> None:
    assert [found for found in imports("thirdparty") if found[1] not in STABLE.get(found[0], ())] == []


def test_a_surface_needs_stable_names_and_provisional_modules_alone() -> None:
    assert [(module, name) for module, name in imports("toysurface") if not is_named(module, name)] == []


def is_named(module: str, name: str) -> bool:
    return name in STABLE.get(module, ()) or bool({module, f"{module}.{name}"} & PROVISIONAL)


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(haulout.__file__).parent / "py.typed").exists()
