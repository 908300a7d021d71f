"""PDF: characters with places in, paragraphs in reading order out."""
