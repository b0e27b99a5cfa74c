"""A small English grammar of our own: which scenes there are and how they are put into words."""
