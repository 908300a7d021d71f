"""Texts from elsewhere: well-known ones by name, data sets of the Hugging Face hub, and which addresses are allowed."""
