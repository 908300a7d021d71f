"""Requests to stop: the first Ctrl-C or SIGTERM lets the step end and saves, the second ends at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOP_SIGNALS = [signal.SIGINT, signal.SIGTERM] + ([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])


class StopRequest:
    """Whether someone asked for an end, and by which signal."""

    def __init__(self) -> None:
        self.name: str | None = None

    def __bool__(self) -> bool:
        return self.name is not None


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Within the context the first signal is noted; a second one has its ordinary effect."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():  # only the main thread may handle signals
        yield request
        return
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}

    def note(number: int, _frame: FrameType | None) -> None:
        request.name = signal.Signals(number).name
        for other in STOP_SIGNALS:
            signal.signal(other, signal.default_int_handler if other == signal.SIGINT else signal.SIG_DFL)

    for number in STOP_SIGNALS:
        signal.signal(number, note)
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
