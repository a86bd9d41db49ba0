"""What DynamoDB answers instead of a result. The names and the wording are its own."""

from collections.abc import Sequence
from typing import Any

NAMESPACE = "com.amazonaws.dynamodb.v20120810#"


class Refusal(Exception):
    """A request that is not carried out. The class's name is DynamoDB's code, unless it says otherwise."""

    status = 400
    code = ""

    def __init_subclass__(cls) -> None:
        cls.code = cls.code or cls.__name__

    def details(self) -> dict[str, Any]:
        return {"__type": NAMESPACE + self.code, "message": str(self)}


class ValidationException(Refusal):
    pass


class Misfit(ValidationException):
    """A request that is well-formed and does not fit the table or the item that it meets.

    Inside of a transaction it is the reason of one item; any other `ValidationException` refuses the whole request.
    """


class SerializationException(Refusal):
    pass


class UnknownOperationException(Refusal):
    pass


class ResourceNotFoundException(Refusal):
    pass


class ResourceInUseException(Refusal):
    pass


class IdempotentParameterMismatchException(Refusal):
    pass


class InternalServerError(Refusal):
    status = 500


class ConditionalCheckFailedException(Refusal):
    """`item` is the one that stood in the way, where the request asks to see it."""

    def __init__(self, item: Any = None) -> None:
        super().__init__("The conditional request failed")
        self.item = item

    def details(self) -> dict[str, Any]:
        return super().details() | ({} if self.item is None else {"Item": self.item})


class TransactionCanceledException(Refusal):
    """`reasons` has an entry for each item of the transaction, None where it was not the cause."""

    def __init__(self, reasons: Sequence[Refusal | None]) -> None:
        codes = ", ".join("None" if reason is None else _code(reason) for reason in reasons)
        super().__init__(f"Transaction cancelled, please refer cancellation reasons for specific reasons [{codes}]")
        self.reasons = reasons

    def details(self) -> dict[str, Any]:
        return super().details() | {"CancellationReasons": [_reason(reason) for reason in self.reasons]}


def _code(reason: Refusal) -> str:
    return "ConditionalCheckFailed" if isinstance(reason, ConditionalCheckFailedException) else "ValidationError"


def _reason(reason: Refusal | None) -> dict[str, Any]:
    if reason is None:
        return {"Code": "None"}
    item = reason.item if isinstance(reason, ConditionalCheckFailedException) else None
    return {"Code": _code(reason), "Message": str(reason)} | ({} if item is None else {"Item": item})
