"""`python -m tritium demo`: check every kernel of the collection and time it beside torch, or NumPy without torch."""

from __future__ import annotations

import argparse
from typing import Any

from tritium.insight.explain.units import mean_text, time_text
from tritium.tools.bench.peers import Rivals
from tritium.tools.bench.report import figures, ratio_text
from tritium.tools.bench.running import Plan, Settings, run
from tritium.tools.bench.spread import summary
from tritium.tools.bench.targets import collected
from tritium.tools.command import closest

# Kernels that are shown in other types than their usual one, too.
ALSO = {"cpu": {"matmul": ("float16", "bfloat16"), "attention": ("float16",)}, "cuda": {}}


def rows(device: str = "cpu") -> list[Plan]:
    """What the demo runs: each kernel of the collection at its size for a CPU, in its usual type.

    >>> [row.dtype for row in rows() if row.target.name == "matmul"]
    ['float32', 'float16', 'bfloat16']
    """
    return [Plan(target, target.sizes["cpu"][0], dtype) for target in collected().values()
            for dtype in (target.usual_dtype(device), *ALSO[device].get(target.name, ()))]


def name_of(row: Plan) -> str:
    """What the table calls a row.

    >>> name_of(rows()[0])
    'compaction and sort'
    """
    return f"{row.target.title}, {row.dtype}" if row.target.name in ALSO["cpu"] else row.target.title


def import_torch() -> Any:
    """torch, or None where it is not installed."""
    try:
        import torch
    except ImportError:
        return None
    return torch


def main(arguments: list[str]) -> int:
    """Run the demo; the exit status is 1 if a result is wrong."""
    import tritium

    parser = argparse.ArgumentParser("python -m tritium demo", description=__doc__)
    parser.add_argument("--only", default="", help="only kernels whose name contains ONLY")
    parser.add_argument("--seconds", type=float, default=0.4,
                        help="seconds of measurement per kernel (default: %(default)s)")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="default: the GPU if there is one")
    parser.add_argument("--numpy", action="store_true", help="use NumPy arrays even where torch is installed")
    options = parser.parse_args(arguments)
    names = [*dict.fromkeys(map(name_of, rows()))]
    if not any(options.only in name for name in names):
        near = closest(options.only, [*names, *(word.strip(",") for name in names for word in name.split())])
        parser.error(f"no kernel's name contains {options.only!r}{near}\nthere are: " + "; ".join(names))
    if options.seconds <= 0:
        parser.error(f"--seconds must be above 0, not {options.seconds:g}")
    torch = None if options.numpy else import_torch()
    target = tritium.runtime.driver.active.get_current_target()
    device = options.device or ("cuda" if torch is not None and target.backend != "cpu" else "cpu")
    if device == "cuda" and (torch is None or not torch.cuda.is_available()):
        parser.error("there is no GPU here that torch can use: leave --device out, or write --device cpu"
                     if torch is not None else "kernels run on a GPU with torch's tensors, and torch is not in use")
    chosen = [row for row in rows(device) if options.only in name_of(row)]
    settings = Settings(device, tritium.get_num_threads(), warmup=1, each=options.seconds, limits=False)
    return show(chosen, torch, settings)


def rivals_of(row: Plan, torch: Any, device: str) -> Rivals:
    """Whom a kernel is timed beside: torch where it has the same, else its reference in NumPy."""
    record = row.target.record
    if torch is not None and record is not None and record.rival is not None:
        return Rivals(["torch"], device)
    found = Rivals(["numpy"] if device == "cpu" else [], device)
    found.torch = torch
    return found


def show(chosen: list[Plan], torch: Any, settings: Settings) -> int:
    """Print the table row by row as results come in."""
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table

    table = Table(title=f"tritium on {settings.device}, beside {'NumPy' if torch is None else 'torch'}")
    for column in ("kernel", "correct", "error", "tritium", "rival", "speed-up", "rate"):
        table.add_column(column, justify="left" if column in ("kernel", "correct") else "right")
    wrong: dict[str, str] = {}
    noise: list[list[str]] = []
    console = Console(width=None if Console().is_terminal else 120)
    with Live(table, console=console, auto_refresh=False, vertical_overflow="visible") as live:
        for row in chosen:
            done = run([row], rivals_of(row, torch, settings.device), settings)["rows"][0]
            found = figures(done)
            if not done["correct"]:
                wrong[name_of(row)] = done["problem"]
            noise += [found["noise"] or ([] if each.is_clear else ["the times vary too much"])
                      for each in found["ratios"].values()]
            table.add_row(name_of(row), "[green]yes[/]" if done["correct"] else "[red]NO[/]", *cells(done, found))
            live.refresh()
    console.print()
    for name, why in wrong.items():
        console.print(f"{name}: {why}", markup=False, style="red")
    if noisy := [reasons for reasons in noise if reasons]:
        console.print(f"too noisy to judge {len(noisy)} of {len(noise)} speed-ups: {'; '.join(max(noisy, key=len))}",
                      markup=False)
    console.print("not all correct" if wrong else f"all {len(chosen)} correct")
    return 1 if wrong else 0


def cells(done: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """The cells after "correct". The error is a part of the largest value; a rival other than torch has its name."""
    texts = [f"{done['error']:.1e}" if done.get("error") is not None else ""]
    if "seconds" not in found:
        return texts
    texts.append(time_text(found["seconds"].median))
    if not found["ratios"]:
        texts += ["", ""]
    for name, ratio in found["ratios"].items():
        theirs = time_text(summary(done["samples"][name]).median)
        texts += [theirs if name == "torch" else f"{theirs}, {name}", ratio_text(ratio, found["noise"])]
    return [*texts, f"{mean_text(found['rate'])} {found['unit']}" if "rate" in found else ""]
