"""Preferences as batches: both sides in a row, a pure function of seed and step, and what is left out."""

from __future__ import annotations

import numpy as np
import pytest

from octavo.errors import CorpusError
from octavo.tasks.chat.preference_batches import PreferencesConfig
from octavo.tokenizers.chat import ChatTemplate
from unit.tuning.pairs import CONTEXT, TOKENIZER, batches, stream, turns


def test_a_row_holds_both_conversations_and_where_their_answers_begin() -> None:
    found, template = turns(9), ChatTemplate(TOKENIZER)
    ids, starts = stream(found)
    scored = list(PreferencesConfig().evaluation(ids, starts, context=CONTEXT, batch=4, **TOKENIZER.marks))
    assert [one.rows for one in scored] == [4, 4, 1]
    rows = [(one, row) for one in scored for row in range(one.rows)]
    for (batch, row), pair in zip(rows, found, strict=True):
        assert batch.sides is not None and batch.begins is not None and batch.places is not None
        for side, conversation in enumerate(pair.conversations):
            wanted = template.render(conversation)
            begin = int(batch.begins[row, side])
            kept = batch.sides[row, side][batch.sides[row, side] >= 0]
            assert kept.tolist() == wanted.ids.tolist()
            answer = [pair.chosen, pair.rejected][side]
            assert template.tokenizer.decode(kept[begin:-1]) == answer and kept[-1] == template.end
        place = np.flatnonzero(batch.targets[row] >= 0)
        assert len(place) == 1 and batch.targets[row, place[0]] == template.end
        assert ids[batch.places[row, place[0]]] == template.end
        assert batch.inputs[row, place[0]] == batch.sides[row, 0, place[0]]
    assert sum(one.scored for one in scored) == len(found)


def test_batches_are_pure_functions_of_seed_and_step() -> None:
    found = turns(11)
    one, other = batches(found), batches(found)
    assert one.steps_per_epoch == 3
    forwards = [one.batch(step) for step in range(6)]
    backwards = [other.batch(step) for step in reversed(range(6))][::-1]
    for a, b in zip(forwards, backwards, strict=True):
        assert a.sides is not None and b.sides is not None and np.array_equal(a.sides, b.sides)
    first = batches(found, seed=2).batch(0).sides
    assert first is not None and forwards[0].sides is not None
    assert first.shape != forwards[0].sides.shape or not np.array_equal(first, forwards[0].sides)


def test_pairs_that_do_not_fit_are_left_out_and_said() -> None:
    found = [*turns(4), *turns(2, longest=60)]
    made = batches(found)
    assert made.notes and "left out; the longest side has" in made.notes[0]
    with pytest.raises(CorpusError, match="none fits into the context of 4 tokens; the shortest has"):
        batches(found, context=4)
    ids, starts = stream(found)
    with pytest.raises(CorpusError, match="no conversations"):
        PreferencesConfig().build(
            ids, starts, context=CONTEXT, batch=2, seed=0, start_id=None, end_id=None, special={}
        )
