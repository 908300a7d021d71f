"""From a model that continues texts to one that does what is wanted: rewards, the best that is possible, learning."""
