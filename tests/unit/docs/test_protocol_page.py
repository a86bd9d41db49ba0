"""docs/protocol.md has every route, error code, frame and close code."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.urls import URLPattern, get_resolver

from delivery.gateway import asyncapi
from delivery.gateway.closing import Close
from foundation.kernel.errors import ParleyError
from foundation.rest import health
from foundation.rest.problems import status_of
from foundation.rest.routing import one_view_each
from tests.unit.docs.pages import named, section, tables

PAGE = "docs/protocol.md"
# Judged and handled inside: no client gets them.
INTERNAL = {"nothing_to_change"}
# Of RFC 6455, sent by the server's libraries.
LIBRARIES = {1007, 1009}
METHODS = ("get", "post", "put", "patch", "delete")
DOCUMENTATION = ("/api/schema", "/api/asyncapi", "/api/docs")


def classes(error: type[ParleyError]) -> set[type[ParleyError]]:
    return {error}.union(*(classes(kind) for kind in error.__subclasses__()))


class TestErrors:
    def test_the_table_has_every_code_with_its_status(self) -> None:
        apps = ("accounts", "chats", "messaging", "delivery", "foundation")
        answered = [kind for kind in classes(ParleyError) if kind.__module__.partition(".")[0] in apps]
        expected = {(status_of(kind), kind.code) for kind in answered if kind.code not in INTERNAL}
        listed = set[tuple[int, str]]()
        for statuses, codes in tables(section(PAGE, "## Errors"))[0]:
            numbers, texts = re.findall(r"\d{3}", statuses), named(codes)
            pairs = zip(numbers, texts, strict=True) if len(numbers) > 1 else ((numbers[0], text) for text in texts)
            listed |= {(int(number), text) for number, text in pairs}
        assert listed == expected


class TestRoutes:
    def test_the_table_has_every_route_with_its_methods(self) -> None:
        listed, methods = set[tuple[str, str]](), list[str]()
        for cell, *_ in tables(section(PAGE, "## REST routes"))[0]:
            for part in cell.split(" · "):
                methods = re.findall(r"[A-Z]{3,}", part.partition("`")[0]) or methods
                listed |= {(method, path) for path in named(part) for method in methods}
        assert listed == set(offered())


def offered() -> Iterator[tuple[str, str]]:
    """The methods and paths of the views under `/api/`, without the demo's, and of the probes."""
    for pattern in one_view_each(get_resolver("config.urls").url_patterns):
        path = "/" + re.sub(r"<\w+:(\w+)>", r"{\1}", str(pattern.pattern))
        if path in health.PATHS:
            yield "GET", path
        elif path.startswith("/api/") and not path.startswith(("/api/demo/", *DOCUMENTATION)):
            assert isinstance(pattern, URLPattern)
            view: Any = pattern.callback
            yield from ((name.upper(), path) for name in METHODS if hasattr(view.cls, name))


class TestFrames:
    @pytest.mark.parametrize(
        ("heading", "forms"),
        [("### Client to server", asyncapi.FROM_CLIENTS), ("### Server to client", asyncapi.TO_CLIENTS)],
    )
    def test_the_table_has_every_frame_with_its_fields(self, heading: str, forms: dict[str, asyncapi.Form]) -> None:
        rows = {named(row[0])[0]: row[1] for row in tables(section(PAGE, heading))[0]}
        assert rows.keys() == forms.keys()
        for kind, (fields, optional, _) in forms.items():
            if kind != "message":  # "the fields of a message": TestEntries
                marked = {f"{name}?" if name in optional else name for name in fields}
                assert marked <= set(named(rows[kind])), kind


class TestCloseCodes:
    def test_the_table_has_every_code(self) -> None:
        rows = tables(section(PAGE, "## Close codes"))[0]
        assert {int(code) for row in rows for code in re.findall(r"\d{4}", row[0])} == {*Close, *LIBRARIES}
