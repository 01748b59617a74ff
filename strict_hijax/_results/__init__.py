"""Checks on what the rules of a primitive return, against the table of `_rules`."""
