import asyncio
from collections.abc import Sequence

import pytest

from bench.peers.stanzas import (
    HEADER,
    Messages,
    authentication,
    end_of_stanza,
    handled_count,
    last_archive_id,
    page_request,
    parse_messages,
)
from bench.peers.xmpp import Refused, Stream

CHAT = (
    b"<message xml:lang='en' to='u2@localhost' from='u1@localhost/bench' type='chat' id='7.1500000'>"
    b"<archived by='u2@localhost' id='1794883493673143' xmlns='urn:xmpp:mam:tmp'/>"
    b"<stanza-id by='u2@localhost' id='1794883493673143' xmlns='urn:xmpp:sid:0'/><body>x</body></message>"
)
ONLINE = b"<presence to='u1@localhost/bench' from='u1@localhost/bench'/>"
ENTERED = b"<presence from='r1@rooms.localhost/u1'><x xmlns='muc#user'><item role='participant'/></x></presence>"
FORWARDED = (
    b"<message to='u2@localhost/bench' from='r1@rooms.localhost'><result id='1794883494076319'>"
    b"<forwarded><message from='r1@rooms.localhost/u1' id='8.2500000'><body>x</body></message>"
    b"<delay stamp='2026-11-17T02:44:54Z'/></forwarded></result></message>"
)
FIN = (
    b"<iq type='result' id='page'><fin complete='false'><set><count>3</count><first>17</first><last>18</last></set>"
    b"</fin></iq>"
)
EVERYTHING = (CHAT, ONLINE, FORWARDED, ENTERED, FIN, CHAT)


def received(pieces: Sequence[bytes]) -> list[bytes]:
    got, stream = list[bytes](), Stream()
    stream.set_receiver(got.append)
    for piece in pieces:
        stream.data_received(piece)
    return got


class TestStream:
    async def test_several_stanzas_come_in_one_packet(self) -> None:
        assert received([b"".join(EVERYTHING)]) == list(EVERYTHING)

    @pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 199])
    async def test_a_stanza_comes_in_several_packets(self, size: int) -> None:
        whole = b"".join(EVERYTHING)
        assert received([whole[place : place + size] for place in range(0, len(whole), size)]) == list(EVERYTHING)

    async def test_a_packet_may_end_where_a_forwarded_message_does(self) -> None:
        place = FORWARDED.index(b"</message>") + len(b"</message>")
        assert received([FORWARDED[:place]]) == []
        assert received([FORWARDED[:place], FORWARDED[place:] + CHAT]) == [FORWARDED, CHAT]

    async def test_a_header_is_a_stanza_without_an_end(self) -> None:
        features = b"<stream:features><bind xmlns='urn:x'/></stream:features>"
        assert received([HEADER + features]) == [HEADER, features]

    async def test_a_wait_drops_the_stanzas_before_its_answer(self) -> None:
        stream = Stream()
        stream.data_received(ONLINE + FIN + CHAT)
        assert await stream.wait_for(b"<message") == CHAT

    async def test_an_error_ends_the_wait(self) -> None:
        stream = Stream()
        stream.data_received(b"<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><not-authorized/></failure>")
        with pytest.raises(Refused, match="not-authorized"):
            await stream.wait_for(b"<success")

    async def test_a_server_that_does_not_count_stanzas_ends_the_wait(self) -> None:
        stream = Stream()
        stream.data_received(b"<failed xmlns='urn:xmpp:sm:3'><unexpected-request/></failed>")
        with pytest.raises(Refused, match="unexpected-request"):
            await stream.wait_for(b"<enabled")

    async def test_a_closed_connection_ends_the_wait(self) -> None:
        stream = Stream()
        asyncio.get_running_loop().call_soon(stream.connection_lost, None)
        with pytest.raises(Refused):
            await stream.wait_for(b"<success")


class TestEndOfStanza:
    def test_escaped_text_is_no_tag(self) -> None:
        stanza = b"<message id='1.1'><body>a &lt;/message&gt; &lt;message&gt; &apos;b&apos; &amp;</body></message>"
        assert end_of_stanza(stanza + CHAT, 0) == len(stanza)

    def test_an_attribute_may_hold_an_arrow_and_a_slash(self) -> None:
        stanza = b"<message to='a>b/' from=\"it's/>\"><body>x</body></message>"
        assert end_of_stanza(stanza + CHAT, 0) == len(stanza)

    def test_an_empty_stanza_ends_with_its_tag(self) -> None:
        assert end_of_stanza(b"<iq id='1'/>" + CHAT, 0) == len(b"<iq id='1'/>")

    def test_an_empty_element_of_the_same_name_may_be_nested(self) -> None:
        stanza = b"<message><forwarded><message id='1'/></forwarded><body>x</body></message>"
        assert end_of_stanza(stanza + CHAT, 0) == len(stanza)

    def test_a_longer_name_is_another_name(self) -> None:
        stanza = b"<iq><iqs></iqs></iq>"
        assert end_of_stanza(stanza + CHAT, 0) == len(stanza)

    @pytest.mark.parametrize("part", [b"", b" ", b"<", b"<mess", b"<message to='a", b"<message>", CHAT[:-1]])
    def test_an_incomplete_stanza_has_no_end(self, part: bytes) -> None:
        assert end_of_stanza(part, 0) == -1


class TestStanzas:
    def test_a_message_carries_its_number_and_its_time(self) -> None:
        messages = Messages("u2@localhost", kind="chat", first=6)
        stanza = messages.next(1.5)
        assert list(parse_messages(stanza)) == [(7, 1.5)]
        assert messages.number == 7
        assert b"<body>" + b"x" * 120 + b"</body>" in stanza

    def test_archive_ids_are_not_message_ids(self) -> None:
        assert list(parse_messages(CHAT)) == [(7, 1.5)]
        assert list(parse_messages(CHAT + FORWARDED)) == [(7, 1.5), (8, 2.5)]

    @pytest.mark.parametrize("stanza", [ONLINE, CHAT.replace(b"'chat'", b"'error'")])
    def test_other_stanzas_are_refused(self, stanza: bytes) -> None:
        with pytest.raises(ValueError, match="not a message"):
            parse_messages(stanza)

    def test_a_page_continues_the_previous_one(self) -> None:
        assert b"<after>" not in page_request("r1@rooms.localhost", b"")
        assert b"<max>100</max><after>18</after>" in page_request("r1@rooms.localhost", last_archive_id(FIN))

    @pytest.mark.parametrize("answer", [b"<a xmlns='urn:xmpp:sm:3' h='12'/>", b"<a h='12' xmlns='urn:xmpp:sm:3'/>"])
    def test_an_ack_gives_the_count_of_handled_stanzas(self, answer: bytes) -> None:
        assert received([answer]) == [answer]
        assert handled_count(answer) == 12

    def test_an_ack_without_a_count_is_refused(self) -> None:
        with pytest.raises(ValueError, match="no count"):
            handled_count(b"<a xmlns='urn:xmpp:sm:3'/>")

    def test_authentication_is_sasl_plain(self) -> None:
        assert b">AHUxAHNlY3JldA==</auth>" in authentication("u1", "secret")
