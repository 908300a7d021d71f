"""Studies: a baseline, named changes and seeds; runs, and a verdict in words. The shipped ones lie next to the code."""
