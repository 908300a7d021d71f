"""Requests to stop: the first Ctrl-C or SIGTERM lets the step end and saves, the second ends at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

HANG_UP = getattr(signal, "SIGHUP", None)  # Windows has none
STOP_SIGNALS = [signal.SIGINT, signal.SIGTERM] + ([HANG_UP] if HANG_UP else [])


class StopRequest:
    """Whether someone asked for an end, and by which signal."""

    def __init__(self) -> None:
        self.name: str | None = None

    def __bool__(self) -> bool:
        return self.name is not None


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Within the context the first signal is noted; a second one has its ordinary effect. Under nohup no
    terminal that is closed is a request."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():  # only the main thread may handle signals
        yield request
        return
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    if before.get(HANG_UP) == signal.SIG_IGN:  # by nohup: the terminal may be closed
        del before[HANG_UP]

    def note(number: int, _frame: FrameType | None) -> None:
        request.name = signal.Signals(number).name
        for other in before:
            signal.signal(other, signal.default_int_handler if other == signal.SIGINT else signal.SIG_DFL)

    for number in before:
        signal.signal(number, note)
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
