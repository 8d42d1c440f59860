#include "packages.h"

#include <stdio.h>
#include <string.h>

const char *const plim_package_names[PLIM_PACKAGES + 1] = {
    [PLIM_PACKAGE_FLA] = "fla",
    [PLIM_PACKAGE_CAUSAL_CONV1D] = "causal-conv1d",
    [PLIM_PACKAGE_FLA_CONV1D] = "fla-conv1d",
    [PLIM_PACKAGE_KERNELS] = "kernels",
};

static plim_package named(const char *name, size_t length) {
  int package = 0;
  for (; package < PLIM_PACKAGES; package++)
    if (strlen(plim_package_names[package]) == length &&
        strncmp(plim_package_names[package], name, length) == 0)
      break;
  return (plim_package)package;
}

static plim_err fail_unknown(const char *name, size_t length, plim_error *error) {
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT,
                           "--packages: \"%.*s\" is not a package that "
                           "predictions know",
                           (int)(length < 64 ? length : 64), name);
  plim_error_hint(error, "known: fla, causal-conv1d, fla-conv1d, kernels; or none");
  return err;
}

plim_err plim_packages_parse(const char *text, plim_packages *out, plim_error *error) {
  plim_packages found = 0;
  bool is_none = strcmp(text, "none") == 0;
  for (const char *at = is_none ? "" : text; *at;) {
    size_t length = strcspn(at, ",");
    plim_package package = named(at, length);
    if (package == PLIM_PACKAGES) return fail_unknown(at, length, error);
    found |= (plim_packages)(1u << package);
    at += length + (at[length] == ',');
  }
  *out = found;
  return PLIM_OK;
}

plim_packages_name plim_packages_words(plim_packages packages) {
  plim_packages_name name = {"none"};
  size_t used = 0;
  for (int i = 0; i < PLIM_PACKAGES && used < sizeof name.text; i++)
    if (PLIM_HAS_PACKAGE(packages, i))
      used += (size_t)snprintf(name.text + used, sizeof name.text - used, "%s%s", used ? "," : "",
                               plim_package_names[i]);
  return name;
}

// PyPI takes "-", "_" and "." in a name for the same, and does not look at case.
static bool is_same_name(const char *name, const char *other, size_t length) {
  if (strlen(name) != length) return false;
  for (size_t i = 0; i < length; i++) {
    char c = other[i];
    if (c >= 'A' && c <= 'Z') c = (char)(c - 'A' + 'a');
    if (c == '_' || c == '.') c = '-';
    if (c != name[i]) return false;
  }
  return true;
}

plim_package plim_package_of(const char *distribution, size_t length) {
  static const struct {
    const char *name;
    plim_package package;
  } all[] = {
      {"flash-linear-attention", PLIM_PACKAGE_FLA}, // since 0.4 only layers and models, on top of:
      {"fla-core", PLIM_PACKAGE_FLA},
      {"causal-conv1d", PLIM_PACKAGE_CAUSAL_CONV1D},
      {"kernels", PLIM_PACKAGE_KERNELS},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (is_same_name(all[i].name, distribution, length)) return all[i].package;
  return PLIM_PACKAGES;
}
