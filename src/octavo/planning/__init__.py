"""What a training will cost in time, memory and money, here or on another machine, before it starts."""
