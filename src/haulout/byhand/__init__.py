"""Drain and uncordon for people: commands that act once, without an operator."""
