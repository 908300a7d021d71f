"""A reward as a command names it: a kind, options in YAML, or a Python file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from octavo.config import load_parts
from octavo.config.parts import kinds
from octavo.config.plain import parse_yaml
from octavo.errors import ConfigError
from octavo.tuning.rewards.base import RewardConfig, RewardHolder


def named_reward(words: str) -> tuple[RewardConfig, list[str]]:
    """The reward that is meant by `pidgin`, `{kind: words, must: [snail]}` or `mine.py`, and what to say about it:
    a file is run. Raises ConfigError for what is no reward."""
    said: list[str] = []
    tree: Any = parse_yaml(words, "--reward")
    if isinstance(tree, str) and tree.endswith(".py"):
        loaded, tree = load_parts(tree), Path(tree).stem
        said.append(
            f"the reward is code of yours, which runs here: {loaded.path} (SHA-256 {loaded.sha256[:12]})"
        )
    try:
        holder = RewardHolder.model_validate({"reward": tree})
    except ValidationError as error:
        problems = [
            f"{'.'.join(map(str, one['loc'][1:])) or 'reward'}: {one['msg']}" for one in error.errors()
        ]
        raise ConfigError(
            f"{words!r} is no reward:",
            problems=problems,
            remedy=f"one of {', '.join(kinds('reward'))}, {{kind: words, must: [snail]}}, or a file such as mine.py",
        ) from error
    assert isinstance(holder.reward, RewardConfig)
    return holder.reward, said
