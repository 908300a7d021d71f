"""Cleaning: named steps that every document goes through in order, each counted."""

from octavo.corpus.cleaning.base import Dropped, Step, StepConfig
from octavo.corpus.cleaning.cleaned import Cleaned

__all__ = ["Cleaned", "Dropped", "Step", "StepConfig"]
