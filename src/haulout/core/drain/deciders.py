"""The decisions that a drain is made of, for whoever puts a kernel together."""

from __future__ import annotations

from haulout.core.drain import evict, pace, plan

DRAIN_DECIDERS = (plan.DECIDER, pace.DECIDER, evict.DECIDER)
