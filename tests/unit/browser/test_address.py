"""The address is kept for its user alone, and a window that is open finds the server again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from octavo.browser.address import Address, show_in_browser
from octavo.errors import InputError
from octavo.serving.http import listening
from unit.browser.conftest import TOKEN, opened


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "open"


def test_the_same_folder_has_the_same_address_again(tmp_path: Path, cache: Path) -> None:
    first = Address.of(tmp_path)
    with first.listen(listening, None):
        first.keep()
    (file,) = cache.glob("*.json")
    assert file.stat().st_mode & 0o777 == 0o600 and cache.stat().st_mode & 0o077 == 0
    again = Address.of(tmp_path)
    assert str(again) == str(first) and len(again.token) > 40
    with again.listen(listening, None) as sock:
        assert sock.getsockname()[1] == first.port
    assert Address.of(tmp_path / "..").token != first.token
    file.chmod(0o644)  # somebody else may have read it
    assert Address.of(tmp_path).token != first.token


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"port": 0, "token": ""}', '{"port": "80", "token": 5}']
)
def test_what_is_kept_and_damaged_is_made_anew(tmp_path: Path, cache: Path, content: str) -> None:
    first = Address.of(tmp_path)
    with first.listen(listening, None):
        first.keep()
    (file,) = cache.glob("*.json")
    file.write_text(content)
    assert Address.of(tmp_path).port == 0


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    address = Address.of(tmp_path)
    with listening("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=str(port)):
            address.listen(listening, port)
        address.port = port  # the folder's own from last time: another one does as well
        with address.listen(listening, None) as sock:
            assert sock.getsockname()[1] != port and address.ticket() is None


def test_who_has_taken_the_port_is_told_no_token_and_that_one_is_given_up(tmp_path: Path) -> None:
    first = Address.of(tmp_path)
    with first.listen(listening, None):
        first.keep()
    os.close(first._lock)  # the server has ended; windows that are left open still ask at its port
    again = Address.of(tmp_path)
    with listening("127.0.0.1", first.port) as taken:
        taken.settimeout(0.2)
        assert again.ticket() is None
        with pytest.raises(TimeoutError):
            taken.accept()
        with again.listen(listening, None):
            assert again.port != first.port and again.token != first.token and len(again.token) > 40


def test_the_server_that_holds_the_address_is_asked(tmp_path: Path) -> None:
    with opened(tmp_path) as window:
        open_already = Address.of(tmp_path)
        open_already.port, open_already.token = window.port, TOKEN
        assert open_already.ticket() is None
        open_already.keep()
        assert Address.of(tmp_path).ticket()


def test_no_browser_without_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    assert not show_in_browser("http://127.0.0.1:1/")
