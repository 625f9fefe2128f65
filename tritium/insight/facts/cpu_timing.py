"""How long a launch takes on a CPU: the roofline of two measured limits, copies of memory and multiply-adds."""

from __future__ import annotations

import math

from tritium.insight.facts.roofline import Traffic
from tritium.insight.facts.timing import Prediction

NAME = "this CPU"
LAUNCH = 10e-6  # seconds: a call, and waking the workers
# Operations that a special function costs in vector code: a polynomial of about five terms, a reduction of the argument
# and the scaling of the result.
SPECIAL = 15


def predict_cpu(traffic: Traffic, flops: dict[str, float], programs: int, threads: int, bandwidth: float,
                arithmetic: float) -> Prediction:
    """The time of a launch by bytes and operations a second that this machine reaches with all of its threads.

    >>> made = predict_cpu(Traffic(2e9, 2e9, 2e9), {"fp32": 1e9}, 1000, 4, 2e10, 1e11)
    >>> made.bound, round(made.seconds, 3)
    ('DRAM', 0.1)
    """
    each = programs / threads
    busy = each / math.ceil(each)
    work = sum(count * (SPECIAL if kind == "special" else 2 if kind in ("fp64", "f64") else 1)
               for kind, count in flops.items())
    parts = {"DRAM": traffic.minimum / bandwidth, "arithmetic": work / arithmetic}
    # One thread alone gets about half of what all get from memory.
    spread = {"DRAM": parts["DRAM"] / min(1.0, 2 * busy), "arithmetic": parts["arithmetic"] / busy}
    bound = max(spread, key=lambda name: spread[name])
    seconds = spread[bound]
    return Prediction(NAME, seconds + LAUNCH, bound if seconds > LAUNCH else "launch",
                      {name: s for name, s in parts.items() if s}, each, busy, True)
