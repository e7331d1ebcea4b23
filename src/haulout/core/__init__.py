"""The kernel's pure part: decisions, actions, reasons, holds, the arbiter and the cordon ledger."""
