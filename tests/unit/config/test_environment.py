import pytest

from config.settings.capacity import TABLES as CAPACITY_TABLES
from config.settings.capacity import table_capacity
from config.settings.edges import trusted_proxies
from config.settings.environment import Environment, SettingsRefused
from config.wiring.commands import TABLES


class TestEnvironment:
    def test_all_problems_are_refused_together_and_once(self) -> None:
        env = Environment({"RATE": "fast", "SIZE": "1.5"})
        for _ in range(2):
            assert env.number("RATE", 7) == 7
            assert env.whole("SIZE", 3) == 1
        with pytest.raises(SettingsRefused) as refused:
            env.require_no_problem()
        assert str(refused.value).splitlines() == [
            "RATE must be a number of 0 or more, not 'fast'.",
            "SIZE must be a whole number, not 1.5.",
        ]

    def test_no_problem_is_no_error(self) -> None:
        env = Environment({"RATE": " 2.5 ", "BLANK": " , "})
        assert (env.number("RATE", 7), env.text("BLANK", "default")) == (2.5, "default")
        assert env.numbers == {"RATE": 2.5}
        env.require_no_problem()

    def test_the_first_key_comes_first(self) -> None:
        env = Environment({})
        ring = env.key_ring("JWT_KEYS", f"new:{'n' * 32}, old:{'o' * 32}")
        assert list(ring.items()) == [("new", "n" * 32), ("old", "o" * 32)]
        env.require_no_problem()

    def test_a_sentence_about_a_url_does_not_repeat_its_password(self) -> None:
        env = Environment({"REDIS_URL": "http://:hunter2@redis"})
        env.url("REDIS_URL", ("redis", "rediss"))
        assert env.problems == ["REDIS_URL must begin with redis:// or rediss://."]


class TestTableCapacity:
    def test_it_names_units_or_on_demand(self) -> None:
        env = Environment({"TABLE_CAPACITY": "users:40/10, chats:on-demand"})
        assert table_capacity(env) == {"users": (40, 10), "chats": None}

    def test_it_knows_every_table(self) -> None:
        assert set(CAPACITY_TABLES) == {table.Meta.table_name for table in TABLES}


class TestTrustedProxies:
    @pytest.mark.parametrize(("value", "networks"), [("none", []), ("10.0.0.0/8, ::1", ["10.0.0.0/8", "::1"])])
    def test_networks_or_none(self, value: str, networks: list[str]) -> None:
        assert trusted_proxies(Environment({"TRUSTED_PROXIES": value})) == networks
