"""Ahead-of-time compilation: C sources that hold a kernel, and the dispatcher that joins them."""

import re
import shutil
import subprocess
import textwrap

import pytest

from tritium.backends.llvm.target import runnable_levels
from tritium.tools import aot, link
from tritium.tools.compile import CompileArgs, compile_kernel, objects, parse_target
from tritium.tools.compile import main as compile_main

NAMES = ["x", "n", "BLOCK"]
KERNEL = """
import triton
import triton.language as tl

@triton.jit
def double(x, out, n, step, BLOCK: tl.constexpr):
    i = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)) * step
    tl.store(out + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

@triton.jit
def product(a, b, c, scale, N: tl.constexpr):
    i = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(c + i, tl.dot(tl.load(a + i), tl.load(b + i), input_precision="ieee") * scale)

@triton.jit
def talk(x):
    tl.device_print("x", tl.load(x))
"""


def run(*arguments):
    return compile_main(list(map(str, arguments)))


@pytest.fixture
def kernels(tmp_path):
    path = tmp_path / "kernels.py"
    path.write_text(KERNEL)
    return path


def test_from_python(kernels, tmp_path):
    args = CompileArgs(str(kernels), "double", "*fp32:16, *fp32, i32, i32:1, 64", "(n + 63) / 64, 1, 1",
                       parse_target("cuda:80:32"), out_path=tmp_path / "double")
    name, files = compile_kernel(args)
    assert name.startswith("double_") and {path.suffix for path in files} == {".h", ".c"}
    assert all(path.exists() and path.parent == tmp_path for path in files)


class TestSignature:
    def test_entries(self):
        x, n, block = aot.parse_signature(NAMES, "*fp32:16, i32:1 , 1024")
        assert (x.type, x.hint, x.is_passed) == ("*fp32", 16, True)
        assert (n.type, n.hint, n.is_passed, n.is_constant) == ("i32", 1, False, False)
        assert (block.value, block.is_constant) == (1024, True)
        assert aot.parse_signature(["s"], "0.5")[0].value == 0.5

    @pytest.mark.parametrize("text, message", [
        ("*fp32, i32", "2 entries for 3 parameters"),
        ("*fp32, i32:8, 4", "neither 1 nor 16"),
        ("*fp32:1, i32, 4", "a pointer cannot be 1"),
        ("*fp32, integer, 4", "'integer' is neither"),
    ])
    def test_mistakes(self, text, message):
        with pytest.raises(ValueError, match=re.escape(message)):
            aot.parse_signature(NAMES, text)

    def test_names(self):
        plain = aot.variant_of("k", "cuda", aot.parse_signature(NAMES, "*fp32, i32, 4"))
        hinted = aot.variant_of("k", "cuda", aot.parse_signature(NAMES, "*fp32:16, i32:16, 4"))
        other = aot.variant_of("k", "cuda", aot.parse_signature(NAMES, "*fp32, i32, 8"))
        assert plain.algorithm == hinted.algorithm != other.algorithm
        assert hinted.name == f"k_{plain.algorithm}_0d1d" and plain.name == f"k_{plain.algorithm}_"
        assert plain.old_name == f"k_{plain.algorithm}_012" and hinted.old_name == f"k_{plain.algorithm}_0d1d2"
        full = aot.variant_of("k", "cuda", aot.parse_signature(["x"], "*fp32:16"))
        assert full.old_name is None and not aot.aliases(full)

    def test_header_round_trip(self, tmp_path):
        variant = aot.variant_of("k", "cuda", aot.parse_signature(NAMES, "*fp32:16, i32:1, 4"), 4, 3)
        path = tmp_path / "k.h"
        path.write_text(aot.header(variant))
        assert aot.Variant.from_header(str(path)) == variant
        assert f"CUresult {variant.name}(CUstream stream, CUdeviceptr x, int32_t n);" in path.read_text()
        path.write_text("int x;")
        with pytest.raises(ValueError, match="not written by"):
            aot.Variant.from_header(str(path))


def test_targets():
    assert (parse_target("cuda:80:32").arch, parse_target("hip:gfx942:64").arch) == (80, "gfx942")
    for text in ("cuda", "cuda:", "abacus:1", "cuda:90:x", "cuda:90:32:1"):
        with pytest.raises(ValueError, match="backend:arch:warp_size"):
            parse_target(text)


@pytest.mark.parametrize("change, message", [
    (["-n", "nothing"], "has no kernel 'nothing'"),
    (["-g", "1,1"], "three expressions"),
    (["-s", "*fp32"], "1 entries for 5 parameters"),
    (["-t", "cuda"], "'cuda' is not a target"),
])
def test_mistakes_are_one_line(kernels, capsys, change, message):
    arguments = [kernels, "-n", "double", "-s", "*fp32, *fp32, i32, i32, 8", "-g", "1,1,1", "-t", "cpu:host:1", *change]
    assert run(*arguments) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1


