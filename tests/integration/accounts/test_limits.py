"""The token buckets: shared, on a real Redis; and those of one process, while Redis is away."""

from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
import redis.asyncio

from foundation.kernel.errors import RateLimited
from foundation.stores.errors import StoreUnavailable
from foundation.stores.redis.client import RedisOptions, connect, connect_async
from foundation.stores.redis.limits import (
    AsyncRateLimiter,
    Charge,
    FallbackRateLimiter,
    LeasingRateLimiter,
    Limit,
    LocalRateLimiter,
    RateLimiter,
    Verdict,
)
from tests.doubles import eventually

SLOW = Limit("slow", rate=0.001, burst=5)


@pytest.fixture
async def async_redis(redis_client: "redis.Redis", redis_url: str) -> AsyncIterator["redis.asyncio.Redis"]:
    client = connect_async(RedisOptions(url=redis_url))
    yield client
    await client.aclose()


@pytest.fixture
def limiter(redis_client: "redis.Redis") -> RateLimiter:
    return RateLimiter(redis_client)


class TestBuckets:
    def test_a_burst_passes_and_then_nothing(self, limiter: RateLimiter) -> None:
        verdicts = [limiter.take(SLOW, "ada") for _ in range(6)]
        assert [verdict.allowed for verdict in verdicts] == [True] * 5 + [False]
        assert 900 < verdicts[-1].retry_after <= 1000
        with pytest.raises(RateLimited) as refusal:
            verdicts[-1].require()
        assert refusal.value.retry_after == verdicts[-1].retry_after

    def test_subjects_and_limits_have_their_own_buckets(self, limiter: RateLimiter) -> None:
        assert limiter.take(SLOW, "ada", 5).allowed
        assert limiter.take(SLOW, "bob").allowed
        assert limiter.take(Limit("other", rate=0.001, burst=5), "ada").allowed
        assert not limiter.take(SLOW, "ada").allowed

    def test_it_refills_at_its_rate(self, limiter: RateLimiter) -> None:
        fast = Limit("fast", rate=1, burst=2)
        assert limiter.take(fast, "ada", 2).allowed
        refused = limiter.take(fast, "ada", 2)
        assert not refused.allowed
        assert 0 < refused.retry_after <= 2
        eventually(lambda: limiter.take(fast, "ada").allowed)

    def test_a_refusal_takes_nothing(self, limiter: RateLimiter) -> None:
        assert limiter.take(SLOW, "ada", 3).allowed
        assert not limiter.take(SLOW, "ada", 3).allowed
        assert limiter.take(SLOW, "ada", 2).allowed

    def test_a_refund_never_exceeds_the_burst(self, limiter: RateLimiter) -> None:
        limiter.take(SLOW, "ada")
        limiter.refund(SLOW, "ada", 3)
        assert limiter.take(SLOW, "ada", 5).allowed
        assert not limiter.take(SLOW, "ada").allowed

    def test_concurrent_callers_get_exactly_the_burst(self, limiter: RateLimiter) -> None:
        with ThreadPoolExecutor(16) as pool:
            verdicts = list(pool.map(lambda _: limiter.take(SLOW, "ada").allowed, range(100)))
        assert verdicts.count(True) == 5

    def test_idle_buckets_vanish_from_redis(self, limiter: RateLimiter, redis_client: "redis.Redis") -> None:
        limiter.take(Limit("fast", rate=10, burst=10), "ada", 10)
        left = redis_client.pttl("limit:fast:ada")
        assert isinstance(left, int)
        assert 0 < left <= 2100

    def test_a_wiped_redis_is_a_full_bucket(self, limiter: RateLimiter, redis_client: "redis.Redis") -> None:
        limiter.take(SLOW, "ada", 5)
        redis_client.flushall()
        redis_client.script_flush()
        assert limiter.take(SLOW, "ada", 5).allowed

    def test_without_redis_the_store_is_unavailable(self) -> None:
        nowhere = connect(RedisOptions(url="redis://127.0.0.1:1/0", connect_timeout=0.1))
        with pytest.raises(StoreUnavailable):
            RateLimiter(nowhere).take(SLOW, "ada")

    def test_several_limits_are_taken_together_or_not_at_all(self, limiter: RateLimiter) -> None:
        wide = Limit("wide", rate=0.001, burst=10)
        assert limiter.take_all([Charge(SLOW, "ada", 3), Charge(wide, "ada", 3)]).allowed
        assert not limiter.take_all([Charge(SLOW, "ada", 3), Charge(wide, "ada", 3)]).allowed
        assert limiter.take(wide, "ada", 7).allowed


class Now:
    """A monotonic clock that tests set."""

    def __init__(self) -> None:
        self.seconds = 1.0

    def __call__(self) -> float:
        return self.seconds


