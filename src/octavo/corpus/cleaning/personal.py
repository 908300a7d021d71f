"""Personal data by its pattern: addresses of mail, telephone numbers, cards, accounts.

Patterns find what looks like such data; a name or a street they cannot see. What was found is counted and never
repeated in a message.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

from pydantic import Field, field_validator

from octavo.config.parts import register
from octavo.corpus.cleaning.base import Dropped, Step, StepConfig

Kind = Literal["email", "iban", "card", "us_social_security", "phone", "ip_address"]


def luhn(number: str) -> bool:
    """Whether the last digit checks the others, as it does on payment cards (ISO/IEC 7812)."""
    digits = [int(digit) for digit in number if digit.isdecimal()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return 13 <= len(digits) <= 19 and any(digits) and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def iban(number: str) -> bool:
    """Whether the two check digits fit the account number (ISO 13616)."""
    bare = "".join(number.split()).upper()
    turned = bare[4:] + bare[:4]
    return 15 <= len(bare) <= 34 and int("".join(str(int(each, 36)) for each in turned)) % 97 == 1


def _phone(number: str) -> bool:
    digits = sum(each.isdecimal() for each in number)
    return 8 <= digits <= 15


def _ip_address(number: str) -> bool:
    return all(int(part) <= 255 for part in number.split("."))


def _any(found: str) -> bool:
    return True


# Each repetition is bounded, so that no text can make the search slow. The order decides where two would overlap.
_PATTERNS: dict[Kind, tuple[re.Pattern[str], Callable[[str], bool]]] = {
    "email": (re.compile(r"\b[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,8}[A-Za-z]{2,24}\b"), _any),
    "iban": (re.compile(r"\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b"), iban),
    "card": (re.compile(r"(?<![\w.-])[0-9](?:[ -]?[0-9]){12,18}(?![\w-])"), luhn),
    "us_social_security": (
        re.compile(r"(?<![\w-])(?!000|666|9)[0-9]{3}-(?!00)[0-9]{2}-(?!0000)[0-9]{4}(?![\w-])"),
        _any,
    ),
    "phone": (
        re.compile(
            r"(?<![\w.+-])(?:\+[0-9]{1,3}(?:[ ./-]{0,2}\(?[0-9]{1,5}\)?){2,6}"
            r"|\(?[0-9]{3}\)?[ .-][0-9]{3}[ .-][0-9]{4})(?![\w-])"
        ),
        _phone,
    ),
    "ip_address": (re.compile(r"(?<![\w.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![\w.]*[\w])"), _ip_address),
}  # fmt: skip


class _PersonalData(Step):
    def __init__(self, kinds: tuple[Kind, ...], action: str) -> None:
        super().__init__()
        self._kinds, self._action = [kind for kind in _PATTERNS if kind in kinds], action

    def clean(self, text: str, number: int) -> str:
        here: Counter[str] = Counter()
        masked = text
        for kind in self._kinds:
            pattern, holds = _PATTERNS[kind]
            word = f"[{kind.replace('_', ' ')}]"

            def replace(match: re.Match[str], kind: str = kind, word: str = word, holds: Any = holds) -> str:
                if not holds(match.group()):
                    return match.group()
                here[kind] += 1
                return word

            masked = pattern.sub(replace, masked)
        self.found += here
        if here:
            self.found["documents with some"] += 1
        if here and self._action == "drop":
            raise Dropped(
                "personal data", ", ".join(f"{count} × {kind}" for kind, count in sorted(here.items()))
            )
        return masked if self._action == "mask" else text


@register("cleaning")
class PersonalData(StepConfig):
    """What looks like personal data is counted, or masked, or its document dropped. Names and streets are not seen."""

    kind: Literal["personal_data"] = "personal_data"
    kinds: tuple[Kind, ...] = Field(tuple(_PATTERNS), min_length=1)
    """What to look for. Cards and IBANs have to pass their check digits."""
    action: Literal["report", "mask", "drop"] = "report"
    """report: counted, and left as it is; mask: [email], [phone] and so on stand in its place; drop: the document is
    left out."""

    @field_validator("kinds", mode="before")
    @classmethod
    def _one(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    def build(self) -> Step:
        return _PersonalData(self.kinds, self.action)
