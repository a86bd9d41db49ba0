"""R1–R4: the REST API with 16 connections, each of another user, in a closed loop."""

import secrets
from urllib.parse import urlsplit

from bench.deployment import User
from bench.figures import Figures
from bench.http_load import run_own
from bench.rest_load import CONNECTIONS, RestLoad
from bench.workloads import RunContext
from bench.wrk import is_installed, run_wrk

WARM_UP, SECONDS = 2.0, 8.0
LAST_MESSAGES, PAGE = 3, 100


async def r1_inbox(context: RunContext, *, chats: int = 40) -> Figures:
    """GET /api/chats with 16 connections: an inbox of 40 chats."""
    users = context.deployment.create_users(CONNECTIONS)
    for _ in range(chats):
        chat_id = context.deployment.create_group(users[0], users[1:])
        context.deployment.fill(chat_id, users[0].user_id, LAST_MESSAGES)
    return await _measure(context, users, [f"/api/chats?limit={chats}"] * CONNECTIONS)


async def r2_history(context: RunContext, *, messages: int = 1_000) -> Figures:
    """GET /api/chats/{id}/messages with 16 connections: a page of 100 messages."""
    users = context.deployment.create_users(CONNECTIONS)
    chat_id = context.deployment.create_group(users[0], users[1:])
    context.deployment.fill(chat_id, users[0].user_id, messages)
    return await _measure(context, users, [f"/api/chats/{chat_id}/messages?limit={PAGE}"] * CONNECTIONS)


async def r3_me(context: RunContext) -> Figures:
    """GET /api/users/me with 16 connections."""
    return await _measure(context, context.deployment.create_users(CONNECTIONS), ["/api/users/me"] * CONNECTIONS)


async def r4_send(context: RunContext) -> Figures:
    """POST /api/chats/{id}/messages with 16 connections: sends into eight direct chats."""
    users = context.deployment.create_users(CONNECTIONS)
    chats = context.deployment.create_direct_chats(list(zip(users[::2], users[1::2], strict=True)))
    paths = [f"/api/chats/{chats[number // 2]}/messages" for number in range(CONNECTIONS)]
    return await _measure(context, users, paths, sends=True)


async def _measure(context: RunContext, users: list[User], paths: list[str], *, sends: bool = False) -> Figures:
    deployment, run = context.deployment, run_wrk if is_installed() else run_own
    context.report(f"  by {'wrk' if is_installed() else 'a client in Python: wrk is not installed'}")
    base = f"http://{urlsplit(deployment.url).netloc}"
    places = list(zip([user.token for user in users], paths, strict=True))

    def load() -> RestLoad:
        return RestLoad(base, places, sends=secrets.token_hex(4) if sends else None)

    await run(load(), context.seconds(WARM_UP))
    async with deployment.measure_window() as window:
        outcome = await run(load(), context.seconds(SECONDS))
    return {**outcome.figures(window.seconds), **window.figures(outcome.requests)}
