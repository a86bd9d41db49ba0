from collections.abc import Iterable, Sequence

from prometheus_client import REGISTRY, Metric

from foundation.commands.page import PageCommand

PREFIX = "parley_"
PREFACE = """# Metrics

What `/metrics` of `web`, `fanout` and `reconcile --watch` shows for Prometheus. Made by `manage.py metrics --write`
from the code. Alerts on them are in [`deploy/prometheus`](../deploy/prometheus/alerts.yaml), a dashboard in
[`deploy/grafana`](../deploy/grafana/parley.json).

"""


class MetricsCommand(PageCommand):
    help = "Print the table of every metric, from the declarations in the code."
    path = "docs/metrics.md"
    preface = PREFACE
    headings = ("Metric", "Type", "What it tells")

    def rows(self) -> Iterable[Sequence[str]]:
        return [(f"`{name}`", metric.type, metric.documentation) for name, metric in self.declared().items()]

    def declared(self) -> dict[str, Metric]:
        """Our metrics by the name that queries use; not those that the library adds about Python and the process."""
        self.import_declarations()
        return {
            f"{metric.name}_total" if metric.type == "counter" else metric.name: metric
            for metric in sorted(REGISTRY.collect(), key=lambda metric: metric.name)
            if metric.name.startswith(PREFIX)
        }
