// Checks of the machine: cards and the processes on them, memory, shared memory.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "units.h"

// ---- cards ------------------------------------------------------------------------------------------

// Other processes matter if they use more than one twentieth of a card.
static bool is_much(uint64_t bytes, uint64_t total) { return bytes > total / 20; }

// Memory used by processes; older drivers include their own reserve.
static uint64_t in_use(const plim_card *card) {
  return card->used_bytes == PLIM_UNKNOWN ? 0 : card->used_bytes;
}

static void list_process(const check_process *p, char *text, size_t size) {
  size_t used = strlen(text);
  const char *name = *p->name ? p->name : "a process that is not visible from here";
  int n = snprintf(text + used, size - used, "%s%s (%u)", used ? ", " : "", name, p->process.pid);
  if (p->process.used_bytes == PLIM_UNKNOWN || n < 0 || used + (size_t)n >= size) return;
  snprintf(text + used + n, size - used - (size_t)n, " with %s",
           units_bytes(p->process.used_bytes).text);
}

static size_t list_processes(const check *c, size_t card, char *text, size_t size) {
  size_t count = 0;
  *text = 0;
  for (size_t i = 0; i < c->processes.len; i++)
    if (c->processes.at[i].card == card) list_process(&c->processes.at[i], text, size), count++;
  return count;
}

// A card without other processes, to suggest instead.
static size_t free_card(const check *c) {
  for (size_t i = 0; i < c->card_count + c->hidden_cards; i++)
    if (!is_much(in_use(&c->cards[i]), c->cards[i].total_bytes)) return i;
  return SIZE_MAX;
}

static void check_company(check *c, size_t i) {
  const plim_card *card = &c->cards[i];
  char names[256];
  size_t count = list_processes(c, i, names, sizeof names);
  bool is_taken = is_much(in_use(card), card->total_bytes);
  if (!count && !is_taken) return;
  check_finding *f =
      count ? check_add(c, "card.processes", is_taken ? CHECK_WARNING : CHECK_NOTE,
                        "GPU %u is also used by %s", card->index, names)
            : check_add(c, "card.processes", CHECK_WARNING,
                        "%s of GPU %u are used by processes that are not visible from here",
                        units_bytes(in_use(card)).text, card->index);
  if (!is_taken) return;
  size_t other = free_card(c);
  check_why(f, "the run cannot use that memory, and runs out earlier than on an empty GPU");
  if (other == SIZE_MAX) check_fix(f, "stop them first; nvidia-smi lists them");
  else
    check_fix(f, "stop them, or use another GPU: CUDA_VISIBLE_DEVICES=%u", c->cards[other].index);
}

static void check_driver(check *c) {
  if (c->driver != PLIM_NVML_SILENT || c->is_elsewhere) return;
  check_finding *f =
      check_add(c, "driver.silent", CHECK_WARNING, "the NVIDIA driver does not answer, so %s",
                c->card_count ? "it is not known which processes use its GPUs"
                              : "the GPUs of this machine could not be checked");
  check_why(f, "a training that needs the driver may hang as well");
  check_fix(f, "see whether nvidia-smi answers, and what dmesg says about the GPU");
}

void check_cards(check *c) {
  check_driver(c);
  if (!c->card_count && c->driver == PLIM_NVML_SILENT) return;
  if (!c->card_count) {
    check_finding *f =
        check_add(c, "card.none", CHECK_NOTE,
                  "this machine has no NVIDIA GPU, so its free memory could not be checked");
    if (c->trains && !c->gpu) check_fix(f, "to check for another machine's GPU, add --gpu 4090");
    return;
  }
  for (size_t i = 0; i < c->card_count; i++) {
    const plim_card *card = &c->cards[i];
    check_add(c, "card", CHECK_OK, "GPU %u: %s, %s of %s free", card->index,
              *card->name ? card->name : "of unknown name", units_bytes(card->free_bytes).text,
              units_bytes(card->total_bytes).text);
    check_company(c, i);
  }
}

// Where the launcher's command or file sets the number of processes, and whether it counts those of one machine.
static bool find_processes(const check *c, check_place *at, bool *is_per_node) {
  static const char *const keys[] = {"nproc_per_node", "num_gpus", "num_processes"};
  for (size_t i = 0; !c->world && i < sizeof keys / sizeof *keys; i++) {
    *is_per_node = strcmp(keys[i], "num_processes") != 0;
    if (check_find(c, keys[i], at)) return true;
  }
  return false;
}

// "in run.sh use --num_processes 2": as the user's launcher spells it.
static void print_processes(const check *c, int64_t gpus, char *text, size_t size) {
  check_place at;
  bool is_per_node;
  int64_t nodes = check_number(c, PLIM_KNOB_NODES);
  if (!find_processes(c, &at, &is_per_node)) {
    snprintf(text, size, "start %lld process%s", (long long)gpus, gpus == 1 ? "" : "es");
    return;
  }
  const char *dash = strstr(at.setting->key, "--"), *key = dash ? dash : at.setting->key;
  if (!is_per_node && nodes > 1) gpus *= nodes;
  snprintf(text, size, "in %.80s use %.*s%s%lld", at.file->path, (int)strcspn(key, "#"), key,
           check_is_command(at.file) ? " " : ": ", (long long)gpus);
}

