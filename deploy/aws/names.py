"""Names in the template, and the intrinsic functions of CloudFormation."""

from collections.abc import Sequence
from typing import Any

Resource = dict[str, Any]
Resources = dict[str, Resource]


def logical(name: str) -> str:
    """`chat_memberships` is `ChatMemberships` in the template."""
    return "".join(part.capitalize() for part in name.replace("-", "_").split("_"))


def table_id(table: str) -> str:
    return f"{logical(table)}Table"


def ref(name: str) -> dict[str, str]:
    return {"Ref": name}


def sub(text: str) -> dict[str, str]:
    return {"Fn::Sub": text}


def arn(name: str) -> dict[str, list[str]]:
    return {"Fn::GetAtt": [name, "Arn"]}


def policy(description: str, statements: list[Any]) -> Resource:
    return {
        "Type": "AWS::IAM::ManagedPolicy",
        "Properties": {
            "Description": description,
            "PolicyDocument": {"Version": "2012-10-17", "Statement": statements},
        },
    }


def allow(actions: Sequence[str], resource: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": list(actions), "Resource": resource}
