"""Rewards: what a text is worth. Each is a part; a new one is a file in this folder, or one of your own (`--parts`)."""
