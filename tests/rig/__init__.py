"""Test equipment: a real control plane, simulated and real nodes, a proxy that misbehaves, and crash tests."""
