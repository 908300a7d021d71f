"""The kernels of these very sources are proven, where they can be: a wrong one is no reason to skip its tests."""

from __future__ import annotations

import pytest

from octavo.util.kernels import ITS_OWN, in_use


def test_what_is_made_of_these_sources_gives_what_torch_gives() -> None:
    """A wrong kernel is not used, its slow twin does the work, and its own tests would be skipped."""
    found = in_use()
    wrong = ["gives other results", *(f"({name})" for name in ITS_OWN)]
    assert not [words for words in wrong if words in found.why], found.why
    if found.native is None:
        pytest.skip(found.why)
