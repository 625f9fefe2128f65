"""Schedules of loops as text, for expectations. An op is given by its kind and its place in the body:

    prefetch load 5 (axis 1), load 11 (axis 1); ahead: the index
    dot 12: a in the slot of load 5 (axis 1), b in the slot of load 11 (axis 1); stays in flight
    640 cycles of 2 blocks, 64 registers for tiles; otherwise at least 700 cycles
"""


def schedule_text(schedule):
    dots = dict.fromkeys(dot for dot, _ in schedule.operands)
    why = () if schedule.choice is None else (_choice_text(schedule.choice),)
    return "\n".join((_loads_text(schedule), *(_dot_text(schedule, dot) for dot in dots), *why))


def _choice_text(choice):
    cycles, _, registers, spilled, blocks = choice.estimate
    text = f"{cycles:.0f} cycles of {blocks} block{'s' * (blocks > 1)}, {registers} registers for tiles"
    text += f", {spilled} spilled" if spilled else ""
    return text + (f"; otherwise at least {choice.others:.0f} cycles" if choice.others < float("inf") else "")


def _loads_text(schedule):
    loads, params, _, indices = schedule.prefetched
    args = schedule.body.args
    parts = ["prefetch " + (", ".join(f"{_name(schedule, x)} (axis {schedule.axes[x]})" for x in loads) or "nothing")]
    parts += ["ahead: " + ", ".join(["the index", *(args[1 + k].name or f"value {k}" for k in params)])]
    parts += ["in registers: " + ", ".join(_name(schedule, x) for x in indices)] if indices else []
    parts += [f"pairs not to alias: {len({*schedule.pairs})}"] if schedule.pairs else []
    return "; ".join(parts)


def _dot_text(schedule, dot):
    parts = [", ".join(f"{which} {_operand_text(schedule, schedule.operands[dot, which])}" for which in "ab")]
    parts += ["first"] * (dot in schedule.issued_first) + ["chained"] * (dot in schedule.chained)
    parts += ["stays in flight"] * schedule.stays_in_flight(dot) + ["lhs unrounded"] * (dot in schedule.unrounded)
    who = "" if dot in schedule.dots else " by threads" if dot in schedule.by_threads else " in registers"
    return f"{_name(schedule, dot)}{who}: {'; '.join(parts)}"


def _operand_text(schedule, operand):
    where, load, axis = operand
    if where == "registers":
        return "in registers"
    if where == "slot" and load is not None:
        return f"in the slot of {_name(schedule, load)} (axis {axis})"
    return f"in a buffer filled {'before the loop' if where == 'outside' else 'in each iteration'} (axis {axis})"


def _name(schedule, op):
    return f"{op.kind.name} {schedule.body.ops.index(op)}"
