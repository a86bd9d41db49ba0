"""Every example of the OpenAPI document is what its schema promises."""

from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
from jsonschema import Draft202012Validator
from jsonschema.validators import extend

from foundation.rest.schema import document

DOCUMENT: dict[str, Any] = orjson.loads(document("config.urls"))


def or_null(keyword: str) -> Callable[..., Iterator[Any]]:
    """OpenAPI 3.0 writes `nullable` beside what the value is otherwise."""

    def validate(validator: Any, expected: Any, value: object, schema: dict[str, Any]) -> Iterator[Any]:
        if value is not None or not schema.get("nullable"):
            yield from Draft202012Validator.VALIDATORS[keyword](validator, expected, value, schema) or ()

    return validate


Validator = extend(Draft202012Validator, {keyword: or_null(keyword) for keyword in ("type", "allOf")})


def examples() -> Iterator[Any]:
    for operations in DOCUMENT["paths"].values():
        for operation in operations.values():
            places = {"request": operation.get("requestBody", {}), **operation["responses"]}
            for place, described in places.items():
                for content in described.get("content", {}).values():
                    for name, example in content.get("examples", {}).items():
                        about = f"{operation['operationId']} {place} {name}"
                        yield pytest.param(content["schema"], example["value"], id=about)


@pytest.mark.parametrize(("schema", "value"), list(examples()))
def test_an_example_is_valid(schema: dict[str, Any], value: object) -> None:
    Validator({**schema, "components": DOCUMENT["components"]}).validate(value)
