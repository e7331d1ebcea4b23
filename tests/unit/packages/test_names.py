"""The names of generated objects."""

import pytest

from haulout.surfaces.packages import names

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
