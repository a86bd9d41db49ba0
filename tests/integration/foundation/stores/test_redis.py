"""Many commands at once, past the client's own pipeline."""

import pytest
import redis

from foundation.stores.errors import StoreUnavailable
from foundation.stores.redis.client import RedisOptions, ask_together, connect, naming_failures


@pytest.fixture
def client(redis_client: redis.Redis) -> redis.Redis:
    """With Parley's patience, on the tests' Redis."""
    where = redis_client.connection_pool.connection_kwargs
    return connect(RedisOptions(f"redis://{where['host']}:{where['port']}/{where.get('db', 0)}"))


class TestAskingTogether:
    def test_answers_come_in_the_order_of_the_questions(self, client: redis.Redis) -> None:
        answers = ask_together(client, [("SET", "a", b"1"), ("GET", "a"), ("GET", "nothing"), ("SUNION", "b", "c")])
        assert answers == [b"OK", b"1", None, []]

    def test_a_question_that_redis_refuses_leaves_no_answer_to_the_next_who_asks(self, client: redis.Redis) -> None:
        client.set("text", "here")
        with pytest.raises(redis.ResponseError):
            ask_together(client, [("GET", "text"), ("SUNION", "text"), ("GET", "text")])
        assert ask_together(client, [("GET", "nothing")]) == [None]

    def test_a_connection_that_broke_meanwhile_is_made_anew(
        self, client: redis.Redis, redis_client: redis.Redis
    ) -> None:
        ask_together(client, [("SET", "a", b"1")])
        redis_client.client_kill_filter(_id=str(client.client_id()))
        assert ask_together(client, [("GET", "a")]) == [b"1"]

    def test_a_redis_that_is_away_is_told_as_such(self) -> None:
        nobody = connect(RedisOptions("redis://127.0.0.1:1/0"))
        with pytest.raises(StoreUnavailable), naming_failures():
            ask_together(nobody, [("GET", "a")])
