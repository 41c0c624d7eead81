"""A coverage-guided fuzzer for what Pod parses: any bytes give a result or an error.

``python -m tests.fuzz manifest --seconds 600`` runs one target; a crash, a hang and
memory that grows are found, and the coverage of the parser is printed. What was
found is in ``found/``, one file each, and is replayed by test_fuzz.py.
"""
