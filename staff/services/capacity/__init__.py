"""Capacity: what a number of users needs and costs, and what gives way first. Arithmetic; it asks no engine.

Reading order: `inputs` (what people do, what was measured, what AWS charges), `plan`, `limits`, `report`.
"""
