"""Which addresses a download may use, before anything is asked of them."""

from __future__ import annotations

import ipaddress
import socket
import threading
from typing import Any

import httpx2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from octavo.corpus.fetch import addresses
from octavo.corpus.fetch.addresses import AddressError, answered, check_address, in_clear_text
from unit.corpus.web import drip_head, serving


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "10.1.2.3", "192.168.1.1", "172.16.0.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "224.0.0.1",
     "[::1]", "[fe80::1]", "[fc00::1]", "[::ffff:10.0.0.1]", "[2002:7f00:1::]", "localhost",
     "[::127.0.0.1]", "[::ffff:0:10.0.0.1]", "[64:ff9b::10.0.0.1]", "[64:ff9b:1::8.8.8.8]", "[64:ff9b:1:ffff::1]",
     "[fec0::1]", "[feff::1]", "[2001:0:4136:e378:8000:63bf:f5ff:fffe]", "[5f00::1]", "[100::1]", "[::]", "[ff02::1]",
     "[fe80::1%25eth0]", "127.1", "0x7f000001", "2130706433"],
)  # fmt: skip
def test_private_numbers(host: str) -> None:
    with pytest.raises(AddressError, match="private network"):
        check_address(f"http://{host}/x", allow_private=False)


EMBEDDINGS = {
    "mapped": lambda v4: f"::ffff:{v4}",
    "compatible": lambda v4: f"::{v4}",
    "translated": lambda v4: f"::ffff:0:{v4}",
    "NAT64": lambda v4: f"64:ff9b::{v4}",
    "6to4": lambda v4: str(ipaddress.IPv6Address(0x2002 << 112 | int(v4) << 80 | 1)),
}


def allowed(host: str) -> bool:
    try:
        check_address(f"http://{host}/x", allow_private=False)
    except AddressError:
        return False
    return True


@pytest.mark.parametrize("form", EMBEDDINGS)
@given(
    v4=st.one_of(
        st.ip_addresses(v=4),
        *(st.ip_addresses(network=n) for n in ("127.0.0.0/8", "10.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4")),
    )
)
@example(v4=ipaddress.IPv4Address("8.8.8.8"))
@example(v4=ipaddress.IPv4Address("127.0.0.1"))
def test_an_address_in_an_address_is_judged_as_itself(form: str, v4: ipaddress.IPv4Address) -> None:
    assert allowed(f"[{EMBEDDINGS[form](v4)}]") is allowed(str(v4))


@given(v6=st.ip_addresses(v=6))
@example(v6=ipaddress.IPv6Address("2606:4700::1111"))
def test_of_version_6_only_what_is_given_out_is_used(v6: ipaddress.IPv6Address) -> None:
    embeds = (
        v6.ipv4_mapped or v6 in ipaddress.ip_network("64:ff9b::/96") or int(v6) >> 32 in (0, 0xFFFF << 16)
    )
    if not embeds:
        assert not allowed(f"[{v6}]") or (v6.is_global and int(v6) >> 125 == 1)


def test_public_numbers_are_used() -> None:
    assert all(map(allowed, ("8.8.8.8", "[2606:4700::1111]", "[64:ff9b::808:808]", "[2002:808:808::1]")))


def test_behind_a_proxy_a_number_is_judged_however_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "")
    assert not any(map(allowed, ("127.0.0.1", "127.1", "0x7f.1", "[::ffff:0:127.0.0.1]")))


def test_the_connection_goes_to_the_number_that_was_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_public(host: str, port: int, **_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", port))]

    monkeypatch.setattr(socket, "getaddrinfo", one_public)
    checked = check_address("https://example.org/a?b=c", allow_private=False)
    assert checked.url == "https://93.184.216.34/a?b=c"
    assert (checked.headers, checked.extensions) == ({"Host": "example.org"}, {"sni_hostname": "example.org"})


def test_a_name_with_one_private_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = ["93.184.216.34", "10.0.0.1"]
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda *_, **__: [(0, 0, 0, "", (each, 80)) for each in numbers]
    )
    with pytest.raises(AddressError):
        check_address("http://example.org/", allow_private=False)


def test_what_others_can_read() -> None:
    there = (
        "http://api.example/v1",
        "http://10.0.0.1/",
        "http://localhost.example/",
        "http://127.0.0.1.example/",
    )
    here = ("http://localhost:11434/v1", "http://127.0.0.1/", "http://[::1]:8000/", "https://api.example/v1")
    assert all(map(in_clear_text, there)) and not any(map(in_clear_text, here))


def test_a_head_that_comes_byte_by_byte_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "HEAD_SECONDS", 0.2)
    released = threading.Event()
    with (
        serving(lambda request, _: drip_head(request, released)) as slow,
        httpx2.Client(timeout=30) as client,
    ):
        with (
            pytest.raises(httpx2.ReadTimeout, match="no whole head"),
            answered(client, slow.base, {}, allow_private=True),
        ):
            raise AssertionError("there is no answer")
        released.set()


@pytest.mark.parametrize(
    ("told", "raised"),
    [
        ("Invalid URL in location header: Invalid port", AddressError),
        ("Server disconnected", httpx2.RemoteProtocolError),
    ],
)
def test_a_version_that_reads_a_redirection_itself_is_understood(told: str, raised: type[Exception]) -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.RemoteProtocolError(told, request=request)

    with (
        httpx2.Client(transport=httpx2.MockTransport(answer)) as client,
        pytest.raises(raised),
        answered(client, "http://127.0.0.1/", {}, allow_private=True),
    ):
        raise AssertionError("there is no answer")
