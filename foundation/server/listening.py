"""Where a `web` process listens: addresses and descriptions of endpoints, in Twisted's form."""

import ipaddress
import socket

# As many connections can wait to be accepted when all clients of a process reconnect at once.
BACKLOG = 2048


def describe_endpoint(host: str, port: int) -> str:
    """An endpoint that listens when the server starts. A colon in an address is escaped."""
    interface = host.replace(":", chr(92) + ":")
    return f"tcp:port={port}:interface={interface}:backlog={BACKLOG}"


def share_endpoint(host: str, port: int) -> str:
    """Listen now, beside other processes of this user that share the port; on Linux, connections spread over them.

    The endpoint is this process's own socket. Raises `OSError`.
    """
    is_ipv6 = ":" in host
    listener = socket.create_server(
        (host, port),
        family=socket.AF_INET6 if is_ipv6 else socket.AF_INET,
        backlog=BACKLOG,
        reuse_port=True,
        dualstack_ipv6=is_ipv6 and socket.has_dualstack_ipv6(),
    )
    return f"fd:fileno={listener.detach()}"


def is_shared(listener: socket.socket) -> bool:
    """Whether other processes can listen on the port too."""
    return bool(listener.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT))


def listens_on_loopback(host: str) -> bool:
    """Whether only this machine can connect. A name other than localhost may be any address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
