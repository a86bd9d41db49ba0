from staff.commands.accounts import ChangePasswordCommand as Command

__all__ = ["Command"]
