"""The operators' side of the system: commands that run it or look after its stores. Each parses, calls, reports."""
