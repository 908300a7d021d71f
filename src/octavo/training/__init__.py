"""Learning: the loop as a generator, optimizers, schedules, checkpoints, and where it runs."""
