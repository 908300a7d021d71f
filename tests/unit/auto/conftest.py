"""Shared by the tests of the dial."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from octavo.auto import choose


@pytest.fixture(autouse=True, scope="session")
def counted_once() -> Iterator[None]:
    """A choice compares some thousand numbers of steps of six sizes: count each size's parameters once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choose, "parameters_of", cache(choose.parameters_of))
        yield
