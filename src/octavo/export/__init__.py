"""Ship: a trained model as files that other libraries open, proven equal; and models of other libraries as runs."""
