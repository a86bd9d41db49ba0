"""docs/architecture.md has every table with its attributes, every topic, package and class that it needs."""

import re

import pytest

from config.wiring.commands import TABLES
from foundation.kernel.events import TOPIC_OF, TOPICS
from foundation.stores.dynamodb import schema
from foundation.stores.dynamodb.table import ON_DEMAND, Table, key_names
from tests.unit.docs.pages import ROOT, named, section, tables

PAGE = "docs/architecture.md"
KEYS, ATTRIBUTES, *_ = tables(section(PAGE, "## Tables"))


def row(rows: list[list[str]], table: type[Table]) -> list[str]:
    return next(row for row in rows if row[0] == f"`{table.Meta.table_name}`")


@pytest.mark.parametrize("table", TABLES, ids=lambda table: str(table.Meta.table_name))
class TestTables:
    def test_the_page_has_its_key_index_ttl_and_capacity(self, table: type[Table]) -> None:
        expected = schema.expected(table)
        _, key, index, ttl, capacity, _ = row(KEYS, table)
        assert named(key) == [name for _, name in expected.keys]
        assert named(index) == [
            text for name, each in expected.indexes.items() for text in (name, *(key for _, key in each.keys))
        ]
        assert ("ttl" in named(ttl)) == (expected.ttl_attribute is not None)
        assert capacity == ("on demand" if expected.billing_mode == ON_DEMAND else "provisioned")

    def test_the_page_has_its_attributes(self, table: type[Table]) -> None:
        listed = {name.rstrip("?") for name in named(row(ATTRIBUTES, table)[1])}
        attributes = {attribute.attr_name for attribute in table.get_attributes().values()}
        assert attributes - set(key_names(table)) <= listed


class TestLayout:
    def test_every_package_is_in_the_tree(self) -> None:
        tree = section(PAGE, "## Layers").partition("```\n")[2].partition("```")[0]
        listed = set(re.findall(r"^(\w+)/", tree, re.MULTILINE))
        packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
        assert listed == (packages - {"bench", "tests"}) | {"clients"}

    def test_the_names_behind_files_are_defined_in_them(self) -> None:
        text = (ROOT / PAGE).read_text()
        pairs = re.findall(r"`([\w/]+\.py)` · `(\w+)(?:\.(\w+))?`", text)
        assert len(pairs) > 15
        for path, name, member in pairs:
            source = (ROOT / path).read_text()
            assert re.search(rf"^(?:class|def|async def) {name}\b", source, re.MULTILINE), (path, name)
            assert not member or re.search(rf"^    (?:async )?def {member}\b", source, re.MULTILINE), (path, member)


def test_the_page_has_every_topic_with_its_events() -> None:
    listed = {named(row[0])[0]: set(named(row[1])) for row in tables(section(PAGE, "## Topics and events"))[0]}
    assert listed == {topic: {event for event, of in TOPIC_OF.items() if of == topic} for topic in TOPICS}
