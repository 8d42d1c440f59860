// Names that hold the result of a call: their attributes are the arguments of the call.
#include <string.h>

#include "python_reader.h"

// Whether the last call of the expression parses arguments: parser.parse_args(), parser.parse_args_into_dataclasses().
static bool parses(const plim_py_reader *r, size_t i, size_t end) {
  if (end - i < 3 || !plim_py_is(r, end - 1, end, ')')) return false;
  size_t open = plim_py_at(r, end - 1)->match, name = open - 1;
  return open > i && plim_py_is_name(r, name, end) && plim_py_size(r, name) > 5 &&
         memcmp(plim_py_text(r, name), "parse_", 6) == 0;
}

// Notes names that hold parsed arguments: model_args, training_args = parser.parse_args_into_dataclasses()
void plim_py_note_parsed(plim_py_reader *r, size_t i, size_t target_end, size_t value, size_t end) {
  if (!parses(r, value, end)) return;
  for (; i < target_end; i++)
    if (plim_py_is_name(r, i, target_end))
      plim_py_add_arguments(&r->names, plim_py_text(r, i), plim_py_size(r, i));
}

void plim_py_name_by_call(plim_py_reader *r, size_t name) {
  const char *call =
      plim_py_alias(&r->names, r->block->scope, plim_py_text(r, name), plim_py_size(r, name));
  size_t size = plim_py_size(r, name);
  plim_chars key = {0};
  if (!call || r->scratch.len <= size || r->scratch.at[size] != '.') return;
  bool ok = plim_chars_add_text(&key, call) &&
            plim_chars_add(&key, r->scratch.at + size, r->scratch.len - size);
  if (ok) {
    r->scratch.len = 0;
    ok = plim_chars_add(&r->scratch, key.at, key.len);
  }
  if (!ok) plim_py_no_memory(r);
  vec_free(&key);
}

// After config = Config(...), config.lr is Config.lr. After args = parser.parse_args(), args.lr is an argument.
void plim_py_note_alias(plim_py_reader *r, size_t name, size_t i, size_t end) {
  char call[PLIM_PY_MAX_NAME];
  size_t last = plim_py_dotted(r, i, end), size;
  bool is_again = plim_py_is_arguments(&r->names, plim_py_text(r, name), plim_py_size(r, name)) &&
                  plim_py_is_assigned_again(&r->names, r->block->scope, plim_py_text(r, name),
                                            plim_py_size(r, name));
  if (parses(r, i, end))
    plim_py_add_arguments(&r->names, plim_py_text(r, name), plim_py_size(r, name));
  else if (is_again) plim_py_note_mutation(r, name);
  if (last == end || !plim_py_is(r, last + 1, end, '(')) return;
  if (plim_py_at(r, last + 1)->match + 1 != end) return;
  bool is_class = *plim_py_text(r, last) >= 'A' && *plim_py_text(r, last) <= 'Z';
  if (!is_class || !(size = plim_py_call_name(r, i, last, call, false))) return;
  const char *kept = plim_settings_keep(r->s, call, size);
  if (!kept) plim_py_no_memory(r);
  plim_py_add_alias(&r->names,
                    (plim_py_holder){plim_py_text(r, name), (uint32_t)plim_py_size(r, name),
                                     r->block->scope, kept});
  plim_py_note_adapter(r, name, last, kept);
}
