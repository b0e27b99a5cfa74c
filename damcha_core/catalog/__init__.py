"""What can be named in a run file: attention layers and tasks, with neither torch nor pydantic.

A row says where the code is; the code itself is imported on demand (`loading.load`).
"""
