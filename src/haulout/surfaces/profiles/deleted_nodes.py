"""The report about a deleted node, made once."""

from __future__ import annotations

from haulout.cluster.key import Key
from haulout.cluster.rows import Value
from haulout.cluster.view import MARK, View
from haulout.core.action import Say
from haulout.core.decision import NOTHING, Decision

GONE = "gone"


def farewell(key: Key, view: View) -> Decision:
    """Report a deleted node once.

    The mark makes the decision run again. Then it wants nothing, and the kernel forgets the subject.
    """
    mark = Key(key.cluster, MARK, GONE, key.name)
    if view.get(mark, Value) is not None:
        return NOTHING
    line = Say("Could not find node on the API server, maybe it has been deleted?", (("node", key.name),))
    return Decision(actions=((line,),), marks=(Value(key=mark),))
