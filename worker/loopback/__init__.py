"""A server on loopback that speaks the Anthropic Messages API.

For tests, benchmarks and trying a Pod without a key: ``async with
serve(policy) as server`` and ask at ``server.base_url``. It refuses what the
real API refuses (rules.py) and fails the way it fails (faults.py).
"""
