from staff.commands.capacity import CapacityCommand as Command

__all__ = ["Command"]
