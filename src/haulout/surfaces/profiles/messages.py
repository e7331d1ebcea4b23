"""The content of a notification about a node, and the message that a notifier makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta, timezone
from typing import Any

import msgspec

from haulout.base.gotemplate import Object, TemplateError, Word, render
from haulout.base.gotemplate.times import go_time, nanoseconds_of
from haulout.base.patch import merge
from haulout.cluster.key import Key, node_key
from haulout.model.go_node import go_node
from haulout.plugins.api import Config, Message, Notifier
from haulout.surfaces.profiles.wire import NEVER, Stamp, State

# The channel through which all messages of this surface are sent.
CHANNEL = "profiles-notifications"


class Notice(msgspec.Struct, frozen=True):
    """A notification that is due.

    The whole Node is read when it is sent, because no row keeps everything that a template may name.
    `changes`: the changes of this pass that are not stored yet, as a merge patch.
    `last`: the profile of the node that moved last. `in_maintenance`: one of its profiles is in maintenance.
    """

    notifier: Notifier
    config: Config
    instance: str
    node: Key
    changes: Mapping[str, Any]
    state: str
    profile: str
    last: str
    transition: Stamp
    in_maintenance: bool
    log_details: bool


def compose(notice: Notice, node: Mapping[str, Any]) -> Message:
    """Render the message. Raises TemplateError if that is not possible."""
    data = template_data(notice, node)
    message: Message = notice.notifier.compose(notice.config, lambda text: render(text, data))
    return message


def flaw(notifier: Notifier, config: Config) -> str:
    """Return why the notifier's templates can never be rendered; empty if they can, or if it depends on the node."""
    state = State.OPERATIONAL
    notice = Notice(notifier, config, "", node_key("node"), {}, state, "profile", "profile", NEVER, False, False)
    try:
        compose(notice, {"metadata": {"name": "node"}})
    except TemplateError as error:
        text = str(error)
        return text if "executing" not in text or "can't evaluate field" in text else ""
    return ""


def template_data(notice: Notice, node: Mapping[str, Any]) -> Object:
    """Return the data that templates can use, under the original's names."""
    changed = merge(node, notice.changes)
    profile = Word(notice.profile, {"Current": notice.profile, "Last": notice.last})
    fields = {
        "InMaintenance": notice.in_maintenance,
        "LastTransition": _time(notice.transition),
        "LogDetails": notice.log_details,
        "Node": go_node(changed),
        "Profile": profile,
        "State": notice.state,
    }
    return Object("plugin.Parameters", fields)


def _time(stamp: Stamp) -> Object:
    """Return the instant in the time zone in which it is written."""
    offset = stamp.text[-6:]
    at = stamp.at
    if offset[0] in "+-" and offset[3] == ":":
        span = timedelta(hours=int(offset[1:3]), minutes=int(offset[4:6]))
        at = at.astimezone(timezone(-span if offset[0] == "-" else span))
    return go_time(at, nanoseconds_of(stamp.text))
