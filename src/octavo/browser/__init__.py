"""Octavo in a window: one page that starts, watches, plays and takes away, and what answers it. Served as in
`serving`, on this machine alone."""
