from foundation.commands.access_patterns import AccessPatternsCommand


class Command(AccessPatternsCommand):
    declaring = ("config.wiring.web", "config.wiring.recovery")
