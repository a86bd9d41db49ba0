"""Assembles the services of accounts from clients, keys and options."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import redis

from accounts.services.directory import UserDirectory
from accounts.services.guard import LoginGuard, LoginPolicy
from accounts.services.login import PhoneLogin
from accounts.services.profiles import PrivacyNotices, Profiles
from accounts.services.records import UserRecords
from accounts.services.refresh_tokens import RefreshTokens
from accounts.services.registration import Registration
from accounts.services.sessions import RevocationNotices, Sessions, TokenMint
from accounts.services.sms import BoundedSmsSender, SmsSender
from accounts.services.suspension import SuspensionNotices, Suspensions
from accounts.services.tokens import AccessTokens
from accounts.services.verification import TokenVerifier
from accounts.stores.codes import LoginCodes
from accounts.stores.sessions import SessionStore
from accounts.stores.users import UserStore
from foundation.kernel.clock import Clock
from foundation.kernel.ids import IdFactory
from foundation.stores.dynamodb import Database
from foundation.stores.redis.limits import RateLimiter


@dataclass(frozen=True, slots=True)
class AccountsOptions:
    """`secret` keys login codes and refresh tokens. The first of `jwt_keys` signs access tokens; all of them verify.

    Refresh tokens signed with one of `former_secrets` stay valid, so changing the secret logs no user out.
    """

    secret: str
    jwt_keys: Mapping[str, str]
    former_secrets: Sequence[str] = ()
    loopback_is_free: bool = False
    policy: LoginPolicy = field(default_factory=LoginPolicy)


class AccountNotices(RevocationNotices, SuspensionNotices, PrivacyNotices, Protocol):
    """Notifies every process of changes to sessions and users."""


@dataclass(frozen=True, slots=True)
class Engines:
    database: Database
    redis: "redis.Redis"
    sms: SmsSender
    notices: AccountNotices


@dataclass(frozen=True, slots=True)
class Accounts:
    """The services that the APIs and the other apps use."""

    directory: UserDirectory
    profiles: Profiles
    records: UserRecords
    login: PhoneLogin
    sessions: Sessions
    suspensions: Suspensions
    verifier: TokenVerifier


def assemble(engines: Engines, *, options: AccountsOptions, clock: Clock, ids: IdFactory) -> Accounts:
    users, session_store = UserStore(engines.database), SessionStore(engines.database)
    limiter = RateLimiter(engines.redis)
    refresh = RefreshTokens(options.secret, fallbacks=options.former_secrets)
    access = AccessTokens(options.jwt_keys, clock=clock)
    verifier = TokenVerifier(tokens=access, sessions=session_store, clock=clock)
    sessions = Sessions(
        store=session_store,
        mint=TokenMint(access=access, refresh=refresh),
        verifier=verifier,
        notices=engines.notices,
        ids=ids,
        clock=clock,
    )
    login = PhoneLogin(
        guard=LoginGuard(limiter, policy=options.policy, loopback_is_free=options.loopback_is_free),
        codes=LoginCodes(engines.redis, secret=options.secret),
        sms=BoundedSmsSender(engines.sms),
        registration=Registration(users, ids=ids, clock=clock),
        sessions=sessions,
    )
    return Accounts(
        directory=UserDirectory(users),
        profiles=Profiles(users, limiter=limiter, notices=engines.notices, clock=clock),
        records=UserRecords(users),
        login=login,
        sessions=sessions,
        suspensions=Suspensions(users, verifier=verifier, notices=engines.notices, clock=clock),
        verifier=verifier,
    )
