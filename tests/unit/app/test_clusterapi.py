"""The clusterapi surface as a part of the process."""

from __future__ import annotations

from datetime import timedelta

import pytest
import yaml

from haulout.app.clusterapi import ClusterApis
from haulout.app.parts import Surroundings
from haulout.app.process import Process
from haulout.base.clock import SystemClock
from haulout.cluster.rows import Value
from haulout.cluster.store import Listing, Store
from haulout.core.metric import LONG_BUCKETS
from haulout.kube.endpoint import Endpoint, ExecPlugin
from haulout.kube.errors import ConfigInvalid, ConfigRefused, ConnectionFailed, KubeError, error_from_reply
from haulout.runtime.metrics import Metrics
from haulout.runtime.probes import ProbeFailed
from haulout.settings.settings import Settings
from haulout.surfaces.clusterapi.decide import NODE_PROBE
from haulout.surfaces.clusterapi.declare import SURFACE
from haulout.surfaces.clusterapi.options import Options
from haulout.surfaces.clusterapi.settings import ClusterApiSettings
from haulout.surfaces.clusterapi.surface import CONFIG_KEY
from haulout.surfaces.clusterapi.wire import CLUSTER, HOST, LIMITED_SECRET, MACHINE, Access
from tests.build.fakeapi import refusal
from tests.build.objects import Objects
from tests.build.virtual import virtual

EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "log-in", "interactiveMode": "Never"}


def part(far: Objects | None = None, **settings: object) -> ClusterApis:
    given = Settings(alone=True, blocks={"clusterapi": ClusterApiSettings(**settings)})  # type: ignore[arg-type]
    around = Surroundings(
        settings=given,
        store=Store(),
        metrics=Metrics(SURFACE.metrics),
        clock=SystemClock(),
        poke=lambda: None,
        transport=lambda cluster: far if cluster == "fleet/alpha" else None,
    )
    return ClusterApis(around)


