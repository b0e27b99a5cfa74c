"""From a model of the next token to text: greedy, beam search, sampling, constraints."""
