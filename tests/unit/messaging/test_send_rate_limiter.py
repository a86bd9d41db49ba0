"""How fast one user may send."""

import pytest

from foundation.kernel.errors import RateLimited
from foundation.kernel.ids import UserId
from messaging.services.committer import SendRateLimiter

ANN, BOB = UserId("user_ann"), UserId("user_bob")


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class TestSendRateLimiter:
    def test_a_burst_passes_and_the_next_does_not(self) -> None:
        limiter = SendRateLimiter(rate=10, burst=3, monotonic=Time())
        for _ in range(3):
            limiter.take(ANN)
        with pytest.raises(RateLimited) as refused:
            limiter.take(ANN)
        assert refused.value.retry_after == pytest.approx(0.1)

    def test_users_do_not_share(self) -> None:
        limiter = SendRateLimiter(rate=10, burst=1, monotonic=Time())
        limiter.take(ANN)
        limiter.take(BOB)
        with pytest.raises(RateLimited):
            limiter.take(BOB)

    def test_it_refills_with_time_and_up_to_the_burst(self) -> None:
        time = Time()
        limiter = SendRateLimiter(rate=10, burst=2, monotonic=time)
        for _ in range(2):
            limiter.take(ANN)
        time.now = 0.1
        limiter.take(ANN)
        with pytest.raises(RateLimited):
            limiter.take(ANN)
        time.now = 1000.0
        for _ in range(2):
            limiter.take(ANN)
        with pytest.raises(RateLimited):
            limiter.take(ANN)
