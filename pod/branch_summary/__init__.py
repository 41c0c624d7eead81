"""What was done on a branch that is left, for the branch that is gone to."""
