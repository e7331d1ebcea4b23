"""The decisions that a drain is made of (decision 0010)."""

from __future__ import annotations

from haulout.core.drain import eviction, pace, plan

DRAIN_DECIDERS = (plan.DECIDER, pace.DECIDER, eviction.DECIDER)
