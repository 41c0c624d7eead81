"""Put on PYTHONPATH by tests/recorded.py, so that it holds nothing but its one module."""
