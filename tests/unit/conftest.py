"""Shared by the tests of kernels: the vectors of other processors than this one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources

import pytest

from octavo.generation import native as decoding
from octavo.model import attend
from octavo.util import kernels

PROCESSORS = {
    "this one": None,
    "AVX2": ("-march=x86-64-v3", "-fopenmp"),
    "SSE2, one thread": ("-march=x86-64",),
}


@pytest.fixture(params=PROCESSORS)
def processor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Kernels compiled for this processor, and as if it had shorter vectors."""
    flags = PROCESSORS[request.param]
    if flags is None:
        yield
        return
    monkeypatch.setattr(kernels, "MACHINES", (flags,))
    caches = (kernels._library, attend._kernel, decoding.compiled)
    for cached in caches:
        cached.cache_clear()
    if kernels.library("octavo.model", "attend") is None:
        pytest.skip(f"this compiler does not know {flags[0]}")
    yield
    for cached in caches:
        cached.cache_clear()


def names_in_c(package: str, file: str, struct: str) -> list[str]:
    """The names of a kernel's struct, in their order."""
    source = re.sub(r"//.*", "", resources.files(package).joinpath(f"{file}.c").read_text(encoding="utf-8"))
    (body,) = re.findall(rf"typedef struct {{([^}}]*)}} {struct};", source)
    return re.findall(r"(\w+) *[,;]", body)
