"""What is learned and how it is judged, a folder each: text, chat, translation, forecasts, records."""
