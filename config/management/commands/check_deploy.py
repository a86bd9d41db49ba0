from config.wiring.deploy_check import deployment
from staff.commands.check_deploy import CheckDeployCommand


class Command(CheckDeployCommand):
    deployment = staticmethod(deployment)
