"""`haulout resume`: ends a pause."""

from haulout.cli.pausing import pausing_act

command = pausing_act(
    "resume", "End a pause.", "Ends a pause that `haulout pause` has begun. Work goes on where it was."
)
