"""A fleet in the middle of a night, the same each time: what the console's pages show on the stage."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

Json = dict[str, Any]

NOW = datetime(2026, 11, 14, 2, 58, 20, tzinfo=UTC)
ZONE = "topology.kubernetes.io/zone"
PDB = "PodDisruptionBudget shop/api allows no evictions: 2 of 3 pods are healthy, 3 required; api-7f9c is in CrashLoopBackOff"
NIGHT = "budget night: window closed, opens Sat 22:00 UTC (in 19 h)"
PAUSED = "paused by storage-team: storage upgrade, back at noon"
GATE = "package kernel 2.1.0 failed its gate in wave 2: post-interrupt check exited 3 on 2 of 18 nodes"
HOSTILE = '<img src=x onerror="window.__ran=1"><script>window.__ran=2</script> javascript:window.__ran=3 \u202eevil'


FAILURE = (
    "package kernel 2.1.0, stage post-interrupt: container kernel-postinterruptcheck fails: "
    "step check driver (steps/driver.sh) ended with exit code 3 (2 restarts)"
)


def wire(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def ago(**spans: float) -> str:
    return wire(NOW - timedelta(**spans))


OPENS = wire(datetime(2026, 11, 14, 22, tzinfo=UTC))


class Stage:
    """Everything that the pages ask for, as JSON."""

    def __init__(self, nodes: int = 600, *, hostile: bool = False) -> None:
        self.nodes = [_row(number, nodes) for number in range(nodes)]
        if hostile:
            self.nodes += _odd_rows()
        self.causes = _causes(self.nodes, hostile=hostile)
        because = {node: cause["text"] for cause in reversed(self.causes) for node in cause["nodes"]}
        for row in self.nodes:
            row["cause"] = because.get(row["name"], "")
        self.works = [_work(row) for row in self.nodes if row["holders"] or row["state"] == "waiting"]
        self.tables = {"Node": "listed", "Pod": "listed", "PodDisruptionBudget": "listed", "NodeMaintenance": "listed"}
        self.acts_done: list[Json] = []
        self.operator: Json = {"isLeading": True, "since": None, "why": "", "act": "", "operators": [], "notServed": []}

    def fleet(self, seq: int) -> Json:
        return {"epoch": "stage", "seq": seq, "at": wire(NOW), "tables": self.tables, "nodes": self.nodes}

    def budgets(self) -> list[Json]:
        return [
            {"name": "gpu", "used": 3, "allowed": 3, "left": 0, "nextOpening": None, "problems": []},
            {"name": "night", "used": 2, "allowed": 12, "left": 10, "nextOpening": OPENS, "problems": []},
            {"name": "rack-by-rack", "used": 7, "allowed": 20, "left": 13, "nextOpening": None, "problems": []},
            {"name": "storage", "used": 0, "allowed": 1, "left": 1, "nextOpening": None, "problems": []},
            {"name": "team-x", "used": 1, "allowed": 0, "left": 0, "nextOpening": None, "problems": ["spec.windows[0].schedule: 5 fields expected"]},
            {"name": "whole-fleet", "used": 61, "allowed": 120, "left": 59, "nextOpening": None, "problems": []},
        ]  # fmt: skip

    def rollouts(self) -> list[Json]:
        common = {"surface": "packages"}
        return [
            {**common, "object": "skyhook/kernel", "state": "blocked", "total": 180, "done": 66, "atWork": 18},
            {
                **common,
                "object": "skyhook/sysctl-tuning",
                "state": "in_progress",
                "total": 600,
                "done": 412,
                "atWork": 9,
            },
            {**common, "object": "skyhook/nvidia-driver", "state": "complete", "total": 96, "done": 96, "atWork": 0},
        ]

    def failures(self) -> list[Json]:
        failing = [row["name"] for row in self.nodes if row["holders"] == ["packages"]][:1]
        pod = "kernel-2-1-0-post-interrupt-a17"
        return [
            {"code": "package-failing", "object": f"packagepod/skyhook/{pod}", "node": node, "text": FAILURE,
             "act": f"kubectl logs -n skyhook {pod} -c kernel-postinterruptcheck"}
            for node in failing
        ]  # fmt: skip

    def rollout(self, name: str) -> Json:
        """Return the explanation of a Skyhook."""
        because = [
            {"code": "node-incomplete", "text": f"node {row['name']} is {'erroring' if not i else 'in_progress'}: "
             f"kernel at post-interrupt/{'erroring' if not i else 'in_progress'}", "act": f"haulout explain {row['name']}"}
            for i, row in enumerate(each for each in self.nodes if each["holders"] == ["packages"])
        ]  # fmt: skip
        halted = {"code": "rollout-halted", "text": GATE}
        reasons = [{"code": "object", "text": f"Skyhook {name}", "because": [halted, *because]}]
        waits = {
            reason["act"].rpartition(" ")[2]: "the pod of stage post-interrupt has not ended" for reason in because[1:]
        }
        nothing: Json = {"flags": [], "cordon": "", "holds": [], "settings": "", "incomplete": []}
        found = {"reasons": reasons, "queue": waits} if name == "kernel" else {"reasons": [], "queue": {}}
        return {"node": "", **nothing, **found}

    def budget(self, name: str) -> Json:
        """Return the explanation of a budget."""
        used = next(each["used"] for each in self.budgets() if each["name"] == name)
        holders = [{"node": "c-r01-01", "surface": "nodemaintenance"}]
        waiting: Json = {"count": 0, "first": []}
        status: Json = {"used": used, "holders": holders, "waiting": waiting, "conditions": []}
        about: Json = {"settings": "", "incomplete": [], "operator": self.operator, "spec": {}}
        return {"name": name, "status": status, **about}

    def installation(self) -> Json:
        replica = {"namespace": "haulout", "image": "haulout:1.0", "ready": True}
        return {
            "version": "1.0",
            "leader": "haulout-7c9f",
            "replicas": [{**replica, "name": "haulout-7c9f", "leads": True}, {**replica, "name": "haulout-x2lk", "leads": False}],
            "surfaces": ["nodemaintenance", "packages"],
            "definitions": [],
            "missingDefinitions": [],
            "webhooks": [],
            "roles": [],
            "settings": "ConfigMap haulout/haulout",
            "lastError": "",
            "unread": [],
            "operator": self.operator,
        }  # fmt: skip

    def node(self, name: str) -> Json | None:
        row = next((each for each in self.nodes if each["name"] == name), None)
        if row is None:
            return None
        works = [work for work in self.works if work["node"] == name]
        return {
            "at": wire(NOW),
            "row": row,
            "explain": _explained(row),
            "works": works,
            "pods": _pods(row),
            "acts": self.offers(),
        }

    def offers(self) -> list[Json]:
        allowed = {
            "allowed": True,
            "missing": None,
            "why": "",
            "warnings": [],
            "writes": [],
            "undo": "",
            "kinds": ["Node"],
        }
        denied = {"verb": "override", "group": "haulout.dev", "resource": "nodedisruptionbudgets", "namespace": ""}
        reasoned = {"needsReason": True, "disturbs": False}
        return [
            {**allowed, "act": "start", "with": "nodemaintenance", "help": "Drains the node and keeps it out of service.",
             "arguments": [], "needsReason": False, "disturbs": True},
            {**allowed, "act": "start", "with": "notify", "help": "Announces a maintenance of the node to its owners.",
             "arguments": [{"name": "action", "help": "What will be done.", "required": True, "choices": ["reboot", "replace"]}],
             "needsReason": False, "disturbs": True},
            {**allowed, **reasoned, "act": "pause", "with": "", "help": "Sends nothing disruptive for this node until it is resumed.",
             "arguments": []},
            {**allowed, **reasoned, "act": "override", "allowed": False, "missing": denied, "with": "",
             "help": "Lifts one limit for this node for a while.",
             "arguments": [{"name": "limit", "help": "The budget to lift.", "required": True, "choices": ["gpu", "night"]},
                           {"name": "for", "help": "How long, at most 24h.", "required": True, "choices": []}]},
            {**allowed, "act": "cancel", "with": "profile", "why": "no profile holds it", "help": "Ends the maintenance and gives the node back.", "arguments": [],
             "needsReason": False, "disturbs": False},
        ]  # fmt: skip

    def offers_for(self, kind: str) -> list[Json]:
        """Return the acts for an object of a kind."""
        wanted = {"Skyhook": ("pause", "override"), "NodeMaintenance": ("cancel", "pause", "override")}.get(kind)
        return [{**each, "why": ""} for each in self.offers() if wanted is None or each["act"] in wanted]

    def offers_of_all(self) -> list[Json]:
        pause = next(each for each in self.offers() if each["act"] == "pause")
        selector = {"name": "selector", "help": "Only nodes with these labels.", "required": False, "choices": []}
        return [{**pause, "kinds": [], "help": "Stops everything that disrupts nodes.", "arguments": [selector]}]

    def act(self, body: Json) -> tuple[int, Json]:
        """Return the answer to an act; a start that is no dry run is carried out."""
        act, name = body["act"], body["target"]["name"]
        if act == "override":
            return 403, {"code": "missing-right", "verb": "override", "group": "haulout.dev", "resource": "nodedisruptionbudgets",
                         "namespace": "", "detail": "you may not override nodedisruptionbudgets.haulout.dev"}  # fmt: skip
        made = f"{act}-{name}"
        if not body["dryRun"]:
            self.acts_done.append(body)
        verb, resource = ("create", "nodemaintenances") if act == "start" else ("patch", "nodes")
        warnings = [
            "shop/db-0 is the only replica of StatefulSet shop/db",
            "PodDisruptionBudget shop/api allows no evictions now",
        ]
        return 200, {
            "writes": [{"verb": verb, "resource": resource, "namespace": "", "name": made}],
            "warnings": warnings if act == "start" else [],
            "undo": f"haulout cancel nodemaintenance/{made}",
        }

    def records(self) -> list[Json]:
        rng = random.Random(3)
        held = [row for row in self.nodes if row["holders"]]
        return [_record(i, rng) for i in range(15)] + [_open_record(row) for row in held]

    def plan(self, *, changed: bool = False) -> Json:
        """Return the forecast. `changed`: with a limit that lets more nodes out at once."""
        rounds = 30 if changed else 50
        planned = [
            *(_planned_now(row) for row in self.nodes if row["holders"]),
            *(_planned(i, rounds) for i in range(15, 24)),
        ]
        ends = max(each["doneAt"] for each in planned)
        return {
            "incomplete": ["Prometheus gates"],
            "guesses": [],
            "beginsAt": wire(NOW),
            "endsAt": wire(NOW + timedelta(days=7)),
            "finishedAt": ends,
            "cordonedSeconds": 1,
            "mostCordoned": 20 if changed else 12,
            "waitedFor": [{"seconds": 4000, "cause": NIGHT}],
            "windows": [{"name": each["name"], "open": each["open"]} for each in self.windows()],
            "nodes": planned,
            "settings": "",
            "notServed": [],
            "notInSnapshot": [],
            "runs": [],
            "operator": self.operator,
            "choices": [],
        }

    def windows(self) -> list[Json]:
        midnight = NOW.replace(hour=0, minute=0, second=0)

        def nightly(begins: int, lasts: int) -> list[Json]:
            opens = [midnight + timedelta(days=day, hours=begins) for day in range(8)]
            return [{"from": wire(each), "to": wire(each + timedelta(hours=lasts))} for each in opens]

        weekend = [{"from": wire(midnight), "to": wire(midnight + timedelta(days=2))}]
        return [
            {"name": "rack-by-rack", "timeZone": "UTC", "open": nightly(-2, 8)},
            {"name": "night", "timeZone": "Europe/Berlin", "open": nightly(-2, 4)},
            {"name": "gpu", "timeZone": "UTC", "open": weekend},
            {"name": "storage", "timeZone": "Asia/Tokyo", "open": []},
        ]


def _row(number: int, total: int) -> Json:
    zones = 3
    per_zone = -(-total // zones)
    zone, place = divmod(number, per_zone)
    rack, slot = divmod(place, 60 if total > 100 else 4)
    letter = "abc"[zone]
    rng = random.Random(number * 7919 + 13)
    state, holders, left, of, safe, since = "in service", [], 0, 0, False, None
    if letter == "a":
        if rack == 0 and slot < 3:
            state, holders, left, of, since = "draining", ["nodemaintenance"], 3 + slot, 31, ago(minutes=7 + slot)
        elif rack == 0 and slot < 8:
            state, holders, safe, since = "in maintenance", ["nodemaintenance"], slot > 4, ago(minutes=32 + slot)
        elif rack <= 1:
            state, since = "waiting", ago(minutes=41)
    elif letter == "b":
        if rack == 1 and slot < 4:
            state, holders, left, of, since = "draining", ["packages"], 1, 18, ago(minutes=12)
        elif rack < 3 and rng.random() < 0.7:
            state, since = "waiting", ago(hours=3)
    elif rng.random() < 0.02:
        state, since = "not ready", ago(minutes=8)
    elif rng.random() < 0.01:
        state = "cordoned"
    labels = {
        ZONE: f"zone-{letter}",
        "example.com/rack": f"r{rack + 1:02}",
        "pool": "gpu" if letter == "c" else "general",
    }
    return {
        "name": f"{letter}-r{rack + 1:02}-{slot + 1:02}",
        "state": state,
        "labels": labels,
        "holders": holders,
        "since": since,
        "cause": "",
        "podsLeft": left,
        "podsTotal": of,
        "safeToWork": safe,
        "versions": {"kernel": "2.1.0" if state == "in service" and letter == "a" else "2.0.4"}
        if letter != "c"
        else {},
    }


def _odd_rows() -> list[Json]:
    """Return nodes with names and labels that break careless pages."""
    row = _row(0, 12)
    long = "n" + "o" * 62
    names = [".".join([long] * 4)[:253], "knoten-münchen-süd-01", "東京-ラック-七-ノード-01", HOSTILE]
    return [{**row, "name": name, "labels": {ZONE: f"zone-{name[:40]}", "pool": HOSTILE}} for name in names]


def _causes(nodes: list[Json], *, hostile: bool) -> list[Json]:
    def of(*, state: str, zone: str) -> list[str]:
        return [row["name"] for row in nodes if row["state"] == state and row["labels"][ZONE] == zone]

    drained, queued = of(state="draining", zone="zone-a"), of(state="waiting", zone="zone-a")
    packages, planned = of(state="draining", zone="zone-b"), of(state="waiting", zone="zone-b")
    none: Json = {"act": "", "until": None}
    found: list[Json] = [
        {"code": "pdb-blocks", "text": PDB, "nodes": drained + queued, "at": drained, "act": "kubectl -n shop rollout undo deploy/api", "until": None},
        {"code": "window-closed", "text": NIGHT, "nodes": planned, "at": planned, "act": "", "until": OPENS},
        {"code": "gate-failed", "text": GATE, "nodes": packages, "at": packages, "act": "kubectl -n skyhook logs kernel-2-1-0-post-interrupt-a17", "until": None},
        {"code": "paused", "text": PAUSED, "nodes": planned[:2], "at": planned[:2], "act": "haulout resume --selector pool=storage", "until": None},
        {"code": "unreadable", "text": "PodDisruptionBudgets in team-x cannot be read: needs list poddisruptionbudgets in team-x",
         "nodes": planned[2:4], "at": planned[2:4], "act": "haulout rbac nodemaintenance | kubectl apply -f -", "until": None},
    ]  # fmt: skip
    if hostile:
        names = [row["name"] for row in nodes[-4:]]
        found.append({**none, "code": "odd", "text": HOSTILE, "nodes": names, "at": names, "act": HOSTILE})
        found.append({**none, "code": "long", "text": "long " + "W" * 5000, "nodes": names, "at": names})
    return sorted((cause for cause in found if cause["nodes"]), key=lambda cause: -len(cause["nodes"]))


def _work(row: Json) -> Json:
    surface = (row["holders"] or ["nodemaintenance"])[0]
    kind = {"nodemaintenance": "nodemaintenance/psu-", "packages": "skyhook/kernel"}[surface]
    return {
        "surface": surface,
        "object": kind if surface == "packages" else f"{kind}{row['name']}",
        "node": row["name"],
        "state": row["state"],
        "since": row["since"],
        "podsLeft": row["podsLeft"],
        "endsAt": None,
        "waitsFor": [row["cause"]] if row["cause"] else [],
    }


def _explained(row: Json) -> Json:
    holds = [
        {
            "surface": each,
            "slot": "",
            "since": row["since"],
            "wants": ["cordon", "drain"],
            "begun": True,
            "granted": True,
        }
        for each in row["holders"]
    ]
    found: Json = {
        "node": row["name"],
        "flags": [row["state"]],
        "cordon": "",
        "holds": holds,
        "reasons": [],
        "settings": "",
        "incomplete": [],
    }
    if row["cause"] != PDB:
        if row["cause"]:
            found["reasons"] = [{"code": "waits", "text": row["cause"]}]
        return found
    root = {"code": "crash-loop", "text": "api-7f9c is in CrashLoopBackOff: exit 1: config key missing"}
    pdb = {
        "code": "pdb-blocks",
        "text": "PodDisruptionBudget shop/api allows 0 disruptions: 2 of 3 healthy, 3 required",
        "because": [root],
    }
    pod = {"code": "eviction-refused", "text": "pod shop/api-7f9c cannot be evicted", "because": [pdb]}
    grace = {"code": "terminating", "text": "pod shop/db-0 is terminating", "until": wire(NOW + timedelta(seconds=40))}
    found["reasons"] = [
        {"code": "drains", "text": "NodeMaintenance psu drains it, since 02:51, asked by ops", "because": [pod, grace]}
    ]
    found["cordon"] = "Cordoned by nodemaintenance. It was schedulable before and will be again."
    found["act"] = "kubectl -n shop rollout undo deploy/api"
    return found


def _pods(row: Json) -> list[Json]:
    if row["state"] != "draining":
        return []
    pod: Json = {"since": None, "until": None}
    return [
        {**pod, "namespace": "shop", "name": "api-7f9c", "state": "Blocked", "text": "eviction refused: PodDisruptionBudget shop/api allows 0", "since": ago(minutes=41)},
        {**pod, "namespace": "shop", "name": "db-0", "state": "Terminating", "text": "its grace period ends", "since": ago(seconds=20), "until": wire(NOW + timedelta(seconds=40))},
        {**pod, "namespace": "ml", "name": "train-88", "state": "Waiting", "text": "waits to finish, announced end 03:25", "since": ago(hours=1, minutes=12)},
        {**pod, "namespace": "infra", "name": "log-agent", "state": "Ignored", "text": "a DaemonSet's pod stays", "since": ago(days=12)},
    ]  # fmt: skip


def _record(i: int, rng: random.Random) -> Json:
    begun = NOW - timedelta(hours=5) + timedelta(minutes=55 * (i // 3) + rng.randint(0, 4))
    drained, ended = begun + timedelta(minutes=rng.randint(8, 14)), begun + timedelta(minutes=rng.randint(40, 50))
    outcome = "Failed" if i == 10 else "Cancelled" if i == 4 else "Completed"
    phases = [
        {"name": "requested", "at": wire(begun - timedelta(minutes=12)), "certainty": "exact"},
        {"name": "begun", "at": wire(begun), "certainty": "exact"},
        {"name": "drained", "at": wire(drained), "certainty": "exact"},
        {"name": "done", "at": wire(ended - timedelta(minutes=2)), "certainty": "exact"},
        {"name": "ended", "at": wire(ended), "certainty": "exact"},
    ]
    waited = [{"code": "window-closed", "subject": "night", "seconds": 600}]
    acts = [{"act": "override", "by": "jo", "at": wire(begun), "reason": "fan is dead"}] if i == 10 else []
    return {
        "metadata": {"name": f"nodemaintenance-{i}"},
        "spec": {
            "node": {"name": f"a-r01-{i + 1:02}", "uid": str(i)},
            "surface": "nodemaintenance",
            "owner": {"kind": "NodeMaintenance", "namespace": "", "name": "psu", "uid": str(i)},
            "reason": "new power supply",
            "requestedBy": {"name": "ops", "how": "admission"},
            "begunAt": wire(begun),
        },
        "status": {"outcome": outcome, "endedAt": wire(ended), "phases": phases, "waitedFor": waited, "limits": ["budget night"], "acts": acts},
    }  # fmt: skip


def _open_record(row: Json) -> Json:
    """Return the record of the maintenance that a node is in now."""
    work, begun = _work(row), datetime.fromisoformat(row["since"])
    is_package = work["surface"] == "packages"
    kind, _, name = work["object"].partition("/")
    phases = [
        {"name": "requested", "at": wire(begun - timedelta(minutes=11)), "certainty": "exact"},
        {"name": "begun", "at": row["since"], "certainty": "exact"},
    ]
    if row["state"] == "in maintenance":
        phases.append({"name": "drained", "at": wire(begun + timedelta(minutes=9)), "certainty": "exact"})
    return {
        "metadata": {"name": f"{work['surface']}-{row['name']}", "labels": {"haulout.dev/open": "true"}},
        "spec": {
            "node": {"name": row["name"], "uid": row["name"]},
            "surface": work["surface"],
            "owner": {"kind": "Skyhook" if is_package else "NodeMaintenance", "name": name, "uid": kind},
            "reason": "packages kernel 2.1.0" if is_package else "new power supply",
            "requestedBy": {"name": "", "how": "unknown"} if is_package else {"name": "ops", "how": "admission"},
            "begunAt": row["since"],
        },
        "status": {"phases": phases},
    }


def _planned_now(row: Json) -> Json:
    """Return the forecast of a node that is in maintenance now."""
    drained, done = NOW + timedelta(minutes=10), NOW + timedelta(minutes=41)
    drains = [{"state": "draining", "from": wire(NOW), "to": wire(drained)}] if row["state"] == "draining" else []
    works = [{"state": "in maintenance", "from": wire(drained if drains else NOW), "to": wire(done)}]
    return {
        "name": row["name"],
        "beginsAt": row["since"],
        "doneAt": wire(done),
        "states": [*drains, *works],
        "cordoned": [],
        "waitsFor": "",
    }


def _planned(i: int, rounds: int) -> Json:
    """Return the forecast of a node that waits. `rounds`: how many minutes lie between two groups of three nodes."""
    name = f"a-r01-{i + 1:02}"
    begins = NOW + timedelta(minutes=12 + rounds * ((i - 15) // 3))
    drained, done = begins + timedelta(minutes=11), begins + timedelta(minutes=46)
    states = [
        {"state": "waiting", "from": wire(NOW), "to": wire(begins)},
        {"state": "draining", "from": wire(begins), "to": wire(drained)},
        {"state": "in maintenance", "from": wire(drained), "to": wire(done)},
    ]
    return {
        "name": name,
        "beginsAt": wire(begins),
        "doneAt": wire(done),
        "states": states,
        "cordoned": [],
        "waitsFor": "",
    }
