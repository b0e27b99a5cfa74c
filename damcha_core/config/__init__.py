"""Run files: the schema with its defaults, the recipes, and how settings are put together."""
