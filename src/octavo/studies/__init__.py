"""Studies: a baseline, named changes and seeds; runs, and a verdict in words. The shipped ones lie beside the code."""
