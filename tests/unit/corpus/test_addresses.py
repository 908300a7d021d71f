"""Which addresses a download may use, before anything is asked of them."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from octavo.corpus.addresses import AddressError, check_address


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "10.1.2.3", "192.168.1.1", "172.16.0.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "224.0.0.1",
     "[::1]", "[fe80::1]", "[fc00::1]", "[::ffff:10.0.0.1]", "[2002:7f00:1::]", "localhost"],
)  # fmt: skip
def test_private_numbers(host: str) -> None:
    with pytest.raises(AddressError, match="private network"):
        check_address(f"http://{host}/x", allow_private=False)


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