class TestLocalBuckets:
    def test_a_burst_passes_and_the_bucket_refills(self) -> None:
        now = Now()
        limiter = LocalRateLimiter(monotonic=now)
        charge = [Charge(Limit("fast", rate=2, burst=4), "ada")]
        assert [limiter.take_all(charge).allowed for _ in range(5)] == [True] * 4 + [False]
        assert limiter.take_all(charge).retry_after == 0.5
        now.seconds += 1
        assert [limiter.take_all(charge).allowed for _ in range(3)] == [True, True, False]

    def test_several_limits_are_taken_together_or_not_at_all(self) -> None:
        limiter = LocalRateLimiter()
        wide = Limit("wide", rate=0.001, burst=10)
        assert not limiter.take_all([Charge(SLOW, "ada", 6), Charge(wide, "ada", 6)]).allowed
        assert limiter.take_all([Charge(wide, "ada", 10)]).allowed

    def test_the_memory_is_bounded(self) -> None:
        limiter = LocalRateLimiter(capacity=10)
        for number in range(50):
            limiter.take_all([Charge(SLOW, f"user {number}")])
        assert len(limiter._buckets) == 10


class BrokenRedis(AsyncRateLimiter):
    """Counts the requests that reach it. Raises while `away`."""

    def __init__(self, client: "redis.asyncio.Redis") -> None:
        super().__init__(client)
        self.away = True
        self.requests = 0

    async def take_all(self, charges: Sequence[Charge]) -> Verdict:
        self.requests += 1
        if self.away:
            raise StoreUnavailable("no Redis")
        return await super().take_all(charges)


class TestFallback:
    async def test_without_redis_a_user_has_the_limit_of_this_process(self, async_redis: "redis.asyncio.Redis") -> None:
        limiter = FallbackRateLimiter(BrokenRedis(async_redis))
        verdicts = [(await limiter.take_all([Charge(SLOW, "ada")])).allowed for _ in range(6)]
        assert verdicts == [True] * 5 + [False]
        assert (await limiter.take_all([Charge(SLOW, "bob")])).allowed

    async def test_while_redis_is_away_one_request_a_second_waits_for_it(
        self, async_redis: "redis.asyncio.Redis"
    ) -> None:
        now, shared = Now(), BrokenRedis(async_redis)
        limiter = FallbackRateLimiter(shared, monotonic=now)
        for _ in range(5):
            await limiter.take_all([Charge(SLOW, "ada")])
        assert shared.requests == 1
        now.seconds += 1
        for _ in range(5):
            await limiter.take_all([Charge(SLOW, "ada")])
        assert shared.requests == 2

    async def test_when_redis_is_back_the_limit_is_shared_again(self, async_redis: "redis.asyncio.Redis") -> None:
        now, shared = Now(), BrokenRedis(async_redis)
        limiter = FallbackRateLimiter(shared, monotonic=now)
        await limiter.take_all([Charge(SLOW, "ada", 5)])
        shared.away = False
        now.seconds += 1
        assert (await limiter.take_all([Charge(SLOW, "ada", 5)])).allowed
        assert not (await AsyncRateLimiter(async_redis).take_all([Charge(SLOW, "ada")])).allowed


class CountingLimiter(AsyncRateLimiter):
    """Counts the requests that reach Redis."""

    requests = 0

    async def take_all(self, charges: Sequence[Charge]) -> Verdict:
        self.requests += 1
        return await super().take_all(charges)


class TestLeases:
    FAST = Limit("fast", rate=1000, burst=1000)

    async def test_a_busy_subject_asks_redis_once_for_many(self, async_redis: "redis.asyncio.Redis") -> None:
        shared = CountingLimiter(async_redis)
        limiter = LeasingRateLimiter(shared, monotonic=Now())
        verdicts = [await limiter.take_all([Charge(self.FAST, "ada")]) for _ in range(30)]
        assert all(verdict.allowed for verdict in verdicts)
        assert shared.requests == 3

    async def test_tokens_that_are_not_used_in_a_second_are_lost(self, async_redis: "redis.asyncio.Redis") -> None:
        now, shared = Now(), CountingLimiter(async_redis)
        limiter = LeasingRateLimiter(shared, monotonic=now)
        await limiter.take_all([Charge(self.FAST, "ada")])
        now.seconds += 1
        await limiter.take_all([Charge(self.FAST, "ada")])
        assert shared.requests == 2

    async def test_the_last_tokens_are_given_one_by_one(self, async_redis: "redis.asyncio.Redis") -> None:
        shared = CountingLimiter(async_redis)
        nearly = Limit("nearly", rate=1000, burst=4)
        limiter = LeasingRateLimiter(shared, monotonic=Now())
        verdicts = [(await limiter.take_all([Charge(nearly, "ada")])).allowed for _ in range(4)]
        assert verdicts == [True] * 4

    async def test_rare_limits_large_costs_and_several_at_once_are_exact(
        self, async_redis: "redis.asyncio.Redis"
    ) -> None:
        limiter = LeasingRateLimiter(AsyncRateLimiter(async_redis), monotonic=Now())
        assert [(await limiter.take_all([Charge(SLOW, "ada")])).allowed for _ in range(6)] == [True] * 5 + [False]
        assert not (await limiter.take_all([Charge(self.FAST, "bob", 1001)])).allowed
        assert not (await limiter.take_all([Charge(self.FAST, "cy"), Charge(SLOW, "ada")])).allowed
