"""The best model of a text in the minutes that there are: chosen by a law, promised before, audited after."""
