"""Validators: what a record that is no text must be like, such as bars that add up."""
