"""What happens to a node's entries when a Skyhook changes, and when pods succeed."""

import pytest

from haulout.surfaces.packages.entries.changes import after_success, with_new_config, with_versions
from haulout.surfaces.packages.entries.entry import NodeState, PackageEntry
from haulout.surfaces.packages.wire import Package, Uninstall


def entry(version: str, stage: str, state: str) -> PackageEntry:
    return PackageEntry("base", version, "image", stage=stage, state=state)


def state(**entries: str) -> NodeState:
    """Return a node's state from entries such as `v1="config/complete"`, by their versions."""
    found = [entry(name[1:], *text.split("/")) for name, text in entries.items()]
    return {each.key: each for each in found}


def shown(found: NodeState) -> dict[str, str]:
    return {f"v{each.version}": f"{each.stage}/{each.state}" for each in found.values()}


def base(version: str, **more: object) -> dict[str, Package]:
    return {"base": Package(name="base", version=version, image="image", **more)}  # type: ignore[arg-type]


CHANGES = [
    (state(v1="config/complete"), base("1"), {"v1": "config/complete"}),
    (state(v1="config/complete"), {}, {"v1": "uninstall/in_progress"}),
    (state(v1="config/complete"), base("2"), {"v1": "config/complete", "v2": "upgrade/in_progress"}),
    (state(v2="config/complete"), base("1"), {"v2": "uninstall/in_progress", "v1": "uninstall/skipped"}),
    (state(v1="config/complete"), base("1.0"), {"v1": "config/complete", "v1.0": "upgrade/in_progress"}),
    (
        state(v2="uninstall/in_progress", v1="uninstall/skipped"),
        base("3"),
        {"v2": "uninstall/in_progress", "v3": "uninstall/skipped"},
    ),
    (state(v1="uninstall/erroring"), {}, {"v1": "uninstall/erroring"}),
    (
        state(v1="config/complete"),
        base("1", uninstall=Uninstall(enabled=True, apply=True)),
        {"v1": "uninstall/in_progress"},
    ),
]


@pytest.mark.parametrize(("before", "packages", "after"), CHANGES)
def test_a_changed_version(before: NodeState, packages: dict[str, Package], after: dict[str, str]) -> None:
    changed = with_versions(before, packages)
    assert shown(changed) == after
    assert with_versions(changed, packages) == changed


SUCCESSES = [
    (state(v1="apply/in_progress"), "1", base("1"), {"v1": "apply/complete"}),
    (state(v1="config/complete", v2="upgrade/in_progress"), "2", base("2"), {"v2": "upgrade/complete"}),
    (state(v2="uninstall/in_progress", v1="uninstall/skipped"), "2", base("1"), {"v1": "uninstall/complete"}),
    (state(v1="uninstall/in_progress"), "1", {}, {}),
]


@pytest.mark.parametrize(("before", "version", "packages", "after"), SUCCESSES)
def test_a_pod_that_succeeds(
    before: NodeState, version: str, packages: dict[str, Package], after: dict[str, str]
) -> None:
    assert shown(after_success(before, before[f"base|{version}"], packages)) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("post-interrupt/complete", "config/in_progress"),
        ("interrupt/erroring", "config/in_progress"),
        ("config/erroring", "config/in_progress"),
        ("apply/complete", "apply/complete"),
        ("upgrade/in_progress", "upgrade/in_progress"),
    ],
)
def test_a_changed_configuration_takes_back_what_was_configured(before: str, after: str) -> None:
    assert shown(with_new_config(state(v1=before), base("1")["base"])) == {"v1": after}
