"""The rotary settings that Hugging Face's architectures share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from octavo.errors import InputError
from octavo.export.architectures.base import Setting
from octavo.export.weights import Shape


@dataclass(frozen=True)
class Rope(Setting):
    """`rope_parameters`; older files have `rope_theta`, `rope_scaling` and `rotary_pct` beside the others.

    Attributes:
        share: the share of each head that turns where nothing says it; None where all of it does.
        default_kind: how positions are scaled where nothing says it.
    """

    default_base: float = 10000.0
    share: float | None = None
    default_kind: str = "default"

    def write(self, shape: Shape) -> dict[str, Any]:
        parameters: dict[str, Any] = {"rope_type": "default", "rope_theta": shape.base}
        if self.share is not None:
            parameters["partial_rotary_factor"] = shape.turned / shape.head_width
        if shape.slowness:
            slowness = list(shape.slowness)
            parameters |= {"rope_type": "longrope", "attention_factor": 1.0, "factor": 1.0}
            parameters |= {"short_factor": slowness, "long_factor": slowness}
            parameters["original_max_position_embeddings"] = shape.context
        return {"rope_parameters": parameters}

    def read(self, theirs: Mapping[str, Any], fields: dict[str, Any]) -> None:
        parameters = dict(theirs.get("rope_parameters") or theirs.get("rope_scaling") or {})
        kind = parameters.get(
            "rope_type", parameters.get("type", "default" if parameters else self.default_kind)
        )
        fields["base"] = float(
            parameters.get("rope_theta", theirs.get("rope_theta", theirs.get("rotary_emb_base", 0)))
        )
        fields["base"] = fields["base"] or self.default_base
        if kind == "longrope" and parameters.get("short_factor") == parameters.get("long_factor"):
            fields["slowness"] = tuple(map(float, parameters["long_factor"]))
        elif kind != "default":
            raise InputError(f"The settings scale rotary positions by '{kind}', which Octavo's GPT cannot.")
        if self.share is not None:
            share = parameters.get("partial_rotary_factor", theirs.get("rotary_pct", self.share))
            width = fields.get("head_width", fields["width"] // fields["heads"])
            fields["turned"] = int(width * share)
