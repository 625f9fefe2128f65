"""Options of LLVM count for the whole process: none may reach the code of another target."""

import subprocess
import sys

# In a process of its own: what other tests compiled before would count, too.
ORDER = '''
from tritium.backends.llvm.target import compile_text, cpu_target

lines = []
for k in range(24):
    lines += [f"%p{k} = getelementptr <16 x float>, ptr %a, i64 {k}", f"%x{k} = load <16 x float>, ptr %p{k}"]
for k in range(24):
    lines += [f"%m{k} = fmul <16 x float> %x{k}, %x{(k + 7) % 24}"]
for k in range(24):
    lines += [f"%q{k} = getelementptr <16 x float>, ptr %b, i64 {k}",
              f"%s{k} = fadd <16 x float> %m{k}, %m{(k + 5) % 24}", f"store <16 x float> %s{k}, ptr %q{k}"]
text = "\\n".join(["define void @f(ptr %a, ptr %b) {", *lines, "ret void }"])
first, other = "x86-64-v3", "aarch64"
before = compile_text(text, cpu_target(first))
compile_text(text, cpu_target(other))
assert compile_text(text, cpu_target(first)) == before
'''


def test_code_does_not_depend_on_what_was_compiled_before():
    done = subprocess.run([sys.executable, "-c", ORDER], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
