"""The first signal is noted, the second has its ordinary effect, and afterwards all is as before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from octavo.training.signals import HANG_UP, STOP_SIGNALS, stop_requests


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """Whoever runs the tests under nohup, and whatever ran in this process before."""
    numbers = [signal.SIGTERM, *([HANG_UP] if HANG_UP else [])]
    before = [signal.signal(number, signal.SIG_DFL) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_the_first_signal_is_noted(number: signal.Signals) -> None:
    before = [signal.getsignal(each) for each in STOP_SIGNALS]
    with stop_requests() as request:
        assert not request
        os.kill(os.getpid(), number)
        assert request
        assert request.name == number.name
    assert [signal.getsignal(each) for each in STOP_SIGNALS] == before


def test_a_second_ctrl_c_interrupts() -> None:
    with pytest.raises(KeyboardInterrupt), stop_requests() as request:
        os.kill(os.getpid(), signal.SIGTERM)
        assert request
        os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_second_sigterm_ends_the_process() -> None:
    code = (
        "import os, signal\nfrom octavo.training.signals import stop_requests\n"
        "with stop_requests():\n    os.kill(os.getpid(), 15)\n    print('noted', flush=True)\n"
        "    os.kill(os.getpid(), 15)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (-15, "noted\n")


def test_other_threads_have_no_signals() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen: list[object] = []

    def work() -> None:
        with stop_requests() as request:
            seen.extend([bool(request), signal.getsignal(signal.SIGINT)])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False, before]


@pytest.mark.skipif(HANG_UP is None, reason="Windows has no SIGHUP")
def test_nohup_is_heeded() -> None:
    """A training that was started by nohup outlives its terminal, also once it was asked to stop otherwise."""
    signal.signal(HANG_UP, signal.SIG_IGN)
    with stop_requests() as request:
        os.kill(os.getpid(), HANG_UP)
        assert not request
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), HANG_UP)
        assert request.name == "SIGTERM"
    assert signal.getsignal(HANG_UP) == signal.SIG_IGN
