"""What a thief of the operator's token would try, and whose tokens allow it: the real API server and docs/security.md are held to it."""

from __future__ import annotations

from typing import NamedTuple

from tests.rig.api import Json

GROUP = "rbac.authorization.k8s.io"
OWN, PACKAGES, ELSEWHERE, LEASES = "thief-own", "thief-packages", "thief-elsewhere", "thief-leases"
NODE, THING = "thief-node", "thief-thing"
HOOK = "haulout-webhook-cert"
OPTIONS = (
    *("--delete-pods", "--failure-logs", "--node-conditions", "--notify-scheduler", "--notify-drainer"),
    *("--notify-jobs", PACKAGES, "--notify-configmaps", PACKAGES, "--eviction-requests", "--hypervisors", "--metal3"),
    *("--stagger", f"{OWN}/stagger", "--slack-thread", f"{OWN}/thread", "--original-lease", OWN),
)
# Whose token is stolen: the words of `haulout rbac`.
TOKENS = {
    "kernel": ("kernel",),
    "profiles": ("kernel", "profiles"),
    "nodemaintenance": ("kernel", "nodemaintenance"),
    "packages": ("kernel", "packages"),
    "notify": ("kernel", "notify"),
    "clusterapi": ("kernel", "clusterapi"),
    "four": ("kernel", "profiles", "nodemaintenance", "packages", "notify", *OPTIONS),
    "five": ("kernel", "profiles", "nodemaintenance", "packages", "notify", "clusterapi", *OPTIONS),
}
ALL, BOTH = tuple(TOKENS), ("four", "five")
RUNS_PACKAGES, NOTIFIES = ("packages", *BOTH), ("notify", *BOTH)
ON_NODES = ("profiles", "nodemaintenance", "packages", "notify", *BOTH)
DRAINS = ("profiles", "nodemaintenance", "packages", *BOTH)
ADMITS = ("nodemaintenance", "packages", "notify", *BOTH)
SECRETS = ("clusterapi", "five")
MAINTAINS = ("nodemaintenance", *BOTH)
NONE: tuple[str, ...] = ()
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}

