"""How many connections an address may hold."""

from foundation.server.connections import ConnectionsPerAddress


def counter(limit: int = 2) -> ConnectionsPerAddress:
    return ConnectionsPerAddress(limit, is_exempt=lambda address: address.startswith("10."))


class TestConnectionsPerAddress:
    def test_an_address_holds_no_more_than_the_limit(self) -> None:
        connections = counter()
        assert [connections.take("192.0.2.1") is not None for _ in range(3)] == [True, True, False]
        assert connections.take("192.0.2.2") is not None

    def test_a_released_place_is_free_again_once(self) -> None:
        connections = counter(limit=1)
        slot = connections.take("192.0.2.1")
        assert slot is not None
        slot.release()
        assert connections.take("192.0.2.1") is not None
        slot.release()
        assert connections.take("192.0.2.1") is None

    def test_nothing_is_kept_of_an_address_without_connections(self) -> None:
        connections = counter()
        slots = [connections.take(f"192.0.2.{number}") for number in range(100)]
        for slot in slots:
            assert slot is not None
            slot.release()
        assert not connections._held

    def test_exempt_addresses_are_not_counted(self) -> None:
        connections = counter(limit=1)
        assert all(connections.take("10.0.0.1") is not None for _ in range(10))

    def test_the_addresses_of_one_ipv6_network_count_together(self) -> None:
        connections = counter(limit=1)
        assert connections.take("2001:db8::1") is not None
        assert connections.take("2001:db8::2") is None
        assert connections.take("2001:db8:0:1::1") is not None

    def test_ipv4_addresses_of_a_listener_on_ipv6_count_each_for_itself(self) -> None:
        connections = counter(limit=1)
        assert connections.take("::ffff:192.0.2.1") is not None
        assert connections.take("::ffff:192.0.2.2") is not None
        assert connections.take("192.0.2.2") is None

    def test_a_peer_without_an_address_is_counted_as_one(self) -> None:
        connections = counter(limit=1)
        assert connections.take("") is not None
        assert connections.take("") is None
