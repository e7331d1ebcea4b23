"""Turns the steps of a decision into the requests that carry them out (decision 0079)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import ObjectRow, Row
from haulout.core.action import (
    Annotate,
    Cordon,
    Create,
    Delete,
    Edit,
    Evict,
    Finalize,
    KeepCordoned,
    Label,
    Measure,
    Patch,
    Release,
    Say,
    Send,
    SetTaint,
    Statement,
    Step,
    Tell,
)
from haulout.core.edit import merge_patch
from haulout.kernel.requests import Body, Change


class Job(msgspec.Struct, frozen=True):
    """One request of a decision: all edits of one object, or one other write."""

    target: Key
    edits: tuple[Edit, ...] = ()
    other: Create | Evict | Delete | None = None
    subresource: str = ""

    @property
    def ends(self) -> bool:
        """Whether the write deletes the object.

        Its answer does not prove that: only the watch shows that the object is gone.
        """
        return isinstance(self.other, Evict | Delete)

    @property
    def uid(self) -> str:
        return self.other.uid if isinstance(self.other, Evict | Delete) else ""

    @property
    def outcome(self) -> str:
        """Return the name of the outcome row that keeps a refusal of this write."""
        if self.other is not None:
            return self.other.outcome
        return next((edit.outcome for edit in self.edits if edit.outcome), "")


class Batch(msgspec.Struct, frozen=True):
    """Jobs that do not depend on each other, with the statements and messages that follow once they have succeeded."""

    jobs: tuple[Job, ...] = ()
    tells: tuple[Statement, ...] = ()
    sends: tuple[Send, ...] = ()


def plan(steps: Sequence[Step]) -> list[Batch]:
    """Return one batch for each step. Neighbouring steps that only edit the same object become one patch."""
    batches: list[Batch] = []
    for step in steps:
        batch = _batch(step)
        if batches and (merged := _merged(batches[-1], batch)):
            batches[-1] = merged
        else:
            batches.append(batch)
    return batches


def _batch(step: Step) -> Batch:
    edits: dict[tuple[Key, str], list[Edit]] = {}
    others: list[Job] = []
    tells: list[Statement] = []
    sends: list[Send] = []
    for action in step:
        match action:
            case Tell() | Measure() | Say():
                tells.append(action)
            case Send():
                sends.append(action)
            case Create() | Evict() | Delete():
                others.append(Job(action.target, other=action))
            case KeepCordoned() | Release():
                raise TypeError(f"{action} was not turned into edits")
            case _:
                edits.setdefault((action.target, _subresource(action)), []).append(action)
    jobs = [
        Job(target, tuple(several), subresource=subresource)
        for (target, subresource), several in _with_status(edits).items()
    ]
    return Batch((*jobs, *others), tuple(tells), tuple(sends))


def _with_status(edits: dict[tuple[Key, str], list[Edit]]) -> dict[tuple[Key, str], list[Edit]]:
    """Return the edits with the labels and annotations of a Node moved to the patch of its status in the same step.

    The server takes both in one request, as kubelets write annotations. It does not so for other parts of a Node, nor
    for custom resources.
    """
    merged = dict(edits)
    for target, subresource in edits:
        own = edits.get((target, ""), [])
        if target.kind == "Node" and subresource == "status" and _is_metadata(own):
            merged[target, "status"] = [*own, *edits[target, "status"]]
            merged.pop((target, ""), None)
    return merged


def _is_metadata(edits: Sequence[Edit]) -> bool:
    return all(isinstance(edit, Label | Annotate) for edit in edits)


def _merged(first: Batch, second: Batch) -> Batch | None:
    if len(first.jobs) != 1 or len(second.jobs) != 1 or first.sends:
        return None
    one, two = first.jobs[0], second.jobs[0]
    if not one.edits or not two.edits or (one.target, one.subresource) != (two.target, two.subresource):
        return None
    job = msgspec.structs.replace(one, edits=(*one.edits, *two.edits))
    return Batch((job,), (*first.tells, *second.tells), second.sends)


def request_body(job: Job, row: Row | None) -> Body:
    """Return the body of a request. A patch names the version that it was made for."""
    if job.other is not None:
        return job.other
    body = merge_patch(row, job.edits)
    # A merge patch may change metadata that the row keeps and that an answer with metadata alone does not bring.
    patches = [edit for edit in job.edits if isinstance(edit, Patch)]
    slim = row is not None and not job.subresource and not patches and body.keys() == {"metadata"}
    strategic = any(patch.strategic for patch in patches)
    return Change(job.target, body, row.version if row else None, job.subresource, slim, strategic)


def signature(job: Job) -> Hashable:
    """Return a value that is equal for two writes that want the same.

    The texts of annotations and patches do not count: they may contain the time, and would end every back-off.
    """
    if job.other is not None:
        return (type(job.other).__name__, job.target, job.uid)
    return (job.target, job.subresource, frozenset(map(_wish, job.edits)))


def _wish(edit: Edit) -> Hashable:
    match edit:
        case Label():
            return ("label", edit.name, edit.value)
        case Annotate():
            return ("annotation", edit.name, edit.value is None)
        case Finalize():
            return ("finalizer", edit.name, edit.present)
        case Cordon():
            return ("cordon", edit.unschedulable)
        case SetTaint():
            return ("taint", edit.taint.key, edit.taint.effect, edit.present)
        case Patch():
            return ("patch", tuple(sorted(edit.body)))


def is_ending(row: Row, uid: str) -> bool:
    """Whether the object with this UID is gone or terminating."""
    return row.uid != uid or (isinstance(row, ObjectRow) and row.deleting_at is not None)


def _subresource(edit: Edit) -> str:
    return edit.subresource if isinstance(edit, Patch) else ""
