"""Arguments that no kernel can use, each launched three times: compiled, before there is a native launcher and after,
and interpreted.

    python -m tests.runtime.malformed_arguments       writes {road: {case: what was said}} as JSON

It runs in a process of its own: what is let through here ends it.
"""

import array
import ctypes
import datetime
import decimal
import io
import json
import mmap
import pathlib
import sys
import tempfile
import warnings

import numpy as np

import tritium as triton
import tritium.language as tl
from tritium.interp.eager import InterpretedFunction

try:
    import torch
except ImportError:
    torch = None
try:
    import pandas
except ImportError:
    pandas = None


@triton.jit
def copy(src, dst, n, BLOCK: tl.constexpr = 4):
    i = tl.arange(0, BLOCK)
    tl.store(dst + i, tl.load(src + i, mask=i < n), mask=i < n)


X, Y = np.zeros(64, np.float32), np.zeros(64, np.float32)


class Shown:
    """An array that shows itself by the array interface."""

    def __init__(self, **changes):
        plain = {"data": (X.ctypes.data, False), "typestr": "<f4", "shape": (64,), "version": 3}
        self.__array_interface__ = {**plain, **changes}


class Pointer:
    """A tensor with the least that makes one."""

    dtype = "float32"

    def __init__(self, given):
        self.given = given

    def data_ptr(self):
        if isinstance(self.given, Exception):
            raise self.given
        return self.given


class Exported:
    """A tensor that speaks DLPack."""

    def __init__(self, capsule=None, device=(1, 0)):
        self.capsule, self.device = capsule, device

    def __dlpack__(self, **_wishes):
        if isinstance(self.capsule, Exception):
            raise self.capsule
        return X.__dlpack__() if self.capsule is None else self.capsule

    def __dlpack_device__(self):
        if isinstance(self.device, Exception):
            raise self.device
        return self.device


class DLTensor(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64))


KEPT = []


def capsule(**fields):
    """A capsule of the first version with these fields."""
    shape = (ctypes.c_int64 * 1)(64)
    plain = {"data": X.ctypes.data, "ndim": 1, "code": 2, "bits": 32, "lanes": 1, "shape": ctypes.addressof(shape)}
    tensor = DLTensor(**{**plain, **fields})
    KEPT.extend((shape, tensor))
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return new(ctypes.addressof(tensor), b"dltensor", None)


def used():
    """A capsule somebody has taken the tensor of."""
    taken = X.__dlpack__()
    np.from_dlpack(Exported(taken))
    return taken


def objects():
    """{case: argument} of what is no tensor and no number."""
    found = {
        "list": [1.0], "text": "x", "dict": {}, "set": {1}, "complex": 1j, "huge": 2**200, "longer": 10**5000,
        "low": -(2**64), "bytes": b"abc", "bytearray": bytearray(8), "memoryview": memoryview(b"abc"),
        "array.array": array.array("f", [1]), "ctypes": (ctypes.c_float * 4)(), "mmap": mmap.mmap(-1, 4096),
        "BytesIO": io.BytesIO(), "object": object(), "class": int, "builtin": print, "function": lambda: 1,
        "generator": (i for i in ()), "range": range(3), "Decimal": decimal.Decimal(1), "date": datetime.date(1, 1, 1),
        "path": pathlib.Path("."), "ellipsis": ..., "slice": slice(3), "np.complex64": np.complex64(1),
        "np.datetime64": np.datetime64(3, "s"), "np.timedelta64": np.timedelta64(3), "np.str_": np.str_("a"),
        "np.void": np.void(b"abc"), "np dtype": np.float32,
    }  # fmt: skip
    if torch is not None:
        found |= {"torch dtype": torch.float32, "torch device": torch.device("cpu")}
    if pandas is not None:
        found |= {"Series": pandas.Series([1.0]), "DataFrame": pandas.DataFrame({"a": [1.0]})}
    return found


