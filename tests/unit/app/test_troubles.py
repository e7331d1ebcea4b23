"""Events of the operator about itself: only the leader reports them, and each once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from haulout.app.esx import Esx
from haulout.app.kubernikus import Kubernikus
from haulout.app.parts import Part, Surroundings
from haulout.app.profiles import Profiles
from haulout.app.reload import Reload
from haulout.app.troubles import (
    INVALID,
    MOST,
    MOST_OVERSIZED,
    OVERSIZED,
    RESTORED,
    TroubleEvent,
    Troubles,
    by_events,
    itself,
)
from haulout.base.clock import SystemClock
from haulout.cluster.key import Key
from haulout.cluster.rows import ObjectRow
from haulout.cluster.store import Store
from haulout.kube.recorder import Recorder, Reporter
from haulout.kube.writer import Writer
from haulout.runtime.metrics import Metrics
from haulout.runtime.outages import Outage
from haulout.settings import settings as said
from haulout.settings.file import read_settings
from haulout.surfaces.profiles.settings import EsxSettings, KubernikusSettings, ProfilesSettings
from tests.build.clock import ManualClock
from tests.build.objects import Objects
from tests.build.virtual import LoopClock, virtual

START = datetime(2026, 3, 1, 10, tzinfo=UTC)


def outage(*, after: float = 0.0, cluster: str = "", code: str = "unreachable", lasted: float = 30.0) -> Outage:
    began_at = START + timedelta(seconds=after)
    return Outage(cluster, "Node", code, "Connection refused", began_at, timedelta(seconds=lasted))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def troubles(clock: ManualClock) -> Troubles:
    return Troubles(clock)


def led(troubles: Troubles) -> list[TroubleEvent]:
    told: list[TroubleEvent] = []
    troubles.lead(told.append)
    return told


class TestOversized:
    def test_each_is_told_by_name(self, troubles: Troubles) -> None:
        told = led(troubles)
        troubles.report_oversized("Pod ns/fat", "it has 7200000 bytes of JSON")
        assert [(each.reason, each.warning) for each in told] == [(OVERSIZED, True)]
        assert told[0].note.startswith("Pod ns/fat is too large and is read in part: it has 7200000 bytes")

    def test_only_so_many_in_an_hour(self, troubles: Troubles, clock: ManualClock) -> None:
        told = led(troubles)
        for number in range(MOST_OVERSIZED * 2):
            troubles.report_oversized(f"Pod ns/{number}", "it is")
        assert len(told) == MOST_OVERSIZED
        clock.move_to(clock.now() + timedelta(hours=1))
        troubles.report_oversized("Pod ns/later", "it is")
        assert told[-1].note.startswith("Pod ns/later ")


class TestConfiguration:
    def test_each_problem_once_and_that_it_is_over(self, troubles: Troubles) -> None:
        told = led(troubles)
        troubles.invalid("file", "one")
        troubles.invalid("file", "one")
        troubles.invalid("other", "one")
        troubles.invalid("file", "two")
        troubles.valid("file", "good")
        troubles.valid("file", "good")
        troubles.valid("third", "good")
        assert told == [
            TroubleEvent(INVALID, "one"),
            TroubleEvent(INVALID, "one"),
            TroubleEvent(INVALID, "two"),
            TroubleEvent(RESTORED, "good", warning=False),
        ]

    def test_before_it_leads_only_the_last_that_still_holds_waits(self, troubles: Troubles, clock: ManualClock) -> None:
        troubles.invalid("file", "one")
        troubles.invalid("other", "three")
        troubles.invalid("file", "two")
        troubles.valid("other", "good")
        clock.move_to(START + timedelta(days=3))
        told = led(troubles)
        assert told == [TroubleEvent(INVALID, "two")]
        troubles.valid("file", "good")
        assert told[1:] == [TroubleEvent(RESTORED, "good", warning=False)]

    def test_what_waits_is_bounded(self, troubles: Troubles) -> None:
        for number in range(MOST + 1):
            troubles.invalid(f"file {number}", str(number))
        assert [statement.note for statement in led(troubles)] == [str(number) for number in range(1, MOST + 1)]


class TestOutages:
    @pytest.mark.parametrize(
        ("code", "reason"),
        [
            ("unreachable", "ApiServerUnavailable"),
            ("failing", "ApiServerUnavailable"),
            ("unauthorized", "CredentialsRefused"),
            ("unreadable", "AccessForbidden"),
        ],
    )
    def test_since_when_and_why(self, code: str, reason: str, troubles: Troubles) -> None:
        told = led(troubles)
        troubles.outage(outage(code=code))
        note = "no steady watch of Node for 30 s, since 2026-03-01T10:00:00Z: Connection refused"
        assert [(each.reason, each.note, each.warning) for each in told] == [(reason, note, True)]

    def test_kinds_that_come_back_together_are_one_and_clusters_are_not(self, troubles: Troubles) -> None:
        told = led(troubles)
        for each in (
            outage(),
            outage(after=-1, lasted=45),
            outage(after=30),
            outage(after=20, code="unauthorized"),
            outage(after=5, cluster="b"),
            outage(after=60),
        ):
            troubles.outage(each)
        assert [each.note.partition(", since ")[2][:20] for each in told] == [
            "2026-03-01T10:00:00Z",
            "2026-03-01T10:00:20Z",
            "2026-03-01T10:00:05Z",
            "2026-03-01T10:01:00Z",
        ]
        assert told[1].reason == "CredentialsRefused"
        assert "of cluster b for" in told[2].note

    @pytest.mark.parametrize(("minutes", "count"), [(5, 1), (6, 0)])
    def test_who_leads_soon_after_tells_of_it(
        self, minutes: int, count: int, troubles: Troubles, clock: ManualClock
    ) -> None:
        troubles.outage(outage())
        clock.move_to(START + timedelta(seconds=30, minutes=minutes))
        assert len(led(troubles)) == count


class TestEvents:
    @virtual
    async def test_one_for_each_note(self) -> None:
        """Also in the API that else counts events alike in all but the note."""
        objects, clock = Objects(), LoopClock()
        recorder = Recorder(Writer(objects), clock)
        say = by_events(recorder, Reporter("haulout", "haulout-host"), lambda: itself("", "host", None, Store()))
        say(TroubleEvent(INVALID, "one"))
        say(TroubleEvent(INVALID, "two"))
        say(TroubleEvent(INVALID, "x" * 2000))
        say(TroubleEvent(RESTORED, "good", warning=False))
        await recorder.flush()
        found = [objects.stored[path] for path in sorted(objects.stored)]
        assert {path.rpartition("/")[0] for path in objects.stored} == {
            "/apis/events.k8s.io/v1/namespaces/default/events"
        }
        assert [(each["type"], each["reason"], each["note"][:4]) for each in found] == [
            ("Warning", INVALID, "one"),
            ("Warning", INVALID, "two"),
            ("Warning", INVALID, "xxxx"),
            ("Normal", RESTORED, "good"),
        ]
        assert len(found[2]["note"]) == 1024
        assert found[0]["regarding"] == {"kind": "Namespace", "name": "default", "apiVersion": "v1"}

    def test_about_our_pod_or_our_lease(self) -> None:
        store = Store()
        lease = itself("", "host", ("leases", "haulout"), store)
        assert (lease.kind, lease.namespace, lease.name) == ("Lease", "leases", "haulout")
        unknown = itself("system", "pod-1", ("leases", "haulout"), store)
        assert (unknown.kind, unknown.namespace, unknown.name, unknown.uid) == ("Pod", "system", "pod-1", "")
        store.write(ObjectRow(key=Key("", "Pod", "system", "pod-1"), uid="u"))
        assert itself("system", "pod-1", None, store).uid == "u"


# Files that are right.
PARTS: dict[type[Part], str] = {
    Profiles: "intervals: {requeue: 30s}\nprofiles: [{name: p}]\n",
    Kubernikus: """
