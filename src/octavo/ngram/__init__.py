"""Counting beside the network: n-grams, what the text has said so far, and the gate that mixes both in."""
