import signal
from collections.abc import Iterator

import pytest

from octavo.errors import OctavoError
from octavo.util import interruption
from octavo.util.interruption import interrupt, is_interruption


@pytest.fixture(autouse=True)
def nothing_came() -> Iterator[None]:
    yield
    interruption._came.clear()


def test_what_comes_after_a_signal_is_an_interruption_unless_it_is_foreseen() -> None:
    others = [ValueError("a library's"), SystemError("and another's")]
    foreseen = [OctavoError("This is known."), OSError(28, "No space left on device"), MemoryError()]
    assert not any(map(is_interruption, [*others, *foreseen, None]))
    assert is_interruption(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        interrupt(signal.SIGINT, None)
    assert all(map(is_interruption, others))
    assert not any(map(is_interruption, [*foreseen, SystemExit(1), None]))
