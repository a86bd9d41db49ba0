"""Each page of `docs/runbooks` except those of DynamoDB, which are in files of their own."""

import asyncio
import secrets
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from foundation.kernel.clock import to_iso
from foundation.kernel.events import MESSAGES_PERSISTED, Event
from foundation.stores.kafka import EventConsumer, KafkaOptions
from messaging.models import IdempotencyKeyModel
from tests.doubles import eventually
from tests.e2e import sockets
from tests.e2e.drills.crashes import store_past_kafka, wait_until_missing
from tests.e2e.drills.runbook import SECTIONS, Outcome, Runbook
from tests.e2e.sockets import opened
from tests.e2e.system import Device, System

REFUSED, FOUND, COULD_NOT_LOOK = 401, 1, 2


def require(outcomes: list[Outcome], *codes: int) -> None:
    for outcome in outcomes:
        assert outcome.code in codes, outcome


def test_every_page_has_the_same_sections(pages: list[Path]) -> None:
    assert len(pages) == 10
    for page in pages:
        text = page.read_text()
        assert [text.count(f"\n## {section}\n") for section in SECTIONS] == [1] * len(SECTIONS), page.name


@pytest.fixture
def pair(drilled: System) -> tuple[Device, Device]:
    ada, bob = drilled.users(2)
    return ada, bob


async def test_redis_is_lost(
    drilled: System, pair: tuple[Device, Device], record_property: Callable[[str, object], None]
) -> None:
    ada, bob = pair
    chat = drilled.direct_chat(ada, bob)
    book = Runbook("redis-loss", drilled.environment)
    async with opened(drilled.webs[0], ada) as sending, opened(drilled.webs[1], bob) as receiving:
        drilled.redis.kill()
        (checked,) = await asyncio.to_thread(book.run, "Check")
        assert checked.code == COULD_NOT_LOOK
        assert "Redis" in checked.output
        await sending.send(chat, "without Redis")
        drilled.redis.start()
        drilled.redis.wait_until_ready()
        started = time.monotonic()
        await receiving.receive("resync", within=20)
        page = await receiving.sync(chat)
        assert [message["content"] for message in page["messages"]] == ["without Redis"]
        seconds = time.monotonic() - started
        record_property("recovery", f"Redis lost: clients were current {seconds:.1f} s after it was back")
        checked, listed, compared = await asyncio.to_thread(book.run, "Over when")
        assert "Redis" not in checked.output
        assert listed.output.count("1 connections") == 2, listed
        require([compared], 0)


async def test_kafka_is_unreachable(drilled: System, pair: tuple[Device, Device]) -> None:
    ada, bob = pair
    chat = drilled.direct_chat(ada, bob)
    book = Runbook("kafka-outage", drilled.environment)
    async with opened(drilled.webs[1], bob) as receiving:
        async with opened(drilled.webs[0], ada) as sending:
            await sending.send(chat, "before")
            await receiving.receive("message")
            drilled.kafka.take_down()
            (checked,) = await asyncio.to_thread(book.run, "Check")
            assert checked.code == COULD_NOT_LOOK
            assert "Kafka" in checked.output
            identifier = str(uuid.uuid4())
            await sending.write("send_message", client_message_id=identifier, chat_id=chat, content="lost")
            await sockets.eventually(lambda: len(drilled.stored(chat)) == 2)
            # The event was queued in this process.
            drilled.webs[0].kill()
        drilled.kafka.bring_up()
        drilled.webs[0].restart()
        drilled.webs[0].wait_until_ready()
        wait_until_missing(drilled.stored(chat)[-1])
        require(await asyncio.to_thread(book.run, "Commands"), 0)
        await receiving.receive_until(lambda: receiving.messages[-1]["content"] == "lost", within=30)
        reconciled, progress = await asyncio.to_thread(book.run, "Over when")
        require([reconciled, progress], 0)
        assert "Nothing is missing" in reconciled.output


async def test_a_derived_state_is_rebuilt(
    drilled: System, pair: tuple[Device, Device], record_property: Callable[[str, object], None]
) -> None:
    ada, bob = pair
    chat, group = drilled.direct_chat(ada, bob), f"search-{uuid.uuid4()}"
    async with opened(drilled.webs[0], ada) as sending:
        for number in range(20):
            await sending.send(chat, f"text {number}")
    options = KafkaOptions(bootstrap_servers=drilled.kafka.endpoint, session_timeout_ms=6000)
    expected = {message.sequence: message.content for message in drilled.stored(chat)}
    assert await asyncio.to_thread(consumed, options, group, chat, len(expected)) == expected
    book = Runbook("rebuild-derived-state", drilled.environment, GROUP=group)
    require(book.run("Check"), 0)
    require(book.run("Commands"), 0)
    started = time.monotonic()
    assert await asyncio.to_thread(consumed, options, group, chat, len(expected)) == expected
    seconds = time.monotonic() - started
    record_property("recovery", f"Kafka replayed from the beginning: {seconds:.1f} s until the state was rebuilt")
    (over,) = book.run("Over when")
    require([over], 0)


def consumed(options: KafkaOptions, group: str, chat: str, count: int) -> dict[int, str]:
    """Read the log as a member of a group until the chat's events are there; commit; leave."""
    consumer = EventConsumer(options, group=group, topics=[MESSAGES_PERSISTED])
    index: dict[int, str] = {}

    def is_complete() -> bool:
        records = consumer.read(timeout=0.1)
        payloads = [Event.decode(each.value).payload for each in records if each.key == chat]
        index.update({payload["sequence"]: payload["content"] for payload in payloads})
        if records:
            consumer.store_offsets(records)
        return len(index) >= count

    eventually(is_complete, within=30)
    consumer.close()
    return index


