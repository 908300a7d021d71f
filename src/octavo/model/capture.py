"""Looking inside a model from outside: activations by the names of its modules, without a flag in the model."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from octavo.errors import InputError
from octavo.model.attention import ExplicitAttend, FusedAttend


def capturable(model: nn.Module) -> list[str]:
    """Names of everything whose output can be captured, such as `blocks.0.attention` or `norm`."""
    return [name for name, module in model.named_modules() if name and not isinstance(module, nn.ModuleList)]


@contextmanager
def capture(model: nn.Module, names: Sequence[str]) -> Iterator[dict[str, Tensor]]:
    """Within the context every forward pass fills the dict: name → output of that module in the latest pass.

    Attention weights (B, H, T, S) stand at `blocks.N.attention.attend.weights` of a model built with explicit
    attention. Raises InputError for a name that the model does not have.
    """
    modules, known = dict(model.named_modules()), capturable(model)
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise InputError(
                f"The model has no part '{name}'." + (f" Did you mean '{near[0]}'?" if near else "")
            )
    captured: dict[str, Tensor] = {}

    def hook(name: str) -> Callable[[nn.Module, object, Tensor], None]:
        def keep(_module: nn.Module, _inputs: object, output: Tensor) -> None:
            captured[name] = output.detach()

        return keep

    handles = [modules[name].register_forward_hook(hook(name)) for name in names]
    try:
        yield captured
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def attention_weights(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Within the context every forward pass fills the dict: name of each attention → its weights (B, H, T, S), in the
    order of the modules. The model need not have been built with explicit attention: it has that within the context."""
    fused = {
        name: module
        for name, module in model.named_modules()
        if isinstance(getattr(module, "attend", None), FusedAttend)
    }
    kept: dict[str, Any] = {name: module.attend for name, module in fused.items()}
    try:
        for name, module in fused.items():
            one = ExplicitAttend(scale=kept[name].scale, dropout=kept[name].dropout)
            module.attend = one.train(module.training)
        names = [name for name in capturable(model) if name.endswith("attend.weights")]
        with capture(model, names) as captured:
            yield captured
    finally:
        for name, module in fused.items():
            module.attend = kept[name]
