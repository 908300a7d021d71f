"""Which addresses a download may use: http and https only, and no machine of a private network unless allowed.

The name is resolved here and the connection is made to the address that was looked at, so that a second look-up
cannot give another one (DNS rebinding). Redirects go through the same check, one by one.
"""

from __future__ import annotations

import ipaddress
import socket
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit, urlunsplit

from octavo.errors import CorpusError
from octavo.util.processes import Meanwhile

if TYPE_CHECKING:
    from httpx2 import Client, Request, Response

REDIRECTS = 5
HEAD_SECONDS = 90.0
_SCHEMES = ("http", "https")
_AUTHORIZATION = "Authorization"


class AddressError(CorpusError):
    """An address that may not be used."""


class UnknownHost(CorpusError):
    """A name that cannot be resolved: no such machine, or no network."""


@dataclass(frozen=True)
class Checked:
    """What to connect to.

    Attributes:
        url: the address, with the name of the machine replaced by the number that was looked at.
        headers: the name, for the machine that serves several.
        extensions: the name, for the certificate.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    extensions: Mapping[str, Any] = field(default_factory=dict)


def check_address(url: str, *, allow_private: bool) -> Checked:
    """Look at an address before it is used.

    Raises:
        AddressError: another scheme, a name and password in it, or a machine of a private network.
        UnknownHost: the name cannot be resolved.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise AddressError(f"{url} is not an address: {error}.") from error
    if parts.scheme not in _SCHEMES or not host:
        raise AddressError(
            f"{url} is not used: an address must begin with http:// or https://.",
            remedy="Fetch the file with another program and give it with --text PATH.",
        )
    if parts.username or parts.password:
        raise AddressError(f"The address at {host} is not used: it has a user's name or password in it.")
    if _proxied(parts.scheme, host):  # the proxy looks the name up; a number can be judged all the same
        _refuse_private(_numbers(host), host, allow_private)
        return Checked(url)
    numbers = _numbers(host) or _resolved(host, port or (443 if parts.scheme == "https" else 80))
    _refuse_private(numbers, host, allow_private)
    number = numbers[0]
    shown = f"[{number}]" if number.version == 6 else str(number)
    there = f"{shown}:{port}" if port else shown
    return Checked(
        urlunsplit((parts.scheme, there, parts.path, parts.query, "")),
        {"Host": parts.netloc},
        {"sni_hostname": host},
    )


