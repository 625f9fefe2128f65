"""Tensor descriptors, microscaling formats, ragged descriptors, disassembly, stand-ins."""

import numpy as np
import pytest

from tritium.tools.tensor_descriptor import TensorDescriptor


class TestTensorDescriptor:
    def make(self, **changes):
        fields = dict(base=np.zeros((64, 32), np.float32), shape=[64, 32], strides=[32, 1], block_shape=[16, 32])
        return TensorDescriptor(**fields | changes)

    @pytest.mark.parametrize("changes, message", [
        (dict(shape=[64]), "rank mismatch"),
        (dict(strides=[32]), "rank mismatch"),
        (dict(block_shape=[16]), "rank mismatch"),
        (dict(shape=[], strides=[], block_shape=[]), "1 to 5"),
        (dict(shape=[2] * 6, strides=[16] * 5 + [1], block_shape=[2] * 6), "1 to 5"),
        (dict(block_shape=[16, 24]), "powers of two"),
        (dict(block_shape=[0, 32]), "powers of two"),
        (dict(strides=[33, 1]), "16-byte aligned"),
        (dict(strides=[32, 2]), "contiguous"),
        (dict(shape=[0, 32]), "positive"),
        (dict(padding="one"), "padding"),
        (dict(base=np.zeros((64, 32), np.int32), padding="nan"), "floating-point"),
        (dict(base=np.zeros(64 * 32 + 1, np.float32)[1:]), "aligned"),
    ])
    def test_mistakes(self, changes, message):
        with pytest.raises(AssertionError, match=message):
            self.make(**changes)

    def test_from_tensor(self):
        torch = pytest.importorskip("torch")
        x = torch.zeros(8, 64, 32, dtype=torch.float16)
        desc = TensorDescriptor.from_tensor(x, [1, 16, 32], padding="nan")
        assert (desc.shape, desc.strides, desc.block_shape) == ([8, 64, 32], [64 * 32, 32, 1], [1, 16, 32])
        assert desc.base is x and desc.padding == "nan"
        desc.block_shape = [1, 32, 32]

    def test_fields_are_lists_of_their_own(self):
        block = (16, 32)
        assert self.make(block_shape=block).block_shape == [16, 32]


