"""The errors of DynamoDB, with its names and its wording."""

from collections.abc import Sequence
from typing import Any

NAMESPACE = "com.amazonaws.dynamodb.v20120810#"


class DynamoDbError(Exception):
    """An error response. Its code is the name of the class unless the class sets another."""

    status = 400
    code = ""

    def __init_subclass__(cls) -> None:
        cls.code = cls.code or cls.__name__

    def body(self) -> dict[str, Any]:
        return {"__type": NAMESPACE + self.code, "message": str(self)}


class ValidationException(DynamoDbError):
    pass


class ItemValidationError(ValidationException):
    """A well-formed request that the schema of the table or the stored item does not allow.

    In a transaction it is the cancellation reason of one item; any other `ValidationException` rejects the whole
    request.
    """


class SerializationException(DynamoDbError):
    pass


class UnknownOperationException(DynamoDbError):
    pass


class ResourceNotFoundException(DynamoDbError):
    pass


class ResourceInUseException(DynamoDbError):
    pass


class IdempotentParameterMismatchException(DynamoDbError):
    pass


class InternalServerError(DynamoDbError):
    status = 500


class ConditionalCheckFailedException(DynamoDbError):
    """`item` is the stored item, if the request asks for it."""

    def __init__(self, item: Any = None) -> None:
        super().__init__("The conditional request failed")
        self.item = item

    def body(self) -> dict[str, Any]:
        return super().body() | ({} if self.item is None else {"Item": self.item})


class TransactionCanceledException(DynamoDbError):
    """`reasons` has an entry for each item of the transaction, None for an item without an error."""

    def __init__(self, reasons: Sequence[DynamoDbError | None]) -> None:
        codes = ", ".join("None" if reason is None else _code(reason) for reason in reasons)
        super().__init__(f"Transaction cancelled, please refer cancellation reasons for specific reasons [{codes}]")
        self.reasons = reasons

    def body(self) -> dict[str, Any]:
        return super().body() | {"CancellationReasons": [_reason(reason) for reason in self.reasons]}


def _code(reason: DynamoDbError) -> str:
    return "ConditionalCheckFailed" if isinstance(reason, ConditionalCheckFailedException) else "ValidationError"


def _reason(reason: DynamoDbError | None) -> dict[str, Any]:
    if reason is None:
        return {"Code": "None"}
    item = reason.item if isinstance(reason, ConditionalCheckFailedException) else None
    return {"Code": _code(reason), "Message": str(reason)} | ({} if item is None else {"Item": item})
