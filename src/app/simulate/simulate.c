// Starts the program on the simulated card, watches it, and collects what it did.
#include "simulate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "simulate_impl.h"

// ---- while it runs ----------------------------------------------------------------------------------

typedef struct {
  const simulate_request *request;
  simulate_watch *watch;
  void *context;
  simulate_result *result;
  card_record *record;
  struct timespec start;
} run;

static double seconds_since(const struct timespec *start) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) / 1e9;
}

// As card_record_used, but process ids are those inside the sandbox, so only the processes themselves can say that they have
// ended.
static uint64_t used_on(const card_record *record, uint32_t device) {
  uint64_t used = 0;
  for (uint32_t i = 0; i < record->process_count && i < CARD_MAX_PROCESSES; i++) {
    const card_process *p = &record->processes[i];
    if (!p->has_ended) used += p->devices[device].context_bytes + p->devices[device].used_bytes;
  }
  return used;
}

static void look(run *r) {
  simulate_moment now = {.seconds = seconds_since(&r->start), .log = r->result->log};
  for (uint32_t i = 0; i < r->request->gpus; i++) {
    uint64_t used = used_on(r->record, i);
    if (used > now.used_bytes) now.used_bytes = used;
  }
  for (uint32_t i = 0; i < r->record->process_count && i < CARD_MAX_PROCESSES; i++) {
    const card_process *p = &r->record->processes[i];
    if (p->steps > now.steps) now.steps = p->steps;
    if (p->allocated_bytes > now.allocated_bytes) now.allocated_bytes = p->allocated_bytes;
  }
  if (r->watch) r->watch(r->context, &now);
}

// ---- what the card recorded -------------------------------------------------------------------------

static bool add_unmodelled(simulate_result *result, const card_unmodelled *u) {
  simulate_unmodelled one = {.calls = u->calls};
  for (size_t i = 0; i < result->unmodelled.len; i++)
    if (strncmp(result->unmodelled.at[i].name, u->name, sizeof u->name) == 0) {
      result->unmodelled.at[i].calls += u->calls;
      return true;
    }
  snprintf(one.name, sizeof one.name, "%.*s", (int)sizeof u->name - 1, u->name);
  return vec_push(&result->unmodelled, one);
}

static uint32_t processes_on(const card_record *record, uint32_t device) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < record->process_count && i < CARD_MAX_PROCESSES; i++)
    count += record->processes[i].devices[device].context_bytes > 0;
  return count;
}

static bool take_record(const card_record *record, uint32_t gpus, simulate_result *result) {
  bool ok = true;
  for (uint32_t i = 0; i < record->process_count && i < CARD_MAX_PROCESSES; i++) {
    const card_process *p = &record->processes[i];
    result->launches += p->launches;
    result->pinned_bytes += p->peak_pinned_bytes;
    for (uint32_t k = 0; k < p->unmodelled_count && k < CARD_MAX_NAMES; k++)
      ok = add_unmodelled(result, &p->unmodelled[k]) && ok;
  }
  for (uint32_t i = 0; i < gpus; i++)
    if (record->peak_bytes[i] > result->peak_bytes) {
      result->peak_bytes = record->peak_bytes[i];
      result->sharing = processes_on(record, i);
    }
  memcpy(result->faults, record->faults, sizeof result->faults);
  result->fault_count =
      record->fault_count < CARD_MAX_FAULTS ? record->fault_count : CARD_MAX_FAULTS;
  return ok;
}

static void put_faults(const simulate_request *request, card_record *record) {
  for (size_t i = 0; i < request->fault_count && i < CARD_MAX_FAULTS; i++)
    record->faults[record->fault_count++] = request->faults[i];
}

static void take_times(const card_record *record, const plim_gpu *gpu, simulate_result *result) {
  for (size_t i = 0; i < result->processes.len; i++)
    for (uint32_t k = 0; k < record->process_count && k < CARD_MAX_PROCESSES; k++)
      if (record->processes[k].pid == result->processes.at[i].pid)
        result->processes.at[i].step = simulate_step_of(gpu, &record->processes[k].step);
}

static bool was_refused(const card_record *record) {
  for (uint32_t i = 0; i < record->process_count && i < CARD_MAX_PROCESSES; i++)
    for (int k = 0; k < CARD_MAX_DEVICES; k++)
      if (record->processes[i].devices[k].refusals) return true;
  return false;
}

// A program that fails after the card refused memory has run out of memory, even if it ended before it could report that.
static simulate_end end_of(const run *r) {
  bool is_well = WIFEXITED(r->result->status) && WEXITSTATUS(r->result->status) == 0;
  if (is_well) return SIMULATE_RAN;
  return was_refused(r->record) ? SIMULATE_OUT_OF_MEMORY : SIMULATE_FAILED;
}

// The exception of a process that got as far as any other; NULL if none had one.
static const char *exception_of(const simulate_result *result) {
  bool uses_card = simulate_fullest(result) != NULL;
  for (size_t i = 0; i < result->processes.len; i++) {
    const simulate_process *p = &result->processes.at[i];
    if (p->failure.text && p->uses_card == uses_card && p->steps == simulate_steps(result))
      return p->failure.text;
  }
  return NULL;
}

// A shell script may lose the exit status of its program, as in `python train.py | tee log`: then the program itself says
// how it ended.
static void correct_end(const simulate_request *request, simulate_result *result) {
  const char *exception = exception_of(result);
  bool has_steps = request->steps && simulate_steps(result) >= request->steps;
  if (result->end != SIMULATE_RAN || has_steps || !exception) return;
  const char *name = strstr(exception, "OutOfMemoryError"); // "torch.OutOfMemoryError: CUDA ..."
  bool is_memory = name && name < exception + strcspn(exception, ":");
  result->end = is_memory ? SIMULATE_OUT_OF_MEMORY : SIMULATE_FAILED;
}

