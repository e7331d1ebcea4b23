"""`haulout resume`: ends a pause."""

from haulout.cli.pausing import pausing_act

command = pausing_act("resume", "End a pause.", "Ends a pause. Work continues where it stopped.")
