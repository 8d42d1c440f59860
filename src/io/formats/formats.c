#include "formats.h"

#include <string.h>
#include <strings.h>

#include "edit_dockerfile.h"
#include "edit_json.h"
#include "edit_python.h"
#include "edit_shell.h"
#include "edit_toml.h"
#include "edit_yaml.h"

static const plim_editor *const editors[PLIM_FORMATS] = {
    &plim_yaml_editor,   &plim_json_editor,  &plim_toml_editor,
    &plim_python_editor, &plim_shell_editor, &plim_dockerfile_editor,
};

// ---- which format -----------------------------------------------------------------------------------

static const struct {
  const char *ending;
  plim_format format;
} endings[] = {
    {".yaml", PLIM_FORMAT_YAML},    {".yml", PLIM_FORMAT_YAML},   {".json", PLIM_FORMAT_JSON},
    {".toml", PLIM_FORMAT_TOML},    {".py", PLIM_FORMAT_PYTHON},  {".sh", PLIM_FORMAT_SHELL},
    {".ipynb", PLIM_FORMAT_PYTHON}, {".bash", PLIM_FORMAT_SHELL}, {".sbatch", PLIM_FORMAT_SHELL},
    {".slurm", PLIM_FORMAT_SHELL},
};

static bool ends_with(const char *text, const char *ending) {
  size_t n = strlen(text), m = strlen(ending);
  return n >= m && strcasecmp(text + n - m, ending) == 0;
}

static bool starts_with(const char *text, size_t size, const char *start) {
  return size >= strlen(start) && memcmp(text, start, strlen(start)) == 0;
}

static bool format_of_content(const char *text, size_t size, plim_format *out) {
  size_t line = 0;
  while (line < size && text[line] != '\n') line++;
  if (starts_with(text, size, "#!")) {
    bool is_python = memmem(text, line, "python", 6) != NULL;
    bool is_shell = memmem(text, line, "sh", 2) != NULL;
    *out = is_python ? PLIM_FORMAT_PYTHON : PLIM_FORMAT_SHELL;
    return is_python || is_shell;
  }
  *out = PLIM_FORMAT_DOCKERFILE;
  return starts_with(text, size, "FROM ");
}

bool plim_format_of(const char *path, const char *text, size_t size, plim_format *out) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
    if (ends_with(name, endings[i].ending)) {
      *out = endings[i].format;
      return true;
    }
  if (strncasecmp(name, "Dockerfile", 10) == 0 || ends_with(name, ".dockerfile")) {
    *out = PLIM_FORMAT_DOCKERFILE;
    return true;
  }
  return format_of_content(text, size, out);
}

// ---- reading ----------------------------------------------------------------------------------------

plim_err plim_settings_read(plim_format format, const char *text, size_t size, plim_settings *out,
                            plim_error *error) {
  return plim_settings_read_by(editors[format], format, text, size, out, error);
}
