"""Correction: generated text repaired afterwards, shown as a diff and never silently."""

from octavo.correction.edits import Change, Correction, Corrector
from octavo.correction.languagetool import LanguageTool
from octavo.correction.nearest import NearestWord
from octavo.correction.words import count_words

__all__ = ["Change", "Correction", "Corrector", "LanguageTool", "NearestWord", "count_words"]
