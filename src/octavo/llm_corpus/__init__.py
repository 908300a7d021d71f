"""Having a corpus written: by a model behind an address, by the storyteller, or by one of your own models.

    spec → prompts → calls (paced, paid beforehand) → checks → store → corpus.txt, corpus.jsonl, report

`WritingJob` in `session` composes them; `octavo corpus write` is its command.
"""
