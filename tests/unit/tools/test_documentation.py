"""The documentation is consistent: links work, pages are listed, alerts and dashboard name exported metrics."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import click
import pytest
import yaml

from haulout.cli.root import root
from haulout.surfaces.registry import all_declarations
from tools.pypi_readme import published
from tools.site_pages import PAGES as SITE_PAGES

TOP = Path(__file__).parents[3]
PAGES = sorted([*TOP.glob("docs/**/*.md"), TOP / "README.md", TOP / "CONTRIBUTING.md", TOP / "SECURITY.md"])
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
SITE = "https://haulout.dev"
ADDRESS = re.compile(rf"{SITE}/?([\w./#-]*)")
# Not pages: what `git clone` reads, and the folder with the artifacts of each release.
BESIDE = ("haulout.git", "releases")
METRIC = re.compile(
    r"\b(?!skyhook_name\b)(?:haulout|maintenance_(?:controller|capi)|nodemaintenance|process|nm|pika|skyhook)_[a-z_]+\b"
)


def links(page: Path) -> Iterator[str]:
    for found in LINK.finditer(FENCE.sub("", page.read_text())):
        target = found[1] or found[2]
        if "://" not in target:
            yield target


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as sites and forges make them."""
    titles = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower().replace("`", "")).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(TOP)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in links(page):
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), f"{target} leads nowhere"
        assert not anchor or anchor in anchors(found), f"{found.name} has no heading for {target}"


def test_the_site_lists_every_page() -> None:
    listed = set(re.findall(r"[:-] ([\w/-]+\.md)$", (TOP / "mkdocs.yml").read_text(), re.MULTILINE))
    pages = {str(page.relative_to(TOP / "docs")) for page in TOP.glob("docs/**/*.md")}
    # The index of decisions lists the other pages of its folder.
    assert listed == {*SITE_PAGES, *(page for page in pages if not page.startswith("decisions/0"))}


def test_every_address_of_the_site_is_a_page_with_that_heading() -> None:
    assert "use_directory_urls: true" in (TOP / "mkdocs.yml").read_text().splitlines()
    found = site_addresses()
    assert {"", "getting-started/", "troubleshooting/#haulouthasnoleader"} <= found.keys()
    assert {address: name for address, name in found.items() if not is_on_site(address)} == {}


def site_addresses() -> dict[str, str]:
    """Return what follows the site's name in each address of the repository and of the package's README, and where it is."""
    argv = ("git", "grep", "-I", "--name-only", SITE, "--", ".", ":!tests")
    names = subprocess.run(argv, cwd=TOP, check=True, capture_output=True, text=True).stdout.split()
    texts = {name: (TOP / name).read_text() for name in names}
    texts["README of the package"] = published((TOP / "README.md").read_text())
    return {found.rstrip("."): name for name, text in texts.items() for found in ADDRESS.findall(text)}


def is_on_site(address: str) -> bool:
    """Whether the site, or the repository beside it, answers an address. Pages are folders there."""
    path, _, anchor = address.partition("#")
    page = f"{path.removesuffix('/')}.md" if path.endswith("/") else "index.md" if not path else ""
    places = [TOP / "docs" / path / "README.md", TOP / "docs" / page, TOP / SITE_PAGES.get(page, page)]
    found = next((place for place in places if page and place.is_file()), None)
    if found is None:
        return path in BESIDE or (bool(path) and (TOP / "docs" / path).is_file())
    return not anchor or anchor in anchors(found)


def test_the_map_names_every_module_of_core_kernel_and_runtime() -> None:
    section = (TOP / "docs/map.md").read_text().partition("## The modules of core, kernel and runtime\n")[2]
    rows = [line.split("|")[1:3] for line in section.partition("\n## ")[0].splitlines() if line.startswith("|")]
    firsts = [first.strip(" `") for first, _ in rows]
    rooms: Iterator[str] = accumulate(firsts, lambda before, now: now or before)
    named = {
        f"{room}/{name}" for room, (_, names) in zip(rooms, rows, strict=True) for name in re.findall(r"`(\w+)`", names)
    }
    sources = TOP / "src/haulout"
    files = [path for top in ("core", "kernel", "runtime") for path in (sources / top).rglob("*.py")]
    assert named == {str(path.relative_to(sources).with_suffix("")) for path in files if path.name != "__init__.py"}


def test_the_map_names_every_room_of_a_surface() -> None:
    section = (TOP / "docs/map.md").read_text().partition("\nIn a surface the same role ")[2].partition("\n## ")[0]
    named = {word.rpartition("/")[2] for word in re.findall(r"`([\w/]+)`", section)}
    assert {path.parent.name for path in (TOP / "src/haulout/surfaces").glob("*/*/*.py")} <= named


GUIDES = sorted([*TOP.glob("docs/*.md"), *TOP.glob("docs/tasks/*.md"), *TOP.glob("docs/reference/*.md")])
# Programs with which a page may end. The words of ours are held to the command line.
PROGRAMS = ("haulout", "kubectl", "helm", "curl", "grep", "make")


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: str(page.relative_to(TOP / "docs")))
def test_a_page_ends_with_a_command_that_can_be_copied(page: Path) -> None:
    last = page.read_text().rstrip("\n").rpartition("\n\n")[2].splitlines()
    assert all(line.startswith("    ") for line in last), last
    for command in re.split(r"&&|\||\n", "\n".join(line.strip() for line in last).replace("\\\n", "")):
        program, *words = command.split()
        assert program in PROGRAMS or program.startswith(".venv/bin/")
        if program == "haulout":
            assert known_command(words), f"{command} is no command of ours"


def known_command(words: list[str]) -> bool:
    """Whether the first word is one of our commands, and the flags are its options."""
    command = root.get_command(click.Context(root), words[0])
    if command is None:
        return False
    options = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    flags = {word.partition("=")[0] for word in words[1:] if word.startswith("-")}
    return words[0] == "as" or flags <= {*options, "--help"}


def test_alerts_and_dashboard_name_metrics_that_are_exported() -> None:
    known = {metric.name for each in all_declarations() for metric in each.metrics}
    rules = yaml.safe_load((TOP / "deploy/monitoring/prometheus-rule.yaml").read_text())["spec"]["groups"]
    dashboard = json.loads((TOP / "deploy/monitoring/dashboard.json").read_text())
    expressions = [rule["expr"] for group in rules for rule in group["rules"]]
    expressions += [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    used = {name for expression in expressions for name in METRIC.findall(expression)}
    labels = {label for each in all_declarations() for metric in each.metrics for label in metric.labels}
    assert used - known - labels == set()


def test_every_alert_is_described() -> None:
    rules = yaml.safe_load((TOP / "deploy/monitoring/prometheus-rule.yaml").read_text())["spec"]["groups"]
    text = (TOP / "docs/metrics.md").read_text()
    assert [rule["alert"] for group in rules for rule in group["rules"] if f"`{rule['alert']}`" not in text] == []
