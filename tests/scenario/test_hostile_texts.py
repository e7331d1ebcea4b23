"""Every command on a terminal, over objects whose texts try to control it: what they say is shown, never obeyed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
import yaml

from haulout.cli.root import COMMANDS
from haulout.cli.skyhook.command import COMMANDS as SKYHOOK
from haulout.embedded import Json
from haulout.surfaces.packages.entries.entry import PackageEntry, to_text
from haulout.surfaces.registry import all_declarations, definition
from tests.build.served import Served
from tests.build.workloads import budget as disruption_budget
from tests.build.workloads import node, pod
from tests.scenario.test_plan_of_notify import notice
from tests.scenario.test_plan_surfaces import budget, maintenance

P, HAULOUT = "skyhook.nvidia.com/", "haulout.dev/v1alpha1"
# A title for the window, a screen that is cleared, a line that is overwritten, a color by a C1 control, text from right to
# left, an invisible character, a deletion, a line that no command printed.
EVIL = "evil\x1b]0;owned\x07\x1b[2J\rgood\x9b31m\u202egnp\u2066\u200b\x7f\nforged"
OBEYED = re.compile("\x1b]|\x1b\\[2J|[\x07\x08\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069]|\rgood|\nforged")
SETTINGS = {
    "surfaces": {"nodemaintenance": {}, "packages": {}, "notify": {"config": "notify.yaml"}},
    "leader": {"elect": True},
    "listen": {"http": "0", "health": "0", "webhooks": "0"},
}
# What each command is asked, with a text that it shows of the objects. A new command needs a line here.
WALKS: dict[str, list[tuple[tuple[str, ...], str]]] = {
    "act": [(("act", "node/a"), ""), (("act", "nm/one", "-o", "json"), "")],
    "approve": [(("approve", "node/a", "--dry-run"), "")],
    "cancel": [(("cancel", "nm/one", "--dry-run"), "")],
    "finish": [(("finish", "node/a", "--dry-run"), "")],
    "let-go": [(("let-go", "node/a", "--dry-run"), "")],
    "override": [(("override", "nm/one", "--limit", "few", "--reason", "r", "--for", "1h", "--dry-run"), "")],
    "pause": [(("pause", "node/a", "--reason", "r", "--dry-run"), "")],
    "rerun": [(("rerun", "skyhook/demo", "--dry-run"), "")],
    "resume": [(("resume", "node/a", "--reason", "r", "--dry-run"), "")],
    "retry": [(("retry", "notifymaintenance/fleet/two", "--dry-run"), "")],
    "start": [(("start", "node/a", "--dry-run"), "")],
    "bundle": [(("bundle", "a", "--file", "out.tar.gz"), "")],
    "cordon": [(("cordon", "a", "--dry-run"), "")],
    "drain": [
        (("drain", "a", "--dry-run"), ""),
        (("drain", "a", "--no-wait", "--force"), ""),
        (("drain", "a", "--no-wait", "--force", "-o", "json"), ""),
    ],
    "explain": [
        (("explain", "a"), "evil"),
        (("explain", "a", "-o", "json"), "evil"),
        (("explain", "nm", "one"), "evil"),
        (("explain", "ndb", "few"), ""),
        (("explain", "skyhook", "demo"), ""),
        (("explain", "skyhook", "demo", "-o", "json"), ""),
        (("explain", "nodewright", "wright"), ""),
        (("explain", "nodewright", "wright", "-o", "json"), ""),
        (("explain", "nodemaintenanceset", "s1"), ""),
        (("explain", "nodemaintenanceset", "s1", "-o", "json"), ""),
        (("explain", "notifymaintenance", "fleet/two"), ""),
    ],
    "history": [(("history", "a"), "evil"), (("history", "a", "-o", "json"), "evil"), (("history",), "evil")],
    "lint": [(("lint", "evil.yaml"), "evil"), (("lint", "-o", "json", "evil.yaml"), "evil")],
    "plan": [(("plan", "--days", "1"), ""), (("plan", "--days", "1", "-o", "json"), "")],
    "report": [(("report",), ""), (("report", "-o", "markdown"), ""), (("report", "-o", "json"), "")],
    "uninstall": [(("uninstall", "packages", "--dry-run"), "")],
    "status": [(("status",), ""), (("status", "-o", "json"), ""), (("status", "-o", "yaml"), "")],
    "uncordon": [(("uncordon", "a", "--dry-run"), "")],
    "wait": [(("wait", "node/a", "--for", "returned", "--timeout", "0"), "")],
}
# These read no object: they print what the program and the words say. `run` and `as` print the log, whose lines have tests of
# their own; `cluster` and `demo` have objects of their own.
READ_NO_OBJECT = {"package"} | frozenset(
    {
        "as",
        "cluster",
        "completion",
        "console",
        "crds",
        "demo",
        "init",
        "manifests",
        "plugins",
        "rbac",
        "run",
        "schema",
        "version",
    }
    | {"webhooks"}
)
SKYHOOK_WALKS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("version",): (),
    ("pause",): ("demo", "-y"),
    ("resume",): ("demo", "-y"),
    ("disable",): ("demo", "-y"),
    ("enable",): ("demo", "-y"),
    ("reset",): ("demo", "--dry-run"),
    ("update-state",): ("demo", "base", "1.0.0", "apply", "complete", "--dry-run"),
    ("deployment-policy", "reset"): ("demo", "--dry-run"),
    ("node", "list"): ("--skyhook", "demo"),
    ("node", "status"): ("a",),
    ("node", "reset"): ("a", "--skyhook", "demo", "--dry-run"),
    ("node", "ignore"): ("a", "--dry-run"),
    ("node", "unignore"): ("a", "--dry-run"),
    ("package", "status"): ("base", "--skyhook", "demo"),
    ("package", "rerun"): ("base", "--skyhook", "demo", "--node", "a", "--dry-run"),
    ("package", "logs"): ("base", "--skyhook", "demo"),
}


# The commands and forms that name the packages of a node.
SHOW_PACKAGES = {(("node", "status"), "json"), (("node", "status"), "yaml")}


def hostile_node() -> Json:
    made = node("a")
    entries = [
        PackageEntry("base", "1.0.0", EVIL, stage="apply", state="erroring"),
        PackageEntry(EVIL, EVIL, EVIL, stage="config"),
    ]
    state = {entry.key: entry for entry in entries}
    made["metadata"]["annotations"] = {
        f"{P}nodeState_demo": to_text(state),
        f"{P}status_demo": EVIL,
        f"{P}version_demo": EVIL,
        f"{P}cordon_demo": EVIL,
        "haulout.dev/baseline": EVIL,
        "haulout.dev/cordoned-by": EVIL,
    }
    made["spec"] = {"unschedulable": True}
    made["status"] = {"conditions": [{"type": "Ready", "status": "False", "reason": EVIL, "message": EVIL}]}
    return made


def hostile_pod() -> Json:
    made = pod("bare", nodeName="a")
    made["metadata"] |= {"annotations": {"haulout.dev/drain": EVIL}, "finalizers": ["evil.io/x"]}
    made["status"] = {"phase": "Running", "message": EVIL, "reason": EVIL}
    return made


def package_pod() -> Json:
    made = pod("demo-base", nodeName="a", initContainers=[{"name": "base-apply", "image": "x"}])
    made["metadata"] |= {"namespace": "skyhook", "labels": {f"{P}name": "demo", f"{P}package": "base-1.0.0"}}
    waiting = {"name": "base-apply", "state": {"waiting": {"reason": EVIL, "message": EVIL}}}
    made["status"] = {"phase": "Pending", "initContainerStatuses": [waiting]}
    return made


def event() -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "a.1", "namespace": "default"},
        "involvedObject": {"kind": "Node", "name": "a"},
        "reason": EVIL,
        "message": EVIL,
        "reportingComponent": EVIL,
        "type": "Warning",
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }


def skyhook() -> Json:
    base = {"name": "base", "version": "1.0.0", "image": "x/base", "interrupt": {"type": "reboot"}}
    spec = {"nodeSelectors": {"matchLabels": {}}, "packages": {"base": base}, "pauseReason": EVIL}
    status = {"status": EVIL, "conditions": [{"type": "x", "status": "True", "reason": EVIL, "message": EVIL}]}
    meta = {"name": "demo", "annotations": {f"{P}version": EVIL, f"{P}pause": EVIL}}
    return {"apiVersion": f"{P}v1alpha1", "kind": "Skyhook", "metadata": meta, "spec": spec, "status": status}


def nodewright() -> Json:
    made = skyhook()
    group = "nodewright.nvidia.com"
    made["metadata"] = {"name": "wright", "annotations": {f"{group}/version": EVIL, f"{group}/pause": EVIL}}
    return {**made, "apiVersion": f"{group}/v1alpha1", "kind": "NodeWright"}


def rollout() -> Json:
    spec = {"nodes": ["a", EVIL], "reason": EVIL}
    aside = [{"name": EVIL, "reason": EVIL, "at": "2026-01-01T00:00:00Z"}]
    status = {"phase": EVIL, "setAsideNodes": aside, "conditions": [{"type": "x", "status": "True", "message": EVIL}]}
    meta = {"name": "s1"}
    return {"apiVersion": HAULOUT, "kind": "NodeMaintenanceSet", "metadata": meta, "spec": spec, "status": status}


def record() -> Json:
    spec = {
        "node": {"name": "a", "uid": EVIL},
        "surface": "nodemaintenance",
        "owner": {"kind": "NodeMaintenance", "name": EVIL, "uid": EVIL},
        "reason": EVIL,
        "requestedBy": {"name": EVIL, "how": "claimed"},
        "begunAt": "2026-01-01T00:00:00Z",
    }
    status = {"outcome": "Completed", "endedAt": "2026-01-01T01:00:00Z"}
    meta = {"name": "a-1", "labels": {"haulout.dev/node": "a"}}
    return {"apiVersion": HAULOUT, "kind": "MaintenanceRecord", "metadata": meta, "spec": spec, "status": status}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "haulout.yaml").write_text(yaml.safe_dump(SETTINGS))
    (folder / "notify.yaml").write_text(yaml.safe_dump({"slaPeriod": "1h"}))
    (folder / "evil.yaml").write_text(json.dumps({"surfaces": {EVIL: {}, "profiles": {"config": EVIL}}, EVIL: EVIL}))
    with Served(folder) as made:
        made.make(*(yaml.safe_load(definition(name)) for each in all_declarations() for name in each.crds))
        made.make(
            *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": each}} for each in ("fleet", "skyhook"))
        )
        made.make(hostile_node(), node("b"), hostile_pod(), package_pod(), event(), skyhook(), budget(1))
        made.make(nodewright(), rollout(), record())
        made.make(disruption_budget("bare", maxUnavailable=0))
        one = maintenance("one", "a")
        one["spec"]["reason"] = EVIL
        two = notice("two", "a", annotations={"haulout.dev/hold": EVIL, "haulout.dev/hold-reason": EVIL})
        two["spec"]["owner"] = EVIL
        made.make(one, two)
        yield made


def test_every_command_has_a_walk() -> None:
    assert set(WALKS) | READ_NO_OBJECT == set(COMMANDS)
    assert not set(WALKS) & READ_NO_OBJECT
    assert set(SKYHOOK_WALKS) == set(SKYHOOK)


@pytest.mark.parametrize(("words", "shown"), [walk for walks in WALKS.values() for walk in walks], ids=str)
def test_texts_of_objects_do_not_control_the_terminal(served: Served, words: tuple[str, ...], shown: str) -> None:
    _, drawn = served.run_on_terminal(*words)
    assert "bug of haulout" not in drawn
    assert OBEYED.findall(drawn) == [], repr(drawn)
    assert shown in drawn


@pytest.mark.parametrize(
    ("path", "output"),
    [(path, "table") for path in SKYHOOK_WALKS]
    + [(path, output) for path in SKYHOOK_WALKS if path[-1] in ("list", "status") for output in ("json", "yaml")],
    ids=str,
)
@pytest.mark.parametrize("program", ["skyhook", "nodewright"])
def test_nor_with_the_commands_of_skyhook(served: Served, path: tuple[str, ...], output: str, program: str) -> None:
    _, drawn = served.run_on_terminal("as", program, *path, *SKYHOOK_WALKS[path], "-o", output)
    assert "bug of haulout" not in drawn
    assert OBEYED.findall(drawn) == [], repr(drawn)
    assert "evil" in drawn or (path, output) not in SHOW_PACKAGES
