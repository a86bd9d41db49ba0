from dev.commands import DevCommand as Command

__all__ = ["Command"]
