"""What the user of `haulout status --watch` has chosen by keys: a filter, an order, a node. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from haulout.explain.fleet import Fleet, Work

ESCAPE, ENTER, UP, DOWN, ERASE = "escape", "enter", "up", "down", "erase"
ORDERS = ("node", "state", "age")
LONGEST_FILTER = 60


class WatchState(msgspec.Struct, frozen=True):
    """The choices of a user who watches the fleet.

    `wanted`: the text that shown nodes contain. `is_typing`: keys go into that text. `order`: the order of maintenances.
    `selected`: the place of the selected node in the list of shown nodes. `opened`: the node that is explained; empty: none.
    """

    wanted: str = ""
    is_typing: bool = False
    order: str = ORDERS[0]
    selected: int = 0
    opened: str = ""

    def after(self, key: str, nodes: Sequence[str]) -> WatchState | None:
        """Return the choices after a key was pressed; None if the user quits. `nodes`: the shown nodes in their order."""
        if self.is_typing:
            return self._typed(key)
        change = msgspec.structs.replace
        match key:
            case "q":
                return None
            case "/":
                return change(self, is_typing=True, opened="")
            case "s":
                following = ORDERS[(ORDERS.index(self.order) + 1) % len(ORDERS)]
                return change(self, order=following, selected=0)
            case "up" | "k":
                return change(self, selected=max(self.selected - 1, 0))
            case "down" | "j":
                return change(self, selected=min(self.selected + 1, max(len(nodes) - 1, 0)))
            case "enter" | "o" if nodes and not self.opened:
                return change(self, opened=nodes[min(self.selected, len(nodes) - 1)])
            case "escape" | "b" | "erase":
                return change(self, opened="") if self.opened else change(self, wanted="", selected=0)
            case _:
                return self

    def _typed(self, key: str) -> WatchState:
        change = msgspec.structs.replace
        match key:
            case "enter":
                return change(self, is_typing=False)
            case "escape":
                return change(self, is_typing=False, wanted="", selected=0)
            case "erase":
                return change(self, wanted=self.wanted[:-1], selected=0)
            case _ if len(key) == 1 and key.isprintable() and len(self.wanted) < LONGEST_FILTER:
                return change(self, wanted=self.wanted + key, selected=0)
            case _:
                return self

    def applied(self, fleet: Fleet) -> Fleet:
        """Return the fleet with the nodes that the user wants, and the maintenances in the chosen order."""
        if self.wanted:
            nodes = tuple(each for each in fleet.nodes if self.wanted in each.name)
            names = {each.name for each in nodes}
            fleet = msgspec.structs.replace(
                fleet,
                nodes=nodes,
                works=tuple(each for each in fleet.works if each.node in names),
                causes=tuple(each for each in fleet.causes if names.intersection(each.nodes)),
                failures=tuple(each for each in fleet.failures if each.node in names or self.wanted in each.object),
            )
        return msgspec.structs.replace(fleet, works=tuple(sorted(fleet.works, key=self._rank)))

    def _rank(self, work: Work) -> tuple[str, str]:
        first = {"state": work.state, "age": work.since.isoformat() if work.since else "~"}
        return first.get(self.order, ""), work.node

    def shown_nodes(self, fleet: Fleet) -> list[str]:
        """Return the nodes that can be selected: those that fail or wait first, then those with a maintenance, then all."""
        failed = (each.node for each in fleet.failures if each.node)
        waiting = (node for cause in fleet.causes for node in cause.nodes)
        working = (each.node for each in fleet.works)
        names = [each.name for each in fleet.nodes]
        # A cause is shown with all its nodes, also with those that the filter leaves out.
        shown = {*names}
        return list(dict.fromkeys(each for each in (*failed, *waiting, *working, *names) if each in shown))

    def foot(self, nodes: Sequence[str]) -> str:
        """Return the line about the keys."""
        if self.is_typing:
            return f"filter: {self.wanted}_   Enter keeps it, Esc clears it"
        if self.opened:
            return f"{self.opened}   b back, q quit"
        chosen = nodes[min(self.selected, len(nodes) - 1)] if nodes else "none"
        wanted = f" ({self.wanted})" if self.wanted else ""
        return f"/ filter{wanted}  s sort ({self.order})  j/k select ({chosen})  Enter open  q quit"
