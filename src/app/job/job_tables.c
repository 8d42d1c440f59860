// Tables of rotary positions, which torchtune's models keep as float32 buffers.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job_options.h"
#include "units.h"

static plim_rope_tables tables_of(const plim_config *c, const plim_builder_tables *b) {
  if (!b->positions) return (plim_rope_tables){0};
  uint64_t bytes = (uint64_t)(b->positions * b->widths * c->head_dim) * sizeof(float);
  return (plim_rope_tables){b->is_of_each_layer ? c->layers : 1, bytes,
                            b->is_of_each_adapted ? c->layers : 1};
}

// "36x40MiB" or "40MiB"
static plim_err parse_one(const char *item, plim_rope_tables *out, plim_error *error) {
  char *end = NULL;
  long count = strtol(item, &end, 10);
  bool has_count = end != item && *end == 'x';
  *out = (plim_rope_tables){.count = has_count ? count : 1};
  plim_err err = units_parse_bytes(has_count ? end + 1 : item, &out->bytes, error);
  out->with_adapters = out->count;
  if (!err && out->count >= 1 && out->count <= 1 << 16 && out->bytes >= sizeof(float)) return err;
  err = plim_fail(error, PLIM_ERR_ARGUMENT, "--rope-tables %.64s: not a number and a size", item);
  plim_error_hint(error, "--rope-tables 36x40MiB");
  return err;
}

static plim_err parse(const char *list, plim_rope_tables *out, plim_error *error) {
  plim_err err = PLIM_OK;
  int found = 0;
  for (; !err && *list && found < PLIM_MODELS; list += *list == ',') {
    char item[64];
    size_t n = strcspn(list, ",");
    snprintf(item, sizeof item, "%.*s", (int)(n < sizeof item ? n : sizeof item - 1), list);
    err = parse_one(item, &out[found++], error);
    list += n;
  }
  if (err || !*list) return err;
  err = plim_fail(error, PLIM_ERR_ARGUMENT, "--rope-tables takes those of at most %d models",
                  PLIM_MODELS);
  plim_error_hint(error, "--rope-tables 36x40MiB,64MiB");
  return err;
}

plim_err job_understand_tables(const job_args *args, job_request *r, plim_error *error) {
  plim_job *job = &r->job;
  if (args->rope_tables) return parse(args->rope_tables, job->rope_tables, error);
  bool has_copy = !job->recipe.distils && plim_method_has_reference(job->recipe.method) &&
                  job->recipe.reference == PLIM_REFERENCE_OWN;
  job->rope_tables[0] = tables_of(&job->model, &args->tables[0]);
  if (job->recipe.distils) job->rope_tables[1] = tables_of(&job->teacher, &args->tables[1]);
  else if (has_copy) job->rope_tables[1] = job->rope_tables[0];
  return PLIM_OK;
}

// The largest unit of which it is a multiple.
static void print_size(uint64_t bytes, char *text, size_t size) {
  static const char *const units[] = {"", "KiB", "MiB", "GiB"};
  int i = 0;
  while (i < 3 && bytes && bytes % 1024 == 0) bytes /= 1024, i++;
  snprintf(text, size, "%llu%s", (unsigned long long)bytes, units[i]);
}

void job_describe_tables(const plim_job *job, char *text, size_t size) {
  size_t used = 0;
  *text = 0;
  for (int i = 0; i < PLIM_MODELS && used < size; i++) {
    char each[32];
    print_size(job->rope_tables[i].bytes, each, sizeof each);
    if (job->rope_tables[i].count)
      used += (size_t)snprintf(text + used, size - used, "%s%lldx%s", used ? "," : "",
                               (long long)job->rope_tables[i].count, each);
  }
}
