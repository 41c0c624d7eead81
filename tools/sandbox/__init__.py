"""Where commands run: what they may see and reach, and what holds them to it.

`policy` and the modules that build arguments, rules and filters decide; `probe`
finds out what works on this machine; `box` opens a sandbox and starts commands
in it.
"""
