"""AOTInductor on the CPU with a kernel of the user's (S42): minutes of a C++ compiler."""

import torch

import tritium as triton
import tritium.language as tl

triton.install_as_triton()


@triton.jit
def scaled_sum(x, y, out, n, scale, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask=mask) + scale * tl.load(y + i, mask=mask), mask=mask)


class Model(torch.nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        scaled_sum[(triton.cdiv(x.numel(), 32),)](x.sin(), y, out, x.numel(), 2.0, BLOCK=32)
        return out.softmax(-1)


def test_ahead_of_time(tmp_path):
    from torch._inductor.utils import fresh_cache

    x, y = torch.randn(6, 40), torch.randn(6, 40)
    with fresh_cache():
        program = torch.export.export(Model(), (x, y), strict=True)
        path = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "model.pt2"))
        torch.testing.assert_close(torch._inductor.aoti_load_package(path)(x, y), (x.sin() + 2 * y).softmax(-1))
