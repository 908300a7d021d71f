"""What every room stands on: console, files written whole, locks, the cache folder. Light: it imports no torch."""
