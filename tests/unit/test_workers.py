"""How the suites are divided among workers: what shares a system stays together, and no test is left out."""

import pytest

from tests import workers


class TestShares:
    def test_the_tests_of_a_file_stay_together(self) -> None:
        one, other = "tests/unit/test_a.py::TestA::test_one[x::y]", "tests/unit/test_a.py::test_other"
        assert workers.share_of(one) == workers.share_of(other) == "tests/unit/test_a.py"

    def test_files_on_the_shared_system_stay_together(self) -> None:
        shares = {workers.share_of(f"tests/e2e/{name}.py::test_it") for name in ("test_gateway", "test_delivery")}
        assert shares == {workers.SHARED_SYSTEM}

    def test_what_is_heavy_is_never_beside_what_is_heavy(self) -> None:
        paths = ("e2e/browser/test_client.py", "e2e/faults/test_redis_lost.py", "real/test_broker_loss.py")
        assert len({workers.share_of(f"tests/{path}::test_it") for path in paths}) == 1

    def test_every_path_that_is_named_exists(self, pytestconfig: pytest.Config) -> None:
        named = [f"tests/e2e/{name}.py" for name in workers.ON_THE_SHARED_SYSTEM]
        assert all((pytestconfig.rootpath / path).exists() for path in (*named, *workers.HEAVY))


class TestIds:
    def test_two_tests_with_one_id_end_the_run_before_it_begins(self, request: pytest.FixtureRequest) -> None:
        item: pytest.Item = request.node
        workers.tell_apart([item])
        with pytest.raises(pytest.UsageError, match="the same id"):
            workers.tell_apart([item, item])
