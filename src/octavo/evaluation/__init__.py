"""How good a model is: loss on a whole split, and the baselines that place the number."""
