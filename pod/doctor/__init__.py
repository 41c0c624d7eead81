"""What a Pod finds where it would run: ``pod doctor``."""
