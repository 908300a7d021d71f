"""The largest numbers of a config."""

MOST = 2**31 - 1
"""The largest count in a config: as many as 32 bits index."""

LARGEST = 1e60
"""The largest rate, scale or penalty in a config: far beyond what is of use, and no product of two is infinite."""
