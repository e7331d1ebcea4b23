"""Reports a node that was deleted once, and forgets it."""

from __future__ import annotations

from haulout.cluster.key import Key
from haulout.cluster.rows import Value
from haulout.cluster.view import MARK, View
from haulout.core.action import Say
from haulout.core.decision import NOTHING, Decision

GONE = "gone"


def farewell(key: Key, view: View) -> Decision:
    """Report a deleted node once. The mark has the decision run again, so that the subject is then forgotten."""
    mark = Key(key.cluster, MARK, GONE, key.name)
    if view.get(mark, Value) is not None:
        return NOTHING
    line = Say("Could not find node on the API server, maybe it has been deleted?", (("node", key.name),))
    return Decision(actions=((line,),), marks=(Value(key=mark),))
