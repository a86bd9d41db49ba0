"""The client's address."""

import pytest
from django.test import RequestFactory

from foundation.kernel.addresses import is_loopback
from foundation.rest.addresses import ClientAddress


def address(remote: str, forwarded: str | None = None, *, trusted: tuple[str, ...] = ()) -> str:
    request = RequestFactory().get("/", REMOTE_ADDR=remote)
    if forwarded is not None:
        request.META["HTTP_X_FORWARDED_FOR"] = forwarded
    return ClientAddress(trusted)(request)


class TestClientAddress:
    def test_without_a_proxy_it_is_the_peers(self) -> None:
        assert address("192.0.2.1") == "192.0.2.1"

    def test_a_header_from_an_untrusted_peer_is_ignored(self) -> None:
        assert address("192.0.2.1", "198.51.100.7") == "192.0.2.1"
        assert address("192.0.2.1", "198.51.100.7", trusted=("10.0.0.0/8",)) == "192.0.2.1"

    def test_a_trusted_proxy_supplies_the_last_hop(self) -> None:
        assert address("10.0.0.1", "203.0.113.9, 198.51.100.7", trusted=("10.0.0.0/8",)) == "198.51.100.7"

    def test_a_chain_of_trusted_proxies_is_followed(self) -> None:
        assert address("10.0.0.1", "198.51.100.7, 10.0.0.2", trusted=("10.0.0.0/8",)) == "198.51.100.7"

    @pytest.mark.parametrize("forwarded", ["", "nonsense", "198.51.100.7, nonsense", ","])
    def test_an_invalid_hop_leaves_the_address_of_the_proxy(self, forwarded: str) -> None:
        assert address("10.0.0.1", forwarded, trusted=("10.0.0.0/8",)) == "10.0.0.1"

    def test_ipv6_works_as_well(self) -> None:
        assert address("fd00::1", "2001:db8::7", trusted=("10.0.0.0/8", "fd00::/8")) == "2001:db8::7"

    def test_a_unix_socket_has_no_address(self) -> None:
        assert address("") == ""

    def test_an_ipv4_address_on_an_ipv6_socket_is_itself(self) -> None:
        assert address("::ffff:10.0.0.1", "198.51.100.7", trusted=("10.0.0.0/8",)) == "198.51.100.7"
        assert ClientAddress(["10.0.0.0/8"]).is_proxy("::ffff:10.0.0.1")
        assert is_loopback("::ffff:127.0.0.1")
