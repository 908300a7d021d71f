"""How a run's model chooses tokens."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from octavo.config import SamplingConfig
from octavo.errors import InputError
from octavo.generation import Sampling


def sampling_of(settings: SamplingConfig, **changes: Any) -> Sampling:
    """The recipe's way of choosing tokens, with `changes`. Raises InputError for impossible ones."""
    given = {name: value for name, value in changes.items() if value is not None}
    try:
        checked = type(settings).model_validate(settings.model_dump() | given)
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        raise InputError(f"This is no way to choose tokens: {'; '.join(wrong)}.") from error
    return Sampling(**{name: getattr(checked, name) for name in Sampling.__dataclass_fields__})