def kubeconfig(**user: object) -> bytes:
    return yaml.safe_dump(
        {
            "current-context": "a",
            "clusters": [{"name": "a", "cluster": {"server": "https://a:6443"}}],
            "users": [{"name": "a", "user": user}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        }
    ).encode()


def options(made: ClusterApis) -> object:
    row = made.around.store.row(CONFIG_KEY)
    assert isinstance(row, Value)
    return row.value


def test_everything_beyond_the_original_is_off() -> None:
    assert options(part()) == Options()


@pytest.mark.parametrize(
    "setting, value, expected",
    [
        ("enable_metal3_maintenance", True, Options(enable_metal3_maintenance=True)),
        ("allow_exec_kubeconfigs", True, Options(allow_exec_kubeconfigs=True)),
        ("guard_remediation", True, Options(guard_remediation=True)),
        ("approval_hygiene", True, Options(approval_hygiene=True)),
        ("deletion_approval_timeout", timedelta(minutes=90), Options(deletion_approval_timeout=timedelta(minutes=90))),
        ("deletion_approval_timeout", timedelta(), Options()),
        ("prefer_limited_kubeconfigs", True, Options(prefer_limited_kubeconfigs=True)),
        ("reboot_mode_annotation", True, Options(reboot_mode_annotation=True)),
        ("workload_requests", True, Options(workload_requests=True)),
        ("allowed_server_ranges", ("10.0.0.0/8",), Options(allowed_server_ranges=("10.0.0.0/8",))),
        ("allow_http_kubeconfigs", True, Options(allow_http_kubeconfigs=True)),
        ("max_nodes_per_cluster", 100, Options(max_nodes_per_cluster=100)),
    ],
)
def test_settings_become_a_row_that_decisions_read(setting: str, value: object, expected: Options) -> None:
    assert options(part(**{setting: value})) == expected  # type: ignore[arg-type]


def test_settings_that_change_are_followed() -> None:
    made = part()
    assert {source.kind for source in made.watches()} == {MACHINE, CLUSTER}
    fresh = ClusterApiSettings(enable_metal3_maintenance=True, prefer_limited_kubeconfigs=True)
    made.follow(Settings(alone=True, blocks={"clusterapi": fresh}))
    assert {source.kind for source in made.watches()} == {MACHINE, CLUSTER, HOST, LIMITED_SECRET}
    assert options(made) == Options(enable_metal3_maintenance=True, prefer_limited_kubeconfigs=True)


# Ways to other clusters


def test_a_kubeconfig_becomes_a_way() -> None:
    opened = part().connect(Access("Secret fleet/alpha-kubeconfig", kubeconfig(token="t")))
    assert opened is not None
    assert opened.endpoint.server == "https://a:6443"


def test_what_is_no_kubeconfig_of_ours_is_left_to_others() -> None:
    assert part().connect("something else") is None


@pytest.mark.parametrize(
    "content, error",
    [
        (kubeconfig(exec=EXEC), ConfigRefused),
        (kubeconfig(tokenFile="/etc/token"), ConfigRefused),
        (b"a: [", ConfigInvalid),
        (b"", ConfigInvalid),
    ],
    ids=["program", "file", "no YAML", "empty"],
)
def test_what_is_wrong_with_one_is_told_with_its_place(content: bytes, error: type[KubeError]) -> None:
    with pytest.raises(ConfigInvalid, match=r"^Secret fleet/alpha-kubeconfig") as caught:
        part().connect(Access("Secret fleet/alpha-kubeconfig", content))
    assert type(caught.value) is error


def test_a_program_is_run_where_that_is_allowed() -> None:
    opened = part().connect(Access("Secret x/y", kubeconfig(exec=EXEC), allow_exec=True))
    assert opened is not None
    (plugin,) = opened.endpoint.credentials
    assert isinstance(plugin, ExecPlugin)
    with pytest.raises(ConfigRefused):
        part().connect(Access("Secret x/y", kubeconfig(tokenFile="/etc/token"), allow_exec=True))


# Whether a Node is there


async def look(far: Objects | None, cluster: str = "fleet/alpha") -> object:
    made = part(far)
    return await made.probes(Objects())[NODE_PROBE]((cluster, "n"))


@virtual
async def test_a_node_is_there_or_gone() -> None:
    far = Objects()
    assert await look(far) == "gone"
    far.put("/api/v1/nodes/n", {})
    assert await look(far) == "there"


@pytest.mark.parametrize(
    "fault",
    [
        ConnectionFailed("refused"),
        refusal(401, "Unauthorized"),
        refusal(500, "Failing"),
        error_from_reply(404, b"404 page not found"),
        refusal(404, "NotFound"),
    ],
    ids=["refused", "unauthorized", "failing", "balancer", "kind"],
)
def test_a_cluster_that_does_not_say_so_leaves_it_open(fault: KubeError) -> None:
    @virtual
    async def scenario() -> None:
        far = Objects()
        far.faults.append(fault)
        with pytest.raises(ProbeFailed):
            await look(far)

    scenario()


@virtual
async def test_a_cluster_that_is_not_connected_leaves_it_open() -> None:
    with pytest.raises(ProbeFailed, match="fleet/beta is not connected"):
        await look(Objects(), "fleet/beta")


# Seen from outside


def test_it_is_ready_once_the_machines_are_known() -> None:
    made = part()
    assert made.lacks() == "the Machines have not been listed yet"
    made.around.store.set_listing("", MACHINE, Listing.LISTED)
    assert made.lacks() == ""


def test_it_says_what_it_waits_for_where_cluster_api_is_not_installed() -> None:
    made = part()
    made.around.store.set_listing("", MACHINE, Listing.WAITING, "machines are not served")
    advice = "(install Cluster API, or take clusterapi out of the surfaces)"
    assert made.lacks() == f"the Machines have not been listed yet: machines are not served {advice}"


def test_it_says_why_machines_cannot_be_read() -> None:
    made = part()
    made.around.store.set_listing("", MACHINE, Listing.UNREADABLE, "machines is forbidden")
    assert made.lacks() == "the Machines have not been listed yet: machines is forbidden"


def test_reconnects_are_counted_by_cluster_and_reason() -> None:
    made = part()
    made.on_reconnect("fleet/alpha", "rotated")
    made.on_reconnect("fleet/alpha", "rotated")
    (series,) = made.around.metrics.series("maintenance_capi_reconnects_total").items()
    assert series == ((("cluster", "alpha"), ("namespace", "fleet"), ("reason", "rotated")), 2.0)


def test_of_a_cluster_that_is_left_no_series_stays() -> None:
    process = Process(
        Settings(blocks={"clusterapi": ClusterApiSettings()}, turns=False),
        Endpoint(name="home", server="https://127.0.0.1:1"),
    )
    for cluster in ("fleet/alpha", "fleet/beta"):
        for reason in ("rotated", "network"):
            process._reconnected(cluster, reason)
    process.pump.connections.closed("fleet/alpha")
    left = process.metrics.series("maintenance_capi_reconnects_total")
    assert [dict(labels)["cluster"] for labels in left] == ["beta", "beta"]


def test_how_long_approvals_take_is_there_from_the_start() -> None:
    text = part().around.metrics.render().decode()
    for flow in ("deletion", "maintenance"):
        assert f'maintenance_capi_approval_seconds_count{{flow="{flow}"}} 0' in text
    edges = [line for line in text.splitlines() if 'flow="deletion",le=' in line]
    assert len(edges) == len(LONG_BUCKETS) + 1


def test_it_claims_no_node() -> None:
    assert not ClusterApis.declaration.claims
    assert not ClusterApis.declaration.drains
