"""Which copies of a package on the host are taken for older ones of the same package."""

from __future__ import annotations

import pytest

from haulout.agent.copies import old_copies
from haulout.agent.settings import parse_resource_id

UID = "00000000-0000-4000-8000-000000000000"


@pytest.mark.parametrize(
    ("package", "copied", "is_older"),
    [
        ("a", "a-1.0.0", True),
        ("a", "a-1.0.0-rc.1", True),
        ("a", "a-1.0.0-rc-2+build-1.2", True),
        ("a-1", "a-1-2.0.0", True),
        ("a", "a-1-2.0.0", False),
        ("a", "a-b-2.0.0", False),
        ("a.b", "a.b-1.0.0", True),
        ("a.b", "a-b-1.0.0", False),
        # Version 2.0.0 of a-1.0, or version 1.0-2.0.0 of a.
        ("a", "a-1.0-2.0.0", False),
        ("a-1.0", "a-1.0-2.0.0", False),
    ],
)
def test_a_copy_is_older_only_if_it_can_be_of_no_other_package(package: str, copied: str, is_older: bool) -> None:
    resource = parse_resource_id(f"demo-{UID}-7_{package}_9.9.9")
    name = f"{copied}-{UID}-3"
    assert old_copies(resource, [name], f"{package}-9.9.9-{UID}-7", 0) == ([name] if is_older else [])
