"""`python -m tritium bench`: measure kernels beside their rivals, keep the figures, compare runs. docs/bench.md

The parts: `measuring` takes samples in turns, `spread` says what may be concluded from them, `machine` sees who else
uses the machine, `history` keeps runs and `comparing` compares them.
"""
