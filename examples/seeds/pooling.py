"""Max pooling whose block size is a local variable, with `x[i]` and `x[i] = v`; as it is written."""

import torch

import tritium as triton
import tritium.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@triton.jit
def pooling_kernel(input_ptr, output_ptr, input_h, input_w, output_h, output_w, window_h, window_w, stride,
                   BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(0)
    n_elements = BLOCK_SIZE
    start_idx = pid * n_elements
    offsets = start_idx + tl.arange(0, n_elements)
    out_h = offsets // output_w
    out_w = offsets % output_w
    mask = (out_h < output_h) & (out_w < output_w)
    results = tl.zeros((n_elements,), dtype=tl.float32)
    for i in range(n_elements):
        if not mask[i]:
            continue
        in_h_start = out_h[i] * stride
        in_w_start = out_w[i] * stride
        max_val = tl.zeros((1,), dtype=tl.float32) - float("inf")
        for h in range(window_h):
            for w in range(window_w):
                ih = in_h_start + h
                iw = in_w_start + w
                if ih < input_h and iw < input_w:
                    idx = ih * input_w + iw
                    val = tl.load(input_ptr + idx)
                    max_val = tl.maximum(max_val, val)
        results[i] = max_val
    tl.store(output_ptr + offsets, results, mask=mask)


x = torch.randn(9, 11, device=DEVICE)
expected = torch.nn.functional.max_pool2d(x[None], 3, 2)[0]
out = torch.empty_like(expected)
pooling_kernel[(triton.cdiv(out.numel(), 16),)](x, out, *x.shape, *out.shape, 3, 3, 2, BLOCK_SIZE=16)
assert torch.equal(out, expected)
print("pooled to", tuple(out.shape))