// With fewer GPUs, more accumulation keeps the effective batch the same.
void check_fix_processes(const check *c, check_finding *f, const char *before, int64_t started,
                         int64_t gpus) {
  const plim_project_knob *k = &c->files.project.knobs[PLIM_KNOB_ACCUMULATE];
  const char *key = k->place_count ? k->places[0].setting->key : "gradient accumulation";
  const char *dot = strrchr(key, '.');
  int64_t micro = check_number(c, PLIM_KNOB_MICRO_BATCH);
  int64_t now = check_number(c, PLIM_KNOB_ACCUMULATE), then = check_product(now, started, 1);
  int64_t all = check_product(micro, now, check_world(c));
  char use[160];
  print_processes(c, gpus, use, sizeof use);
  if (!all || !then || then % gpus)
    check_fix(f, "%s%s, with more accumulation to keep the effective batch", before, use);
  else
    check_fix(f, "%s%s, and set %.60s to %lld to keep %lld sequences per step", before, use,
              dot ? dot + 1 : key, (long long)(then / gpus), (long long)all);
}

// With --gpu the run is meant for another machine.
void check_card_count(check *c) {
  int64_t local = check_local_world(c), gpus = (int64_t)c->card_count;
  if (!gpus || local <= gpus) return;
  check_finding *f =
      check_add(c, "card.count", c->gpu ? CHECK_WARNING : CHECK_FAILS,
                "the run starts %lld processes on this machine, %s %lld GPU%s", (long long)local,
                c->hidden_cards ? "but CUDA_VISIBLE_DEVICES shows only" : "which has",
                (long long)gpus, gpus == 1 ? "" : "s");
  check_why(f, "a process without its own GPU fails with \"invalid device ordinal\"");
  check_fix_processes(c, f, "", local, gpus);
}

// ---- the environment --------------------------------------------------------------------------------

void check_environment(check *c) {
  const char *visible = c->environment("CUDA_VISIBLE_DEVICES");
  const char *uncached = c->environment("PYTORCH_NO_CUDA_MEMORY_CACHING");
  if (visible && (!*visible || strcmp(visible, "-1") == 0)) {
    check_finding *f = check_add(c, "environment.no_card", CHECK_WARNING,
                                 "CUDA_VISIBLE_DEVICES is \"%s\": no GPU is visible", visible);
    check_why(f, "PyTorch finds no GPU, and trains on the CPU or stops");
    check_fix(f, "unset CUDA_VISIBLE_DEVICES");
  }
  if (uncached && *uncached) {
    check_finding *f = check_add(c, "environment.no_caching", CHECK_WARNING,
                                 "PYTORCH_NO_CUDA_MEMORY_CACHING is set");
    check_why(
        f, "every tensor is allocated by the driver: slow, and no other allocator setting has an "
           "effect");
    check_fix(f, "unset PYTORCH_NO_CUDA_MEMORY_CACHING");
  }
}

// ---- memory -----------------------------------------------------------------------------------------

static bool is_limited(const plim_machine *m) {
  return m->limit_bytes != PLIM_UNKNOWN && m->limit_bytes < m->total_bytes;
}

void check_memory(check *c) {
  const plim_machine *m = &c->machine;
  char swap[64] = "no swap";
  if (m->available_bytes == PLIM_UNKNOWN) return;
  if (m->swap_total_bytes && m->swap_total_bytes != PLIM_UNKNOWN)
    snprintf(swap, sizeof swap, "%s of swap", units_bytes(m->swap_total_bytes).text);
  if (is_limited(m))
    check_add(
        c, "host.memory", CHECK_OK,
        "host memory: %s available (container limit %s, %s in use; the machine has %s and %s)",
        units_bytes(plim_machine_room(m)).text, units_bytes(m->limit_bytes).text,
        units_bytes(m->limit_used_bytes).text, units_bytes(m->total_bytes).text, swap);
  else
    check_add(c, "host.memory", CHECK_OK, "host memory: %s of %s available, %s",
              units_bytes(m->available_bytes).text, units_bytes(m->total_bytes).text, swap);
}

static bool offloads(const check *c) {
  const plim_known_text *offload = &c->files.run.offload;
  return c->trains && check_is_known(offload->origin) && *offload->text &&
         strcmp(offload->text, "none") != 0;
}

// The estimate may assume a number of GPUs where the files set none.
static uint64_t predicted_processes(const check *c) {
  uint64_t nodes = c->job.nodes > 1 ? c->job.nodes : 1, world = c->job.world / nodes;
  return world ? world : 1;
}

static uint64_t offload_bytes(const check *c) {
  return c->has_estimate ? c->estimate.p.host_bytes * predicted_processes(c) : 0;
}

