"""A campaign over a fleet under load, unattended except for the maintenance itself."""

from __future__ import annotations

import pytest

from tests.build.campaign import POLICIES, Campaign


@pytest.mark.parametrize("policy", POLICIES[:2])
def test_every_node_is_maintained_inside_the_budget(policy: str) -> None:
    result = Campaign("mixed", policy, nodes=10, at_once=2).run()
    assert result.most_out == 2
