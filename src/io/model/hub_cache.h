// Finds models that huggingface_hub has downloaded to this machine.
#ifndef PLIM_IO_HUB_CACHE_H
#define PLIM_IO_HUB_CACHE_H

#include "text_file.h"

// The folder of a downloaded model ("owner/name" or "name"): the snapshot that refs/main points to, or the only snapshot.
// The cache folder is the one that huggingface_hub uses, the first of these that is set: HF_HUB_CACHE, HF_HOME/hub,
// XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub. Returns false if the model is not in the cache.
bool plim_hub_snapshot(const char *id, char folder[PLIM_PATH_BYTES]);

#endif
