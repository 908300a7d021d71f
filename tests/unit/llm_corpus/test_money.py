"""Money is exact, the cap holds in any order of events, and hours are those of the named place."""

from __future__ import annotations

from datetime import datetime
from random import Random
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.errors import InputError
from octavo.llm_corpus.money import PICO, Budget, Hours, OffPeak, Prices, Tokens, dollars

DENVER = ZoneInfo("America/Denver")


def at(*moment: int) -> float:
    return datetime(*moment, tzinfo=DENVER).timestamp()


def test_a_million_tokens_cost_their_price() -> None:
    prices = Prices(input=0.28, cached_input=0.028, output=0.42)
    assert prices.cost(Tokens(10**6, 0, 0)) == round(0.28 * PICO)
    assert prices.cost(Tokens(10**6, 10**6, 0)) == round(0.028 * PICO)
    assert prices.cost(Tokens(0, 0, 10**6)) == round(0.42 * PICO)
    assert Prices(input=1, output=1).cost(Tokens(10, 4, 0)) == 10 * 10**6  # no price for the cache: as input


@given(
    st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**5), st.floats(0, 100), st.floats(0, 100)
)
def test_no_call_costs_more_than_the_most(
    prompt: int, cached: int, reply: int, one: float, two: float
) -> None:
    off = OffPeak(hours="10:00-18:30@America/Denver", input=two, output=one, cached_input=one)
    prices = Prices(input=one, output=two, cached_input=two, off_peak=off)
    noon, night = at(2026, 3, 2, 12), at(2026, 3, 2, 23)
    most = prices.most(Tokens(prompt, 0, reply))
    for tokens in (Tokens(prompt, min(cached, prompt), reply), Tokens(prompt // 2, 0, reply // 2)):
        for moment in (noon, night):
            assert prices.at(tokens, moment, night) <= most


def test_off_peak_prices_hold_at_their_hours() -> None:
    prices = Prices(
        input=2, output=2, off_peak=OffPeak(hours="10:00-18:30@America/Denver", input=1, output=1)
    )
    million = Tokens(10**6, 0, 0)
    noon, night = at(2026, 3, 2, 12), at(2026, 3, 2, 23)
    assert prices.at(million, noon, noon) == PICO
    assert prices.at(million, night, night) == 2 * PICO
    assert prices.at(million, noon, night) == 2 * PICO  # the hours changed meanwhile: the dearer


@given(
    st.lists(st.tuples(st.integers(0, 100), st.floats(0, 1)), max_size=60),
    st.integers(0, 500),
    st.integers(0, 2**32),
)
def test_the_cap_holds_in_any_order(calls: list[tuple[int, float]], cap: int, seed: int) -> None:
    budget, draw, flying, billed = Budget(cap), Random(seed), [], 0
    for amount, share in calls:
        if budget.reserve(amount):
            flying.append((amount, int(amount * share)))
        if flying and draw.random() < 0.5:
            reserved, cost = flying.pop(draw.randrange(len(flying)))
            budget.settle(reserved, cost)
            billed += cost
        assert budget.spent + budget.reserved <= cap
        assert budget.spent == billed


@given(st.lists(st.tuples(st.integers(1, 100), st.floats(0, 1)), min_size=1, max_size=20))
def test_nothing_stays_reserved_when_every_call_has_ended(calls: list[tuple[int, float]]) -> None:
    """To the last picodollar: a reservation that frees too little would fill the cap with calls long ended."""
    cap = sum(amount for amount, _ in calls)
    budget = Budget(cap)
    assert all(budget.reserve(amount) for amount, _ in calls) and not budget.reserve(1)
    spent = 0
    for amount, share in calls:
        budget.settle(amount, int(amount * share))
        spent += int(amount * share)
    assert (budget.reserved, budget.spent) == (0, spent)
    assert budget.reserve(cap - spent) and not budget.reserve(1)


def test_what_was_spent_before_counts() -> None:
    budget = Budget(100, spent=95)
    assert not budget.reserve(6)
    assert budget.reserve(5)
    assert Budget(None).reserve(10**30)


@pytest.mark.parametrize(
    ("moment", "inside"),
    [
        ((2026, 3, 2, 9, 59), False),
        ((2026, 3, 2, 10, 0), True),
        ((2026, 3, 2, 18, 29), True),
        ((2026, 3, 2, 18, 30), False),
        ((2026, 7, 2, 10, 0), True),  # summer time
    ],
)
def test_hours_are_those_of_the_place(moment: tuple[int, ...], inside: bool) -> None:
    assert (at(*moment) in Hours.parse("10:00-18:30@America/Denver")) is inside


def test_waiting_ends_when_the_hours_begin() -> None:
    hours = Hours.parse("10:00-18:30@America/Denver")
    assert hours.wait(at(2026, 3, 2, 12)) == 0
    assert hours.wait(at(2026, 3, 2, 9)) == 3600
    assert hours.wait(at(2026, 3, 2, 19)) == 15 * 3600
    assert hours.wait(at(2026, 3, 7, 19)) == 14 * 3600  # clocks go forward in that night
    night = Hours.parse("22:00-6:00@UTC")
    assert [hour for hour in range(24) if hour * 3600.0 in night] == [0, 1, 2, 3, 4, 5, 22, 23]
    assert night.wait(12 * 3600.0) == 10 * 3600


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10-18",
        "10:00-18:30",
        "25:00-26:00@UTC",
        "10:00-10:00@UTC",
        "9:00-10:00@Mars/Base",
        "9:00-10:00@../x",
    ],
)
def test_wrong_hours_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        Hours.parse(text)


def test_dollars_read_well() -> None:
    assert [dollars(x * PICO) for x in (0, 0.00123, 2, 1234.5)] == ["$0.00", "$0.0012", "$2.00", "$1,234.50"]
