// Jupyter notebooks: the code of their cells as one script. They are read, and never written.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "project_impl.h"
#include "text_file.h"

bool plim_is_notebook(const char *path) {
  const char *dot = strrchr(path, '.');
  return dot && strcmp(dot, ".ipynb") == 0;
}

// Commands to the shell and to IPython, and questions: !pip install, %cd, model.forward?
static bool is_of_ipython(const char *line, size_t size) {
  while (size && (line[size - 1] == ' ' || line[size - 1] == '\r')) size--;
  return size && (strchr("!%?", line[0]) || line[size - 1] == '?');
}

// A line of IPython's own becomes a comment behind `pass`, so that a block around it is still one.
static void add_line(FILE *out, const char *line, size_t size, bool is_foreign) {
  size_t indent = strspn(line, " \t");
  if (indent > size) indent = size;
  bool is_own = !is_foreign && !is_of_ipython(line + indent, size - indent);
  if (is_own || indent == size) fprintf(out, "%.*s\n", (int)size, line);
  else fprintf(out, "%.*spass  # %.*s\n", (int)indent, line, (int)(size - indent), line + indent);
}

// A cell that starts with %%bash or the like is in another language.
static void add_cell(FILE *out, const char *code) {
  bool is_foreign = strncmp(code, "%%", 2) == 0 && strncmp(code, "%%time", 6) != 0 &&
                    strncmp(code, "%%capture", 9) != 0;
  while (*code) {
    size_t size = strcspn(code, "\n");
    add_line(out, code, size, is_foreign);
    code += size + (code[size] == '\n');
  }
}

// "source" is a text, or a list of lines that have their line ends.
static bool join(const json_t *source, FILE *whole) {
  size_t i;
  json_t *line;
  if (json_is_string(source)) fputs(json_string_value(source), whole);
  json_array_foreach(source, i, line) {
    if (!json_is_string(line)) return false;
    fputs(json_string_value(line), whole);
  }
  return json_is_string(source) || json_is_array(source);
}

static bool add_source(FILE *out, const json_t *source) {
  char *text = NULL;
  size_t size = 0;
  FILE *whole = open_memstream(&text, &size);
  if (!whole) return false;
  bool is_read = join(source, whole);
  is_read = !fclose(whole) && text && is_read;
  if (is_read) add_cell(out, text);
  free(text);
  return is_read;
}

static bool add_cells(FILE *out, const json_t *cells) {
  size_t i;
  json_t *cell;
  json_array_foreach(cells, i, cell) {
    const char *kind = json_string_value(json_object_get(cell, "cell_type"));
    if (kind && strcmp(kind, "code") == 0 && !add_source(out, json_object_get(cell, "source")))
      return false;
  }
  return true;
}

plim_err plim_notebook_code(const char *text, size_t size, char **code, size_t *code_size,
                            plim_error *error) {
  json_error_t why;
  json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &why);
  json_t *cells = json_object_get(root, "cells");
  plim_err err = PLIM_OK;
  *code = NULL;
  if (!json_is_array(cells)) {
    err = plim_fail(error, PLIM_ERR_PARSE, "this is not a notebook: %.120s",
                    root ? "it has no list of cells" : why.text);
    plim_error_hint(error, "save it again in Jupyter, or give the code as a script");
  } else {
    FILE *out = open_memstream(code, code_size);
    bool is_read = out && add_cells(out, cells);
    if (!out || fclose(out) || !*code) err = plim_no_memory(error);
    else if (!is_read)
      err = plim_fail(error, PLIM_ERR_PARSE, "this is not a notebook: a cell has no source");
  }
  json_decref(root);
  if (err) free(*code), *code = NULL;
  return err;
}
