"""Texts that users, kubelets and servers write stay data wherever they go, whatever characters they have."""

from __future__ import annotations

import email
import email.policy
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from botocore.exceptions import BotoCoreError
from botocore.session import Session
from hypothesis import given, settings
from hypothesis import strategies as st
from yarl import URL

from haulout.base.gotemplate import Map, render
from haulout.clients.mail import written
from haulout.clients.sns import _region
from haulout.clients.vcenter_zones import VCenterError, address
from haulout.cluster.key import Key
from haulout.cluster.project import RESOURCES
from haulout.cluster.rows import NodeRow
from haulout.embedded import JOBS, Json
from haulout.plugins.messages import Mail
from haulout.surfaces.notify.jobs import job_body
from haulout.surfaces.notify.messages import fields_of, go_json
from haulout.surfaces.notify.recipes import Recipe
from haulout.surfaces.notify.roles import RUNNER
from haulout.surfaces.notify.wire import KIND, NoticeRow
from haulout.surfaces.packages.pods import COPY
from tests.build.free_texts import CANARY, DEFINITIONS, LISTED, PIECES, environment_of, expanded, texts
from tests.build.notices import OWN, Notices, options

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
RECIPE = {
    "name": "rec",
    "type": "ansible",
    "namespace": OWN,
    "image": "registry.example/ansible:1",
    "playbook": {"configMap": "books", "key": "site.yml"},
    "sshKeySecret": {"name": "keys", "key": "id"},
    "extraVars": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable},
}
CONFIG = {"runner": {"enabled": True, "defaultClient": "rec", "recipes": [RECIPE]}}
# The playbook uses a variable as playbooks do: in text, through a fact that is templated again, as an argument.
PLAYBOOK = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.set_fact: {told: "of {{ maintenance_owner }}"}
    - ansible.builtin.set_fact: {again: "{{ told }}"}
    - ansible.builtin.command: {argv: [printf, "%s", "{{ maintenance_owner }}"]}
      register: printed
      when: maintenance_owner is string
    - ansible.builtin.copy:
        dest: "{{ playbook_dir }}/seen.json"
        content: >-
          {{ {"again": again, "printed": printed.stdout, "host": inventory_hostname, "values": VALUES} | to_json }}