intervals: {requeue: 1s, podDeletion: {period: 1s, timeout: 30s}, podEviction: {period: 1s, timeout: 30s}}
""",
    Esx: """
intervals:
  check: {period: 2s, jitter: 0.1}
  podEviction: {period: 1s, timeout: 1m}
  vmShutdown: {period: 1s, timeout: 10s}
vCenters: {templateUrl: "https://$AZ", credentials: {1: {username: robot, password: robot}}}
""",
}


class TestFiles:
    @pytest.mark.parametrize("kind", list(PARTS), ids=[part.declaration.name for part in PARTS])
    def test_of_parts(self, kind: type[Part], troubles: Troubles, tmp_path: Path) -> None:
        told, path = led(troubles), tmp_path / "file.yaml"
        good = PARTS[kind]
        path.write_text(good)
        settings = said.Settings(
            blocks={
                "profiles": ProfilesSettings(
                    config=str(path),
                    kubernikus=KubernikusSettings(config=str(path)),
                    esx=EsxSettings(config=str(path)),
                )
            },
        )
        part = kind(Surroundings(settings, Store(), Metrics(), SystemClock(), lambda: None, troubles=troubles))
        for text in (good, "[unclosed", good + " ", "[unclosed", good):
            path.write_text(text)
            part.look(closely=True)
        assert [each.reason for each in told] == [INVALID, RESTORED, INVALID, RESTORED]
        assert told[0].note.startswith("Failed to parse configuration file (syntax error): ")
        assert str(path) in told[0].note
        assert told[1] == TroubleEvent(RESTORED, f"{path} is valid again", warning=False)

    def test_of_the_settings(self, troubles: Troubles, tmp_path: Path) -> None:
        told, path, good = led(troubles), tmp_path / "haulout.yaml", "surfaces: {profiles: {}}\n"
        path.write_text(good)
        first = read_settings(good.encode(), str(path), {}, {}, "")
        reload = Reload(first, lambda settings: None, lambda settings: None, troubles)
        for text in (good, f"{good}lug: 1\nlag: 1\n", good):
            path.write_text(text)
            reload.look(closely=True)
        assert [each.reason for each in told] == [INVALID, RESTORED]
        assert told[0].note.startswith(f"the last good settings stay in force: {path}:2:1: lug: unknown setting")
        assert f"; {path}:3:1: lag: " in told[0].note
