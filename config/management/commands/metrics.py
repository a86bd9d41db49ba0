from argparse import ArgumentParser
from importlib import import_module
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from prometheus_client import REGISTRY, Metric

PREFIX = "parley_"
DECLARING = (
    "config.wiring.web",
    "config.wiring.fanout",
    "config.wiring.recovery",
    "foundation.server.gate",
    "foundation.server.http",
    "foundation.server.shares",
)
"""Modules which, once imported, have declared every metric."""
HEADINGS = ("Metric", "Type", "What it tells")
PREFACE = """# Metrics

What `/metrics` of `web` and `fanout` shows for Prometheus. Made by `manage.py metrics --write` from the code. Alerts on
them are in [`deploy/prometheus`](../deploy/prometheus/alerts.yaml), a dashboard in
[`deploy/grafana`](../deploy/grafana/parley.json).

"""


class Command(BaseCommand):
    """Prints what the code declares, as a Markdown table."""

    help = "Print the table of every metric, from the declarations in the code."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--write", action="store_true", help="write docs/metrics.md instead of printing")

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["write"]:
            self.stdout.write(table())
            return
        path = Path(settings.BASE_DIR) / "docs" / "metrics.md"
        path.write_text(f"{PREFACE}{table()}\n")
        self.stdout.write(f"wrote {path.relative_to(settings.BASE_DIR)}")


def declared() -> dict[str, Metric]:
    """Our metrics by the name that queries use; not those that the library adds about Python and the process."""
    for module in DECLARING:
        import_module(module)
    return {
        f"{metric.name}_total" if metric.type == "counter" else metric.name: metric
        for metric in sorted(REGISTRY.collect(), key=lambda metric: metric.name)
        if metric.name.startswith(PREFIX)
    }


def table() -> str:
    rows = [(f"`{name}`", metric.type, metric.documentation) for name, metric in declared().items()]
    lines = [HEADINGS, tuple("---" for _ in HEADINGS), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
