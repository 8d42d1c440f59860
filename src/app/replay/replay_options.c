#include "replay_options.h"

#include "units.h"

#define MAX_LIMIT (1ull << 50) // a pebibyte

static plim_err check_limit(uint64_t limit, plim_error *error) {
  if (limit == PLIM_UNKNOWN) return PLIM_OK;
  if (limit > MAX_LIMIT) {
    plim_fail(error, PLIM_ERR_ARGUMENT, "--limit %s is more than any GPU has",
              units_bytes(limit).text);
    return PLIM_ERR_ARGUMENT;
  }
  if (limit >= 2 * PLIM_MIB) return PLIM_OK; // the smallest segment
  plim_fail(error, PLIM_ERR_ARGUMENT,
            "--limit %s is smaller than a single segment of the allocator (2 MiB)",
            units_bytes(limit).text);
  bool lacks_unit = limit && limit < 1024; // --limit 24
  plim_error_hint(error, "--limit %lluGiB", (unsigned long long)(lacks_unit ? limit : 24));
  return PLIM_ERR_ARGUMENT;
}

static plim_err check_device(uint64_t device, plim_error *error) {
  if (device == PLIM_UNKNOWN || device < PLIM_SNAPSHOT_MAX_DEVICES) return PLIM_OK;
  return plim_fail(error, PLIM_ERR_ARGUMENT, "device %llu is not in this snapshot",
                   (unsigned long long)device);
}

// Applies memory_fraction, which is relative to the card; --limit then is the size of the card.
static plim_err apply_fraction(plim_alloc_conf *conf, replay_request *request, plim_error *error) {
  if (conf->memory_fraction >= 1) return PLIM_OK;
  if (request->limit_bytes == PLIM_UNKNOWN) {
    plim_fail(error, PLIM_ERR_ARGUMENT,
              "per_process_memory_fraction is a fraction of the GPU's memory, which the snapshot "
              "does not record");
    plim_error_hint(error, "give the GPU's memory with --limit SIZE");
    return PLIM_ERR_ARGUMENT;
  }
  // PyTorch truncates (recorded: truth trunc).
  request->limit_bytes = (uint64_t)(conf->memory_fraction * (double)request->limit_bytes);
  conf->memory_fraction = 1;
  return PLIM_OK;
}

static plim_err check_version(const char *torch, plim_error *error) {
  plim_block_order order;
  if (!torch || plim_block_order_of(torch, &order)) return PLIM_OK;
  plim_fail(error, PLIM_ERR_ARGUMENT, "'%s' is not a PyTorch version", torch);
  plim_error_hint(error, "--torch 2.11");
  return PLIM_ERR_ARGUMENT;
}

static plim_err check_arguments(const replay_args *args, plim_error *error) {
  plim_err err = check_version(args->torch, error);
  if (!err) err = check_device(args->device, error);
  if (!err) err = check_limit(args->limit_bytes, error);
  return err;
}

plim_err replay_request_of(const replay_args *args, replay_request *request, plim_alloc_conf *conf,
                           const char **source, plim_error *error) {
  *request = (replay_request){NULL, args->limit_bytes, args->torch, args->tune};
  *source = args->alloc_conf;
  if (args->alloc_conf) {
    plim_err err = plim_alloc_conf_parse(args->alloc_conf, conf, error);
    if (err) return err;
    request->conf = conf;
  }
  *source = NULL;
  plim_err err = check_arguments(args, error);
  return !err && request->conf ? apply_fraction(conf, request, error) : err;
}

plim_err replay_make(const char *path, const replay_args *args, replay_result *r,
                     const char **source, plim_error *error) {
  replay_request request;
  plim_alloc_conf conf;
  int device = args->device == PLIM_UNKNOWN ? -1 : (int)args->device;
  r->path = path;
  plim_err err = replay_request_of(args, &request, &conf, source, error);
  if (!err) err = plim_snapshot_read(path, device, &r->trace, &r->info, error);
  return err ? err : replay_investigate(r, &request, error);
}
