"""Measurements, never assertions: how fast, at what price per message, and how near to the engines' own limits."""
