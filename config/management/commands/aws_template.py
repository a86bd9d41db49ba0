from config.wiring.deployment import data_template
from deploy.aws.commands import AwsTemplateCommand


class Command(AwsTemplateCommand):
    template = staticmethod(data_template)
