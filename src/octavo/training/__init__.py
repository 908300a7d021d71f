"""Learning: the loop as a generator, hooks around it, optimizers, schedules, checkpoints, and where it runs."""
