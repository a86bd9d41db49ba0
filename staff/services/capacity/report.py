"""A plan as text."""

from collections.abc import Iterator
from dataclasses import replace

from staff.services.capacity.inputs import Demand, Measured, Prices
from staff.services.capacity.limits import NOTABLE, list_limits
from staff.services.capacity.plan import Plan

SCALES = (10_000, 1_000_000, 100_000_000)
NAME_WIDTH = 32


def describe(plan: Plan) -> str:
    """One demand, and what gives way first as it grows."""
    return "\n".join([*_describe_needs(plan), "", *_describe_costs(plan), "", *describe_growth(plan)])


def _describe_needs(plan: Plan) -> Iterator[str]:
    demand, measured = plan.demand, plan.measured
    yield f"{demand.dau:,} users a day, {demand.messages:g} messages each, chats of {demand.members:g}"
    yield from _rows(
        {
            "messages": f"{plan.average_messages:,.0f}/s on average, {plan.messages:,.0f}/s at the peak",
            "connections": f"{plan.connections:,.0f} at the peak",
            "web": f"{plan.webs:,} processes of {plan.web_mib:,.0f} MiB, one of them spare",
            "fanout": f"{plan.fanouts:,} processes, one of them spare",
            "handed to a chat's home": f"{plan.handed_share:.0%} of the messages",
            "Kafka": f"{plan.partitions:,} partitions, {plan.brokers:,} brokers, {plan.kafka_gb:,.0f} GB",
            "Redis": f"{plan.redis_gib:,.2f} GiB, {plan.redis_commands:,.0f} commands/s",
            "DynamoDB, at the peak": f"{plan.write_units:,.0f} write and {plan.read_units:,.0f} read units/s",
            "DynamoDB, stored": f"{plan.stored_gb:,.0f} GB after {demand.months:g} months",
        }
    )
    yield f"  measured: {measured.source}; a process may use {measured.core:.0%} of a core"


def _describe_costs(plan: Plan) -> Iterator[str]:
    prices, dollars = plan.prices, plan.dollars
    total = sum(dollars.values())
    yield f"Dollars a month, list prices of {prices.region}, {prices.date}, DynamoDB on demand"
    yield from _rows({name: f"{value:>12,.0f}" for name, value in dollars.items()})
    yield from _rows({"total": f"{total:>12,.0f}, {total / plan.demand.dau:.4f} a user"})


def describe_growth(plan: Plan) -> Iterator[str]:
    yield "What gives way first"
    for dau in SCALES:
        scaled = replace(plan, demand=replace(plan.demand, dau=dau))
        limits = list_limits(scaled)
        head = f"  {dau:>11,} users a day: {scaled.webs:,} web, {scaled.fanouts:,} fanout, "
        head += f"${sum(scaled.dollars.values()):,.0f} a month"
        yield head
        notable = [limit for limit in limits if limit.share >= NOTABLE]
        if not notable:
            first = limits[0]
            yield f"    nothing; nearest is {first.name}: {first.share:.0%} of {first.most:,.0f} {first.unit}"
        for limit in notable:
            yield f"    {limit.name}: {limit.share:.0%} of {limit.most:,.0f} {limit.unit}"
            yield f"      {limit.then}"


def _rows(rows: dict[str, str]) -> Iterator[str]:
    for name, value in rows.items():
        yield f"  {name:<{NAME_WIDTH}}{value}"


def make_plan(demand: Demand) -> Plan:
    return Plan(demand, Measured(), Prices())
