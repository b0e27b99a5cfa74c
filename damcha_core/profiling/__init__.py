"""What an attention costs: parameters, operations, memory and time, measured where it runs."""
