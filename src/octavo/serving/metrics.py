"""What the server did, as Prometheus reads it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Seconds."""


class Histogram:
    """How often something took how long."""

    def __init__(self) -> None:
        self.counts, self.total = [0] * (len(BUCKETS) + 1), 0.0

    def add(self, seconds: float) -> None:
        """It took so long once more."""
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.total += seconds

    def lines(self, name: str) -> Iterator[str]:
        """As text."""
        below = 0
        for bound, count in zip((*BUCKETS, "+Inf"), self.counts, strict=True):
            below += count
            yield f'{name}_bucket{{le="{bound}"}} {below}'
        yield f"{name}_sum {self.total:.6f}"
        yield f"{name}_count {below}"


class Metrics:
    """Requests by path and status, and how long they took."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        self.seconds: dict[str, Histogram] = defaultdict(Histogram)
        self.cancelled = 0

    def text(self, gauges: Mapping[str, tuple[str, str, float]]) -> str:
        """The page; `gauges`: by name the kind, what it is, and its value now."""
        lines = [
            "# HELP octavo_requests_total Requests that were answered.",
            "# TYPE octavo_requests_total counter",
        ]
        lines += [
            f'octavo_requests_total{{path="{path}",status="{status}"}} {count}'
            for (path, status), count in sorted(self.requests.items())
        ]
        for name, (kind, what, value) in gauges.items():
            lines += [
                f"# HELP octavo_{name} {what}",
                f"# TYPE octavo_{name} {kind}",
                f"octavo_{name} {value:g}",
            ]
        for name, histogram in self.seconds.items():
            lines += [f"# TYPE octavo_{name}_seconds histogram", *histogram.lines(f"octavo_{name}_seconds")]
        return "\n".join(lines) + "\n"
