"""Studies: a baseline, named changes and seeds; runs, and a verdict in words."""
