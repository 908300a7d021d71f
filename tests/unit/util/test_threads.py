"""Work beside other work: what it returns and raises, and that nobody waits for it who does not ask."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextvars import ContextVar

import pytest

from octavo.util.threads import Meanwhile


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
    code = "import time; from octavo.util.threads import Meanwhile; Meanwhile(lambda: time.sleep(600))"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
