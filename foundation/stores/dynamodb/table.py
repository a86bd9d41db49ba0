"""What ADR-007 decides about a table beyond PynamoDB's own vocabulary."""

from typing import ClassVar

from pynamodb.models import Model

ON_DEMAND = "PAY_PER_REQUEST"
PROVISIONED = "PROVISIONED"


class Table(Model):
    """Base of the eight models. Carries no logic: `Database` does the talking."""

    class Meta:
        table_name = ""
        billing_mode = ON_DEMAND

    point_in_time_recovery: ClassVar[bool] = True
