"""Series of numbers: rows that follow, their probability, and simple predictors beside it."""
