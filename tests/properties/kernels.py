"""Random kernels in Python: what runs eagerly must be what the compiler understands.

Names keep their types: x0..x2 are int32 tiles, f0..f1 float32 tiles, s0..s1 int32 scalars, so that branches and loops
may assign any of them.
"""

from hypothesis import strategies as st

TILES, FLOATS, SCALARS = ("x0", "x1", "x2"), ("f0", "f1"), ("s0", "s1")
HEADER = '''import tritium as triton
import tritium.language as tl


@triton.jit
def mix(a, b, shift=1):
    c = a ^ (b << shift)
    if shift == 2:
        return c + 1, a
    return c, b


@triton.jit(noinline=True)
def apart(a, b):
    for j in range(a & 3):
        if b > 40:
            return b - a
        b += j * a
    return b ^ mix(a, b)[0]


@triton.jit
def kernel(x_ptr, f_ptr, out_ptr, fout_ptr, n, k, N: tl.constexpr):
    i = tl.arange(0, N)
    x0 = tl.load(x_ptr + i)
    x1 = i * 3 - 5
    x2 = tl.load(x_ptr + i, mask=i < k, other=7)
    f0 = tl.load(f_ptr + i)
    f1 = x1.to(tl.float32) * 0.5
    s0 = n
    s1 = tl.program_id(0) + k
'''
FOOTER = '''    row = tl.program_id(0) * 8
    tl.store(out_ptr + row * N + i, x0)
    tl.store(out_ptr + (row + 1) * N + i, x1)
    tl.store(out_ptr + (row + 2) * N + i, x2)
    tl.store(out_ptr + (row + 3) * N + i, s0 + i * 0)
    tl.store(out_ptr + (row + 4) * N + i, s1 + i * 0)
    tl.store(fout_ptr + row * N + i, f0)
    tl.store(fout_ptr + (row + 1) * N + i, f1)
'''
NUMBERS = ("0", "1", "2", "3", "-1", "7", "100", "(7 // -2)", "(-7 % 3)", "N", "(N - 1)", "2**20")


