"""Files that change while the process runs: settings that are followed, kept or refused."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from haulout.app.parts import Surroundings
from haulout.app.profiles import Profiles
from haulout.app.reload import Reload
from haulout.base.clock import SystemClock
from haulout.cluster.rows import Value
from haulout.cluster.store import Store
from haulout.runtime.files import WatchedFile
from haulout.runtime.metrics import Metrics
from haulout.settings.file import read_settings
from haulout.settings.settings import Settings
from haulout.surfaces.clusterapi.settings import ClusterApiSettings
from haulout.surfaces.nodemaintenance.settings import NodeMaintenanceSettings
from haulout.surfaces.profiles.settings import ProfilesSettings
from haulout.surfaces.profiles.surface import CONFIG_KEY

ON = "surfaces: {profiles: {}}\n"
BOTH = "surfaces: {profiles: {}, clusterapi: {}}\n"


class Followed:
    """A settings file, and the settings in force."""

    def __init__(
        self, path: Path, text: str | None, surfaces: str = "", refused: Settings | None = None, **more: Any
    ) -> None:
        self.path = path
        if text is not None:
            path.write_text(text)
        self.seen: list[Settings] = []
        self.anew: list[Settings] = []
        first = read_settings((text or "").encode(), str(path), {}, {"log.format": "console"}, surfaces)
        given = msgspec.structs.replace(first, **more)
        self._reload = Reload(given, self.seen.append, self.anew.append, refused=refused)
        self._reload.look()

    def write(self, text: str) -> Followed:
        """Replace the file at once, as a kubelet replaces mounted files."""
        fresh = self.path.with_name("fresh")
        fresh.write_text(text)
        fresh.rename(self.path)
        self._reload.look()
        return self

    def remove(self) -> Followed:
        self.path.unlink()
        self._reload.look()
        return self


@pytest.fixture
def followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Followed:
    caplog.set_level(logging.INFO)
    return Followed(tmp_path / "haulout.yaml", ON)


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    fields = ("error", "setting", "changed")
    return [
        " ".join([record.message, *(str(getattr(record, field)) for field in fields if hasattr(record, field))])
        for record in caplog.records
    ]


class TestSettings:
    def test_at_first_nothing_has_changed(self, followed: Followed, caplog: pytest.LogCaptureFixture) -> None:
        assert followed.seen == []
        assert said(caplog) == []

    def test_what_can_be_followed_is(self, followed: Followed, caplog: pytest.LogCaptureFixture) -> None:
        followed.write("log: {level: debug}\nsurfaces: {profiles: {config: other.yaml}}\n")
        (now,) = followed.seen
        assert (now.log_level, now.of(ProfilesSettings)) == (logging.DEBUG, ProfilesSettings(config="other.yaml"))
        assert said(caplog) == ["settings reloaded log_level, surfaces.profiles"]

    def test_whom_it_acts_as_stays(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        followed = Followed(tmp_path / "haulout.yaml", ON, as_user="deputy", as_groups=("g",))
        (now,) = followed.write(f"{ON}log: {{level: debug}}\n").seen
        assert (now.as_user, now.as_groups) == ("deputy", ("g",))
        assert said(caplog) == ["settings reloaded log_level"]

    def test_flags_still_win(self, followed: Followed) -> None:
        assert followed.write(f"{ON}log: {{format: json}}\n").seen == []

    def test_what_needs_a_restart_is_said_and_not_done(
        self, followed: Followed, caplog: pytest.LogCaptureFixture
    ) -> None:
        listen = "listen: {http: ':9', webhooks: ':10'}\n"
        followed.write(f"{ON}log: {{level: debug}}\n{listen}namespace: other\nleader: {{lease: x}}\n")
        (now,) = followed.seen
        assert (now.http, now.webhooks.address, now.namespace) == (":8080", ":9443", "")
        assert now.log_level == logging.DEBUG
        assert followed.anew == []
        assert said(caplog) == [
            "a changed setting needs a restart http",
            "a changed setting needs a restart lease",
            "a changed setting needs a restart namespace",
            "a changed setting needs a restart webhooks.address",
            "settings reloaded log_level",
        ]

    def test_the_settings_of_a_surface_are_followed(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        followed = Followed(tmp_path / "haulout.yaml", "surfaces: {clusterapi: {}}\n")
        (now,) = followed.write("surfaces: {clusterapi: {guardRemediation: true}}\n").seen
        assert now.blocks == {"clusterapi": ClusterApiSettings(guard_remediation=True)}
        assert said(caplog) == ["settings reloaded surfaces.clusterapi"]

    def test_so_are_those_of_maintenances(self, tmp_path: Path) -> None:
        followed = Followed(tmp_path / "haulout.yaml", "surfaces: {nodemaintenance: {}}\n")
        (now,) = followed.write("surfaces: {nodemaintenance: {maxConcurrentMaintenances: 2}}\n").seen
        assert now.blocks == {"nodemaintenance": NodeMaintenanceSettings(max_concurrent_maintenances=2)}

    @pytest.mark.parametrize(
        ("before", "after", "changed"),
        [
            pytest.param(ON, BOTH, "surfaces.clusterapi", id="a surface on"),
            pytest.param(BOTH, ON, "surfaces.clusterapi", id="a surface off"),
            pytest.param(ON, "surfaces: {profiles: {esx: {enabled: true}}}\n", "surfaces.profiles", id="a part of one"),
            pytest.param(ON, "surfaces: {profiles: {lease: {namespace: x}}}\n", "surfaces.profiles", id="a lease"),
            pytest.param(ON, f"{ON}webhooks: {{certificates: /certs}}\n", "webhooks", id="certificates"),
            pytest.param(ON, f"{ON}kubeconfig: /other\ncontext: b\n", "context, kubeconfig", id="another cluster"),
            pytest.param(
                "surfaces: {nodemaintenance: {}}\n",
                "surfaces: {nodemaintenance: {quorumOnKubernetes: true}}\n",
                "surfaces.nodemaintenance",
                id="what is looked at only in the beginning",
            ),
        ],
    )
    def test_for_the_rest_everything_is_put_together_anew(
        self, before: str, after: str, changed: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        followed = Followed(tmp_path / "haulout.yaml", before).write(after)
        assert followed.seen == []
        assert followed.anew == [read_settings(after.encode(), str(followed.path), {}, {"log.format": "console"}, "")]
        assert said(caplog) == [f"settings reloaded {changed}"]

    def test_what_could_not_be_begun_with_is_not_tried_again(self, tmp_path: Path) -> None:
        path = tmp_path / "haulout.yaml"
        refused = read_settings(BOTH.encode(), str(path), {}, {"log.format": "console"}, "")
        followed = Followed(path, ON, refused=refused)
        assert followed.write(BOTH).anew == []
        assert followed.write(f"{BOTH}log: {{level: debug}}\n").anew != []

    @pytest.mark.parametrize(
        ("text", "problems"),
        [
            pytest.param("log: [", ["2:1: did not find expected node content"], id="not YAML"),
            pytest.param(
                f"{ON}log: {{level: loud}}\nfoo: 1\n",
                ["2:7: log.level: 'loud' is no log level (one of", "3:1: foo: unknown setting (known are:"],
                id="two problems",
            ),
            pytest.param("", [" no surface is switched on ("], id="nothing to do"),
        ],
    )
    def test_the_last_good_ones_stay_and_that_is_said(
        self, text: str, problems: list[str], followed: Followed, caplog: pytest.LogCaptureFixture
    ) -> None:
        followed.write(f"{ON}log: {{level: debug}}\n")
        caplog.clear()
        followed.write(text)
        assert [now.log_level for now in followed.seen] == [logging.DEBUG]
        prefix = f"settings are invalid, the last good ones stay in force {followed.path}:"
        assert len(said(caplog)) == len(problems)
        assert all(line.startswith(prefix + start) for line, start in zip(said(caplog), problems, strict=True))
        caplog.clear()
        followed.write(f"{ON}log: {{level: error}}\n")
        assert followed.seen[-1].log_level == logging.ERROR
        assert said(caplog) == ["settings are valid again", "settings reloaded log_level"]

    def test_a_file_that_vanishes_keeps_the_last_good_ones(
        self, followed: Followed, caplog: pytest.LogCaptureFixture
    ) -> None:
        followed.write(f"{ON}log: {{level: debug}}\n")
        caplog.clear()
        followed.remove()
        assert len(followed.seen) == 1
        (line,) = said(caplog)
        assert line.endswith("haulout.yaml: No such file or directory")

    def test_a_file_that_was_never_there_may_come(self, tmp_path: Path) -> None:
        followed = Followed(tmp_path / "haulout.yaml", None, surfaces="profiles")
        assert followed.seen == []
        assert followed.write("log: {level: debug}\n").seen[0].log_level == logging.DEBUG


GOOD = "intervals: {requeue: 30s}\nprofiles: [{name: p}]\n"


def profiles(
    path: Path,
    store: Store | None = None,
    metrics: Metrics | None = None,
    poke: Callable[[], None] = lambda: None,
) -> Profiles:
    settings = Settings(blocks={"profiles": ProfilesSettings(config=str(path))})
    return Profiles(Surroundings(settings, store or Store(), metrics or Metrics(), SystemClock(), poke))


class TestProfilesConfig:
    def test_valid_invalid_and_valid_again(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        path, store, metrics = tmp_path / "maintenance.yaml", Store(), Metrics()
        pokes: list[None] = []
        config = profiles(path, store, metrics, lambda: pokes.append(None))

        def state() -> tuple[bool, str, bool]:
            config.look()
            row = store.row(CONFIG_KEY)
            assert isinstance(row, Value)
            valid = b"\nmaintenance_controller_config_valid 1\n" in b"\n" + metrics.render()
            return row.value is not None, row.error, valid

        assert state() == (False, f"{path}: No such file or directory", False)
        path.write_text(GOOD)
        assert state() == (True, "", True)
        path.write_text(GOOD.replace("30s", "soon"))
        problem = f"time: invalid duration \"soon\" accessing 'intervals.requeue' (source:'{path}')"
        assert state() == (False, f"{path}: {problem}", False)
        path.write_text(GOOD)
        assert state() == (True, "", True)
        assert len(pokes) == 4

    @pytest.mark.parametrize(
        ("text", "kind", "problems"),
        [
            pytest.param("a: [", "syntax", ["2:1: did not find expected node content"], id="not YAML"),
            pytest.param("word", "syntax", ["1:1: type 'string' is not supported on top level"], id="a word"),
            pytest.param(
                f"{GOOD}x: '${{'\n", "syntax", ["3:4: x: missing '}' parsing splice ($$ stands"], id="a splice"
            ),
            pytest.param(
                "intervals: {requeue: 0}\nprofiles: [{}]\n",
                "semantic",
                ["1:22: intervals.requeue: missing required field", "2:12: profiles.0.name: string value is not set"],
                id="two errors",
            ),
        ],
    )
    def test_the_log_says_what_kind_and_where(
        self, text: str, kind: str, problems: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        path = tmp_path / "maintenance.yaml"
        path.write_text(text)
        profiles(path).look()
        (record,) = caplog.records
        assert record.message == f"Failed to parse configuration file ({kind} error)"
        found: list[str] = record.__dict__["problems"]
        assert len(found) == len(problems)
        assert all(line.startswith(f"{path}:{start}") for line, start in zip(found, problems, strict=True))

    def test_the_log_says_what_is_odd(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        path = tmp_path / "maintenance.yaml"
        path.write_text(GOOD.replace("name: p", "name: p, enterr: x"))
        profiles(path).look()
        (problem,) = [record.__dict__["problem"] for record in caplog.records if record.levelno == logging.WARNING]
        assert problem.startswith(f"{path}:2:22: profiles.0.enterr: warning: this key is not known, and ignored (")


class TestWatchedFile:
    def test_a_link_that_is_exchanged_is_a_change(self, tmp_path: Path) -> None:
        seen: list[object] = []
        for name in ("one", "two"):
            (tmp_path / name).write_text(name)
        link = tmp_path / "link"
        link.symlink_to("one")
        file = WatchedFile(link, seen.append)
        file.look()
        (tmp_path / "fresh").symlink_to("two")
        (tmp_path / "fresh").rename(link)
        file.look()
        file.look()
        assert seen == [b"one", b"two"]

    def test_a_change_that_its_times_do_not_show_is_found_by_a_closer_look(self, tmp_path: Path) -> None:
        seen: list[object] = []
        path = tmp_path / "file"
        path.write_text("one")
        times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
        file = WatchedFile(path, seen.append)
        file.look()
        path.write_text("two")
        os.utime(path, ns=times)
        file.look()
        assert seen == [b"one"]
        file.look(closely=True)
        assert seen == [b"one", b"two"]

    def test_the_same_trouble_is_told_once(self, tmp_path: Path) -> None:
        seen: list[object] = []
        file = WatchedFile(tmp_path / "absent", seen.append)
        file.look()
        file.look(closely=True)
        assert len(seen) == 1
