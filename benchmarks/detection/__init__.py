"""How many faults are caught, and when: mutants of programs that are right."""
