/* libamdhip64 for C programs: it tells what it is asked for. FAKE_ARCH names the architecture of its one GPU. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char function[256];

int hipModuleLoadData(void **module, const void *image) {
  if (memcmp(image, "\177ELF", 4)) return 200; /* hipErrorInvalidImage */
  printf("load\n");
  *module = function;
  return 0;
}

int hipModuleUnload(void *module) {
  printf("unload\n");
  return module == function ? 0 : 1;
}

int hipModuleGetFunction(void **found, void *module, const char *name) {
  snprintf(function, sizeof function, "%s", name);
  *found = module;
  return 0;
}

/* Kernels of the tests take pointers, and perhaps a 32-bit integer after the third. */
int hipModuleLaunchKernel(void *launched, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void *stream, void **parameters, void **extra) {
  if (launched != function || extra) return 1;
  printf("%s (%u, %u, %u) of (%u, %u, %u), %u bytes, stream %lx, first %lx", function, gx, gy, gz, bx, by, bz, shared,
         (unsigned long)stream, *(unsigned long *)parameters[0]);
  if (!strcmp(function, "add")) printf(", n %d", *(int32_t *)parameters[3]);
  printf("\n");
  return 0;
}

int hipGetDevice(int *device) { return *device = 0; }

int hipGetDevicePropertiesR0600(void *properties, int device) {
  const char *arch = getenv("FAKE_ARCH");
  snprintf((char *)properties + 1160, 256, "%s:sramecc+:xnack-", arch ? arch : "gfx90a");
  return device;
}
