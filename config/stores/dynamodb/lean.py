"""A lean wire for botocore's DynamoDB client.

botocore walks the service's model for every value it sends and receives, evaluates endpoint rules over every item of a
transaction, and builds its User-Agent anew each time: a third of the CPU of a message (measured), for nothing that
DynamoDB's JSON protocol needs. Our requests are already in the protocol's form, so they go out and come in as plain
JSON. Signing, connections, timeouts, retries and the reading of errors stay botocore's.
"""

from typing import Any

import orjson
from botocore.parsers import create_parser

PROTOCOL = "json"


class LeanSerializer:
    """Writes a request whose values are JSON already. Binary attributes, which Parley does not have, are refused."""

    def serialize_to_request(self, parameters: dict[str, Any], operation_model: Any) -> dict[str, Any]:
        metadata = operation_model.metadata
        return {
            "url_path": "/",
            "query_string": "",
            "method": "POST",
            "headers": {
                "X-Amz-Target": f"{metadata['targetPrefix']}.{operation_model.name}",
                "Content-Type": f"application/x-amz-json-{metadata['jsonVersion']}",
            },
            "body": orjson.dumps(parameters),
        }


class LeanParser:
    """Reads an answer as plain JSON; failures, which botocore's retries must understand, it leaves to botocore."""

    def __init__(self) -> None:
        self._thorough = create_parser(PROTOCOL)

    def parse(self, response: dict[str, Any], shape: Any) -> dict[str, Any]:
        if response["status_code"] != 200:
            return dict(self._thorough.parse(response, shape))
        answer: dict[str, Any] = orjson.loads(response["body"])
        answer["ResponseMetadata"] = {"HTTPStatusCode": 200, "HTTPHeaders": response["headers"]}
        return answer


class LeanParserFactory:
    def __init__(self) -> None:
        self._parser = LeanParser()

    def create_parser(self, protocol_name: str) -> Any:
        return self._parser if protocol_name == PROTOCOL else create_parser(protocol_name)


class FixedUserAgent:
    def __init__(self, text: str) -> None:
        self._text = text

    def to_string(self) -> str:
        return self._text


def make_lean(client: Any) -> None:
    """Change a client in place. The endpoint is the one that the client was made for."""
    client._serializer = LeanSerializer()
    client._endpoint._response_parser_factory = LeanParserFactory()
    client._ruleset_resolver = None
    agent = client._user_agent_creator
    client._user_agent_creator = FixedUserAgent(agent.to_string())
    client.meta.events.unregister("request-created.dynamodb", agent.rebuild_and_replace_user_agent_handler)
