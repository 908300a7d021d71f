"""Seeds of parts: of their own for each part and each seed, and the same in every process."""

from __future__ import annotations

from octavo.util.seeds import derived


def test_each_part_of_each_seed_has_its_own() -> None:
    found = [
        derived(seed, series, first) for seed in range(20) for series in range(5) for first in (0, 1, 2000)
    ]
    assert len(set(found)) == len(found)
    assert derived(5, 1) == 17996766564426832300 and 0 <= min(found) <= max(found) < 2**64
