"""A local server of runs: OpenAI's interface, many texts at once, each the same to the bit as alone."""
