from staff.commands.accounts import CreateSuperuserCommand as Command

__all__ = ["Command"]
