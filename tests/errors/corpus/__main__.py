"""`python -m tests.errors.corpus SHARE FIRST`: run the cases from FIRST on, a line of JSON before and after each.

`python -m tests.errors.corpus --show call 17` prints one case.
"""

import json
import os
import sys
import tempfile

from .generate import case, names
from .judge import Judge


def work(share: float, first: int) -> None:
    """Run cases; a line before and after each shows the reader which one did not end."""
    report = os.fdopen(os.dup(1), "w")
    with tempfile.TemporaryDirectory() as folder:
        judge = Judge(folder)
        for number, name in enumerate(names(share)[first:], first):
            print(json.dumps([number, name]), file=report, flush=True)
            ended, faults = judge.run(case(name))
            print(json.dumps([number, name, ended, faults]), file=report, flush=True)


if sys.argv[1:2] == ["--show"]:
    print(case(" ".join(sys.argv[2:])).text)
else:
    work(float(sys.argv[1]), int(sys.argv[2]))
