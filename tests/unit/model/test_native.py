"""Kernels in C: compiled once and kept, and never an error where that cannot be done."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from octavo.model import native

KERNELS = [("octavo.model", "attend"), ("octavo.generation", "decode")]

pytestmark = pytest.mark.skipif(native.library(*KERNELS[0]) is None, reason="there is no C compiler here")


@pytest.fixture(params=KERNELS, ids=lambda kernel: kernel[1])
def kernel(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, str]]:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path))
    native.library.cache_clear()
    yield request.param
    native.library.cache_clear()


def test_compiled_once_and_kept(
    kernel: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert native.library(*kernel) is not None
    (built,) = tmp_path.glob("native/*")
    native.library.cache_clear()
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("compiled again"))
    assert native.library(*kernel) is not None
    assert list(tmp_path.glob("native/*")) == [built]


def test_switched_off(kernel: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_NATIVE", "0")
    assert native.library(*kernel) is None
    assert not list(tmp_path.glob("native/*"))


def test_a_compiler_that_fails_is_no_error(
    kernel: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native.shutil, "which", lambda name: "/bin/false")
    assert native.library(*kernel) is None
    assert not list(tmp_path.glob("native/*"))


def test_a_damaged_library_is_made_again(kernel: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    whole = native._compile

    def damaged(compiler: str, source: bytes, path: Path) -> bool:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"not a library")
        return True

    monkeypatch.setattr(native, "_compile", damaged)
    assert native.library(*kernel) is None
    native.library.cache_clear()
    monkeypatch.setattr(native, "_compile", whole)
    assert native.library(*kernel) is not None
