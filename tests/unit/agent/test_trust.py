"""root_dir stays where root has put it: directories and links of other users do not lead it elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.build.agent import AgentHost, step

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
SOMEONE = 1000
ANY = {"SKYHOOK_AGENT_OVERLAY_OWNERS": "any"}


def give(path: Path) -> None:
    os.chown(path, SOMEONE, SOMEONE, follow_symlinks=False)


@pytest.fixture
def overlaid(host: AgentHost) -> AgentHost:
    """A host and a package that delivers a harmless file first, and then one below srv/app."""
    host.tracing("a.sh")
    host.applying(step("a.sh"))
    for name in ("etc/first", "srv/app/sub/file"):
        file = host.package / "root_dir" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("of the package")
    (host.root / "srv/app").mkdir(parents=True)
    (host.root / "secret/sub").mkdir(parents=True)
    return host


def refused(host: AgentHost, why: str) -> None:
    done = host.run("apply")
    assert done.code == 1
    last = done.err.splitlines()[-1]
    assert last.startswith("cannot copy root_dir/srv/app")
    assert last.endswith(f": {why} (SKYHOOK_AGENT_OVERLAY_OWNERS=any copies it nevertheless)")
    assert host.trace == []
    assert not (host.root / "etc/first").exists(), "nothing is copied if one file cannot be"


def test_a_directory_of_another_user_is_refused(overlaid: AgentHost) -> None:
    give(overlaid.root / "srv/app")
    refused(overlaid, "the directory /srv/app belongs to user 1000, not to root")
    assert not (overlaid.root / "srv/app/sub").exists()
    assert overlaid.run("apply", env=ANY).code == 0
    assert (overlaid.root / "srv/app/sub/file").read_text() == "of the package"


def test_a_link_of_another_user_is_refused(overlaid: AgentHost) -> None:
    (overlaid.root / "srv/app").rmdir()
    (overlaid.root / "srv/app").symlink_to("/secret")
    give(overlaid.root / "srv/app")
    refused(overlaid, "the link /srv/app belongs to user 1000, not to root")
    assert not (overlaid.root / "secret/sub/file").exists()
    assert overlaid.run("apply", env=ANY).code == 0
    assert (overlaid.root / "secret/sub/file").read_text() == "of the package"


def test_a_link_of_another_user_in_the_place_of_a_file_is_refused(overlaid: AgentHost) -> None:
    (overlaid.root / "srv/app/sub").mkdir()
    (overlaid.root / "srv/app/sub/file").symlink_to("/secret/target")
    give(overlaid.root / "srv/app/sub/file")
    refused(overlaid, "the link /srv/app/sub/file belongs to user 1000, not to root")
    assert not (overlaid.root / "secret/target").exists()


def test_a_directory_that_everybody_may_write_to_is_refused(overlaid: AgentHost) -> None:
    (overlaid.root / "srv/app").chmod(0o777)
    refused(overlaid, "every user may write to the directory /srv/app")


def test_a_link_of_root_into_a_directory_of_another_user_is_refused(overlaid: AgentHost) -> None:
    (overlaid.root / "srv/app").rmdir()
    (overlaid.root / "srv/app").symlink_to("/secret")
    give(overlaid.root / "secret")
    refused(overlaid, "the directory /secret belongs to user 1000, not to root")


def test_what_belongs_to_root_is_followed(overlaid: AgentHost) -> None:
    """A link of root, a sticky directory, a directory that a group may write to, and a file of another user."""
    (overlaid.root / "srv/app").rmdir()
    (overlaid.root / "srv/app").symlink_to("/secret")
    (overlaid.root / "secret").chmod(0o1777)
    (overlaid.root / "secret/sub").chmod(0o775)
    file = overlaid.root / "secret/sub/file"
    file.write_text("before")
    give(file)
    done = overlaid.run("apply")
    assert (done.code, file.read_text(), file.stat().st_uid) == (0, "of the package", SOMEONE)


def test_a_dry_run_refuses_it_as_well(overlaid: AgentHost) -> None:
    give(overlaid.root / "srv/app")
    before = overlaid.tree()
    done = overlaid.dry_run("apply")
    assert (done.code, "belongs to user 1000" in done.err) == (1, True)
    assert overlaid.tree() == before


@pytest.mark.parametrize("place", ["var/lib/skyhook", "var/log/skyhook"])
def test_state_and_logs_are_not_led_elsewhere_by_a_link_of_another_user(local: AgentHost, place: str) -> None:
    local.tracing("a.sh")
    local.applying(step("a.sh"))
    (local.root / "elsewhere").mkdir()
    if (local.root / place).exists():
        (local.root / place).rename(local.root / "elsewhere/found")
    (local.root / place).parent.mkdir(parents=True, exist_ok=True)
    (local.root / place).symlink_to("/elsewhere/found")
    (local.root / "elsewhere/found").mkdir(exist_ok=True)
    give(local.root / place)
    done = local.run("apply")
    assert done.code == 1
    assert done.err.splitlines()[-1].endswith(f": the link /{place} belongs to user 1000, not to root")
    assert local.trace == []
