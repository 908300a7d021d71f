"""Translating with a run: lines as they come, averaged weights, and how good it is."""