class Writer:
    """Writes random statements; every expression has one of three types."""

    def __init__(self, draw):
        self.draw = draw
        self.loops = 0

    def pick(self, options):
        return self.draw(st.sampled_from(options))

    # --- expressions ----------------------------------------------------------------------------------------------
    def tile(self, depth=2):
        """An int32 tile."""
        if not depth or self.draw(st.integers(0, 2)) == 0:
            return self.pick(TILES)
        x, y = self.tile(depth - 1), self.pick([self.tile, self.scalar, self.number])(depth - 1)
        return self.pick([
            f"({x} + {y})", f"({x} - {y})", f"({x} * {y})", f"({x} // {self.tile(0)})", f"({x} % {self.number()})",
            f"({x} & {y})", f"({x} | {y})", f"({x} ^ {y})", f"(-{x})", f"(~{x})", f"({x} >> {self.pick('0123')})",
            f"({x} << {self.pick('0123')})", f"tl.where({self.mask(depth - 1)}, {x}, {y})", f"tl.minimum({x}, {y})",
            f"tl.maximum({x}, {y})", f"tl.abs({x})", f"{self.floats(depth - 1)}.to(tl.int32)", f"tl.cumsum({x}, 0)",
            f"tl.sort({x})", f"tl.flip({x}, 0)", f"mix({x}, {self.tile(0)})[0]",
            f"({self.mask(depth - 1)}).to(tl.int32)",
            f"mix({x}, {self.tile(0)}, shift=2)[0]", f"tl.gather({x}, i ^ 1, 0)", f"{x}.to(tl.int8).to(tl.int32)",
            f"tl.reshape({x}, (N // 2, 2)).reshape((N,))",
        ])

    def floats(self, depth=2):
        """A float32 tile."""
        if not depth or self.draw(st.integers(0, 2)) == 0:
            return self.pick(FLOATS)
        x, y = self.floats(depth - 1), self.pick([self.floats(depth - 1), "2.5", "-0.25", "3"])
        return self.pick([
            f"({x} + {y})", f"({x} - {y})", f"({x} * {y})", f"({x} / {y})", f"({self.tile(0)} / {self.number()})",
            f"{self.tile(depth - 1)}.to(tl.float32)", f"tl.where({self.mask(depth - 1)}, {x}, {y})", f"tl.abs({x})",
            f"{x}.to(tl.float16).to(tl.float32)", f"({x}.to(tl.bfloat16) * 2.0).to(tl.float32)", f"tl.floor({x})",
            f"({x} * {self.scalar(depth - 1)})",
        ])

    def scalar(self, depth=2):
        """An int32 scalar."""
        if not depth or self.draw(st.integers(0, 2)) == 0:
            return self.pick(SCALARS)
        x, y = self.scalar(depth - 1), self.pick([self.scalar(depth - 1), self.number()])
        return self.pick([
            f"({x} + {y})", f"({x} - {y})", f"({x} * {y})", f"({x} % 5)", f"({x} // 3)", f"max({x}, {y})",
            f"min({x}, {y})", f"tl.sum({self.tile(depth - 1)}, 0)", f"tl.max({self.tile(depth - 1)}, 0)",
            f"tl.argmin({self.tile(0)}, 0)", f"{self.pick(TILES)}[{self.pick(['0', 'N - 1', '-1'])}]",
            f"{self.pick(TILES)}[{x} & (N - 1)]", f"({x} if {self.test(depth - 1)} else {self.scalar(0)})",
            f"apart({x}, {self.pick(SCALARS)})",
        ])

    def number(self, depth=0):
        """A constant."""
        return self.pick(NUMBERS)

    def mask(self, depth=1):
        """A tile of bools."""
        how = self.pick(["<", "<=", ">", ">=", "==", "!="])
        one = self.pick([f"({self.tile(depth)} {how} {self.number()})", f"({self.tile(0)} {how} {self.tile(0)})",
                         f"({self.floats(0)} {how} {self.pick(['0.0', '1.5', '-2'])})"])
        return self.pick([one, f"({one} & (i > 1))", f"(~{one})"]) if depth else one

    def test(self, depth=1):
        """A scalar bool."""
        how = self.pick(["<", "<=", ">", ">=", "==", "!="])
        one = f"{self.scalar(depth)} {how} {self.number()}"
        other = f"{self.scalar(0)} {how} {self.scalar(0)}"
        return self.pick([one, f"({one}) and ({other})", f"({one}) or ({other})", f"not ({one})"])

    # --- statements -----------------------------------------------------------------------------------------------
    def block(self, depth, indent, inside_loop):
        lines = []
        for _ in range(self.draw(st.integers(1, 3))):
            lines += self.statement(depth, indent, inside_loop)
        return lines

    def statement(self, depth, indent, inside_loop=False):
        pad = "    " * indent
        kinds = ["assign"] * 5 + ["update", "element", "pair"] + (["if", "for", "while"] if depth else []) + \
            (["leave"] if inside_loop else []) + (["return"] if indent == 2 and not inside_loop else [])
        kind = self.pick(kinds)
        if kind in ("if", "for", "while"):
            return getattr(self, f"{kind}_")(depth, indent, inside_loop)
        return [pad + line for line in getattr(self, kind if kind != "return" else "return_")()]

    def assign(self):
        kind = self.pick(["tile", "tile", "floats", "scalar"])
        name = self.pick({"tile": TILES, "floats": FLOATS, "scalar": SCALARS}[kind])
        return [f"{name} = {getattr(self, kind)()}"]

    def update(self):
        return [self.pick([f"{self.pick(TILES)} {self.pick(['+=', '-=', '^=', '*='])} {self.tile(1)}",
                           f"{self.pick(SCALARS)} += {self.scalar(1)}", f"{self.pick(FLOATS)} *= {self.floats(1)}"])]

    def element(self):
        name = self.pick(TILES)
        return [f"{name}[{self.scalar(1)} & (N - 1)] {self.pick(['=', '+='])} {self.scalar(1)}"]

    def pair(self):
        return [self.pick([f"x0, x1 = x1, {self.tile(1)}", f"x0, x2 = mix(x2, {self.tile(1)})", "s0, s1 = s1, s0"])]

    def leave(self):
        return [f"if {self.test(0)}:", f"    {self.pick(['break', 'continue'])}"]

    def return_(self):
        return ["return"]

    def if_(self, depth, indent, inside_loop):
        pad = "    " * indent
        lines = [f"{pad}if {self.test()}:", *self.block(depth - 1, indent + 1, inside_loop)]
        if self.draw(st.booleans()):
            lines += [f"{pad}else:", *self.block(depth - 1, indent + 1, inside_loop)]
        return lines

    def for_(self, depth, indent, inside_loop):
        self.loops += 1
        name = f"t{self.loops}"
        bounds = self.pick([f"{self.scalar(0)} % 4", "3", f"1, {self.scalar(0)} & 3", "4, 0, -2", "0"])
        head = self.pick(["range", "range", "tl.range"])
        body = self.block(depth - 1, indent + 1, True)
        return [f"{'    ' * indent}for {name} in {head}({bounds}):", f"{'    ' * (indent + 1)}s0 += {name}", *body]

    def while_(self, depth, indent, inside_loop):
        self.loops += 1
        name = f"w{self.loops}"
        pad = "    " * indent
        return [f"{pad}{name} = 0", f"{pad}while {name} < {self.pick(['2', '3', self.scalar(0) + ' % 3'])}:",
                f"{pad}    {name} += 1", *self.block(depth - 1, indent + 1, True)]


@st.composite
def kernels(draw, most=6):
    """The text of a module with a kernel."""
    writer = Writer(draw)
    lines = []
    for _ in range(draw(st.integers(1, most))):
        lines += writer.statement(2, 1)
    return HEADER + "".join(f"{line}\n" for line in lines) + FOOTER