def tensors():
    """{case: argument} of tensors whose memory or elements a kernel cannot use."""
    found = {
        "object array": np.zeros(4, object), "big-endian": np.zeros(4, ">f4"), "records": np.zeros(4, [("a", "<f4")]),
        "str array": np.zeros(4, "U3"), "bytes array": np.zeros(4, "S3"), "dates": np.zeros(4, "M8[s]"),
        "spans of time": np.zeros(4, "m8[s]"), "complex array": np.zeros(4, np.complex64),
        "data_ptr text": Pointer("here"), "data_ptr float": Pointer(1.5), "data_ptr negative": Pointer(-4),
        "data_ptr huge": Pointer(2**200), "data_ptr None": Pointer(None), "data_ptr raises": Pointer(OSError("gone")),
        "address negative": Shown(data=(-5, False)), "address float": Shown(data=(1.5, False)),
        "address huge": Shown(data=(2**200, False)), "address text": Shown(data=("0x10", False)),
        "address 0": Shown(data=(0, False)), "no data, no buffer": Shown(data=None),
        "data of three": Shown(data=(1, 2, 3)),
        "data int": Shown(data=4096), "buffer too short": Shown(data=b"abc"), "buffer past its end":
        Shown(data=bytes(256), offset=8), "offset negative": Shown(data=bytes(256), offset=-8), "offset text":
        Shown(data=bytes(256), offset="a"), "no typestr": Shown(typestr=None), "empty typestr": Shown(typestr=""),
        "big-endian typestr": Shown(typestr=">f4"), "object typestr": Shown(typestr="|O8"), "void typestr":
        Shown(typestr="|V8"), "text typestr": Shown(typestr="<U3"), "date typestr": Shown(typestr="<M8"),
        "words in typestr": Shown(typestr="float32"), "odd size": Shown(typestr="<f3"), "typestr list":
        Shown(typestr=["<f4"]), "shape text": Shown(shape="abc"), "shape float": Shown(shape=(1.5,)),
        "strides text": Shown(strides=("a",)), "negative strides out of the buffer":
        Shown(data=bytes(256), strides=(-4,)), "capsule used": Exported(used()), "capsule text": Exported("capsule"),
        "__dlpack__ raises": Exported(BufferError("no export")),
        "__dlpack_device__ raises": Exported(None, OSError("x")),
        "on Metal": Exported(None, (8, 0)), "on nothing known": Exported(None, (99, 0)), "device text":
        Exported(None, "gpu"), "device None": Exported(None, None), "4 lanes": Exported(capsule(lanes=4)),
        "3 bits": Exported(capsule(code=0, bits=3)), "complex capsule": Exported(capsule(code=5, bits=64)),
        "opaque capsule": Exported(capsule(code=3, bits=64)), "capsule without memory": Exported(capsule(data=None)),
    }  # fmt: skip
    found["interface of another kind"] = Shown()
    found["interface of another kind"].__array_interface__ = 5
    return found | (torch_tensors() if torch is not None else {})


def torch_tensors():
    """Those of torch."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.zeros(64)
    freed = torch.zeros(64)
    freed.untyped_storage().resize_(0)
    return {
        "sparse": torch.eye(4).to_sparse(), "sparse rows": torch.eye(4).to_sparse_csr(), "fake": fake, "freed": freed,
        "quantized": torch.quantize_per_tensor(torch.zeros(4), 1.0, 0, torch.quint8),
        "meta": torch.zeros(4, device="meta"),
        "complex tensor": torch.zeros(4, dtype=torch.complex64), "jagged":
        torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)], layout=torch.jagged),
    }  # fmt: skip


def read_only():
    """{case: argument} of memory that must not be written."""
    own, frozen = X.copy(), X.copy()
    frozen.flags.writeable = False
    KEPT.append(own)
    mapped = tempfile.NamedTemporaryFile()
    mapped.write(bytes(256))
    mapped.flush()
    KEPT.append(mapped)

    class Array:
        array = own

        def __dlpack__(self, **wishes):
            return self.array.__dlpack__(**wishes)

        def __dlpack_device__(self):
            return 1, 0

    class Versioned(Array):
        array = frozen

    Array.__module__ = "jaxlib._jax"

    return {
        "writeable=False": frozen, "bytes": np.frombuffer(bytes(256), np.float32),
        "read-only mapping": np.frombuffer(mmap.mmap(-1, 4096, prot=mmap.PROT_READ), np.float32),
        "memmap": np.memmap(mapped.name, np.float32, "r"), "broadcast": np.broadcast_to(own, (4, 64)),
        "flag of the interface": Shown(data=(own.ctypes.data, True)),
        "bytes of the interface": Shown(data=bytes(256)), "DLPack's flag": Versioned(), "jax": Array(),
        "subclass": frozen.view(type("Sub", (np.ndarray,), {})),
    }  # fmt: skip


def said(launch, **arguments):
    """The error of a launch with its frames in tritium, or what became of it."""
    try:
        launch(**{"src": X, "dst": Y, "n": 4, **arguments})
    except Exception as error:
        trace, inside = error.__traceback__, 0
        while trace is not None:
            inside += "/tritium/" in trace.tb_frame.f_code.co_filename.replace("\\", "/")
            trace = trace.tb_next
        return [type(error).__name__, str(error), inside]
    return ["launched", "", 0]


def main():
    warnings.simplefilter("ignore")
    cases = [(name, where, x) for where in ("src", "n") for name, x in objects().items()]
    cases += [(name, "src", x) for name, x in tensors().items()]
    cases += [(name, "BLOCK", x) for name, x in {"list": [4], "array": X, "dict": {}, "longer": 10**5000}.items()]
    cases += [(name, "dst", x) for name, x in read_only().items()]
    cases += [(f"loaded {name}", "src", x) for name, x in read_only().items()]
    roads = {"first": copy[(1,)], "again": copy[(1,)], "interpreted": InterpretedFunction(copy.fn)[(1,)]}
    found = {}
    for road, launch in roads.items():
        found[road] = {f"{name} as {where}": said(launch, **{where: x}) for name, where, x in cases}
        # After the first road there are native records for arrays and tensors.
        for x in (X, torch.zeros(64)) if torch is not None else (X,):
            assert said(launch, src=x) == ["launched", "", 0]
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
