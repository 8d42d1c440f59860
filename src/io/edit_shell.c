#include "settings.h"

static plim_err read(plim_settings *s, plim_error *error) {
  return plim_fail(error, PLIM_ERR_UNSUPPORTED, "%s files cannot be read yet",
                   plim_format_names[s->format]);
}

static plim_err change(const plim_settings *s, const plim_setting *setting, const plim_value *value,
                       plim_edit *out, plim_error *error) {
  (void)setting, (void)value, (void)out;
  return plim_fail(error, PLIM_ERR_UNSUPPORTED, "%s files cannot be changed yet",
                   plim_format_names[s->format]);
}

static plim_err insert(const plim_settings *s, const char *key, const plim_value *value,
                       plim_edit *out, plim_error *error) {
  (void)key, (void)value, (void)out;
  return plim_fail(error, PLIM_ERR_UNSUPPORTED, "%s files cannot be changed yet",
                   plim_format_names[s->format]);
}

const plim_editor plim_shell_editor = {read, change, insert};
