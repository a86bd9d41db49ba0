"""docs/runbooks/lost-key.md: how long former keys must be accepted is how long the tokens live."""

from accounts.services.sessions import SESSION_LIFETIME
from accounts.services.tokens import ACCESS_TOKEN_LIFETIME
from tests.unit.docs.pages import ROOT, section, tables


def test_former_keys_are_kept_as_long_as_their_tokens_live() -> None:
    minutes, days = int(ACCESS_TOKEN_LIFETIME.total_seconds()) // 60, SESSION_LIFETIME.days
    [steps] = tables(section("docs/runbooks/lost-key.md", "## Commands"))
    _, jwt_keys, secret_key = steps[-1]
    assert f"{minutes} minutes later" in jwt_keys
    assert f"{days} days later" in secret_key


def test_operations_refers_to_the_runbook_and_repeats_no_period() -> None:
    rows = [line for line in (ROOT / "docs/operations.md").read_text().splitlines() if line.startswith("| `JWT_KEYS`")]
    assert len(rows) == 1
    assert "runbooks/lost-key.md#commands" in rows[0]
