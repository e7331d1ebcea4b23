"""The names of generated objects."""

from collections.abc import Callable

import pytest

from haulout.surfaces.packages.node import names as node_names
from haulout.surfaces.packages.pods import names
from haulout.surfaces.packages.wire import LONGEST_SKYHOOK_NAME, PREFIX

VECTORS = [
    ((63, "demo", "alpha", "1.2.3", "apply", "node-1"), "demo-alpha-1-2-3-apply-node-1-c2a61f1f"),
    ((63, "demo", "interrupt", "reboot", "node-1"), "demo-interrupt-reboot-node-1-70690e1e"),
    ((253, "demo", "node-1", "metadata"), "demo-node-1-metadata-988cf705"),
    ((63, "metadata", "node-1"), "metadata-node-1-69d9ea4c"),
    (
        (63, "demo", "alpha", "1.2.3", "apply", "ip-10-0-0-1.us-west-2.compute.internal"),
        "demo-alpha-1-2-3-apply-ip-10-0-0-1-us-west-2-compute-i-8b15a344",
    ),
]


@pytest.mark.parametrize(("given", "name"), VECTORS, ids=[name for _, name in VECTORS])
def test_a_safe_name_ends_with_the_digest_of_its_parts(given: tuple[int, *tuple[str, ...]], name: str) -> None:
    assert names.safe_name(given[0], *given[1:]) == name


def test_the_name_of_a_package_config_map_keeps_its_dots() -> None:
    assert names.package_config_map("Demo", "alpha", "1.2.3") == "demo-alpha-1.2.3"


OF_SKYHOOKS = (
    node_names.node_state,
    node_names.status,
    node_names.cordon,
    node_names.cordon_before,
    node_names.copy_dir,
    node_names.last_error,
    node_names.stage_times,
    node_names.picked_annotation,
    node_names.kept_config,
    node_names.version,
)


@pytest.mark.parametrize("name_of", OF_SKYHOOKS, ids=[each.__name__ for each in OF_SKYHOOKS])
def test_a_node_has_room_for_the_longest_name_of_a_skyhook(name_of: Callable[[str], str]) -> None:
    """The API server takes 63 characters after the slash."""
    assert len(name_of("n" * LONGEST_SKYHOOK_NAME).partition("/")[2]) <= 63


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("skyhook.nvidia.com", "autoTaint_skyhook.nvidia.com"),
        ("acme.com/runtime", "autoTaint_acme.com_runtime"),
        ("node.maintenance.acme.example.com/runtime-is-required", "autoTaint_node.maintenance.acme.example.com_runtime-is-required"),
        ("node.maintenance.acme.example.com/runtime-is-required-x", "autoTaint_node-maintenance-acme-example-com_runtime-is-2298b0fd"),
    ],
    ids=["as it is", "with a slash", "the longest", "longer"],
)  # fmt: skip
def test_a_node_has_room_for_the_key_of_a_taint(key: str, name: str) -> None:
    assert node_names.auto_taint(key) == f"{PREFIX}{name}"
