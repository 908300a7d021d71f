"""One GPT whose architectural choices are parts: `build_model` assembles it, `gpt.py` is its forward."""