def test_mistakes_in_the_kernel_are_shown_without_a_traceback(kernels, capsys):
    arguments = [kernels, "-n", "double", "-s", "*fp32, *fp32, i32, i32, 7", "-g", "1,1,1", "-t", "cuda:80"]
    assert run(*arguments) == 1
    err = capsys.readouterr().err
    assert "power of 2" in err and "-->" in err and "Traceback" not in err
    assert run(*arguments[:4], "*fp32, *fp32, i32, i32, 8", *arguments[5:-1], "cuda:91") == 2
    assert "'cuda:91' is not a target" in capsys.readouterr().err


def test_cuda_sources(kernels, tmp_path, capsys):
    """No GPU is needed to compile for one."""
    assert run(kernels, "-n", "double", "-s", "*fp32:16, *fp32:16, i32, i32:1, 128", "-g", "(n + 127) / 128, 1, 1",
               "-t", "cuda:90:32", "-w", 4, "-o", tmp_path / "out" / "double") == 0
    header, source = capsys.readouterr().out.split()
    assert re.search(r"double\.[0-9a-f]{8}_0d1d3c\.h$", header)
    text = open(source).read()
    assert "cuModuleGetFunction(&function, module, \"double\")" in text and "gx = (n + 127) / 128" in text
    assert "{&x, &out, &n}" in text and ", 128, 1, 1, " in text  # step is known to be 1; four warps are 128 threads


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
class TestOnThisProcessor:
    def build(self, tmp_path, main):
        (tmp_path / "main.c").write_text(textwrap.dedent(main))
        sources = [str(p) for p in sorted(tmp_path.glob("*.c")) + sorted(tmp_path.glob("*.o"))]
        subprocess.run(["cc", "-O1", "-Wall", "-Werror", "-o", str(tmp_path / "main"), *sources, "-lm"], check=True,
                       cwd=tmp_path)
        return subprocess.run([str(tmp_path / "main")], capture_output=True, text=True, check=True).stdout

    def test_launch_and_dispatch(self, kernels, tmp_path, capsys):
        for signature in ("*fp32, *fp32, i32, i32, 16", "*fp32:16, *fp32:16, i32:16, i32:1, 16",
                          "*fp32, *fp32, i32, i32, 64"):
            assert run(kernels, "-n", "double", "-s", signature, "-g", "(n + 15) / 16, 1, 1", "-t", "cpu:host:1", "-o",
                       tmp_path / "double") == 0
        headers = sorted(map(str, tmp_path.glob("double.*.h")))
        assert link.main([*headers, "-o", str(tmp_path / "all"), "--prefix", "my_"]) == 0
        out = self.build(tmp_path, """
            #include "all.h"
            #include <stdio.h>
            #include <stdlib.h>
            int main(void) {
              float *x = aligned_alloc(64, 4096), *y = aligned_alloc(64, 4096);
              for (int i = 0; i < 100; i++) { x[i] = i; y[i] = -1; }
              int status = my_double_default(0, x, y, 37, 1);
              printf("%d %d %g %g %g\\n", my_double_get_num_algos(), status, y[0], y[36], y[37]);
              for (int i = 0; i < 100; i++) y[i] = -1;
              status = my_double(0, x, y, 32, 2, 1);
              printf("%d %g %g %g\\n", status, y[2], y[3], y[30]);
              printf("%d\\n", my_double(0, x, y, 32, 2, 7));
              return load_my_double() | unload_my_double();
            }
        """)
        assert out == "2 0 0 72 -1\n0 4 -1 60\n22\n"

    @pytest.mark.parametrize("level", runnable_levels())
    def test_a_kernel_that_calls_the_runtime(self, kernels, tmp_path, level):
        assert run(kernels, "-n", "product", "-s", "*fp32, *fp32, *fp32, fp32, 32", "-g", "1,1,1", "-t", f"cpu:{level}",
                   "-o", tmp_path / "product", "-on", "multiply") == 0
        (header,) = tmp_path.glob("product.*.h")
        name = aot.Variant.from_header(str(header)).name
        out = self.build(tmp_path, f"""
            #include "{header.name}"
            #include <stdio.h>
            static float a[1024], b[1024], c[1024];
            int main(void) {{
              for (int i = 0; i < 32; i++) a[i * 33] = 2;
              for (int i = 0; i < 1024; i++) b[i] = i;
              int status = {name}(0, a, b, c, 0.5f);
              printf("%d %g %g\\n", status, c[0], c[1023]);
              return 0;
            }}
        """)
        assert out == "0 0 1023\n"

    def test_printing(self, kernels, tmp_path):
        assert run(kernels, "-n", "talk", "-s", "*fp32", "-g", "1,1,1", "-t", "cpu:host:1", "-o", tmp_path / "t") == 0
        (header,) = tmp_path.glob("t.*.h")
        name = aot.Variant.from_header(str(header)).name
        out = self.build(tmp_path, f"""
            #include "{header.name}"
            int main(void) {{ float x = 2.5f; return {name}(0, &x); }}
        """)
        assert "2.5" in out and "pid (0, 0, 0)" in out

    def test_names_of_older_releases(self, kernels, tmp_path):
        assert run(kernels, "-n", "double", "-s", "*fp32, *fp32:16, i32, i32:1, 16", "-g", "1,1,1", "-t", "cpu:host:1",
                   "-o", tmp_path / "d") == 0
        (header,) = tmp_path.glob("d.*_1d3c.h")
        name = f"double_{header.name[2:10]}_01d23c4"
        out = self.build(tmp_path, f"""
            #include "{header.name}"
            #include <stdio.h>
            int main(void) {{
              float x[16] = {{3}}, y[16] __attribute__((aligned(16)));
              int status = load_{name}() | {name}(0, x, y, 16, 1) | unload_{name}();
              printf("%d %g %g", status, y[0], y[15]);
              return 0;
            }}
        """)
        assert out == "0 6 0"

    def test_what_the_linker_writes_for_cuda(self, kernels, tmp_path):
        """Read by a compiler, with as much of CUDA's header as it names."""
        for signature in ("*fp32, *fp32, i32, i32, 16", "*fp32:16, *fp32, i32, i32:1, 32"):
            assert run(kernels, "-n", "double", "-s", signature, "-g", "n, 1, 1", "-t", "cuda:90", "-on",
                       "twice", "-o", tmp_path / "twice") == 0
        headers = sorted(map(str, tmp_path.glob("twice.*.h")))
        assert all("// tt-linker-backend: cuda\n" in open(header).read() for header in headers)
        assert link.main([*headers, "-o", str(tmp_path / "all")]) == 0
        text = (tmp_path / "all.h").read_text()
        assert "typedef CUresult TT_ResultTy;" in text and "typedef CUstream TT_StreamTy;" in text
        assert "TT_ResultTy twice(TT_StreamTy stream, CUdeviceptr x, CUdeviceptr out, int32_t n" in text
        assert "return TT_ERROR_INVALID_VALUE;" in (tmp_path / "all.c").read_text()
        (tmp_path / "cuda.h").write_text(CUDA_H)
        for path in tmp_path.glob("*.c"):
            subprocess.run(["cc", "-Wall", "-Werror", "-fsyntax-only", f"-I{tmp_path}", str(path)], check=True)


