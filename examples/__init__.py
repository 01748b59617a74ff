"""Custom derivative rules that people really write: see README.md in this folder."""
