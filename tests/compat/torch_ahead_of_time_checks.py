"""AOTInductor on the CPU with a kernel of the user's (S42): minutes of a C++ compiler."""

import torch

import tritium as triton
from tests.compat.torch_kernels import scaled_sum

triton.install_as_triton()


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
