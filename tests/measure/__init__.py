"""Commands that measure on real logs what tests cannot say. Not shipped."""
