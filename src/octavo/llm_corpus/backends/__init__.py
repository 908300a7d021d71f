"""Who can write a corpus: each file registers one kind of writer."""
