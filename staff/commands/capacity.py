from argparse import ArgumentParser, ArgumentTypeError
from dataclasses import fields
from typing import Any

from django.core.management.base import BaseCommand

from staff.services.capacity.inputs import MEANING, Demand
from staff.services.capacity.report import describe, make_plan


class CapacityCommand(BaseCommand):
    help = "Print what a number of users needs and costs, and what gives way first. Asks no engine."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        for each in fields(Demand):
            parse = _whole if each.type is int else _positive
            shown = f"{each.metadata[MEANING]} (default {each.default:,})"
            parser.add_argument(f"--{each.name}", type=parse, default=each.default, metavar="N", help=shown)

    def handle(self, *args: Any, **options: Any) -> None:
        demand = Demand(**{each.name: options[each.name] for each in fields(Demand)})
        self.stdout.write(describe(make_plan(demand)))


def _positive(text: str) -> float:
    """Raises `ArgumentTypeError`."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e12:
        raise ArgumentTypeError(f"a number above 0 is needed, not {text!r}")
    return number


def _whole(text: str) -> int:
    """Raises `ArgumentTypeError`."""
    if (number := _positive(text)) != int(number):
        raise ArgumentTypeError(f"a whole number is needed, not {text!r}")
    return int(number)