static void fix_memory(const check *c, check_finding *f, uint64_t need) {
  const plim_machine *m = &c->machine;
  unsigned long long gib = (unsigned long long)((need + m->limit_used_bytes) / PLIM_GIB + 2);
  if (is_limited(m) && plim_machine_room(m) < m->available_bytes && gib * PLIM_GIB < m->total_bytes)
    check_fix(f, "raise the limit: docker run --memory=%llug, or Slurm's --mem=%lluG", gib, gib);
  else if (strstr(c->files.run.offload.text, "parameters"))
    check_fix(f, "offload less (the optimizer instead of parameters), or shard over more GPUs");
  else check_fix(f, "use an optimizer with smaller states, or shard over more GPUs");
}

void check_offload(check *c) {
  uint64_t need = offload_bytes(c), room = plim_machine_room(&c->machine);
  if (!offloads(c) || room == PLIM_UNKNOWN) return;
  if (!need) {
    check_finding *f = check_add(c, "host.offload", CHECK_NOTE,
                                 "offload (%s) needs host memory; how much is not known",
                                 c->files.run.offload.text);
    if (!check_is_known(c->files.run.model.origin))
      check_fix(f, "name the model: --model qwen2.5-7b");
    return;
  }
  bool is_enough = need <= room;
  uint64_t processes = predicted_processes(c);
  char each[112] = "";
  if (processes > 1)
    snprintf(each, sizeof each, " (%s for each of %llu GPUs)",
             units_bytes(c->estimate.p.host_bytes).text, (unsigned long long)processes);
  check_finding *f = check_add(c, "host.offload", is_enough ? CHECK_OK : CHECK_FAILS,
                               "offload needs %s of host memory%s, and %s are available",
                               units_bytes(need).text, each, units_bytes(room).text);
  if (is_enough) return;
  check_why(f, "the kernel kills the process (Killed, exit 137 or -9) without a Python error; a "
               "smaller batch does not help");
  fix_memory(c, f, need);
}

// DeepSpeed pins offloaded memory by default.
void check_locked(check *c) {
  check_place pin;
  uint64_t locked = c->machine.locked_bytes;
  bool is_zero = c->trains && strncmp(c->files.run.strategy.text, "zero", 4) == 0;
  bool is_unpinned = check_find(c, "pin_memory", &pin) && !check_is_on(&pin.value);
  if (!offloads(c) || !is_zero || is_unpinned || locked == PLIM_UNKNOWN) return;
  uint64_t need = offload_bytes(c);
  if (need && need <= locked) return;
  check_finding *f =
      check_add(c, "host.locked", CHECK_WARNING, "processes may lock only %s of memory (ulimit -l)",
                units_bytes(locked).text);
  check_why(f, "DeepSpeed pins offloaded memory by default; with a low limit that can fail with an "
               "out-of-memory error");
  check_fix(f, "ulimit -l unlimited (docker run --ulimit memlock=-1)");
}

// ---- shared memory ----------------------------------------------------------------------------------

#define CONTAINER_SHM (64 * PLIM_MIB) // the default of docker and Kubernetes

enum {
  PREFETCHED = 2,   // batches that a worker of torch's DataLoader prefetches
  TOKEN_BYTES = 24, // input_ids, attention_mask and labels, int64 each
};

// Bytes of the batches prefetched by all workers of the machine; 0: not known.
static uint64_t batches_bytes(const check *c, int64_t workers) {
  int64_t batches = check_product(workers * PREFETCHED, check_local_world(c), c->micro_batch);
  int64_t tokens = check_product(batches, check_number(c, PLIM_KNOB_SEQUENCE), TOKEN_BYTES);
  return (uint64_t)tokens;
}

static void fix_shared(const check *c, check_finding *f) {
  check_why(f, "data loader workers pass batches through /dev/shm; when it is full they die with "
               "\"Bus error\", however much GPU memory is free");
  if (c->machine.is_container)
    check_fix(f, "docker run --shm-size=8g, or --ipc=host; or dataloader_num_workers=0");
  else check_fix(f, "sudo mount -o remount,size=8G /dev/shm; or dataloader_num_workers=0");
}

void check_shared_memory(check *c) {
  const plim_machine *m = &c->machine;
  int64_t workers = check_number(c, PLIM_KNOB_WORKERS);
  if (!c->trains || !workers || m->shm_total_bytes == PLIM_UNKNOWN) return;
  uint64_t room = m->shm_free_bytes == PLIM_UNKNOWN ? m->shm_total_bytes : m->shm_free_bytes;
  uint64_t need = batches_bytes(c, workers);
  check_severity severity = need > room                           ? CHECK_FAILS
                            : m->shm_total_bytes <= CONTAINER_SHM ? CHECK_WARNING
                                                                  : CHECK_OK;
  check_finding *f = check_add(c, "host.shared_memory", severity,
                               "/dev/shm has %s free for %lld data loader workers",
                               units_bytes(room).text, (long long)(workers * check_local_world(c)));
  if (severity != CHECK_OK) fix_shared(c, f);
}
