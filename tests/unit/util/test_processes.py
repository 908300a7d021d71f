"""Children that handle what others wrote are told where things lie, and no secret. Work beside other work: what it
returns and raises, and that nobody waits for it who does not ask. The first signal is noted, the second has its
ordinary effect, and afterwards all is as before."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextvars import ContextVar

import pytest

from octavo.util.processes import HANG_UP, STOP_SIGNALS, Meanwhile, plain_environment, stop_requests

SECRETS = (
    "OPENAI_API_KEY",
    "HF_TOKEN",
    "AWS_SECRET_ACCESS_KEY",
    "PGPASSWORD",
    "https_proxy",
    "MY_WORD",
    "SSH_AUTH_SOCK",
)


def test_no_variable_of_the_user_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SECRETS:
        monkeypatch.setenv(name, "sk-canary")
    told = plain_environment(PYTHONUTF8="1")
    assert "sk-canary" not in told.values() and not set(SECRETS) & told.keys()
    assert told["PATH"] == os.environ["PATH"] and told["PYTHONUTF8"] == "1"


def test_a_child_finds_octavo_with_it() -> None:
    program = "import octavo.errors, os, json; print(json.dumps(sorted(os.environ)))"
    done = subprocess.run(
        [sys.executable, "-c", program], env=plain_environment(), capture_output=True, check=True
    )
    assert set(json.loads(done.stdout)) <= {*plain_environment(), "LC_CTYPE"}


def test_the_result_is_that_of_the_call_as_often_as_it_is_asked_for() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def work() -> int:
        begun.set()
        assert go_on.wait(60)
        return 7

    found = Meanwhile(work)
    assert begun.wait(60), "it begins before anybody asks"
    go_on.set()
    assert found.result() == 7 == found.result()


def test_an_error_is_raised_where_the_result_is_asked_for() -> None:
    def work() -> None:
        raise ZeroDivisionError("in the thread")

    found = Meanwhile(work)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="in the thread"):
            found.result()


def test_nobody_waits_longer_than_was_said() -> None:
    go_on = threading.Event()
    found = Meanwhile(lambda: go_on.wait(60))
    with pytest.raises(TimeoutError):
        found.result(0.01)
    go_on.set()
    assert found.result(60)


def test_the_call_knows_the_context_of_who_began_it() -> None:
    place: ContextVar[str] = ContextVar("place", default="here")
    token = place.set("there")
    found = Meanwhile(place.get)
    place.reset(token)
    assert found.result() == "there"


def test_the_end_of_the_program_does_not_wait() -> None:
    code = "import time; from octavo.util.processes import Meanwhile; Meanwhile(lambda: time.sleep(600))"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


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
        "import os, signal\nfrom octavo.util.processes import stop_requests\n"
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
