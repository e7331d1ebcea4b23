"""The bytes of messages, and the ids by which receivers recognize repetitions."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from haulout.cluster.key import Key
from haulout.surfaces.notify.notice import messages
from haulout.surfaces.notify.notice.deliver import announcement
from haulout.surfaces.notify.wire import KIND, NoticeRow

ROW = NoticeRow(
    key=Key("", KIND, "fleet", "a"),
    uid="u",
    node="n1",
    maintenance="m1",
    type="planned",
    owner="dana",
    topic="arn:aws:sns:eu-west-1:1:t.fifo",
    created_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
)


def row(**fields: object) -> NoticeRow:
    return msgspec.structs.replace(ROW, **fields)


def test_the_payload_has_its_keys_in_order_and_no_spaces() -> None:
    assert messages.payload(ROW, messages.OBJECTS_DRAINED) == (
        b'{"maintenanceID":"m1","objects":["n1"],"event":"ObjectsDrained",'
        b'"Message":"Maintenance m1 objects drained on [n1]","namespace":"fleet","maintenanceObjectName":"a","owner":"dana"}'
    )


def test_what_is_empty_is_left_out_and_the_configmap_stands_before_the_owner() -> None:
    assert messages.payload(row(owner=""), "Validating").endswith(b'"maintenanceObjectName":"a"}')
    assert b'"maintenanceObjectName":"a","metadataConfigmap":"c","owner"' in messages.payload(
        row(configmap="c"), "Validating"
    )


@pytest.mark.parametrize(
    ("owner", "written"),
    [
        ("a<b>&c", b'"a\\u003cb\\u003e\\u0026c"'),
        ("\u2028\u2029", b'"\\u2028\\u2029"'),
        ("grüße", '"grüße"'.encode()),
        ('"\\b\n', b'"\\"\\\\b\\n"'),
    ],
    ids=["html", "separators", "utf-8", "quotes"],
)
def test_strings_are_escaped_as_go_does(owner: str, written: bytes) -> None:
    assert messages.payload(row(owner=owner), "Validating").endswith(b'"owner":' + written + b"}")


@pytest.mark.parametrize(("event", "verb"), sorted(messages.VERBS.items()))
def test_each_event_has_its_verb(event: str, verb: str) -> None:
    assert messages.text_of(ROW, event) == f"Maintenance m1 {verb} on [n1]"


def test_an_unknown_event_is_refused() -> None:
    with pytest.raises(ValueError, match="event type Nonsense is not supported"):
        messages.text_of(ROW, "Nonsense")


def test_ids_are_those_of_the_original() -> None:
    assert messages.group_id(row(node="ho-e1")) == "ac7e0550bfbea59d6286dcb7ff8b1118"
    made = announcement(ROW, "sns", "SLAStarted")
    assert made.deduplication == "01bd4f26265a62e0bc0cb16e9bef5277"
    assert made.client == "Slack_ST2"


def test_a_standard_topic_gets_no_ids() -> None:
    made = announcement(row(topic="arn:aws:sns:eu-west-1:1:t"), "sns", "SLAStarted")
    assert (made.group, made.deduplication) == ("", "")


def test_the_client_is_that_of_the_label() -> None:
    labelled = row(labels={"maintenance/maintenance-client": "ansible"})
    assert announcement(labelled, "sns", "SLAStarted").client == "ansible"
