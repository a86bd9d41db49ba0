"""What a number of users needs and costs, and what gives way first."""

import io
from dataclasses import replace
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from engines.processes import PROJECT_ROOT
from staff.services.capacity.inputs import Demand, Measured, Prices
from staff.services.capacity.limits import list_limits
from staff.services.capacity.plan import Plan
from staff.services.capacity.report import describe, make_plan


def plan(**demand: Any) -> Plan:
    return make_plan(Demand(**demand))


class TestProcesses:
    def test_rates_are_those_of_the_busiest_second(self) -> None:
        assert plan(dau=86_400, messages=10, peak=2).messages == pytest.approx(20)

    def test_there_are_as_many_as_the_connections_need_and_a_spare_one(self) -> None:
        assert plan(dau=100_000, online=1, messages=1).webs == 11

    def test_there_are_as_many_as_the_messages_need_and_a_spare_one(self) -> None:
        measured = replace(Measured(), web_ms=0.6, handed_ms=0.4, fanout_ms=0.5, core=0.5)
        needed = Plan(Demand(dau=86_400, messages=5_000, peak=1, online=0.01), measured, Prices())
        assert (needed.webs, needed.fanouts) == (11, 6)

    def test_a_few_users_still_have_two_of_each(self) -> None:
        assert (plan(dau=1).webs, plan(dau=1).fanouts) == (2, 2)

    def test_there_are_partitions_for_more_fanout_processes_and_brokers_for_three_replicas(self) -> None:
        small, large = plan(dau=1), plan(dau=100_000_000)
        assert (small.partitions, small.brokers) == (12, 3)
        assert large.partitions >= 3 * large.fanouts
        assert large.brokers > 3


class TestRedis:
    def test_a_message_that_is_handed_over_costs_two_commands_more(self) -> None:
        usual = plan(dau=1_000_000)
        without = replace(usual, measured=replace(usual.measured, handed_redis_commands=0.0))
        assert usual.redis_commands - without.redis_commands == pytest.approx(2 * usual.messages * usual.handed_share)


class TestDynamoDB:
    def test_a_message_alone_costs_its_item_its_key_and_the_counter_in_a_transaction(self) -> None:
        assert plan().message_units == 6
        assert plan(content=1_000).message_units == 8

    def test_a_user_who_does_nothing_but_send_to_himself_costs_his_messages(self) -> None:
        alone = plan(dau=1, messages=1_000, members=1, visits=1e-9)
        assert alone.daily_writes == pytest.approx(6_000)

    def test_a_mark_costs_one_write_unit_and_two_strong_reads(self) -> None:
        few, many = (plan(dau=1, messages=100, members=5, online=online) for online in (0.5, 1.0))
        assert many.daily_marks - few.daily_marks == pytest.approx(100 * 2)
        assert many.daily_writes - few.daily_writes == pytest.approx(100 * 2)
        assert many.daily_reads - few.daily_reads == pytest.approx(100 * 2 * 2)

    def test_a_visit_marks_each_chat_with_news_as_received_and_as_read(self) -> None:
        assert plan(dau=1, members=1, visits=10, news=3).daily_marks == pytest.approx(10 * 3 * 2)

    def test_storage_grows_with_the_months(self) -> None:
        assert plan(months=24).stored_gb == pytest.approx(2 * plan(months=12).stored_gb, rel=0.03)

    def test_dollars_follow_the_prices(self) -> None:
        usual = plan()
        dear = replace(usual, prices=replace(Prices(), million_writes=2 * Prices().million_writes, million_reads=0.25))
        assert dear.dollars["DynamoDB requests"] == pytest.approx(2 * usual.dollars["DynamoDB requests"])


class TestLimits:
    def test_ten_thousand_users_come_near_no_limit(self) -> None:
        assert all(limit.share < 0.5 for limit in list_limits(plan(dau=10_000)))

    def test_a_million_users_come_near_the_one_redis_server_first(self) -> None:
        assert list_limits(plan(dau=1_000_000))[0].name == "one Redis server"

    def test_a_hundred_million_users_need_more_than_one_of_everything(self) -> None:
        over = {limit.name for limit in list_limits(plan(dau=100_000_000)) if limit.share > 1}
        assert {"one Redis server", "the list of homes", "DynamoDB's quota for a table"} <= over

    def test_a_hot_chat_comes_near_its_partition_whatever_the_number_of_users(self) -> None:
        assert list_limits(plan(dau=1_000, hottest=600))[0].name == "the partition of the hottest chat"
        assert list_limits(plan(dau=1_000, hottest=600))[0].share > 1


class TestTheCommand:
    def test_it_prints_the_plan_of_its_options(self) -> None:
        output = io.StringIO()
        call_command("capacity", "--dau", "5000", "--messages", "20", stdout=output)
        assert output.getvalue().strip() == describe(plan(dau=5_000, messages=20))
        assert output.getvalue().startswith("5,000 users a day, 20 messages each, chats of 5")

    @pytest.mark.parametrize("number", ["0", "-1", "many", "1.5", "nan"])
    def test_a_number_that_makes_no_sense_is_refused(self, number: str) -> None:
        with pytest.raises(CommandError, match="argument --dau"):
            call_command("capacity", "--dau", number)

    def test_the_page_shows_what_it_prints(self) -> None:
        assert describe(make_plan(Demand())) in (PROJECT_ROOT / "docs" / "scale.md").read_text()
