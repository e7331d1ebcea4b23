"""The acts of people on nodes with maintenance profiles: attach and detach a profile, and set the labels that checks wait for."""

from __future__ import annotations

import re

from haulout.core.act import NODES, Act, ActInput, ActPlan, Argument, Need, NotPossible

WAY = "profile"
PROFILE_LABEL, STATE_LABEL = "cloud.sap/maintenance-profile", "cloud.sap/maintenance-state"
REQUIRED, IN_MAINTENANCE = "maintenance-required", "in-maintenance"
# The label of the examples. It has no meaning of its own: the checks of a profile say which label they wait for.
APPROVED = "cloud.sap/maintenance-approved=true"
SEPARATOR, LONGEST = "--", 63
_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_KEY = re.compile(r"(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")

_PROFILE = Argument("profile", "Name of the profile.", required=True, example="PROFILE")
ACTS = (
    Act(
        name="start",
        way=WAY,
        help="attach a maintenance profile to the node; its checks decide when the maintenance begins",
        targets=(NODES,),
        plan="haulout.surfaces.profiles.acts:start",
        arguments=(_PROFILE,),
        needs=(Need("patch", NODES),),
        disturbs=True,
    ),
    Act(
        name="cancel",
        way=WAY,
        help="detach a maintenance profile from the node",
        targets=(NODES,),
        plan="haulout.surfaces.profiles.acts:cancel",
        arguments=(_PROFILE,),
        needs=(Need("patch", NODES),),
    ),
    Act(
        name="approve",
        way=WAY,
        help="set the label for which the profile waits before the maintenance",
        targets=(NODES,),
        plan="haulout.surfaces.profiles.acts:approve",
        arguments=(
            Argument("label", f"Label that a check of the profile waits for (default {APPROVED}).", example=APPROVED),
        ),
        needs=(Need("patch", NODES),),
    ),
    Act(
        name="finish",
        way=WAY,
        help="set the label for which the profile waits at the end of the maintenance",
        targets=(NODES,),
        plan="haulout.surfaces.profiles.acts:finish",
        arguments=(
            Argument(
                "label",
                "The label that a check of the profile waits for: KEY=VALUE, or KEY- to remove it.",
                required=True,
                example="KEY=VALUE",
            ),
        ),
        needs=(Need("patch", NODES),),
    ),
)


def start(given: ActInput) -> ActPlan | NotPossible:
    profile, label = given.args["profile"], given.labels.get(PROFILE_LABEL, "")
    attached = label.split(SEPARATOR) if label else []
    wanted = SEPARATOR.join((*attached, profile))
    if problem := _name_problem(profile):
        return NotPossible(problem)
    if profile in attached:
        return NotPossible(f"profile {profile} is attached to node {given.name} already")
    if len(wanted) > LONGEST:
        return NotPossible(
            f"the label {PROFILE_LABEL} has no room for {profile}: its value may have {LONGEST} characters"
        )
    write = given.patch_metadata(NODES, labels={PROFILE_LABEL: wanted})
    warnings = () if attached else (f"node {given.name} leaves the profile default, which nodes without a label have",)
    return ActPlan((write,), given.restore("label", NODES, PROFILE_LABEL), warnings)


def cancel(given: ActInput) -> ActPlan | NotPossible:
    profile, label = given.args["profile"], given.labels.get(PROFILE_LABEL, "")
    attached = label.split(SEPARATOR) if label else []
    if not attached:
        return NotPossible(f"node {given.name} has no label {PROFILE_LABEL}")
    if profile != _PROFILE.example and profile not in attached:
        return NotPossible(f"profile {profile} is not attached to node {given.name} (attached: {', '.join(attached)})")
    left = [each for each in attached if each != profile]
    write = given.patch_metadata(NODES, labels={PROFILE_LABEL: SEPARATOR.join(left) or None})
    warnings = (
        ()
        if given.labels.get(STATE_LABEL) != IN_MAINTENANCE
        else (f"node {given.name} is in maintenance: what the triggers of its profiles have changed is not taken back",)
    )
    return ActPlan((write,), given.restore("label", NODES, PROFILE_LABEL), warnings)


def approve(given: ActInput) -> ActPlan | NotPossible:
    if given.labels.get(STATE_LABEL) != REQUIRED:
        return NotPossible(
            f"no profile of node {given.name} waits for an approval (label {STATE_LABEL} is not {REQUIRED})"
        )
    return _set_label(given, given.args.get("label", APPROVED))


def finish(given: ActInput) -> ActPlan | NotPossible:
    if given.labels.get(STATE_LABEL) != IN_MAINTENANCE:
        return NotPossible(f"node {given.name} is not in maintenance (label {STATE_LABEL} is not {IN_MAINTENANCE})")
    return _set_label(given, given.args["label"])


def _set_label(given: ActInput, text: str) -> ActPlan | NotPossible:
    key, equals, value = text.partition("=")
    if not equals and key.endswith("-"):
        key = key[:-1]
    elif not equals or not (not value or (_NAME.fullmatch(value) and len(value) <= LONGEST)):
        return NotPossible(f"{text!r} is not a label KEY=VALUE, or KEY- to remove one")
    if not _KEY.fullmatch(key) or key in (STATE_LABEL, PROFILE_LABEL):
        return NotPossible(f"{key!r} is not a label that a profile can wait for")
    wanted = value if equals else None
    if given.labels.get(key) == wanted:
        return NotPossible(f"node {given.name} has {f'the label {text}' if equals else f'no label {key}'} already")
    return ActPlan((given.patch_metadata(NODES, labels={key: wanted}),), given.restore("label", NODES, key))


def _name_problem(profile: str) -> str:
    if not _NAME.fullmatch(profile) or SEPARATOR in profile:
        return f"{profile!r} cannot be the name of a profile: letters, digits, '.', '_' and single '-'"
    return ""
