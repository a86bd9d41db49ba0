"""The reference clients of version 1.0, which know messages only, kept unchanged: they must go on working."""
