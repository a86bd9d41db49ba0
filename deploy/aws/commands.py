from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from deploy.aws import data


class AwsTemplateCommand(BaseCommand):
    template: Callable[[], dict[str, Any]]
    help = "Print the CloudFormation template of tables, alarms, backups and policies, from models and access patterns."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--write", action="store_true", help="write deploy/aws/data.yaml instead of printing")
        parser.add_argument("--check", action="store_true", help="exit non-zero if deploy/aws/data.yaml differs")

    def handle(self, *args: Any, **options: Any) -> None:
        text = data.render(self.template())
        if options["check"]:
            if data.PATH.read_text() != text:
                raise CommandError("deploy/aws/data.yaml is out of date: manage.py aws_template --write")
            self.stdout.write("deploy/aws/data.yaml is up to date")
        elif options["write"]:
            data.PATH.write_text(text)
            self.stdout.write("wrote deploy/aws/data.yaml")
        else:
            self.stdout.write(text)
