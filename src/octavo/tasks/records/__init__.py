"""Records with rules, such as images, films, tunes and sums: what a model makes of them, and whether it is valid."""
