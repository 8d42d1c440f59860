// Calls that change what a name holds.
#include "python_reader.h"

void plim_py_note_mutation(plim_py_reader *r, size_t name) {
  plim_py_mutate(&r->names, plim_py_text(r, name), plim_py_size(r, name));
}

bool plim_py_changes_object(const plim_py_reader *r, size_t method) {
  static const char *const methods[] = {"update",     "pop",         "popitem",    "clear",
                                        "setdefault", "__setitem__", "__setattr__"};
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
    if (plim_py_is_text(r, method, methods[i])) return true;
  return false;
}

void plim_py_note_change(plim_py_reader *r, size_t first, size_t last, size_t end) {
  bool is_by_function =
      first == last && (plim_py_is_text(r, first, "setattr") || plim_py_is_text(r, first, "vars"));
  bool is_changed_by = is_by_function && plim_py_is_name(r, last + 2, end);
  bool is_setattr = is_changed_by && plim_py_is_text(r, first, "setattr");
  bool is_vars = is_changed_by && plim_py_is(r, last + 3, end, ')') &&
                 plim_py_is(r, last + 4, end, '.') && last + 5 < end &&
                 plim_py_changes_object(r, last + 5);
  if (is_setattr || is_vars) plim_py_note_mutation(r, last + 2);
  bool is_environment = plim_py_is_text(r, first, "os") || plim_py_is_text(r, first, "environ");
  if (last > first && !is_environment && plim_py_changes_object(r, last))
    plim_py_note_mutation(r, first);
}
