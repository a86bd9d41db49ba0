"""Drills: each runbook's own commands, run against a system with that very failure."""
