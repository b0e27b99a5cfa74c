"""Results as Markdown, CSV, JSON, LaTeX and figures."""
