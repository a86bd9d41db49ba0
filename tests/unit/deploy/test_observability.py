"""Alerts, recording rules and the dashboard use metrics that exist, and every alert has a runbook."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from config.management.commands import metrics

ROOT = Path(__file__).parents[3]
PROMETHEUS = ROOT / "deploy/prometheus"
ALERTS: list[dict[str, Any]] = yaml.safe_load((PROMETHEUS / "alerts.yaml").read_text())["groups"][0]["rules"]
RECORDED: list[dict[str, Any]] = yaml.safe_load((PROMETHEUS / "recording.yaml").read_text())["groups"][0]["rules"]
PANELS: list[dict[str, Any]] = json.loads((ROOT / "deploy/grafana/parley.json").read_text())["panels"]


def used(expression: str) -> set[str]:
    """The metrics of an expression, without the suffixes of a histogram's series."""
    names = re.findall(r"\bparley[_:][a-z0-9_:]+", expression)
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}


def existing() -> set[str]:
    return {*metrics.declared(), *(rule["record"] for rule in RECORDED)}


class TestMetrics:
    @pytest.mark.parametrize("rule", [*ALERTS, *RECORDED], ids=lambda rule: rule.get("alert") or rule["record"])
    def test_a_rule_uses_metrics_that_exist(self, rule: dict[str, Any]) -> None:
        assert used(rule["expr"]) <= existing()

    @pytest.mark.parametrize("panel", PANELS, ids=lambda panel: str(panel["title"]))
    def test_a_panel_uses_metrics_that_exist(self, panel: dict[str, Any]) -> None:
        for target in panel["targets"]:
            assert used(target["expr"])
            assert used(target["expr"]) <= existing()

    def test_every_metric_of_the_code_is_declared_when_the_page_is_made(self) -> None:
        named = set(re.findall(r'"(parley_[a-z_]+)"', _sources()))
        assert named <= {*metrics.declared()} | {name.removesuffix("_total") for name in metrics.declared()}

    def test_the_page_lists_what_the_code_declares(self) -> None:
        page = f"{metrics.PREFACE}{metrics.table()}\n"
        assert (ROOT / "docs/metrics.md").read_text() == page, "out of date: manage.py metrics --write"


class TestAlerts:
    @pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: str(alert["alert"]))
    def test_an_alert_names_a_runbook_that_exists(self, alert: dict[str, Any]) -> None:
        assert (ROOT / alert["annotations"]["runbook"]).is_file()

    def test_the_labels_of_outcomes_are_those_of_the_code(self) -> None:
        codes = set(re.findall(r'code(?:: ClassVar\[str\])? = "(\w+)"', _sources()))
        for rule in (*ALERTS, *RECORDED):
            for listed in re.findall(r'(?:code|outcome)=~"([^"]+)"', rule["expr"]):
                assert set(listed.split("|")) <= codes | {"unavailable"}


def _sources() -> str:
    apps = ("foundation", "accounts", "chats", "messaging", "delivery", "staff")
    return "\n".join(path.read_text() for app in apps for path in (ROOT / app).rglob("*.py"))
