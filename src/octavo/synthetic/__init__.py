"""Corpora written for you: the storyteller of pidgin stories, the grammar engine under it, and the checker."""
