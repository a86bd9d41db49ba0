"""Parser and renderer of JSON bodies."""

from collections.abc import Mapping
from typing import IO, Any

import orjson
from django.conf import settings
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer

from foundation.kernel.errors import Malformed, TooLarge


class JsonParser(BaseParser):
    """Parses a JSON body. A body over `MAX_BODY_BYTES` is refused without parsing."""

    media_type = "application/json"

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        limit = settings.MAX_BODY_BYTES
        body = stream.read(limit + 1)
        if len(body) > limit:
            raise TooLarge(f"The body is larger than {limit} bytes")
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise Malformed(f"The body is not JSON: {error}") from error


class JsonRenderer(BaseRenderer):
    """Renders JSON as UTF-8."""

    media_type = "application/json"
    format = "json"
    charset = None

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        return b"" if data is None else orjson.dumps(data)
