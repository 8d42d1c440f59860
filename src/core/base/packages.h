// Packages of kernels beside torch that a program runs if they are installed.
#ifndef PLIM_CORE_PACKAGES_H
#define PLIM_CORE_PACKAGES_H

#include "plimsoll.h"

typedef enum {
  PLIM_PACKAGE_FLA,           // flash-linear-attention: the gated delta rule
  PLIM_PACKAGE_CAUSAL_CONV1D, // the convolution before it
  // FLA's own convolution in its place. Only Axolotl's code for packed samples calls it.
  PLIM_PACKAGE_FLA_CONV1D,
  // With it, transformers fetches other packages' kernels from the Hugging Face Hub (lazy_load_kernel of its
  // integrations/hub_kernels.py).
  PLIM_PACKAGE_KERNELS,
  PLIM_PACKAGES
} plim_package;

// A set of packages: bit i stands for plim_package i.
typedef uint8_t plim_packages;
#define PLIM_HAS_PACKAGE(packages, package) (((packages) >> (package)) & 1)

extern const char *const plim_package_names[PLIM_PACKAGES + 1]; // "fla", ..., NULL

// Reads "fla,causal-conv1d"; "none" is the empty set.
plim_err plim_packages_parse(const char *text, plim_packages *out, plim_error *error);

typedef struct {
  char text[48];
} plim_packages_name;
// "fla,causal-conv1d", as --packages takes it: plim_packages_words(packages).text
plim_packages_name plim_packages_words(plim_packages packages);

// The package that a distribution of this name belongs to, as on PyPI or as in the name of its .dist-info; PLIM_PACKAGES:
// none of these.
plim_package plim_package_of(const char *distribution, size_t length);

#endif
