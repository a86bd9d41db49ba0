"""The documents against the code: what a page lists is what the code has, so neither is changed without the other."""
