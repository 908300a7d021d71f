"""A run inside one HTML page: its weights, a forward pass that runs them there, and what was measured beside it.

`explainer.py` composes; `web/` at the repository's root is the source of the script in `assets/`.
"""

LARGEST_IN_REPORT = 5_000_000
"""Parameters of a model that a report's page holds, where nobody asked for it."""