"""
hostile = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), min_size=1, max_size=6).map("".join).filter(len)
# The value of an environment variable cannot have a NUL, and the API server takes only text that is UTF-8.
passed = hostile.map(lambda text: text.replace("\0", "").encode(errors="ignore").decode()).filter(len)
often = settings(max_examples=200, deadline=None)
# Each example takes more than a second, in which Ansible runs.
seldom = settings(max_examples=6, deadline=None)


def ran(job: Json) -> Json:
    """Run the command of a Job of Ansible as the kubelet would, and return what its playbook saw."""
    [container] = job["spec"]["template"]["spec"]["containers"]
    environment = environment_of(container)
    with tempfile.TemporaryDirectory() as place:
        names = {name.lower() for name in environment} - {"extra_vars"}
        values = "{" + ", ".join(f"'{name}': {name}" for name in sorted(names)) + "}"
        (Path(place) / "site.yml").write_text(PLAYBOOK.replace("VALUES", values))
        paths = {"/playbook/site.yml": "site.yml", "/ssh/id": "id"}
        words = [expanded(paths.get(word, word), environment) for word in container["command"]]
        around = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": place, "LC_ALL": "C.UTF-8"}
        done = subprocess.run(
            words, cwd=place, env={**environment, **around}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert not (Path(place) / CANARY).exists(), "a text was run as a command"
        seen: Json = json.loads((Path(place) / "seen.json").read_text())
        return seen


@seldom
@given(passed)
def test_a_playbook_gets_the_texts_of_a_maintenance_as_data(text: str) -> None:
    ops = Notices(options(json.dumps({"slaPeriod": "1h", "operators": CONFIG})))
    planted = {"owner": text, "maintenanceType": text, "metadataConfigmap": text}
    ops.drained("a", **planted, additionalMessageChannels={"amazonSNSTopicARN": text})
    [job] = ops.world.objects.list(JOBS, OWN)
    seen = ran(job)
    assert (seen["printed"], seen["again"]) == (text, f"of {text}")
    assert (seen["values"]["maintenance_owner"], seen["values"]["maintenance_type"]) == (text, text)
    assert seen["host"] == seen["values"]["node_address"]


@seldom
@given(passed)
def test_a_playbook_gets_every_text_of_a_row_as_data(text: str) -> None:
    """Even texts for which the API server and the webhook have rules of their own do no harm here."""
    strings = [field.name for field in msgspec.structs.fields(NoticeRow) if field.type is str]
    planted: dict[str, Any] = dict.fromkeys(strings, text)
    row = NoticeRow(key=Key("", KIND, text, text), **planted)
    node = NodeRow(
        key=Key("", "Node", "", text),
    )
    recipe = msgspec.convert(RECIPE, Recipe)
    seen = ran(job_body(row, node, recipe, RUNNER.name, 1, options(), address="10.0.0.1"))["values"]
    others = {"node_address": "10.0.0.1", "attempt": "1", "sla_expires": ""}
    assert seen == {name: others.get(name, text) for name in seen}


@often
@given(hostile, st.sampled_from(sorted(RESOURCES)))
def test_a_name_leads_to_no_other_path_of_the_api(name: str, kind: str) -> None:
    resource = RESOURCES[kind]
    known = URL("https://server" + resource.object_path(Key("", kind, "ns", "name")))
    found = URL("https://server" + resource.object_path(Key("", kind, "ns", name)))
    assert found.raw_parts[:-1] == known.raw_parts[:-1]
    assert (found.host, found.raw_query_string, found.raw_fragment) == ("server", "", "")


@often
@given(hostile)
def test_a_header_of_a_mail_begins_no_other_header(text: str) -> None:
    mail = Mail("mail:25", "from@example.com", ("to@example.com",), text, "body", id=text)
    read = email.message_from_bytes(written(mail), policy=email.policy.compat32)
    assert set(read.keys()) == {"From", "To", "Subject", "Message-ID"}
    assert read.get_payload() == "body"


@often
@given(hostile)
def test_a_message_is_json_with_the_text_as_a_value(text: str) -> None:
    row = NoticeRow(key=Key("", KIND, text, text), node=text, maintenance=text, owner=text, configmap=text)
    read = json.loads(go_json(fields_of(row, "SLAStarted")))
    assert (read["owner"], read["objects"], read["metadataConfigmap"]) == (text, [text], text)


@often
@given(hostile)
def test_a_topic_leads_to_no_server_that_is_not_amazons(text: str) -> None:
    try:
        client = Session().create_client(
            "sns",
            region_name=_region(f"arn:aws:sns:{text}:1:t") or "eu-west-1",
            aws_access_key_id="a",
            aws_secret_access_key="b",
        )
    except BotoCoreError:
        return
    assert (URL(client.meta.endpoint_url).host or "").endswith((".amazonaws.com", ".amazonaws.com.cn"))


@often
@given(hostile)
def test_the_zone_of_a_node_leads_to_no_other_server(text: str) -> None:
    try:
        url = address("https://vc-$AZ.example.com", text)
    except VCenterError:
        return
    assert (url.host or "").endswith(".example.com")
    assert (url.path, url.user, url.explicit_port) == ("/sdk", None, None)


@often
@given(hostile)
def test_a_value_in_a_template_is_no_template(text: str) -> None:
    assert render("{{ .x }}", Map({"x": text})) == text


def test_a_package_is_copied_by_a_script_without_texts_of_objects() -> None:
    assert "{" not in COPY.replace("${", "")


@pytest.mark.parametrize("plural", DEFINITIONS)
def test_every_text_of_our_kinds_is_in_the_table_of_the_page(plural: str) -> None:
    page = PAGE.read_text()
    for kind, path in texts(plural):
        [listed] = [beginning for beginning in LISTED[kind] if path.startswith(beginning)]
        rows = [line for line in page.splitlines() if line.startswith(f"| {kind} |") and f"`{listed}`" in line]
        assert len(rows) == 1, f"{kind} {listed} is in {len(rows)} rows of the table in docs/security.md"
