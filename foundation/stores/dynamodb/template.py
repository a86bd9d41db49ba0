"""Whether a CloudFormation template has the tables of the models."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from foundation.stores.dynamodb.schema import expected, of_template
from foundation.stores.dynamodb.table import Table


def template_drift(path: Path, models: Sequence[type[Table]]) -> Iterator[str]:
    """Each difference. None where there is no template: an image has none."""
    if not path.is_file():
        return
    resources = yaml.safe_load(path.read_text())["Resources"].values()
    tables = {
        each["Properties"]["TableName"]["Fn::Sub"].removeprefix("${TablePrefix}"): each["Properties"]
        for each in resources
        if each["Type"] == "AWS::DynamoDB::Table"
    }
    for model in models:
        name = model.Meta.table_name
        if name not in tables:
            yield f"{path.name}: {name}: the table is missing"
            continue
        for line in expected(model).differences(of_template(tables[name])):
            yield f"{path.name}: {name}: {line}"
    for name in tables.keys() - {model.Meta.table_name for model in models}:
        yield f"{path.name}: {name}: not among the models"
