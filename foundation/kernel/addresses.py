"""IP addresses, and what limits count of them (ADR-011)."""

import ipaddress

IPV6_NETWORK_BITS = 64

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def parse_address(text: str) -> Address | None:
    """None for what is none. IPv4 addresses of a socket that listens on IPv6 as well are mapped: `::ffff:192.0.2.1`."""
    try:
        address = ipaddress.ip_address(text.strip())
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def client_of(address: str) -> str:
    """What limits count: the address, and of IPv6 its network of 64 bits, because one client has all of those."""
    parsed = parse_address(address.partition("%")[0])
    if parsed is None or parsed.version == 4:
        return address if parsed is None else str(parsed)
    return str(ipaddress.ip_network((int(parsed), IPV6_NETWORK_BITS), strict=False))


def is_loopback(address: str) -> bool:
    parsed = parse_address(address)
    return parsed is not None and parsed.is_loopback
