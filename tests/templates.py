"""The templates of `deploy/aws` as AWS reads them: policies with real ARNs that allow or not, short forms in full."""

import json
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import yaml

from deploy.aws import data

PREFIX = "prod_"
PARTITION, REGION, ACCOUNT = "aws-us-gov", "us-gov-west-1", "123456789012"
CLUSTER = "parley-kafka"
TABLES = f"arn:{PARTITION}:dynamodb:{REGION}:{ACCOUNT}:table"
KAFKA = f"arn:{PARTITION}:kafka:{REGION}:{ACCOUNT}"

SERVICES = data.PATH.with_name("services.yaml")

Statement = Mapping[str, Any]


def data_template() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(data.PATH.read_text())
    return document


def services_template() -> dict[str, Any]:
    """With `Fn::ImportValue` for `!ImportValue`, and so on."""
    document: dict[str, Any] = yaml.load(SERVICES.read_text(), Loader=_ShortForms)
    return document


class _ShortForms(yaml.SafeLoader):
    pass


def _written_out(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    value: Any
    match node:
        case yaml.ScalarNode():
            value = loader.construct_scalar(node)
        case yaml.SequenceNode():
            value = loader.construct_sequence(node, deep=True)
        case yaml.MappingNode():
            value = loader.construct_mapping(node, deep=True)
    if suffix == "GetAtt":
        value = value.split(".", 1)
    return {suffix if suffix in {"Ref", "Condition"} else f"Fn::{suffix}": value}


_ShortForms.add_multi_constructor("!", _written_out)


class Policies:
    """Those of one process."""

    def __init__(self, *names: str) -> None:
        self._resources = data_template()["Resources"]
        self.statements: list[Statement] = []
        for name in names:
            self.statements += self._resolved(self._resources[name]["Properties"]["PolicyDocument"]["Statement"])

    def allow(self, action: str, resource: str) -> bool:
        effects = {each["Effect"] for each in self.statements if _is_about(each, action, resource)}
        return effects == {"Allow"}

    @property
    def size(self) -> int:
        """As AWS counts: without white space."""
        document = {"Version": "2012-10-17", "Statement": self.statements}
        return len(json.dumps(document, separators=(",", ":")))

    def _resolved(self, value: Any) -> Any:
        match value:
            case {"Ref": name}:
                return self._value(name)
            case {"Fn::Sub": text}:
                return re.sub(r"\$\{([^}]+)\}", lambda found: self._value(found[1]), text)
            case {"Fn::GetAtt": [name, "Arn"]}:
                return self._value(f"{name}.Arn")
            case dict():
                return {key: self._resolved(each) for key, each in value.items()}
            case list():
                return [self._resolved(each) for each in value]
        return value

    def _value(self, name: str) -> str:
        if name.endswith(".Arn"):
            table = self._resources[name.removesuffix(".Arn")]["Properties"]["TableName"]
            return f"{TABLES}/{self._resolved(table)}"
        return {
            "AWS::Partition": PARTITION,
            "AWS::Region": REGION,
            "AWS::AccountId": ACCOUNT,
            "TablePrefix": PREFIX,
            "KafkaClusterName": CLUSTER,
        }[name]


def _is_about(statement: Statement, action: str, resource: str) -> bool:
    if not any(fnmatchcase(action, each) for each in statement["Action"]):
        return False
    named = statement.get("Resource", statement.get("NotResource"))
    is_named = any(fnmatchcase(resource, each) for each in (named if isinstance(named, list) else [named]))
    return is_named == ("Resource" in statement)
