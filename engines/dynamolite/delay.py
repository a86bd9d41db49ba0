"""Answers that wait, as those of a store across a network do: for measurements."""

import re
from dataclasses import dataclass
from typing import Self

TRANSACTIONS = frozenset({"TransactWriteItems", "TransactGetItems"})
_DELAY = re.compile(r"(?P<transactions>\d+(\.\d+)?)/(?P<others>\d+(\.\d+)?)", re.ASCII)


@dataclass(frozen=True, slots=True)
class AnswerDelay:
    """Seconds from a request to its answer: of a transaction, and of any other operation."""

    transactions: float
    others: float

    @classmethod
    def parse(cls, text: str) -> Self:
        """`10/4`: milliseconds for transactions, and for others. Raises `ValueError`."""
        if (found := _DELAY.fullmatch(text)) is None:
            raise ValueError(f"{text!r} is no delay such as 10/4: milliseconds for transactions, and for others")
        return cls(float(found["transactions"]) / 1000, float(found["others"]) / 1000)

    def __str__(self) -> str:
        return f"{self.transactions * 1000:g}/{self.others * 1000:g}"

    def of(self, operation: str) -> float:
        return self.transactions if operation in TRANSACTIONS else self.others
