"""Text pairs: where they come from, their tokenizer, their encoded form, their batches."""
