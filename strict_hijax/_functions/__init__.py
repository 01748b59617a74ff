"""A custom_vjp function and its rules: what is known of them, and what is checked."""
