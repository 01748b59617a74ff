"""What strict_hijax costs, measured beside stock JAX: see README.md in this folder."""
