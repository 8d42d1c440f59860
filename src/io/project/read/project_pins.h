// Which versions of libraries a project asks for: requirements, pyproject, lock files, Dockerfiles, conda files beside its
// files or in folders above them, and the environment that is installed there.
#ifndef PLIM_IO_PROJECT_PINS_H
#define PLIM_IO_PROJECT_PINS_H

#include "packages.h"
#include "versions.h"

typedef struct {
  uint16_t release; // 0: nothing says
  uint16_t
      oldest; // the oldest known release that is allowed; the same unless a range leaves a choice
  bool is_known;    // the release is one that the requirement allows, not just the nearest known
  bool is_narrowed; // settings of the project leave fewer releases than the requirement allows
  char asked[48];   // the requirement as written: ">=4.45,<5"
  char file[256];   // where it is written, or the folder of the installed library
  int line;         // 0: an installed library
} plim_pin;

// A package of kernels that the files ask for or that is installed.
typedef struct {
  bool is_there;
  char file[256];
  int line; // 0: it is installed, in the folder `file`
} plim_package_pin;

// A package whose version decides which releases of a library can be installed beside it.
typedef struct {
  bool is_below_1; // 1.0 and newer are excluded
  char asked[48];
  char file[256];
  int line;
} plim_companion_pin;

typedef struct {
  plim_pin of[PLIM_LIBRARIES];
  plim_companion_pin hub; // huggingface-hub
  plim_package_pin packages[PLIM_PACKAGES];
  unsigned others; // packages that plans use and the project installs: bits of plim_pins_install
  bool has_environment; // one is installed, so what it lacks is not there
} plim_pins;

// Reads the requirements in a text of any of these formats. Libraries that have a pin already keep it.
void plim_pins_read(plim_pins *pins, const char *text, size_t length, const char *file);
// Whether the project installs a package that plans use: bitsandbytes, deepspeed, flash-attn or liger-kernel.
bool plim_pins_install(const plim_pins *pins, const char *package);
// Looks into the folder of `path` and the folders above it, up to the one of the repository. Files that cannot be read
// are passed over.
void plim_pins_find(plim_pins *pins, const char *path);

#endif
