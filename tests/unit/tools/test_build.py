"""Control planes of several versions of Kubernetes: each is pinned, built and found by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import build, tiers


def test_the_two_minor_versions_before_the_usual_one_are_pinned() -> None:
    usual = int(build.minor_of(build.kube_version()).split(".")[1])
    assert build.pinned_minors() == (f"1.{usual - 1}", f"1.{usual - 2}")
    assert all(build.kube_version(minor).startswith(f"v{minor}.") for minor in build.pinned_minors())


def test_each_version_has_a_place_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HAULOUT_TOOLS", str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    usual, older = build.family_dir("kube"), build.family_dir("kube", "1.35")
    assert usual != older
    assert build.family_dir("etcd", "1.35") == build.family_dir("etcd")
    older.mkdir(parents=True)
    (older / "kubectl").touch()
    assert (build.find_tool("kubectl"), build.find_tool("kubectl", "1.35")) == (None, older / "kubectl")
    monkeypatch.setenv(build.CHOSEN, "1.35")
    assert build.find_tool("kubectl") == older / "kubectl"
    assert "gitVersion=v1.35" in build.ldflags("kube")


@pytest.mark.parametrize("wanted", ["1.36", "v1.36", build.kube_version()])
def test_the_usual_version_may_be_named(monkeypatch: pytest.MonkeyPatch, wanted: str) -> None:
    place = build.family_dir("kube")
    monkeypatch.setenv(build.CHOSEN, wanted)
    assert build.family_dir("kube") == place


@pytest.mark.parametrize(
    ("wanted", "text"), [("1.20", "Kubernetes 1.20 is not pinned"), ("1.35.0", "Kubernetes 1.35.0 is not pinned")]
)
def test_a_version_that_is_not_pinned(monkeypatch: pytest.MonkeyPatch, wanted: str, text: str) -> None:
    monkeypatch.setenv(build.CHOSEN, wanted)
    with pytest.raises(SystemExit, match=f"{text}.*: python tools/build.py --pin {wanted}"):
        build.kube_version()


def test_the_smoke_set_runs_on_the_other_versions_in_long_runs_alone() -> None:
    assert [tier.kube for tier in tiers.OTHER_VERSIONS] == list(build.pinned_minors())
    assert all((tiers.ROOT / path).is_file() for path in tiers.SMOKE)
    assert not {tier.name for tier in tiers.OTHER_VERSIONS} & {tier.name for tier in tiers.TIERS}
    assert tiers.chosen_kube(tiers.OTHER_VERSIONS[0]) == {"HAULOUT_KUBE": build.pinned_minors()[0]}
