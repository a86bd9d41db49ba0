"""The AsyncAPI document against the code: what is parsed and sent is what it says."""

import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from jsonschema import Draft202012Validator

import delivery
from delivery.gateway import asyncapi, frames, requests
from delivery.gateway.deliveries import delivered
from foundation.kernel.errors import RateLimited
from foundation.kernel.ids import ChatId, MessageId, UserId
from messaging.domain import Kind, Message, Sent
from messaging.services.history import Page

DOCUMENT = asyncapi.document()
MESSAGES = DOCUMENT["components"]["messages"]
# Between processes, within Redis and of ASGI: never a frame.
INTERNAL = {"deliver", "live", "subscribe"}
NOW = "2026-01-30T14:30:00.000Z"
CHAT, ADA = ChatId("chat_01JJW3S0A0G5ZB1M2N3P4Q5R6S"), UserId("user_01JJW3R1B0G5ZB1M2N3P4Q5R6S")


def examples(direction: str) -> list[Any]:
    named = [(name, message) for name, message in MESSAGES.items() if name.startswith(direction)]
    return [pytest.param(message["name"], message["examples"][0]["payload"], id=name) for name, message in named]


def require_documented(frame: Any) -> None:
    """The frame is as the document says, and has no field that it does not name."""
    schema = MESSAGES[f"send_{frame['type']}"]["payload"]
    Draft202012Validator({**schema, "components": DOCUMENT["components"]}).validate(frame)
    assert frame.keys() <= schema["properties"].keys()


def message(sequence: int = 7, **more: Any) -> Message:
    return Message(
        message_id=MessageId("msg_01JJW3T9T0G5ZB1M2N3P4Q5R6S"),
        chat_id=CHAT,
        sequence=sequence,
        sender_id=ADA,
        client_message_id="one",
        content="hello",
        content_type="text/plain",
        created_at=NOW,
        **more,
    )


class TestFromClients:
    def test_every_frame_with_all_its_fields_is_documented(self) -> None:
        documented = {kind: {"type", *fields} for kind, (fields, _, _) in asyncapi.FROM_CLIENTS.items()}
        assert documented == {kind: set(names) for kind, (names, _) in requests._FORMS.items()}

    @pytest.mark.parametrize(("kind", "frame"), examples("receive"))
    def test_examples_parse_and_need_every_required_field(self, kind: str, frame: dict[str, Any]) -> None:
        requests.parse(orjson.dumps(frame).decode())
        for name in frame:
            with pytest.raises(requests.BadFrame):
                requests.parse(orjson.dumps({key: value for key, value in frame.items() if key != name}).decode())

    @pytest.mark.parametrize("kind", asyncapi.FROM_CLIENTS)
    def test_optional_fields_parse(self, kind: str) -> None:
        fields, _, _ = asyncapi.FROM_CLIENTS[kind]
        frame = {"type": kind, **{name: asyncapi.example(schema) for name, schema in fields.items()}}
        requests.parse(orjson.dumps(frame).decode())


class TestToClients:
    def test_every_type_in_the_code_is_documented(self) -> None:
        code = "".join(
            path.read_text()
            for room in ("gateway", "fanout")
            for path in (Path(str(delivery.__file__)).parent / room).glob("*.py")
            if path.name not in ("asyncapi.py", "requests.py")
        )
        sent = set(re.findall(r'"type": ?"([a-z_]+)"', code)) | set(re.findall(r'"type":"([a-z_]+)"', code))
        assert sent - INTERNAL == asyncapi.TO_CLIENTS.keys()

    @pytest.mark.parametrize(("kind", "frame"), examples("send"))
    def test_examples_are_as_documented(self, kind: str, frame: dict[str, Any]) -> None:
        require_documented(frame)

    @pytest.mark.parametrize(
        "entry",
        [
            message(),
            message(
                reply_to=1,
                mentions=(ADA,),
                reactions={"👍": frozenset({ADA})},
                last_change=9,
                edited_at=NOW,
            ),
            message(kind=Kind.NOTICE, notice={"type": "chat_renamed", "name": "Team"}),
            message(kind=Kind.PIN, target=3, action="add"),
        ],
    )
    def test_entries_alone_in_batches_and_in_syncs(self, entry: Message) -> None:
        body = orjson.loads(orjson.dumps({"type": "message", **entry.to_json()}))
        page = Page(messages=(entry,), has_more=False, latest_sequence=7)
        one = delivered([dict(body)])[0]
        two = delivered([dict(body), {**body, "sequence": 8}])[0]
        for frame in (one, two, frames.sync_batch(CHAT, page)):
            require_documented(orjson.loads(frame.payload))

    @pytest.mark.parametrize("unchanged", [False, True])
    def test_answers_to_drafts(self, unchanged: bool) -> None:
        answer = Sent(message(), duplicate=unchanged, unchanged=unchanged)
        require_documented(orjson.loads(frames.sent("one", CHAT, answer).payload))

    def test_errors(self) -> None:
        error = RateLimited("slow down", retry_after=0.5)
        require_documented(orjson.loads(frames.failed(error, client_message_id="one", chat_id=CHAT).payload))


def test_references_lead_somewhere() -> None:
    for reference in re.findall(rb'"\$ref":"#/([^"]+)"', asyncapi.encoded()):
        place: Any = DOCUMENT
        for name in reference.decode().split("/"):
            place = place[name]
