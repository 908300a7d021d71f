"""Shipped recipes: one YAML file each; `octavo recipes` lists them."""
