"""Tasks: what a run trains. A task owns its data, its model and its loss."""
