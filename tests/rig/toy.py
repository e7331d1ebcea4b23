"""A toy operator, good or bad on purpose: drains the nodes that ask for it and tells them that they are done."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import yaml

from tests.rig.api import Api, Json
from tests.rig.wait import eventually

LABEL = "toy.test/maintenance"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("namespace")
    parser.add_argument("--label-first", action="store_true", help="a bug: a crash in between leaves the node cordoned")
    parser.add_argument("--careless", action="store_true", help="a bug: done nodes are uncordoned again at each start")
    options = parser.parse_args()
    config = yaml.safe_load(Path(os.environ["KUBECONFIG"]).read_text())
    cluster = config["clusters"][0]["cluster"]
    api = Api(cluster["server"], config["users"][0]["user"]["token"], ca=cluster["certificate-authority"])
    if options.careless:
        for done in api.items("nodes", labelSelector=f"{LABEL}=done"):
            uncordon(api, done["metadata"]["name"])
    with api.watch("nodes", silence=600) as watch:
        for event in watch:
            # The echoes of its own writes are outdated when they are read.
            node = api.find("nodes", event["object"]["metadata"]["name"])
            if node is not None and node["metadata"].get("labels", {}).get(LABEL) == "asked":
                maintain(api, options.namespace, node, label_first=options.label_first)


def maintain(api: Api, ns: str, node: Json, *, label_first: bool) -> None:
    name = node["metadata"]["name"]
    if not node["spec"].get("unschedulable"):
        api.patch("nodes", name, {"spec": {"unschedulable": True}})
    for pod in api.items("pods", ns, fieldSelector=f"spec.nodeName={name}"):
        api.evict(pod["metadata"]["name"], ns)
    eventually(lambda: not api.items("pods", ns, fieldSelector=f"spec.nodeName={name}"), "pods gone")
    done = {"metadata": {"labels": {LABEL: "done"}}}
    if label_first:
        api.patch("nodes", name, done)
        uncordon(api, name)
    else:
        api.patch("nodes", name, {**done, "spec": {"unschedulable": None}})


def uncordon(api: Api, name: str) -> None:
    api.patch("nodes", name, {"spec": {"unschedulable": None}})


if __name__ == "__main__":
    main()
