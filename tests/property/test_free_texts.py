"""Texts that users, kubelets and servers write stay data wherever they go, whatever characters they have."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import email
import email.policy
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import msgspec
import pytest
from botocore.exceptions import BotoCoreError
from botocore.session import Session
from hypothesis import example, given, settings
from hypothesis import strategies as st
from yarl import URL

from haulout.base.arithmetic import FormulaError, truth
from haulout.base.clock import SystemClock
from haulout.base.gotemplate import Map, render
from haulout.base.selector import SelectorError, from_object, parse
from haulout.clients.mail import written
from haulout.clients.openstack import read_credentials, signed_in
from haulout.clients.prometheus import Prometheus
from haulout.clients.sns import _region
from haulout.clients.vcenter_zones import VCenterError, address
from haulout.cluster.key import Key
from haulout.cluster.project import RESOURCES, field_equals
from haulout.cluster.rows import NodeRow
from haulout.embedded import JOBS, Json
from haulout.kube.allowed_addresses import Reach
from haulout.model.pod import Toleration
from haulout.plugins.messages import Mail
from haulout.runtime.probes import ProbeFailed
from haulout.surfaces.notify.notice.messages import fields_of, go_json
from haulout.surfaces.notify.recipes.hooks import StatusQuestion
from haulout.surfaces.notify.recipes.jobs import job_body
from haulout.surfaces.notify.recipes.recipe import Recipe
from haulout.surfaces.notify.recipes.roles import RUNNER
from haulout.surfaces.notify.wire import KIND, NoticeRow
from haulout.surfaces.packages.entries.interrupts import argument
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.pods.bodies import COPY, PodPlace, package_pod
from haulout.surfaces.packages.wire import Interrupt, Package
from tests.build.cloud import serving as cloud_serving
from tests.build.free_texts import (
    CANARY,
    DEFINITIONS,
    LISTED,
    PIECES,
    URL_PIECES,
    definition,
    environment_of,
    expanded,
    texts,
)
from tests.build.hostile import answering, body
from tests.build.hostile import serving as hostile_server
from tests.build.notices import OWN, Notices, options
from tests.unit.app.test_hooks import hooks

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
    - ansible.builtin.command: {argv: [printf, "%s", "{{ maintenance_owner }}"], expand_argument_vars: false}
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
# Each example starts servers.
sometimes = settings(max_examples=60, deadline=None)
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
    plays(text)


@pytest.mark.parametrize("first", range(3))
def test_a_playbook_gets_every_hostile_piece_as_data(first: int) -> None:
    """A third of them at a time: an owner and a type have bounds."""
    plays(" ".join(PIECES[first::3]))


def plays(text: str) -> None:
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
@example(" ".join(PIECES))
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


@pytest.mark.parametrize("piece", PIECES)
def test_a_package_is_copied_by_a_script_that_runs_none_of_its_texts(piece: str) -> None:
    """The script runs in a real shell, with the variable as the kubelet sets it."""
    package = Package(name=piece, version=piece, image=piece, env=({"name": "X", "value": piece},))
    place = PodPlace(piece, piece, "uid", 1, Options())
    copying = package_pod(place, package, "apply")["spec"]["initContainers"][0]
    assert (copying["command"], copying["args"]) == (["/bin/sh"], ["-c", COPY])
    with tempfile.TemporaryDirectory() as top:
        # A text may lead upwards. So deep, it does not leave the directory.
        place_of_run = Path(top, *("d" * 60))
        (place_of_run / "package").mkdir(parents=True)
        (place_of_run / "package" / "file").touch()
        script = COPY.replace("/root/", f"{place_of_run}/root/").replace("/skyhook-package", f"{place_of_run}/package")
        environment = {name: value.replace("\0", "") for name, value in environment_of(copying).items()}
        around = {"PATH": os.environ["PATH"]}
        subprocess.run(["/bin/sh", "-c", script], cwd=place_of_run, env={**environment, **around}, check=True)
        assert not list(Path(top).rglob(CANARY)), "a text was run as a command"
        assert len(list(Path(top).rglob("file"))) == 2


@often
@given(hostile)
def test_a_pod_of_a_package_has_its_texts_as_values(text: str) -> None:
    package = Package(name=text, version=text, image=text, env=({"name": text, "value": text},))
    place = PodPlace(text, text, text, 1, Options(), (Toleration(key=text, value=text),))
    pod = json.loads(json.dumps(package_pod(place, package, "apply")))
    plain = package_pod(PodPlace("n", "s", "u", 1, Options(), (Toleration(key="k", value="v"),)), PLAIN, "apply")
    assert shape_of(pod) == shape_of(plain)
    assert pod["spec"]["tolerations"][-1] == {"key": text, "value": text}
    assert [container["args"][:2] for container in pod["spec"]["initContainers"][1:]] == [
        ["apply", "/root"],
        ["apply-check", "/root"],
    ]


PLAIN = Package(name="p", version="1", image="i", env=({"name": "X", "value": "x"},))


def shape_of(value: Any) -> Any:
    """Return a JSON value with every text replaced. The keys of labels and annotations are constants of ours."""
    if isinstance(value, dict):
        return {name: shape_of(each) for name, each in value.items()}
    return [shape_of(each) for each in value] if isinstance(value, list) else isinstance(value, str) or value


@often
@given(hostile)
def test_the_service_of_an_interrupt_is_one_value(text: str) -> None:
    sent = argument(Interrupt("service", (text,)))
    assert json.loads(base64.b64decode(sent))["services"] == [text]
    assert sent.isascii()
    assert "$" not in sent


# Selectors


@often
@given(hostile, hostile)
def test_a_selector_selects_what_it_says_or_is_refused(key: str, value: str) -> None:
    try:
        selector = from_object({"matchLabels": {key: value}})
    except SelectorError:
        return
    assert selector.matches({key: value})
    assert not selector.matches({key: f"{value}x"})
    assert parse(str(selector)) == selector


@often
@given(hostile)
def test_a_selector_in_words_is_read_or_refused(text: str) -> None:
    try:
        selector = parse(text)
    except SelectorError:
        return
    assert parse(str(selector)) == selector


@often
@given(hostile)
def test_the_name_of_a_node_is_one_value_of_a_field_selector(name: str) -> None:
    """The API server reads a comma or an equals sign as part of a value only after a backslash."""
    found = re.fullmatch(r"spec\.nodeName=((?:[^\\,=]|\\[\\,=])*)", field_equals("spec.nodeName", name), re.DOTALL)
    assert found is not None
    assert re.sub(r"\\(.)", r"\1", found[1], flags=re.DOTALL) == name


# Queries


@sometimes
@given(passed)
def test_a_query_to_prometheus_is_one_value_of_a_form(text: str) -> None:
    async def asked() -> list[tuple[str, str]]:
        async with hostile_server(answering(body(VECTOR))) as peer:
            await Prometheus(SystemClock())((f"http://127.0.0.1:{peer.port}", text))
            [call] = peer.calls
            assert call.request.startswith(b"POST /api/v1/query HTTP/1.1\r\n")
            return parse_qsl(call.request.rpartition(b"\r\n\r\n")[2].decode(), keep_blank_values=True)

    form = asyncio.run(asked())
    assert form == [("query", text), ("time", form[1][1])]


VECTOR = b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"1"]}]}}'


@sometimes
@given(st.lists(st.sampled_from([*PIECES, *URL_PIECES]), min_size=1, max_size=6).map("".join))
def test_the_address_of_a_gate_leads_to_no_server_of_our_own_machine(text: str) -> None:
    """Even if every name is resolved to an address of our machine."""

    async def calls() -> int:
        async with hostile_server(answering(body(VECTOR))) as peer:
            local = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", peer.port))]
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(socket, "getaddrinfo", lambda *_, **__: local)
                for scheme in ("", "http://", "https://"):
                    with pytest.raises(ProbeFailed):
                        url = f"{scheme}{text}".replace("PORT", str(peer.port))
                        await Prometheus(SystemClock(), Reach(plain_http=True))((url, "up"))
            return len(peer.calls)

    assert asyncio.run(calls()) == 0


@often
@given(hostile)
def test_a_formula_is_a_truth_or_refused(text: str) -> None:
    with contextlib.suppress(FormulaError):
        assert truth(text, {"value": 1.0}) in (True, False)


@sometimes
@given(passed)
def test_the_name_of_a_node_is_one_value_of_a_query_to_nova(name: str) -> None:
    async def queries() -> list[list[tuple[str, str]]]:
        async with cloud_serving() as cloud:
            cloud.raw["/nova/servers/detail"] = b'{"servers":[{"id":"i1","name":"another"}]}'
            assert not await (await signed_in(read_credentials(cloud.config()))).delete_server(name)
            assert cloud.asked == [("POST", "/v3/auth/tokens"), ("GET", "/nova/servers/detail")]
            return cloud.queries

    assert asyncio.run(queries()) == [[], [("name", name), ("tenant_id", "p-1"), ("limit", "20")]]


# The status URL of a recipe's server


@sometimes
@given(st.lists(st.sampled_from([*PIECES, *URL_PIECES]), min_size=1, max_size=6).map("".join))
def test_a_status_url_gets_the_token_to_no_other_server(text: str) -> None:
    """The recipe's server is local here, so that a URL may name the other one, too."""

    async def requests() -> list[bytes]:
        done = body(b'{"result":"success"}')
        async with hostile_server(answering(done)) as own, hostile_server(answering(done)) as other:
            local = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", other.port))]
            url = text.replace("PORT", str(other.port)).replace("OWN", str(own.port))
            with pytest.MonkeyPatch.context() as patch, contextlib.suppress(ProbeFailed):
                patch.setattr(socket, "getaddrinfo", lambda *_, **__: local)
                await hooks(f"http://127.0.0.1:{own.port}").status(StatusQuestion("runner", "rec", url))
            assert all(b"Bearer secret" in call.request for call in own.calls)
            return [call.request for call in other.calls]

    assert [request for request in asyncio.run(requests()) if b"secret\r\n" in request] == []


def test_every_kind_of_ours_is_in_the_table_of_the_page() -> None:
    kinds = {definition(plural)["spec"]["names"]["kind"] for plural in DEFINITIONS}
    assert kinds == LISTED.keys()


@pytest.mark.parametrize("plural", DEFINITIONS)
def test_every_text_of_our_kinds_is_in_the_table_of_the_page(plural: str) -> None:
    page = PAGE.read_text()
    for kind, path in texts(plural):
        [listed] = [beginning for beginning in LISTED[kind] if path.startswith(beginning)]
        rows = [line for line in page.splitlines() if line.startswith(f"| {kind} |") and f"`{listed}`" in line]
        assert len(rows) == 1, f"{kind} {listed} is in {len(rows)} rows of the table in docs/security.md"
