"""C for kernels of AMD GPUs: it holds code objects, and finds the HIP runtime when a program runs.

A program needs neither ROCm's headers nor its libraries to be compiled: `tritium_hip.h`, which is written beside the
sources, looks for the functions in the program itself, then in `libamdhip64`.
"""

from __future__ import annotations

from tritium.tools import aot

__all__ = ["HEADER", "RUNTIME", "source"]

HEADER = "tritium_hip.h"

RUNTIME = r"""#pragma once
/* The functions of the HIP runtime that kernels are launched with. They are those of the program, if it is linked to
   libamdhip64 itself, else of the library in TRITON_LIBHIP_PATH, else of the system's. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { TT_HIP_NO_LIBRARY = 303 /* hipErrorSharedObjectInitFailed */ };

typedef struct {
  int (*module_load)(void **module, const void *image);
  int (*module_unload)(void *module);
  int (*module_function)(void **function, void *module, const char *name);
  int (*launch)(void *function, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by, uint32_t bz,
                uint32_t shared, void *stream, void **parameters, void **extra);
  int (*device)(int *device);
  int (*properties)(void *properties, int device);
  size_t arch; /* where the properties have the name of the architecture */
} tt_hip_functions;

static inline void *tt_hip_library(void) {
  static const char *names[] = {"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                                "/opt/rocm/lib/libamdhip64.so"};
  const char *named = getenv("TRITON_LIBHIP_PATH");
  void *found = dlopen(NULL, RTLD_NOW);
  if (found && dlsym(found, "hipModuleLoadData")) return found;
  if (named && *named) return dlopen(named, RTLD_NOW);
  for (size_t k = 0; k < sizeof names / sizeof *names; k++)
    if ((found = dlopen(names[k], RTLD_NOW))) return found;
  return NULL;
}

static inline int tt_hip_find(void *library, const char *name, void *function) {
  void *found = dlsym(library, name);
  memcpy(function, &found, sizeof found);
  return found != NULL;
}

/* NULL where there is no HIP runtime. */
static inline const tt_hip_functions *tt_hip(void) {
  static tt_hip_functions known;
  static int state = 0;
  if (state == 0) {
    tt_hip_functions f = {0};
    void *library = tt_hip_library();
    f.arch = 1160;
    int whole = library && tt_hip_find(library, "hipModuleLoadData", &f.module_load) &&
                tt_hip_find(library, "hipModuleUnload", &f.module_unload) &&
                tt_hip_find(library, "hipModuleGetFunction", &f.module_function) &&
                tt_hip_find(library, "hipModuleLaunchKernel", &f.launch) &&
                tt_hip_find(library, "hipGetDevice", &f.device);
    if (whole && !tt_hip_find(library, "hipGetDevicePropertiesR0600", &f.properties)) {
      f.arch = 396; /* before ROCm 6 */
      whole = tt_hip_find(library, "hipGetDeviceProperties", &f.properties);
    }
    known = f;
    state = whole ? 1 : -1;
  }
  return state == 1 ? &known : NULL;
}

/* Whether the current GPU is of this architecture. */
static inline int tt_hip_is(const char *arch) {
  static int last = -1;
  static char name[64];
  int device = 0;
  const tt_hip_functions *hip = tt_hip();
  if (!hip || hip->device(&device)) return 0;
  if (device != last) {
    char *properties = (char *)calloc(1, 8192);
    if (!properties) return 0;
    int status = hip->properties(properties, device);
    memcpy(name, properties + hip->arch, sizeof name - 1);
    free(properties);
    if (status) return 0;
    name[strcspn(name, ":")] = 0; /* gfx942:sramecc+:xnack- */
    last = device;
  }
  return !strcmp(name, arch);
}
"""


def source(variant: aot.Variant, file: str, entry: str, binary: bytes, grid: list[str], threads: int,
           shared: int) -> str:
    """C that holds a code object, and launches it; `shared` is what a launch gives beside what the object asks for."""
    parameters = ", ".join(f"&{p.name}" for p in variant.parameters if p.is_passed)
    gx, gy, gz = grid
    name = variant.name
    return f"""#include "{file}.h"

static const unsigned char image[] __attribute__((aligned(4096))) = {{
{aot.image(binary)}
}};
static void *module;
static void *function;

int load_{name}(void) {{
  const tt_hip_functions *hip = tt_hip();
  if (!hip) return TT_HIP_NO_LIBRARY;
  if (function) return 0;
  int status = hip->module_load(&module, image);
  if (status == 0) status = hip->module_function(&function, module, "{entry}");
  return status;
}}

int unload_{name}(void) {{
  int status = module ? tt_hip()->module_unload(module) : 0;
  module = function = NULL;
  return status;
}}

{aot.prototype(variant)} {{
  int status = load_{name}();
  if (status != 0) return status;
  uint32_t gx = {gx}, gy = {gy}, gz = {gz};
  if (gx == 0 || gy == 0 || gz == 0) return 0;
  void *parameters[] = {{{parameters or "0"}}};
  return tt_hip()->launch(function, gx, gy, gz, {threads}, 1, 1, {shared}, stream, parameters, NULL);
}}
{aot.definitions(variant)}"""
