"""The matrix in the documents is the one in the code, and holds the patterns that the data model requires."""

import subprocess
import sys
from pathlib import Path

import pytest

DOCUMENT = Path("docs/access-patterns.md")

# Pattern, table, index, consistency.
REQUIRED = [
    ("Get user by ID", "users", "Base", "Eventual"),
    ("Find user by phone", "users", "phone_number-index", "Eventual"),
    ("Get chat metadata", "chats", "Base", "Eventual"),
    ("List chat members", "chat_memberships", "Base", "Strong"),
    ("List user's chats", "chat_memberships", "user_chats-index", "Eventual"),
    ("Check user in chat", "chat_memberships", "Base", "Strong"),
    ("Add member", "chat_memberships", "Base", "N/A"),
    ("Remove member", "chat_memberships", "Base", "N/A"),
    ("Get messages after seq", "messages", "Base", "Strong"),
    ("Get recent N messages", "messages", "Base", "Strong"),
    ("Get specific message", "messages", "Base", "Strong"),
    ("Allocate sequence", "chat_counters", "Base", "N/A"),
    ("Check duplicate", "idempotency_keys", "Base", "Strong"),
    ("Get delivery state", "delivery_state", "Base", "Eventual"),
    ("Update watermark", "delivery_state", "Base", "N/A"),
    ("Validate session", "sessions", "Base", "Eventual"),
    ("List user sessions", "sessions", "user_sessions-index", "Eventual"),
]


@pytest.fixture(scope="module")
def printed() -> str:
    """In a process of its own: the suite declares patterns too."""
    command = [sys.executable, "manage.py", "access_patterns"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def rows(matrix: str) -> dict[str, list[str]]:
    cells = [[cell.strip(" `*") for cell in line.strip("|").split(" | ")] for line in matrix.splitlines()[2:]]
    return {row[0]: row for row in cells if row[0]}


class TestMatrix:
    def test_the_document_is_up_to_date(self, printed: str) -> None:
        assert DOCUMENT.read_text().endswith(printed), "run `manage.py access_patterns --write`"

    @pytest.mark.parametrize(("name", "table", "index", "consistency"), REQUIRED)
    def test_each_required_pattern_is_there(
        self, printed: str, name: str, table: str, index: str, consistency: str
    ) -> None:
        row = rows(printed)[name]
        assert (row[1], row[2], row[5]) == (table, index, consistency)

    def test_only_offline_tools_scan(self, printed: str) -> None:
        scanning = [row for row in rows(printed).values() if "Scan" in row[3]]
        assert {row[3] for row in scanning} == {"Scan (offline)"}
        assert all(row[0].endswith("(offline)") for row in scanning)
