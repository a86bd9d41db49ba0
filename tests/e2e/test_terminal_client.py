"""`python -m parley_client` in two terminals, as the README shows it."""

import os
import subprocess
import sys
from contextlib import closing
from typing import IO

from foundation.kernel.ids import ChatId
from tests.e2e.system import Device, System


class Terminal:
    """One process of the terminal client."""

    def __init__(self, system: System, device: Device, chat_id: ChatId) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "parley_client", system.webs[0].socket_url, chat_id],
            env={**os.environ, "TOKEN": device.token},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def type(self, line: str) -> None:
        stdin = _open(self._process.stdin)
        stdin.write(f"{line}\n")
        stdin.flush()

    def read(self) -> str:
        return _open(self._process.stdout).readline().strip()

    def close(self) -> None:
        self._process.communicate(timeout=20)
        assert self._process.returncode == 0


def _open(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


class TestTwoTerminals:
    def test_what_one_types_the_other_reads(self, system: System) -> None:
        ada, bob = system.users(2)
        chat_id = system.direct_chat(ada, bob)
        system.rest(ada, "POST", f"/api/chats/{chat_id}/messages", client_message_id="1", content="Hello, Bob")
        with closing(Terminal(system, ada, chat_id)) as one, closing(Terminal(system, bob, chat_id)) as other:
            assert (one.read(), other.read()) == ("1  you: Hello, Bob", f"1  {ada.user_id}: Hello, Bob")
            other.type("Hi Ada")
            assert other.read() == "2  you: Hi Ada"
            assert one.read() == f"2  {bob.user_id}: Hi Ada"

    def test_without_a_token_it_says_what_to_do(self) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "TOKEN"}
        result = subprocess.run(
            [sys.executable, "-m", "parley_client", "ws://127.0.0.1:1/ws", "chat_1"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert result.returncode == 2
        assert "put your access token into the environment variable TOKEN" in result.stderr
