"""Conversations, preferences and prompts: learning to answer, and how good answers are."""
