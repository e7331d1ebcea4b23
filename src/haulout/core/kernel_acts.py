"""The acts of people that belong to no surface."""

from __future__ import annotations

from haulout.core.act import NODES, Act, Need

KERNEL_ACTS = (
    Act(
        name="let-go",
        help="give the node back after its maintenance has vanished: restore what the cordon ledger remembers",
        targets=(NODES,),
        plan="haulout.acts.let_go:plan",
        needs=(Need("patch", NODES),),
        reads_claimants=True,
    ),
)
