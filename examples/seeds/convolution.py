"""A 2-D convolution element by element, with `continue` in the loop; as it is written."""

import torch

import tritium as triton
import tritium.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@triton.jit
def conv2d_kernel(input_ptr, filter_ptr, output_ptr, input_h, input_w, filter_h, filter_w, output_h, output_w,
                  stride_ih, stride_iw, stride_oh, stride_ow, BLOCK_SIZE_H: tl.constexpr, BLOCK_SIZE_W: tl.constexpr):
    pid_h = tl.program_id(0)
    pid_w = tl.program_id(1)
    h_start = pid_h * BLOCK_SIZE_H
    w_start = pid_w * BLOCK_SIZE_W
    offs_h = h_start + tl.arange(0, BLOCK_SIZE_H)
    offs_w = w_start + tl.arange(0, BLOCK_SIZE_W)
    mask_h = offs_h < output_h  # noqa: F841  (as it is written)
    mask_w = offs_w < output_w  # noqa: F841
    for h in range(BLOCK_SIZE_H):
        for w in range(BLOCK_SIZE_W):
            if h + h_start >= output_h or w + w_start >= output_w:
                continue
            acc = tl.zeros((1, 1), dtype=tl.float32)
            for fh in range(filter_h):
                for fw in range(filter_w):
                    ih = h + h_start + fh
                    iw = w + w_start + fw
                    if ih < input_h and iw < input_w:
                        input_val = tl.load(input_ptr + ih * stride_ih + iw * stride_iw)
                        filter_val = tl.load(filter_ptr + fh * filter_w + fw)
                        acc += input_val * filter_val
            out_pos = (h + h_start) * stride_oh + (w + w_start) * stride_ow
            tl.store(output_ptr + out_pos, acc)


x, weight = torch.randn(10, 13, device=DEVICE), torch.randn(3, 3, device=DEVICE)
out = torch.empty(8, 11, device=DEVICE)
conv2d_kernel[(triton.cdiv(8, 4), triton.cdiv(11, 4))](x, weight, out, *x.shape, *weight.shape, *out.shape, *x.stride(),
                                                       *out.stride(), BLOCK_SIZE_H=4, BLOCK_SIZE_W=4)
expected = torch.nn.functional.conv2d(x[None, None], weight[None, None])[0, 0]
assert torch.allclose(out, expected, atol=1e-4, rtol=1e-4)
print("convolution of", tuple(x.shape))
