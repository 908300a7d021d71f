"""Shared by the tests of kernels: the vectors of other processors than this one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources

import pytest

from octavo.generation import native as decoding
from octavo.util import kernels

PROCESSORS = {
    "this one": None,
    "AVX2": ("-march=x86-64-v3",),
    "SSE2": ("-march=x86-64",),
}


@pytest.fixture(scope="module", params=PROCESSORS)
def processor(request: pytest.FixtureRequest) -> Iterator[str]:
    """Kernels compiled for this processor, and as if it had shorter vectors; loaded once for a file's tests."""
    flags = PROCESSORS[request.param]
    if flags is None:
        yield request.param
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "MACHINES", (flags,))
        _forget()
        if kernels.in_use().native is None:
            pytest.skip(f"this compiler does not know {flags[0]}")
        yield request.param
    _forget()


def _forget() -> None:
    """The kernels, and matrices that were laid out for their vectors."""
    kernels._chosen.cache_clear()
    decoding._PACKED.clear()


def names_in_c(package: str, file: str, struct: str) -> list[str]:
    """The names of a kernel's struct, in their order."""
    source = re.sub(r"//.*", "", resources.files(package).joinpath(f"{file}.c").read_text(encoding="utf-8"))
    (body,) = re.findall(rf"typedef struct {{([^}}]*)}} {struct};", source)
    return re.findall(r"(\w+) *[,;]", body)