CORE, ADMISSION, RBAC = "/api/v1", "/apis/admissionregistration.k8s.io/v1", f"/apis/{GROUP}/v1"
POD = {"spec": {"containers": [{"name": "c", "image": "x"}]}}
ROOT = {"hostPID": True, "containers": [{"name": "c", "image": "x", "securityContext": {"privileged": True}}]}
ROLE = {"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}
ADMIN = {"roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "cluster-admin"}}
SELF = {"subjects": [{"kind": "ServiceAccount", "name": "packages", "namespace": OWN}]}
LEASE = "/apis/coordination.k8s.io/v1/namespaces"
HAULOUT, EVENTS = "/apis/haulout.dev/v1alpha1", "/apis/events.k8s.io/v1"
EVICTION_REQUESTS = f"/apis/lifecycle.k8s.io/v1alpha1/namespaces/{ELSEWHERE}/evictionrequests"
REQUEST = {"request": "eA==", "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]}


class Attempt(NamedTuple):
    """A request of a thief, and whose tokens allow it. `what`: the words of it; `body` is merged into the object as a patch."""

    what: str
    method: str
    path: str
    allowed: tuple[str, ...] = NONE
    body: Json | None = None
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def right(self) -> tuple[str, str, str]:
        """Return the verb, the group and the resource with its subresource that a role has to name."""
        parts = self.path.strip("/").split("/")
        group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
        resource, *names = rest[2:] if rest[0] == "namespaces" and len(rest) > 2 else rest
        return VERBS.get(self.method, "get"), group, "/".join((resource, *names[1:]))

    def is_of(self, names: tuple[str, ...]) -> bool:
        """Whether the object has one of the names. Without names every object does, and a placeholder is any name."""
        return not names or "{each}" in names or any(self.path.endswith(f"/{name}") for name in names)


def pods(ns: str, sub: str = "") -> str:
    return f"{CORE}/namespaces/{ns}/pods" + (f"/{THING}{sub}" if sub else "")


def named(body: Json, name: str = "thief-made") -> Json:
    return {"metadata": {"name": name}, **body}


ORIGINAL_LEASES = (
    ("maintenance-controller-leader-election.cloud.sap", BOTH),
    ("135b1886.medik8s.io", BOTH),
    ("runtime-extension-maintenance-controller", ("five",)),
    ("a316e27f.nvidia.com", BOTH),
    ("3c22c1ae.nvidia.com", BOTH),
)
# The token controller fills a Secret of this type with a token of the account that it names.
TOKEN_SECRET = {
    "metadata": {"name": "thief-made", "annotations": {"kubernetes.io/service-account.name": "kernel"}},
    "type": "kubernetes.io/service-account-token",
}
ATTEMPTS = (
    # Secrets and configuration
    Attempt("list all Secrets", "GET", f"{CORE}/secrets", SECRETS),
    Attempt("read a Secret", "GET", f"{CORE}/namespaces/{ELSEWHERE}/secrets/{THING}"),
    Attempt("read another Secret beside it", "GET", f"{CORE}/namespaces/{OWN}/secrets/{THING}"),
    Attempt("list Secrets beside it", "GET", f"{CORE}/namespaces/{OWN}/secrets", SECRETS),
    Attempt("read the webhook's key", "GET", f"{CORE}/namespaces/{OWN}/secrets/{HOOK}", ADMITS),
    Attempt("patch a Secret", "PATCH", f"{CORE}/namespaces/{OWN}/secrets/{THING}", NONE, {"data": {}}),
    Attempt("delete a Secret", "DELETE", f"{CORE}/namespaces/{OWN}/secrets/{HOOK}"),
    Attempt("create a Secret", "POST", f"{CORE}/namespaces/{OWN}/secrets", NONE, named({})),
    Attempt(
        "have a token made for an account beside it", "POST", f"{CORE}/namespaces/{OWN}/secrets", NONE, TOKEN_SECRET
    ),
    Attempt("create a Secret elsewhere", "POST", f"{CORE}/namespaces/{ELSEWHERE}/secrets", NONE, named({})),
    Attempt("list all ConfigMaps", "GET", f"{CORE}/configmaps"),
    Attempt("read a ConfigMap", "GET", f"{CORE}/namespaces/{ELSEWHERE}/configmaps/{THING}"),
    Attempt("read a ConfigMap beside it", "GET", f"{CORE}/namespaces/{OWN}/configmaps/{THING}"),
    Attempt("list ConfigMaps of packages", "GET", f"{CORE}/namespaces/{PACKAGES}/configmaps", RUNS_PACKAGES),
    Attempt("change a ConfigMap", "PATCH", f"{CORE}/namespaces/{ELSEWHERE}/configmaps/{THING}", NONE, {"data": {}}),
    # Pods and other programs
    Attempt("create a pod", "POST", pods(ELSEWHERE), NONE, named(POD)),
    Attempt("create a pod beside it", "POST", pods(OWN), NONE, named(POD)),
    Attempt("create a privileged pod for packages", "POST", pods(PACKAGES), RUNS_PACKAGES, named({"spec": ROOT})),
    Attempt("change a pod's image", "PATCH", pods(ELSEWHERE, "/"), NONE, POD),
    Attempt("run a program in a pod", "POST", pods(ELSEWHERE, "/exec")),
    Attempt("run a program in a pod by GET", "GET", pods(ELSEWHERE, "/exec")),
    Attempt("run a program in a pod of packages", "POST", pods(PACKAGES, "/exec")),
    Attempt("attach to a pod", "POST", pods(ELSEWHERE, "/attach")),
    Attempt("forward a port of a pod", "POST", pods(ELSEWHERE, "/portforward")),
    Attempt("add a container to a pod", "PATCH", pods(ELSEWHERE, "/ephemeralcontainers"), NONE, {}),
    Attempt("go through a pod", "GET", pods(ELSEWHERE, "/proxy")),
    Attempt("read a log", "GET", pods(ELSEWHERE, "/log")),
    Attempt("read a log of packages", "GET", pods(PACKAGES, "/log"), BOTH),
    Attempt("read a pod", "GET", pods(ELSEWHERE, "/"), DRAINS),
    Attempt("delete a pod", "DELETE", pods(ELSEWHERE, "/"), BOTH),
    Attempt("delete a pod of packages", "DELETE", pods(PACKAGES, "/"), RUNS_PACKAGES),
    Attempt("bind a pod", "POST", pods(ELSEWHERE, "/binding"), NONE, {"target": {"name": NODE}}),
    Attempt("create a Job", "POST", f"/apis/batch/v1/namespaces/{ELSEWHERE}/jobs", NONE, named({})),
    Attempt("create a DaemonSet", "POST", f"/apis/apps/v1/namespaces/{PACKAGES}/daemonsets", NONE, named({})),
    Attempt("create a Deployment", "POST", f"/apis/apps/v1/namespaces/{OWN}/deployments", NONE, named({})),
    Attempt("scale a Deployment", "PATCH", f"/apis/apps/v1/namespaces/{ELSEWHERE}/deployments/x/scale", NONE, {}),
    Attempt("delete a budget of pods", "DELETE", f"/apis/policy/v1/namespaces/{ELSEWHERE}/poddisruptionbudgets/x"),
    # Nodes
    Attempt("cordon a node", "PATCH", f"{CORE}/nodes/{NODE}", ON_NODES, {"spec": {"unschedulable": True}}),
    Attempt("delete a node", "DELETE", f"{CORE}/nodes/{NODE}"),
    Attempt("create a node", "POST", f"{CORE}/nodes", NONE, named({})),
    Attempt("lie about a node's status", "PATCH", f"{CORE}/nodes/{NODE}/status", RUNS_PACKAGES, {"status": {}}),
    Attempt("ask a kubelet", "GET", f"{CORE}/nodes/{NODE}/proxy/pods"),
    # Rights
    Attempt("bind cluster-admin", "POST", f"{RBAC}/clusterrolebindings", NONE, named({**ADMIN, **SELF})),
    Attempt("bind a role", "POST", f"{RBAC}/namespaces/{OWN}/rolebindings", NONE, named({**ADMIN, **SELF})),
    Attempt("create a role", "POST", f"{RBAC}/clusterroles", NONE, named(ROLE)),
    Attempt("widen its own role", "PATCH", f"{RBAC}/clusterroles/five-haulout-kernel", NONE, ROLE),
    Attempt("become another user", "GET", f"{CORE}/namespaces", NONE, None, (("Impersonate-User", "admin"),)),
    Attempt(
        "become another group",
        "GET",
        f"{CORE}/nodes",
        NONE,
        None,
        (("Impersonate-User", f"system:serviceaccount:{OWN}:five"), ("Impersonate-Group", "system:masters")),
    ),
    Attempt("ask for a token", "POST", f"{CORE}/namespaces/{OWN}/serviceaccounts/kernel/token", NONE, {"spec": {}}),
    Attempt(
        "ask for a token elsewhere", "POST", f"{CORE}/namespaces/kube-system/serviceaccounts/default/token", NONE, {}
    ),
    Attempt("create a service account", "POST", f"{CORE}/namespaces/{OWN}/serviceaccounts", NONE, named({})),
    Attempt(
        "ask for a certificate",
        "POST",
        "/apis/certificates.k8s.io/v1/certificatesigningrequests",
        NONE,
        named({"spec": REQUEST}),
    ),
    Attempt(
        "approve a certificate", "PUT", "/apis/certificates.k8s.io/v1/certificatesigningrequests/x/approval", NONE, {}
    ),
    # The API server itself
    Attempt(
        "change another webhook",
        "PATCH",
        f"{ADMISSION}/validatingwebhookconfigurations/{THING}",
        NONE,
        {"webhooks": []},
    ),
    Attempt("remove a webhook", "DELETE", f"{ADMISSION}/validatingwebhookconfigurations/{THING}"),
    Attempt("register a webhook", "POST", f"{ADMISSION}/mutatingwebhookconfigurations", NONE, named({})),
    Attempt(
        "change a definition",
        "PATCH",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodedisruptionbudgets.haulout.dev",
        NONE,
        {},
    ),
    Attempt(
        "remove a definition",
        "DELETE",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodedisruptionbudgets.haulout.dev",
    ),
    Attempt("register an API", "POST", "/apis/apiregistration.k8s.io/v1/apiservices", NONE, named({})),
    Attempt("register a policy", "POST", f"{ADMISSION}/validatingadmissionpolicies", NONE, named({})),
    Attempt("create a namespace", "POST", f"{CORE}/namespaces", NONE, named({})),
    Attempt("delete a namespace", "DELETE", f"{CORE}/namespaces/{ELSEWHERE}"),
    Attempt("relax a namespace", "PATCH", f"{CORE}/namespaces/{ELSEWHERE}", NONE, {"metadata": {"labels": {"x": "y"}}}),
    Attempt("take a Lease", "PUT", f"{LEASE}/{ELSEWHERE}/leases/{THING}", NONE, {}),
    Attempt("take a Lease beside it", "PUT", f"{LEASE}/{OWN}/leases/{THING}", NONE, {}),
    Attempt(
        "change a budget of nodes", "PATCH", "/apis/haulout.dev/v1alpha1/nodedisruptionbudgets/x", NONE, {"spec": {}}
    ),
    Attempt(
        "create a NodeMaintenance",
        "POST",
        "/apis/nodemaintenance.medik8s.io/v1beta1/nodemaintenances",
        MAINTAINS,
        named({}),
    ),
    Attempt("create a Skyhook", "POST", "/apis/skyhook.nvidia.com/v1alpha1/skyhooks", NONE, named({})),
    Attempt("delete a Skyhook", "DELETE", "/apis/skyhook.nvidia.com/v1alpha1/skyhooks/x", RUNS_PACKAGES),
    Attempt("delete a NodeWright", "DELETE", "/apis/nodewright.nvidia.com/v1alpha1/nodewrights/x", RUNS_PACKAGES),
    Attempt(
        "delete a NodeMaintenance", "DELETE", "/apis/nodemaintenance.medik8s.io/v1beta1/nodemaintenances/x", MAINTAINS
    ),
    Attempt(
        "delete a NotifyMaintenance",
        "DELETE",
        f"/apis/ngn2.nvidia.com/v1alpha1/namespaces/{OWN}/notifymaintenances/x",
        NOTIFIES,
    ),
    Attempt(
        "create a Job for packages",
        "POST",
        f"/apis/batch/v1/namespaces/{PACKAGES}/jobs",
        RUNS_PACKAGES,
        named({}),
    ),
    Attempt("delete a Machine", "DELETE", f"/apis/cluster.x-k8s.io/v1beta2/namespaces/{OWN}/machines/x"),
    *(
        Attempt(what, method, f"{HAULOUT}/{path}", ALL, {})
        for what, method, path in (
            ("create a MaintenanceRecord", "POST", "maintenancerecords"),
            ("change a MaintenanceRecord", "PATCH", "maintenancerecords/x"),
            ("delete a MaintenanceRecord", "DELETE", "maintenancerecords/x"),
            ("delete a NodeMaintenanceSet", "DELETE", "nodemaintenancesets/x"),
            ("change the status of a NodeMaintenanceSet", "PATCH", "nodemaintenancesets/x/status"),
            ("change the status of a budget of nodes", "PATCH", "nodedisruptionbudgets/x/status"),
        )
    ),
    Attempt("create a NodeMaintenanceSet", "POST", f"{HAULOUT}/nodemaintenancesets", NONE, named({})),
    Attempt("change a NodeMaintenanceSet", "PATCH", f"{HAULOUT}/nodemaintenancesets/x", NONE, {}),
    *(
        Attempt(f"change {which} {kind}", "PATCH", f"/apis/{path}/x{sub}", allowed, {})
        for kind, path, allowed in (
            ("NodeMaintenance", "nodemaintenance.medik8s.io/v1beta1/nodemaintenances", MAINTAINS),
            ("NotifyMaintenance", f"ngn2.nvidia.com/v1alpha1/namespaces/{ELSEWHERE}/notifymaintenances", NOTIFIES),
            ("Skyhook", "skyhook.nvidia.com/v1alpha1/skyhooks", RUNS_PACKAGES),
            ("NodeWright", "nodewright.nvidia.com/v1alpha1/nodewrights", RUNS_PACKAGES),
        )
        for which, sub in (("a", ""), ("the status of a", "/status"))
    ),
    Attempt("change a Machine", "PATCH", f"/apis/cluster.x-k8s.io/v1beta2/namespaces/{OWN}/machines/x", SECRETS, {}),
    Attempt(
        "change a BareMetalHost", "PATCH", f"/apis/metal3.io/v1alpha1/namespaces/{OWN}/baremetalhosts/x", ("five",), {}
    ),
    Attempt("change a Hypervisor", "PATCH", "/apis/kvm.cloud.sap/v1/hypervisors/x", BOTH, {}),
    *(
        Attempt(f"{act} an EvictionRequest", method, f"{EVICTION_REQUESTS}{name}", BOTH, {})
        for act, method, name in (("create", "POST", ""), ("change", "PATCH", "/x"))
    ),
    # The webhooks
    *(
        Attempt(f"redirect {name}", "PATCH", f"{ADMISSION}/{kind}/{name}", allowed, {})
        for kind, name, allowed in (
            ("mutatingwebhookconfigurations", "haulout-requested-by", ALL),
            ("validatingwebhookconfigurations", "haulout-overrides", ALL),
            (
                "validatingwebhookconfigurations",
                "node-maintenance-operator-validating-webhook-configuration",
                MAINTAINS,
            ),
            ("validatingwebhookconfigurations", "pika-validating-webhook-configuration", NOTIFIES),
            ("mutatingwebhookconfigurations", "skyhook-operator-mutating-webhook", RUNS_PACKAGES),
            ("validatingwebhookconfigurations", "skyhook-operator-validating-webhook", RUNS_PACKAGES),
        )
    ),
    Attempt("change the webhook's key", "PUT", f"{CORE}/namespaces/{OWN}/secrets/{HOOK}", ADMITS, named({}, HOOK)),
    Attempt(
        "ask what another user may do",
        "POST",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        ALL,
        {"spec": {"user": "x", "nonResourceAttributes": {"path": "/", "verb": "get"}}},
    ),
    # Pods, Jobs and ConfigMaps of packages
    Attempt("evict a pod", "POST", pods(ELSEWHERE, "/eviction"), DRAINS, named({}, THING)),
    Attempt("change a pod of packages", "PATCH", pods(PACKAGES, "/"), RUNS_PACKAGES, {"metadata": {"labels": {}}}),
    *(
        Attempt(f"{act} a Job of packages", method, f"/apis/batch/v1/namespaces/{PACKAGES}/jobs/x", RUNS_PACKAGES, {})
        for act, method in (("change", "PATCH"), ("delete", "DELETE"))
    ),
    Attempt(
        "create a ConfigMap of packages", "POST", f"{CORE}/namespaces/{PACKAGES}/configmaps", RUNS_PACKAGES, named({})
    ),
    *(
        Attempt(
            f"{act} a ConfigMap of packages", method, f"{CORE}/namespaces/{PACKAGES}/configmaps/x", RUNS_PACKAGES, {}
        )
        for act, method in (("change", "PATCH"), ("delete", "DELETE"))
    ),
    Attempt("create a ConfigMap beside it", "POST", f"{CORE}/namespaces/{OWN}/configmaps", BOTH, named({})),
    Attempt(
        "change what is known of drains", "PATCH", f"{CORE}/namespaces/{OWN}/configmaps/nm-drain-history", BOTH, {}
    ),
    # Leases and events
    Attempt("create a Lease beside it", "POST", f"{LEASE}/{OWN}/leases", ALL, named({})),
    Attempt("create a Lease elsewhere", "POST", f"{LEASE}/{ELSEWHERE}/leases", NONE, named({})),
    Attempt("take its own Lease", "PUT", f"{LEASE}/{OWN}/leases/haulout", ALL, named({}, "haulout")),
    *(
        Attempt(f"take the Lease {name}", "PUT", f"{LEASE}/{OWN}/leases/{name}", allowed, {})
        for name, allowed in ORIGINAL_LEASES
    ),
    Attempt("take a Lease that staggers checks", "PATCH", f"{LEASE}/{OWN}/leases/stagger", BOTH, {}),
    Attempt("create a Lease of nodes", "POST", f"{LEASE}/{LEASES}/leases", MAINTAINS, named({})),
    Attempt("change a Lease of nodes", "PATCH", f"{LEASE}/{LEASES}/leases/x", MAINTAINS, {}),
    Attempt("delete a Lease of nodes", "DELETE", f"{LEASE}/{LEASES}/leases/x", MAINTAINS),
    *(
        Attempt(f"{act} an event {where}", method, f"{api}/namespaces/{ns}/events{name}", allowed, {})
        for where, api, ns, allowed in (
            ("beside it", CORE, OWN, ALL),
            ("elsewhere", CORE, ELSEWHERE, ("notify", "clusterapi", *BOTH)),
            ("of events.k8s.io beside it", EVENTS, OWN, ALL),
            ("of events.k8s.io elsewhere", EVENTS, ELSEWHERE, DRAINS),
        )
        for act, method, name in (("create", "POST", ""), ("change", "PATCH", "/x"))
    ),
    Attempt("delete an event", "DELETE", f"{CORE}/namespaces/{ELSEWHERE}/events/x"),
    Attempt("read the API server's flags", "GET", "/configz"),
    Attempt("profile the API server", "GET", "/debug/pprof/"),
)


def allowed_rows() -> list[str]:
    """Return the rows of docs/security.md about what some tokens allow."""
    return [f"| {each.what} | {_whose(each.allowed)} |" for each in ATTEMPTS if each.allowed]


def _whose(allowed: tuple[str, ...]) -> str:
    if allowed == ALL:
        return "every surface"
    return ", ".join(f"`{name}`" for name in allowed if name not in BOTH) or "options"


def denied_words() -> str:
    """Return the words of docs/security.md about what no token allows."""
    return ", ".join(each.what for each in ATTEMPTS if not each.allowed)


# What the role of the original allows beyond that of packages, where the charts of packages bind it for the way back.
WAY_BACK = (
    *("list all Secrets", "read a Secret", "read another Secret beside it", "list Secrets beside it", "patch a Secret"),
    *("delete a Secret", "create a Secret", "have a token made for an account beside it", "create a Secret elsewhere"),
    *("list all ConfigMaps", "read a ConfigMap", "read a ConfigMap beside it", "change a ConfigMap", "create a pod"),
    *("create a pod beside it", "change a pod's image", "delete a pod", "take a Lease", "take a Lease beside it"),
    *("create a Skyhook", "create a ConfigMap beside it", "change what is known of drains"),
    *("create a Lease elsewhere", *(f"take the Lease {name}" for name, _ in ORIGINAL_LEASES)),
    *("take a Lease that staggers checks", "create a Lease of nodes", "change a Lease of nodes"),
    *("delete a Lease of nodes", "create an event elsewhere", "change an event elsewhere"),
)


def way_back_words() -> str:
    """Return the words of docs/security.md about what the role of the original allows."""
    return ", ".join(WAY_BACK)
