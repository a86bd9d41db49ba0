import hmac

import orjson
import pytest

from messaging.services.envelopes import MAX_BYTES, BadEnvelope, Envelopes

A = Envelopes("a secret")


def sealed(envelopes: Envelopes = A, *, to: str = "gw-b:1", parcels: list[bytes] | None = None) -> bytes:
    return envelopes.seal(sender="gw-a:1", to=to, number=3, at=12.5, parcels=parcels or [b'{"type":"batch"}'])


class TestOpening:
    def test_an_envelope_arrives_as_it_was(self) -> None:
        envelope = A.open(sealed(), to="gw-b:1")
        assert (envelope.sender, envelope.to, envelope.number, envelope.at) == ("gw-a:1", "gw-b:1", 3, 12.5)
        assert envelope.parcels == [{"type": "batch"}]

    def test_every_changed_byte_is_noticed(self) -> None:
        data = sealed()
        for position in range(len(data)):
            changed = bytearray(data)
            changed[position] ^= 1
            with pytest.raises(BadEnvelope, match="forged"):
                A.open(bytes(changed), to="gw-b:1")

    @pytest.mark.parametrize("data", [b"", b"short", b"x" * 32, b"x" * 100])
    def test_what_nobody_sealed_is_refused(self, data: bytes) -> None:
        with pytest.raises(BadEnvelope, match="forged"):
            A.open(data, to="gw-b:1")

    @pytest.mark.parametrize("body", [b"no JSON", b"[]", b"{}", b'{"version":1}'])
    def test_what_is_sealed_and_no_envelope_is_refused(self, body: bytes) -> None:
        key = hmac.digest(b"a secret", b"parley hand-over", "sha256")
        with pytest.raises(BadEnvelope, match="malformed"):
            A.open(hmac.digest(key, body, "sha256") + body, to="gw-b:1")

    def test_another_secret_is_refused(self) -> None:
        with pytest.raises(BadEnvelope, match="forged"):
            Envelopes("another").open(sealed(), to="gw-b:1")

    @pytest.mark.parametrize("to", ["gw-c:1", "gw-b:2"])
    def test_an_envelope_for_another_process_or_epoch_is_refused(self, to: str) -> None:
        with pytest.raises(BadEnvelope, match="other_addressee"):
            A.open(sealed(), to=to)

    def test_one_that_is_too_large_is_refused(self) -> None:
        with pytest.raises(BadEnvelope, match="too_large"):
            A.open(sealed(parcels=[orjson.dumps("x" * MAX_BYTES)]), to="gw-b:1")


class TestKeys:
    def test_every_epoch_is_new_and_tells_the_key(self) -> None:
        names = {A.new_name("gw-a") for _ in range(10)}
        assert len(names) == 10
        assert all(name.startswith("gw-a:") and A.can_verify(name) for name in names)
        assert not any(Envelopes("another").can_verify(name) for name in names)

    def test_a_former_key_is_accepted(self) -> None:
        assert Envelopes("next", ["a secret"]).open(sealed(), to="gw-b:1").number == 3

    def test_a_process_that_has_only_the_former_key_can_read_what_is_sealed_for_it(self) -> None:
        rotated = Envelopes("next", ["a secret"])
        name = A.new_name("gw-b")
        assert rotated.can_verify(name)
        assert A.open(sealed(rotated, to=name), to=name).number == 3
        assert not A.can_verify(rotated.new_name("gw-a"))
