#include "savers.h"

#include <stdio.h>
#include <stdlib.h>

#include "units.h"

static void add(savers_variables *v, const char *name, uint64_t value) {
  if (!value) return;
  snprintf(v->entries[v->count++], sizeof v->entries[0], "%s=%llu", name,
           (unsigned long long)value);
}

savers_variables savers_variables_of(const savers_args *args) {
  savers_variables v = {0};
  if (!args) return v;
  bool has_default = args->chunked_loss == CLI_LEFT_OUT;
  add(&v, "PLIMSOLL_CHUNKED_LOSS", has_default ? SAVERS_CHUNK_TOKENS : args->chunked_loss);
  add(&v, "PLIMSOLL_EMPTY_CACHE_EVERY", args->empty_cache_every);
  add(&v, "PLIMSOLL_GC_EVERY", args->gc_every);
  return v;
}

static const char *plural(uint64_t count) { return count == 1 ? "" : "s"; }

static void describe_chunks(const savers_done *done, plim_notes *notes) {
  if (done->why_off) {
    plim_note_add(notes, "saver.chunked_loss_off", NULL, "--chunked-loss had no effect: %s",
                  done->why_off);
    return;
  }
  plim_note_add(notes, "saver.chunked_loss", NULL,
                "--chunked-loss: %s loss%s of up to %s tokens %s computed %s tokens at a time; "
                "full float32 logits would have taken %s",
                units_count(done->losses).text, done->losses == 1 ? "" : "es",
                units_count(done->most_tokens).text, done->losses == 1 ? "was" : "were",
                units_count(done->chunk_tokens).text, units_bytes(done->logits_bytes).text);
}

static void describe_looks(const savers_done *done, plim_notes *notes) {
  for (size_t i = 0; i < done->looks.len; i++) {
    const savers_look *look = &done->looks.at[i];
    plim_note_add(
        notes, "saver.chunked_loss_read", NULL,
        "%s:%d reads the logits (%s time%s), so --chunked-loss computed all of them there",
        look->file, look->line, units_count(look->times).text, plural(look->times));
    plim_note_at(notes, look->file, look->line);
  }
}

void savers_describe(const savers_done *done, plim_notes *notes) {
  if (done->wants_chunks) describe_chunks(done, notes);
  describe_looks(done, notes);
  if (done->emptied != PLIM_UNKNOWN)
    plim_note_add(notes, "saver.empty_cache", NULL,
                  "--empty-cache-every: torch.cuda.empty_cache() was called %s time%s",
                  units_count(done->emptied).text, plural(done->emptied));
  if (done->collected != PLIM_UNKNOWN)
    plim_note_add(notes, "saver.gc", NULL, "--gc-every: gc.collect() was called %s time%s",
                  units_count(done->collected).text, plural(done->collected));
}

void savers_done_clear(savers_done *done) {
  for (size_t i = 0; i < done->looks.len; i++) free(done->looks.at[i].file);
  vec_free(&done->looks);
  free(done->why_off);
  *done = (savers_done){.emptied = PLIM_UNKNOWN, .collected = PLIM_UNKNOWN};
}
