"""Training: one loop for every task, its run folder and its checkpoints."""
