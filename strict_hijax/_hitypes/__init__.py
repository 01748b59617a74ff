"""Hijax types: what is known of a class, and what is checked."""