def in_clear_text(url: str) -> bool:
    """Whether others can read what is sent to an address: without encryption, and beyond this machine."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    here = host == "localhost" or host.endswith(".localhost") or any(n.is_loopback for n in _numbers(host))
    return parts.scheme != "https" and not here


@contextmanager
def answered(
    client: Client, address: str, headers: Mapping[str, str], *, allow_private: bool
) -> Iterator[Response]:
    """The answer of an address after all redirects, each of them checked; a key goes to the first machine only, and
    not in clear text.

    Raises:
        AddressError: see `check_address`; or it redirects too often, or from https to http, or a key would be readable.
        UnknownHost: the name cannot be resolved.
    """
    first = address
    for _ in range(REDIRECTS + 1):
        there = check_address(address, allow_private=allow_private)
        stranger = urlsplit(address).netloc != urlsplit(first).netloc
        sent = {key: value for key, value in headers.items() if not (stranger and key == _AUTHORIZATION)}
        if _AUTHORIZATION in sent and in_clear_text(address):
            raise AddressError(
                f"No key is sent to {urlsplit(address).netloc}: without encryption others could read it on its way.",
                remedy="Use https://, or take the key (such as HF_TOKEN) out of the environment.",
            )
        request = client.build_request(
            "GET", there.url, headers={**sent, **there.headers}, extensions=dict(there.extensions)
        )
        with closing(_begun(client, request)) as response:
            if response.status_code not in (301, 302, 303, 307, 308):
                yield response
                return
            onward = _onward(address, response.headers.get("Location", ""))
        if address.startswith("https:") and onward.startswith("http:"):
            raise AddressError(f"{address} redirects to an address without encryption; that is not followed.")
        address = onward
    raise AddressError(f"{first} redirects more than {REDIRECTS} times.")


def _begun(client: Client, request: Request) -> Response:
    """An answer of which the body is still to be read. Raises httpx2.HTTPError, also where its head is not whole in
    time: httpx2 alone counts from byte to byte. Raises AddressError for a redirection to no address."""
    import httpx2

    try:
        return Meanwhile(lambda: client.send(request, stream=True)).result(HEAD_SECONDS)
    except TimeoutError:
        raise httpx2.ReadTimeout(
            f"no whole head of an answer in {HEAD_SECONDS:g} s", request=request
        ) from None
    except httpx2.RemoteProtocolError as error:
        if "location header" not in str(error):  # which some versions read although nothing follows it
            raise
        raise AddressError(f"{request.url} redirects to what is not an address: {error}") from error


def _onward(address: str, location: str) -> str:
    try:
        return urljoin(address, location)
    except ValueError as error:
        raise AddressError(f"{address} redirects to {location!r}, which is not an address.") from error


_Number = ipaddress.IPv4Address | ipaddress.IPv6Address


def _proxied(scheme: str, host: str) -> bool:
    return scheme in urllib.request.getproxies() and not urllib.request.proxy_bypass(host)


def _numbers(host: str) -> list[_Number]:
    """The number that a host is written as; none where it is a name."""
    try:
        return [ipaddress.ip_address(host)]
    except ValueError:
        pass
    try:  # the system also takes 127.1, 0x7f000001 and the like
        return [ipaddress.IPv4Address(socket.inet_aton(host))]
    except (OSError, UnicodeError):
        return []


def _resolved(host: str, port: int) -> list[_Number]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UnknownHost(
            f"{host} cannot be reached: its name cannot be resolved. This machine may be offline.",
            remedy="Try again with a network, or fetch the file elsewhere and give it with --text PATH.",
        ) from error
    unique = dict.fromkeys(str(each[4][0]).partition("%")[0] for each in found)
    numbers = [ipaddress.ip_address(each) for each in unique]
    return sorted(numbers, key=lambda number: number.version)  # version 4 works in more places


def _refuse_private(numbers: list[_Number], host: str, allow_private: bool) -> None:
    if allow_private:
        return
    for number in numbers:
        if not _is_public(number):
            raise AddressError(
                f"{host} ({number}) is not used: it is a machine of a private network, not of the internet.",
                remedy="If it is your own, allow it: OCTAVO_ALLOW_PRIVATE=1 in the environment "
                "(octavo corpus get takes --allow-private as well).",
            )


_INTERNET = ipaddress.IPv6Network("2000::/3")  # all that is given out; what lies outside has a local meaning
_EMBEDDING = tuple(
    (ipaddress.IPv6Network(network), shift)
    for network, shift in (
        ("::/96", 0),  # compatible (RFC 4291)
        ("::ffff:0:0/96", 0),  # mapped (RFC 4291)
        ("::ffff:0:0:0/96", 0),  # translated (RFC 2765)
        (
            "64:ff9b::/96",
            0,
        ),  # NAT64 (RFC 6052); its local form, 64:ff9b:1::/48, is for private networks alone
        ("2002::/16", 80),  # 6to4 (RFC 3056)
    )
)
"""Where an address of version 6 stands for one of version 4: the network, and the bits behind the embedded one."""


def _is_public(number: _Number) -> bool:
    """Whether a number belongs to a machine of the internet. One that stands for another is judged as that one."""
    if isinstance(number, ipaddress.IPv4Address):
        return number.is_global and not number.is_multicast
    for network, shift in _EMBEDDING:
        if number in network:
            return _is_public(ipaddress.IPv4Address(int(number) >> shift & 0xFFFFFFFF))
    return number.is_global and number in _INTERNET