CUDA_H = """
#pragma once
typedef enum { CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE } CUresult;
typedef struct stream *CUstream;
typedef struct module *CUmodule;
typedef struct function *CUfunction;
typedef unsigned long long CUdeviceptr;
enum { CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8 };
CUresult cuModuleLoadData(CUmodule *, const void *);
CUresult cuModuleUnload(CUmodule);
CUresult cuModuleGetFunction(CUfunction *, CUmodule, const char *);
CUresult cuFuncSetAttribute(CUfunction, int, int);
CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                        void **, void **);
"""


def test_what_needs_python_is_refused():
    from types import SimpleNamespace

    kernel = SimpleNamespace(name="k", asm={"llir": "declare void @tt.assert_fail(ptr)\n"},
                             metadata=SimpleNamespace(arch="host"))
    with pytest.raises(ValueError, match=r"tt\.assert_fail.*without debug"):
        objects(kernel, "entry")


def test_dispatch_tries_the_most_specialised_first():
    signatures = ("*fp32, i32", "*fp32:16, i32:16", "*fp32:16, i32")
    variants = [aot.variant_of("k", "cuda", aot.parse_signature(["x", "n"], text)) for text in signatures]
    (algorithms,) = link.group(variants).values()
    (found,) = algorithms.values()
    assert [v.suffix for v in found] == ["0d1d", "0d", ""]
    text = link.dispatcher("k", algorithms)
    assert text.index("_0d1d(stream") < text.index("_0d(stream") and "TT_ERROR_INVALID_VALUE" in text


def test_different_arguments_cannot_be_joined():
    variants = [aot.variant_of("k", "cuda", aot.parse_signature(["x"], text)) for text in ("*fp32", "i32")]
    with pytest.raises(ValueError, match="different arguments"):
        link.group(variants)