// ---- the run ----------------------------------------------------------------------------------------

static plim_err go(run *r, const plim_sandbox *sandbox, plim_error *error) {
  enum { MILLISECONDS = 100 };
  plim_sandbox_run running;
  clock_gettime(CLOCK_MONOTONIC, &r->start);
  plim_err err = plim_sandbox_start(sandbox, &running, error);
  if (err) return err;
  while (!plim_sandbox_wait(&running, MILLISECONDS, &r->result->status)) look(r);
  look(r);
  snprintf(r->result->read_only, sizeof r->result->read_only, "%s", running.read_only);
  plim_sandbox_end(&running);
  r->result->seconds = seconds_since(&r->start);
  r->result->end = end_of(r);
  if (r->record->process_count > CARD_MAX_PROCESSES)
    return plim_fail(error, PLIM_ERR_UNSUPPORTED,
                     "%u processes used the GPU, and the memory of at most %d can be recorded",
                     r->record->process_count, CARD_MAX_PROCESSES);
  return take_record(r->record, r->request->gpus, r->result)
             ? PLIM_OK
             : plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
}

// The run's own folder is writable: the card writes its record there, and each process what it observed.
static plim_err start(run *r, const simulate_folder *folder, char **environment,
                      plim_error *error) {
  const simulate_request *request = r->request;
  vec(const char *) writable = {0};
  int log = open(folder->log, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (log < 0)
    return plim_fail(error, PLIM_ERR_IO, "cannot write %.200s: %s", folder->log, strerror(errno));
  bool ok = vec_push(&writable, folder->out) && vec_push(&writable, folder->record);
  for (size_t i = 0; ok && i < request->writable_count; i++)
    ok = vec_push(&writable, request->writable[i]);
  plim_sandbox sandbox = {.arguments = request->command,
                          .environment = (const char *const *)environment,
                          .writable = writable.at,
                          .writable_count = writable.len,
                          .replaced = request->replaced,
                          .replaced_count = request->replaced_count,
                          .scratch = folder->scratch,
                          .has_network = request->has_network,
                          .is_open = request->is_unsandboxed,
                          .output = log};
  plim_err err = ok ? go(r, &sandbox, error) : plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  close(log);
  vec_free(&writable);
  return err;
}

plim_err simulate_run(const simulate_request *request, simulate_watch *watch, void *context,
                      simulate_result *result, plim_error *error) {
  char stand_ins[PLIM_PATH_BYTES];
  simulate_folder folder;
  *result = (simulate_result){0};
  plim_err err = PLIM_OK;
  if (request->stand_ins) snprintf(stand_ins, sizeof stand_ins, "%s", request->stand_ins);
  else err = simulate_find_stand_ins(stand_ins, error);
  if (!err) err = simulate_folder_make(&folder, "simulate", SIMULATE_KEPT_LOGS, stand_ins, error);
  if (err) return err;
  snprintf(result->folder, sizeof result->folder, "%s", folder.path);
  result->lock = folder.lock;
  snprintf(result->log, sizeof result->log, "%s", folder.log);
  run r = {.request = request, .watch = watch, .context = context, .result = result};
  char **environment = simulate_environment(request, &folder, stand_ins);
  if (!environment) err = plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  if (!err)
    err = card_record_create(folder.record, request->gpu->name, request->gpus, request->total_bytes,
                             request->context_bytes, error);
  if (!err && !(r.record = card_record_map(folder.record)))
    err = plim_fail(error, PLIM_ERR_IO, "cannot map %.200s", folder.record);
  if (!err) {
    put_faults(request, r.record);
    err = start(&r, &folder, environment, error);
  }
  if (!err) err = simulate_read_processes(folder.out, result, error);
  if (!err) take_times(r.record, request->gpu, result);
  if (!err) correct_end(request, result);
  if (r.record) card_record_unmap(r.record);
  simulate_environment_free(environment);
  return err;
}

void simulate_result_clear(simulate_result *result) {
  for (size_t i = 0; i < result->processes.len; i++)
    simulate_process_clear(&result->processes.at[i]);
  vec_free(&result->processes);
  vec_free(&result->unmodelled);
  if (!*result->folder) return;
  simulate_folder_remove(result->folder, plim_is_file(result->log));
  if (result->lock >= 0) close(result->lock);
  *result->folder = 0;
}

// ---- questions --------------------------------------------------------------------------------------

const simulate_process *simulate_fullest(const simulate_result *result) {
  const simulate_process *fullest = NULL;
  for (size_t i = 0; i < result->processes.len; i++) {
    const simulate_process *p = &result->processes.at[i];
    if (!p->uses_card) continue;
    if (!fullest || p->peak_reserved_bytes > fullest->peak_reserved_bytes) fullest = p;
  }
  return fullest;
}

bool simulate_ran_out_in_evaluation(const simulate_result *result) {
  const simulate_process *p = simulate_fullest(result);
  if (result->end != SIMULATE_OUT_OF_MEMORY || !p || !p->phases.len) return false;
  return strcmp(p->phases.at[p->phases.len - 1].name, "evaluation") == 0;
}

const simulate_process *simulate_first_failed(const simulate_result *result) {
  const simulate_process *first = NULL;
  for (size_t i = 0; i < result->processes.len; i++) {
    const simulate_process *p = &result->processes.at[i];
    if (p->failure.text && (!first || p->failure.time_us < first->failure.time_us)) first = p;
  }
  return first;
}

uint64_t simulate_steps(const simulate_result *result) {
  uint64_t most = 0;
  for (size_t i = 0; i < result->processes.len; i++)
    if (result->processes.at[i].steps > most) most = result->processes.at[i].steps;
  return most;
}
