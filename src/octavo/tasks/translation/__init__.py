"""Pairs of a source and a target: translating, searching, averaging weights, and judging."""
