from staff.commands.staff_totp import StaffTotpCommand as Command

__all__ = ["Command"]
