// Versions of the libraries that a training program uses. What they allocate changes from version to version; each such
// condition stands at the operator or module that changed.
#ifndef PLIM_CORE_VERSIONS_H
#define PLIM_CORE_VERSIONS_H

#include "plimsoll.h"

// 5.22 is 5022. Memory does not depend on the third number.
#define PLIM_RELEASE(major, minor) ((uint16_t)((major)*1000 + (minor)))

typedef struct {
  uint16_t transformers, torch, peft, trl, accelerate; // 0: the version that was measured
} plim_versions;

// Those that were measured on real GPUs (tests/truth).
#define PLIM_MEASURED_TRANSFORMERS PLIM_RELEASE(5, 17)
#define PLIM_MEASURED_TORCH PLIM_RELEASE(2, 11)
#define PLIM_MEASURED_PEFT PLIM_RELEASE(0, 21)
#define PLIM_MEASURED_TRL PLIM_RELEASE(1, 16)
#define PLIM_MEASURED_ACCELERATE PLIM_RELEASE(1, 15)

typedef enum {
  PLIM_LIBRARY_TRANSFORMERS,
  PLIM_LIBRARY_TORCH,
  PLIM_LIBRARY_PEFT,
  PLIM_LIBRARY_TRL,
  PLIM_LIBRARY_ACCELERATE,
  PLIM_LIBRARIES
} plim_library;

extern const char *const plim_library_names[PLIM_LIBRARIES + 1]; // as on PyPI; ends with NULL

// The release of a library, 0 if it is not set; and the one that a prediction uses.
uint16_t plim_versions_get(const plim_versions *v, plim_library library);
void plim_versions_set(plim_versions *v, plim_library library, uint16_t release);
uint16_t plim_versions_used(const plim_versions *v, plim_library library);

// "4.57": plim_release_words(release).text
typedef struct {
  char text[16];
} plim_release_name;
plim_release_name plim_release_words(uint16_t release);

// The newest known release that a requirement allows: "==4.57.6", ">=4.45,<5", "~=4.57.0", "^4.45", "4.57.*". If it allows
// none that is known, the nearest known one, and *is_known is false. 0: the text is not a requirement.
uint16_t plim_release_allowed(plim_library library, const char *text, size_t length,
                              bool *is_known);

// The oldest known release that it allows; 0: none.
uint16_t plim_release_oldest(plim_library library, const char *text, size_t length);

// "transformers=4.57,torch=2.9", as plim_versions_parse reads it: the libraries whose release is not the measured one.
typedef struct {
  char text[120];
} plim_versions_name;
plim_versions_name plim_versions_words(const plim_versions *v);

// Reads "transformers=4.57,torch=2.9". Libraries that it does not name keep their value.
plim_err plim_versions_parse(const char *text, plim_versions *out, plim_error *error);

#endif
