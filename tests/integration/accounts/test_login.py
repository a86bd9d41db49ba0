"""Login by phone, over REST, on real engines."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier, local
from typing import Any

import pytest

from accounts.models import UserModel
from accounts.services.guard import LoginPolicy
from accounts.services.login import LoginAttempt
from accounts.services.registration import Registration
from accounts.stores.users import UserStore
from foundation.kernel.errors import ParleyError
from foundation.kernel.ids import IdFactory, UserId
from foundation.stores.dynamodb import Database
from foundation.stores.errors import StoreUnavailable
from foundation.stores.redis.limits import Limit
from tests.doubles import eventually
from tests.integration.accounts.conftest import ADA, BOB, App


def at_once(count: int, call: Callable[[int], object]) -> list[object]:
    """Run the calls in as many threads, released together; failures are results too."""
    barrier = Barrier(count)

    def run(number: int) -> object:
        barrier.wait()
        try:
            return call(number)
        except ParleyError as error:
            return error.code

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


class TestRequestCode:
    def test_it_sends_six_digits_and_says_how_long_they_last(self, app: App) -> None:
        answer = app.post("/api/auth/request-code", {"phone_number": ADA})
        assert answer.status_code == 202
        assert answer.json() == {"login_id": answer.json()["login_id"], "expires_in": 300, "resend_after": 30}
        [message] = app.sms.messages
        assert message.to == ADA
        assert message.code in message.body
        assert message.code.isdigit()
        assert len(message.code) == 6

    def test_the_answer_is_the_same_for_a_known_and_an_unknown_number(self, app: App) -> None:
        app.log_in(ADA)
        known = app.post("/api/auth/request-code", {"phone_number": ADA})
        unknown = app.post("/api/auth/request-code", {"phone_number": BOB})
        assert known.status_code == unknown.status_code
        assert {**known.json(), "login_id": ""} == {**unknown.json(), "login_id": ""}
        assert len(known.json()["login_id"]) == len(unknown.json()["login_id"])

    def test_no_user_is_read_so_the_timing_cannot_tell_either(
        self, app: App, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(database.on_loop.wire, "call", _refuse)
        assert app.post("/api/auth/request-code", {"phone_number": ADA}).status_code == 202

    def test_a_second_code_must_wait(self, app: App) -> None:
        app.code()
        answer = app.post("/api/auth/request-code", {"phone_number": ADA})
        assert answer.status_code == 429
        assert answer.json()["code"] == "rate_limited"
        assert 1 <= int(answer["Retry-After"]) <= 30

    def test_of_many_requests_at_once_one_is_sent(self, app: App) -> None:
        at_once(20, lambda _: app.accounts.login.request_code(phone_number=ADA, address="127.0.0.1"))
        assert len(app.sms.messages) == 1

    def test_a_failing_sender_is_a_503_and_uses_nothing_up(self, app: App) -> None:
        app.sms.failing = True
        for _ in range(15):
            answer = app.post("/api/auth/request-code", {"phone_number": ADA})
            assert (answer.status_code, answer.json()["code"]) == (503, "sms_unavailable")
            assert int(answer["Retry-After"]) >= 1
        app.sms.failing = False
        assert app.post("/api/auth/request-code", {"phone_number": ADA}).status_code == 202

    def test_a_new_code_replaces_the_old(self, app: App) -> None:
        old = app.code()
        _end_pause(app)
        new = app.code()
        if old == new:
            pytest.fail("one in a million: the same code twice")
        body = {"phone_number": ADA, "device_id": "laptop"}
        assert app.post("/api/auth/verify", {**body, "code": old}).json()["code"] == "invalid_code"
        assert app.post("/api/auth/verify", {**body, "code": new}).status_code == 201


class TestLimits:
    @pytest.fixture
    def policy(self) -> LoginPolicy:
        return LoginPolicy(
            resend_after=0.01,
            codes_per_number=Limit("login-number", rate=0.001, burst=2),
            codes_per_address=Limit("login-address", rate=0.001, burst=3),
            attempts_per_address=Limit("login-attempt", rate=0.001, burst=3),
        )

    @pytest.fixture
    def loopback_is_free(self) -> bool:
        return False

    def _request(self, app: App, number: str, **extra: str) -> int:
        return int(app.post("/api/auth/request-code", {"phone_number": number}, **extra).status_code)

    def _is_sent(self, app: App, address: str) -> bool:
        return self._request(app, ADA, REMOTE_ADDR=address) == 202

    def test_a_number_gets_a_few_codes_an_hour_from_anywhere(self, app: App) -> None:
        for place in range(2):
            eventually(partial(self._is_sent, app, f"192.0.2.{place}"))
        assert self._request(app, ADA, REMOTE_ADDR="192.0.2.99") == 429
        assert self._request(app, BOB, REMOTE_ADDR="192.0.2.99") == 202

    def test_an_address_asks_for_a_few_codes_an_hour_for_any_numbers(self, app: App) -> None:
        numbers = [f"+1415555010{digit}" for digit in range(4)]
        answers = [self._request(app, number, REMOTE_ADDR="192.0.2.7") for number in numbers]
        assert answers == [202, 202, 202, 429]
        assert self._request(app, numbers[3], REMOTE_ADDR="192.0.2.8") == 202

    def test_addresses_of_one_ipv6_network_count_as_one(self, app: App) -> None:
        answers = [
            self._request(app, f"+1415555010{digit}", REMOTE_ADDR=f"2001:db8::{digit + 1}") for digit in range(4)
        ]
        assert answers == [202, 202, 202, 429]

    def test_a_forwarded_address_counts_only_behind_a_trusted_proxy(self, app: App) -> None:
        def ask(digit: int, remote: str) -> int:
            forwarded = f"198.51.100.{digit}"
            return self._request(app, f"+1415555010{digit}", REMOTE_ADDR=remote, HTTP_X_FORWARDED_FOR=forwarded)

        assert [ask(digit, "192.0.2.1") for digit in range(4)] == [202, 202, 202, 429]
        assert [ask(digit, "10.0.0.1") for digit in range(4, 8)] == [202, 202, 202, 202]

    def test_the_attempts_of_an_address_are_rate_limited(self, app: App) -> None:
        body = {"phone_number": ADA, "code": "000000", "device_id": "laptop"}
        codes = [app.post("/api/auth/verify", body).json()["code"] for _ in range(4)]
        assert codes == ["invalid_code", "invalid_code", "invalid_code", "rate_limited"]


STRANGER, OWNER = "192.0.2.66", "192.0.2.1"


class TestStrangers:
    """Somebody else requests codes and guesses for a number."""

    @pytest.fixture
    def policy(self) -> LoginPolicy:
        return LoginPolicy(resend_after=1e-6)

    def _request(self, app: App, address: str, **more: str) -> dict[str, Any]:
        answer = app.post("/api/auth/request-code", {"phone_number": ADA, **more}, REMOTE_ADDR=address)
        return {"status": answer.status_code, **answer.json()}

    def _verify(self, app: App, code: str, **more: str) -> Any:
        return app.post("/api/auth/verify", {"phone_number": ADA, "code": code, "device_id": "laptop", **more})

    def test_guesses_without_the_login_id_do_not_burn_the_code_of_who_holds_it(self, app: App) -> None:
        login_id = self._request(app, OWNER)["login_id"]
        code = app.sms.code_for(ADA)
        codes = [self._verify(app, _wrong(code)).json()["code"] for _ in range(7)]
        assert codes == ["invalid_code"] * 5 + ["too_many_attempts"] * 2
        assert self._verify(app, code).json()["code"] == "too_many_attempts"
        assert self._verify(app, code, login_id=login_id).status_code == 201

    def test_guesses_with_a_made_up_login_id_burn_nothing(self, app: App) -> None:
        login_id = self._request(app, OWNER)["login_id"]
        code = app.sms.code_for(ADA)
        for _ in range(10):
            assert self._verify(app, code, login_id="login_madeup").json()["code"] == "invalid_code"
        assert self._verify(app, code, login_id=login_id).status_code == 201

    def test_the_holder_has_five_attempts(self, app: App) -> None:
        login_id = self._request(app, OWNER)["login_id"]
        code = app.sms.code_for(ADA)
        codes = [self._verify(app, _wrong(code), login_id=login_id).json()["code"] for _ in range(6)]
        assert codes == ["invalid_code"] * 5 + ["too_many_attempts"]
        assert self._verify(app, code, login_id=login_id).json()["code"] == "too_many_attempts"

    def test_a_strangers_request_does_not_replace_the_owners_code(self, app: App) -> None:
        login_id = self._request(app, OWNER)["login_id"]
        code = app.sms.code_for(ADA)
        strangers_id = self._request(app, STRANGER)["login_id"]
        assert app.sms.code_for(ADA) != code, "one in a million: the same code twice"
        assert self._verify(app, code, login_id=strangers_id).json()["code"] == "invalid_code"
        assert self._verify(app, code, login_id=login_id).status_code == 201

    def test_a_code_is_good_once_with_and_without_its_login_id(self, app: App) -> None:
        login_id = self._request(app, OWNER)["login_id"]
        code = app.sms.code_for(ADA)
        assert self._verify(app, code).status_code == 201
        assert self._verify(app, code).json()["code"] == "invalid_code"
        assert self._verify(app, code, login_id=login_id).json()["code"] == "invalid_code"

    def test_a_login_id_is_of_one_number(self, app: App) -> None:
        login_id = self._request(app, OWNER)["login_id"]
        body = {"phone_number": BOB, "code": app.sms.code_for(ADA), "device_id": "laptop", "login_id": login_id}
        assert app.post("/api/auth/verify", body).json()["code"] == "invalid_code"

    def test_a_malformed_login_id_is_a_field_error(self, app: App) -> None:
        answer = self._verify(app, "123456", login_id="a:b")
        assert (answer.status_code, list(answer.json()["errors"])) == (422, ["login_id"])

    def test_requests_do_not_use_up_the_owners_hour(self, app: App) -> None:
        statuses = [self._request(app, STRANGER)["status"] for _ in range(12)]
        assert statuses.count(202) == 5
        assert self._request(app, OWNER)["status"] == 202

    def test_requests_do_not_make_the_owner_wait(self, app: App) -> None:
        for _ in range(5):
            self._request(app, STRANGER)
            assert self._request(app, OWNER)["status"] == 202

    def test_requests_from_many_addresses_leave_more_codes_to_who_holds_a_login_id(self, app: App) -> None:
        login_id = self._request(app, OWNER)["login_id"]
        for number in range(2, 30):
            self._request(app, f"192.0.2.{number}")
        assert self._request(app, OWNER)["status"] == 429
        for _ in range(2):
            again = self._request(app, OWNER, login_id=login_id)
            assert (again["status"], again.get("login_id")) == (202, login_id), again
        assert self._request(app, OWNER, login_id=login_id)["status"] == 429
        assert self._verify(app, app.sms.code_for(ADA), login_id=login_id).status_code == 201

    def test_another_code_gives_a_login_no_more_attempts(self, app: App) -> None:
        login_id = self._request(app, OWNER)["login_id"]
        for _ in range(4):
            self._verify(app, _wrong(app.sms.code_for(ADA)), login_id=login_id)
        self._request(app, OWNER, login_id=login_id)
        codes = [self._verify(app, _wrong(app.sms.code_for(ADA)), login_id=login_id).json()["code"] for _ in range(2)]
        assert codes == ["invalid_code", "too_many_attempts"]

    def test_logins_return_what_they_took_of_an_address(self, app: App) -> None:
        for _ in range(8):
            app.log_in()


class TestSmsCaps:
    @pytest.fixture
    def policy(self) -> LoginPolicy:
        return LoginPolicy(sms_per_country=2, sms_in_total=3)

    def _request(self, app: App, number: str) -> int:
        return int(app.post("/api/auth/request-code", {"phone_number": number}).status_code)

    def test_a_country_gets_so_many_codes_an_hour(self, app: App) -> None:
        assert [self._request(app, f"+1415555010{digit}") for digit in range(3)] == [202, 202, 429]
        assert self._request(app, BOB) == 202

    def test_all_countries_together_get_so_many(self, app: App) -> None:
        assert [self._request(app, number) for number in (ADA, BOB, "+4915112345678")] == [202, 202, 202]
        assert self._request(app, "+33612345678") == 429
        assert len(app.sms.messages) == 3

    def test_a_refusal_takes_nothing_of_the_number(self, app: App) -> None:
        for digit in range(2):
            self._request(app, f"+1415555010{digit}")
        assert [self._request(app, ADA) for _ in range(20)] == [429] * 20
        app.redis.delete("limit:sms:+1", "limit:sms:all")
        assert self._request(app, ADA) == 202

    def test_an_sms_that_failed_does_not_count(self, app: App) -> None:
        app.sms.failing = True
        assert [self._request(app, ADA) for _ in range(5)] == [503] * 5
        app.sms.failing = False
        assert self._request(app, ADA) == 202


class TestLoopback:
    @pytest.fixture
    def policy(self) -> LoginPolicy:
        return LoginPolicy(codes_per_address=Limit("login-address", rate=0.001, burst=1))

    def test_it_is_free_of_limits_per_address_when_embedded(self, app: App) -> None:
        for address in ("127.0.0.1", "::1", "::ffff:127.0.0.1"):
            for digit in range(3):
                body = {"phone_number": f"+1415555010{digit}"}
                assert app.post("/api/auth/request-code", body, REMOTE_ADDR=address).status_code == 202
            app.redis.flushall()

    def test_other_addresses_are_not(self, app: App) -> None:
        app.accounts.login.request_code(phone_number=ADA, address="192.0.2.1")
        answer = app.post("/api/auth/request-code", {"phone_number": BOB}, REMOTE_ADDR="192.0.2.1")
        assert answer.status_code == 429


class TestVerify:
    def test_the_first_login_creates_the_user(self, app: App) -> None:
        body = {"phone_number": ADA, "code": app.code(), "device_id": "laptop", "display_name": " Ada "}
        answer = app.post("/api/auth/verify", body)
        assert answer.status_code == 201
        assert answer["Cache-Control"] == "no-store"
        login = answer.json()
        assert set(login) == {"user", "session_id", "access_token", "refresh_token", "expires_in"}
        assert login["expires_in"] == 900
        assert login["user"] == {
            "user_id": login["user"]["user_id"],
            "phone_number": ADA,
            "phone_verified": True,
            "display_name": "Ada",
            "read_receipts": True,
            "show_presence": True,
            "created_at": "2035-01-30T14:30:00.000Z",
            "updated_at": "2035-01-30T14:30:00.000Z",
        }

    def test_the_next_login_finds_the_user_and_keeps_the_name(self, app: App) -> None:
        first = app.log_in(display_name="Ada")
        body = {"phone_number": ADA, "code": app.code(), "device_id": "phone", "display_name": "Other"}
        answer = app.post("/api/auth/verify", body)
        assert answer.status_code == 200
        assert answer.json()["user"] == first["user"]
        assert answer.json()["session_id"] != first["session_id"]

    def test_a_user_without_a_name_gets_one_that_does_not_tell_the_number(self, app: App) -> None:
        name = app.log_in()["user"]["display_name"]
        assert name.startswith("User ")
        assert ADA[-4:] not in name

    def test_variants_of_one_number_are_one_user(self, app: App) -> None:
        with_trunk_zero = "+4407911123456"
        first = app.log_in(BOB)
        assert app.post("/api/auth/request-code", {"phone_number": with_trunk_zero}).status_code == 202
        body = {"phone_number": with_trunk_zero, "code": app.sms.code_for(BOB), "device_id": "phone"}
        assert app.post("/api/auth/verify", body).json()["user"]["user_id"] == first["user"]["user_id"]

    def test_a_code_works_once(self, app: App) -> None:
        body = {"phone_number": ADA, "code": app.code(), "device_id": "laptop"}
        assert app.post("/api/auth/verify", body).status_code == 201
        again = app.post("/api/auth/verify", body)
        assert (again.status_code, again.json()["code"]) == (401, "invalid_code")

    def test_a_code_works_for_its_own_number_only(self, app: App) -> None:
        code = app.code(ADA)
        if app.code(BOB) == code:
            pytest.fail("one in a million: the same code twice")
        body = {"phone_number": BOB, "code": code, "device_id": "laptop"}
        assert app.post("/api/auth/verify", body).json()["code"] == "invalid_code"

    def test_five_wrong_attempts_invalidate_the_code(self, app: App) -> None:
        right = app.code()
        body = {"phone_number": ADA, "device_id": "laptop"}
        for _ in range(5):
            answer = app.post("/api/auth/verify", {**body, "code": _wrong(right)})
            assert (answer.status_code, answer.json()["code"]) == (401, "invalid_code")
        answer = app.post("/api/auth/verify", {**body, "code": right})
        assert (answer.status_code, answer.json()["code"]) == (429, "too_many_attempts")
        assert int(answer["Retry-After"]) == 30

    def test_the_fifth_attempt_may_still_be_right(self, app: App) -> None:
        right = app.code()
        body = {"phone_number": ADA, "device_id": "laptop"}
        for _ in range(4):
            app.post("/api/auth/verify", {**body, "code": _wrong(right)})
        assert app.post("/api/auth/verify", {**body, "code": right}).status_code == 201

    def test_a_malformed_code_is_no_attempt(self, app: App) -> None:
        right = app.code()
        body = {"phone_number": ADA, "device_id": "laptop"}
        for _ in range(6):
            assert app.post("/api/auth/verify", {**body, "code": " 12345"}).status_code == 422
        assert app.post("/api/auth/verify", {**body, "code": right}).status_code == 201

    def test_an_invalid_name_does_not_consume_the_code(self, app: App) -> None:
        body = {"phone_number": ADA, "code": app.code(), "device_id": "laptop"}
        assert app.post("/api/auth/verify", {**body, "display_name": "a\u202eb"}).status_code == 422
        assert app.post("/api/auth/verify", body).status_code == 201

    def test_when_dynamodb_fails_the_same_request_may_be_repeated(
        self, app: App, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        body = {"phone_number": ADA, "code": app.code(), "device_id": "laptop"}
        with monkeypatch.context() as patch:
            patch.setattr(database.on_loop.wire, "call", _refuse)
            answer = app.post("/api/auth/verify", body)
        assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
        assert app.post("/api/auth/verify", body).status_code == 201

    def test_a_login_ends_the_pause_so_the_next_device_need_not_wait(self, app: App) -> None:
        laptop, phone = app.log_in(device_id="laptop"), app.log_in(device_id="phone")
        assert laptop["access_token"] != phone["access_token"]


class AllUnknown(UserStore):
    """All concurrent calls read that the number has no owner before the first one claims it."""

    def __init__(self, database: Database, *, calls: int) -> None:
        super().__init__(database)
        self._barrier = Barrier(calls)
        self._asked = local()

    def find_owner(self, phone_number: str) -> UserId | None:
        owner = super().find_owner(phone_number)
        if not hasattr(self._asked, "once"):
            self._asked.once = True
            assert owner is None
            self._barrier.wait()
        return owner


class TestConcurrentLogins:
    def test_fifty_first_logins_of_one_number_end_in_one_user(self, app: App, database: Database) -> None:
        users = AllUnknown(database, calls=50)
        registration = Registration(users, ids=IdFactory(app.clock), clock=app.clock)

        def first_login(number: int) -> tuple[str, bool]:
            user, is_new = registration.find_or_create(ADA, display_name=f"racer {number}")
            return user.user_id, is_new

        results = at_once(50, first_login)
        assert all(isinstance(result, tuple) for result in results), results
        assert len({result[0] for result in results if isinstance(result, tuple)}) == 1
        assert sum(1 for result in results if isinstance(result, tuple) and result[1]) == 1
        stored = database.call("Scan", {"TableName": database.table_name(UserModel)})["Items"]
        assert sorted(item["user_id"]["S"].split("_")[0] for item in stored) == [f"phone#{ADA}", "user"]

    def test_of_fifty_guesses_at_once_no_more_than_five_are_compared(self, app: App) -> None:
        right = app.code()
        results = at_once(50, lambda _: app.accounts.login.verify(_attempt(_wrong(right))))
        assert results.count("invalid_code") == 5
        assert results.count("too_many_attempts") == 45

    def test_of_five_right_guesses_at_once_one_logs_in(self, app: App) -> None:
        right = app.code()
        results = at_once(5, lambda _: app.accounts.login.verify(_attempt(right)))
        assert results.count("invalid_code") == 4


def _attempt(code: str) -> LoginAttempt:
    return LoginAttempt(phone_number=ADA, code=code, device_id="laptop", display_name=None, address="127.0.0.1")


def _wrong(code: str) -> str:
    return f"{(int(code) + 1) % 1_000_000:06d}"


def _end_pause(app: App, address: str = "127.0.0.1") -> None:
    guard = app.accounts.login._guard
    guard.note_login(app.accounts.login._codes.pseudonym(ADA), address)


async def _refuse(operation: str, request: object) -> None:
    raise StoreUnavailable("no DynamoDB")