class TestMicroscaling:
    @pytest.fixture
    def torch(self):
        return pytest.importorskip("torch")

    def test_every_code_survives(self, torch):
        from tritium.tools.mxfp import MXFP4Tensor

        values = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6, -0.0, -.5, -1, -1.5, -2, -3, -4, -6])
        x = MXFP4Tensor(data=values)
        assert x.data.tolist() == list(range(16))
        assert x.to(torch.float32).tolist() == values.tolist()
        assert x.to(torch.bfloat16).dtype == torch.bfloat16

    def test_rounding_against_the_nearest_even_code(self, torch):
        from tritium.tools.mxfp import MAGNITUDES, MXFP4Tensor

        values = torch.linspace(-8, 8, 4097)
        got = MXFP4Tensor(data=values).data
        for value, code in zip(values.tolist(), got.tolist()):
            gaps = [abs(abs(value) - m) for m in MAGNITUDES]
            nearest = [i for i, gap in enumerate(gaps) if gap == min(gaps)]
            expected = nearest[0] if len(nearest) == 1 else next(i for i in nearest if i % 2 == 0)
            assert code & 7 == expected, value

    @pytest.mark.parametrize("shape, dim", [((4, 6), 1), ((5, 2), 0), ((2, 3, 4), 1)])
    def test_packing(self, torch, shape, dim):
        from tritium.tools.mxfp import MXFP4Tensor

        x = MXFP4Tensor(size=shape).random()
        packed = x.to_packed_tensor(dim)
        assert packed.shape[dim] == (shape[dim] + 1) // 2 and packed.dtype == torch.uint8
        assert torch.equal(x.unpack_packed_tensor(packed, dim, shape), x.data)

    def test_the_first_code_is_in_the_low_half(self, torch):
        from tritium.tools.mxfp import MXFP4Tensor

        assert MXFP4Tensor(data=torch.tensor([1.0, -6.0])).to_packed_tensor(0).tolist() == [0xF2]

    def test_scales(self, torch):
        from tritium.tools.mxfp import MXScaleTensor

        x = MXScaleTensor(data=torch.tensor([1.0, 2.0, 3.0, 0.25, 0.0, float("inf")]))
        assert x.data.tolist() == [127, 128, 128, 125, 255, 255]
        assert x.to(torch.float32)[:4].tolist() == [1, 2, 2, 0.25]
        assert x.to(torch.float32)[4:].isnan().all()
        r = MXScaleTensor(size=(1000,)).random(low=1 / 8, high=8).to(torch.float32)
        assert r.min() == 1 / 8 and r.max() == 8

    def test_values_of_scales(self, torch):
        from tritium.tools.mxfp import fp8e8m0_to_float32

        codes = torch.arange(256, dtype=torch.uint8)
        found = fp8e8m0_to_float32(codes)
        assert found.dtype == torch.float32 and found[:255].tolist() == [2.0 ** (s - 127) for s in range(255)]
        assert found[255].isnan()
        if hasattr(torch, "float8_e8m0fnu"):
            assert torch.equal(fp8e8m0_to_float32(codes.view(torch.float8_e8m0fnu))[:255], found[:255])

    def test_mistakes(self, torch):
        from tritium.tools.mxfp import MXFP4Tensor, MXScaleTensor

        for kind in (MXFP4Tensor, MXScaleTensor):
            with pytest.raises(ValueError, match="either"):
                kind()
            with pytest.raises(ValueError, match="float"):
                kind(size=(2,)).random().to(torch.int32)
        with pytest.raises(ValueError, match="no power of two"):
            MXScaleTensor(size=(2,)).random(low=8, high=1)


class TestRagged:
    def test_the_address_arithmetic(self):
        from tritium.tools.ragged_tma import create_ragged_descriptor

        x = np.zeros((100, 32), np.float32)
        desc = create_ragged_descriptor(x, [16, 32])
        huge, offset, size = 2**30, 40, 7
        for row in range(12):
            coordinates = (huge, offset + size, huge - size + row, 0)
            inside = all(0 <= c < n for c, n in zip(coordinates, desc.shape))
            address = sum(c * s for c, s in zip(coordinates, desc.strides)) % 2**64
            assert inside == (row < size) and address == (offset + row) * 32

    @pytest.mark.parametrize("shape, block, dim", [((4, 4, 4, 4), [1] * 4, 0), ((8, 8), [8, 8], 1), ((8, 8), [8], 0)])
    def test_mistakes(self, shape, block, dim):
        from tritium.tools.ragged_tma import create_ragged_descriptor

        with pytest.raises(AssertionError):
            create_ragged_descriptor(np.zeros(shape, np.float32), block, dim)


def test_disassembly_without_the_tool(monkeypatch):
    from tritium import knobs
    from tritium.tools.disasm import get_sass

    with knobs.nvidia.scope():
        knobs.nvidia.cuobjdump = None
        monkeypatch.setenv("PATH", "")
        monkeypatch.delenv("TRITON_CUOBJDUMP_PATH", raising=False)
        with pytest.raises(RuntimeError, match="TRITON_CUOBJDUMP_PATH"):
            get_sass(b"")


def test_stand_ins_explain_themselves():
    from tritium.experimental import gluon
    from tritium.experimental.gluon import language as gl
    from tritium.tools import build_extern

    with pytest.raises(RuntimeError, match="layouts itself"):
        gl.BlockedLayout([1], [32], [4], [0])

    @gluon.jit
    def kernel(x: gl.constexpr):
        pass

    with pytest.raises(RuntimeError, match=r"kernel, a gluon\.jit function"):
        kernel[(1,)](None)
    with pytest.raises(RuntimeError, match="extern_elementwise"):
        build_extern.build("a", "b", "c", "d")
