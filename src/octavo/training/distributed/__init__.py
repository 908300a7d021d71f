"""One training in several processes: who they are, how they share the work, and which has died or hangs."""
