"""What a model can do: read, write, edit, search, run."""
