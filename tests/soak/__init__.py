"""A scripted world that breaks things on purpose, and what must hold all the same.

``python -m tests.soak kills --points 10000`` and ``python -m tests.soak --minutes 10``
print figures; docs/reliability.md quotes them. Everything follows from a seed.
"""
