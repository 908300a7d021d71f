"""Runs: composing all rooms into a training, and what a finished run can do."""