async def test_dynamodb_and_kafka_differ(drilled: System, pair: tuple[Device, Device]) -> None:
    ada, bob = pair
    chat = drilled.direct_chat(ada, bob)
    book = Runbook("divergence", drilled.environment, CHAT_ID=chat)
    async with opened(drilled.webs[0], ada) as sending, opened(drilled.webs[1], bob) as receiving:
        await sending.send(chat, "first")
        await receiving.receive("message")
        lost = store_past_kafka(drilled, chat, ada, "past Kafka")
        key = {"chat_id": {"S": chat}, "client_message_id": {"S": lost.client_message_id}}
        table = drilled.database.table_name(IdempotencyKeyModel)
        drilled.database.call("DeleteItem", {"TableName": table, "Key": key})
        wait_until_missing(lost)
        reconciled, audited = await asyncio.to_thread(book.run, "Check")
        assert (reconciled.code, audited.code) == (FOUND, FOUND)
        assert "missing" in reconciled.output
        assert "key_missing" in audited.output
        require(await asyncio.to_thread(book.run, "Commands"), 0)
        await receiving.receive_until(lambda: receiving.messages[-1]["content"] == "past Kafka", within=30)
        require(await asyncio.to_thread(book.run, "Over when"), 0)


async def test_one_chat_is_hot(drilled: System, pair: tuple[Device, Device]) -> None:
    ada, bob = pair
    hot, quiet = drilled.direct_chat(ada, bob), drilled.group(bob, [ada])
    book = Runbook("hot-chat", drilled.environment, CHAT_ID=hot)
    async with opened(drilled.webs[0], ada) as flooding, opened(drilled.webs[1], bob) as other:
        for number in range(300):
            await flooding.write("send_message", client_message_id=f"id-{number}", chat_id=hot, content=str(number))
        assert (await other.send(quiet, "hello"))["sequence"] == 1
        for section in ("Check", "Commands", "Over when"):
            require(await asyncio.to_thread(book.run, section), 0)
        await sockets.eventually(lambda: len(drilled.stored(hot)) == 300)


async def test_a_consumer_is_stuck(drilled: System, pair: tuple[Device, Device]) -> None:
    ada, bob = pair
    chat, (fanout,) = drilled.direct_chat(ada, bob), drilled.fanouts
    names = {"TIME": to_iso(datetime.now(UTC) + timedelta(hours=1))}
    book = Runbook("stuck-consumer", drilled.environment, **names)
    async with opened(drilled.webs[0], ada) as sending, opened(drilled.webs[1], bob) as receiving:
        await sending.send(chat, "delivered")
        await receiving.receive("message")
        fanout.freeze()
        await sending.send(chat, "stuck")
        (checked,) = await asyncio.to_thread(book.run, "Check")
        assert not is_current(checked), checked
        fanout.kill()
        # The group loses the member when its session has expired.
        await asyncio.to_thread(eventually, lambda: book.run("Commands")[0].code == 0, within=60)
        fanout.restart()
        await sending.send(chat, "goes on")
        await receiving.receive_until(lambda: receiving.messages[-1]["content"] == "goes on", within=30)
        await asyncio.to_thread(eventually, lambda: is_current(book.run("Over when")[0]), within=30)


def is_current(outcome: Outcome) -> bool:
    rows = [line for line in outcome.output.splitlines() if " behind " in line]
    return bool(rows) and all(", 0 behind" in row for row in rows)


async def test_a_process_is_ill(drilled: System, pair: tuple[Device, Device]) -> None:
    ada, _ = pair
    async with opened(drilled.webs[0], ada) as leaving:
        gateway = leaving.frames[0]["connection_id"].partition(".")[0]
        book = Runbook("process-down", drilled.environment, GATEWAY=gateway)
        checked, listed = await asyncio.to_thread(book.run, "Check")
        assert checked.code in {0, FOUND}
        assert f"{gateway}  1 connections" in listed.output
        require(await asyncio.to_thread(book.run, "Commands"), 0)
        assert await leaving.closed_with() == 1012
    listed, compared = await asyncio.to_thread(book.run, "Over when")
    assert f"{gateway}  1 connections" not in listed.output
    require([compared], 0)
    require([await asyncio.to_thread(book.execute, f"python manage.py drain {gateway} --undo --yes --reason drill")], 0)


def test_a_key_is_lost(drilled: System) -> None:
    book = Runbook("lost-key", drilled.environment)
    require(book.run("Check"), FOUND)
    (made,) = book.run("Commands")
    before, number = drilled.webs[0].url, "+4915199887766"
    httpx.post(f"{before}/api/auth/request-code", json={"phone_number": number}).raise_for_status()
    code = drilled.code_for(number)
    body = {"phone_number": number, "code": code, "device_id": "phone"}
    login = httpx.post(f"{before}/api/auth/verify", json=body).raise_for_status().json()
    after = drilled.start_web(JWT_KEYS=f"new:{made.output.strip()}")
    try:
        old = {"Authorization": f"Bearer {login['access_token']}"}
        assert httpx.get(f"{after.url}/api/users/me", headers=old).status_code == REFUSED
        fresh = httpx.post(f"{after.url}/api/auth/refresh", json={"refresh_token": login["refresh_token"]})
        new = {"Authorization": f"Bearer {fresh.raise_for_status().json()['access_token']}"}
        assert httpx.get(f"{after.url}/api/users/me", headers=new).is_success
    finally:
        after.kill()
        drilled.webs.remove(after)
    require(book.run("Over when"), FOUND)
    assert len(made.output.strip()) >= len(secrets.token_urlsafe(48))
