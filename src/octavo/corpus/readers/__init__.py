"""Readers: how a file of one format becomes documents. Each is a part in a file of its own, found by the
file's suffix.
"""
