// The hook library's functions in front of a driver of our own: what they record, refuse and spill.
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_driver.h"
#include "folder.h"
#include "hook_functions.h"
#include "hook_memory.h"
#include "hook_names.h"
#include "hook_record.h"
#include "hook_state.h"
#include "test.h"

#define MIB (1ull << 20)

// ---- a program that uses the driver -------------------------------------------------------------

static void *driver, *nvml;
static hook_record *record;

// As the library's dlsym does.
static void *find(void *handle, const char *name) {
  hook_found found = hook_find(handle, name);
  return found.ask ? ((void *(*)(void *, const char *))found.ask)(handle, name) : found.answer;
}

// The functions of CUDA's that a test calls, as the program finds them: CALL(cuMemAlloc_v2)(&address, bytes).
#define CALL(symbol) ((hook_type_##symbol *)find(driver, #symbol))
#define FAKE(symbol, ...) ((__typeof__(symbol) *)find(driver, #symbol))(__VA_ARGS__)

static int set_device(int device) {
  return ((int (*)(void *))find(driver, "cuCtxSetCurrent"))((void *)(intptr_t)(device + 1));
}

static void begin(const char *cap, const char *spill) {
  plim_error error;
  folder_make();
  driver = dlopen(FAKE_DRIVER, RTLD_NOW);
  nvml = dlopen(FAKE_NVML_MEMORY, RTLD_NOW);
  bool is_made = hook_record_create(folder_path("hook"), &error) == PLIM_OK;
  if (!is_made || !hook_start(folder_path("hook"), cap, spill)) abort();
  record = hook_record_map(folder_path("hook"));
  set_device(0);
  FAKE(fake_clear_log);
}

static void end(void) {
  hook_start(NULL, NULL, NULL);
  hook_record_unmap(record);
  folder_remove();
}

static const hook_holding *held(int device) { return &record->processes[0].devices[device]; }

// The events so far, as "alloc 5, free 5": kind and MiB, devices other than the first as @1.
static const char *story(void) {
  static const char *const names[] = {"none",    "alloc",   "free",         "refused", "spill",
                                      "unspill", "managed", "managed-free", "graph",   "phase"};
  static char text[4096];
  hook_event events[64];
  uint64_t next = 0, lost = 0;
  size_t count = hook_record_read(record, &next, &lost, events, 64), used = 0;
  text[0] = 0;
  for (size_t i = 0; i < count; i++) {
    const hook_event *e = &events[i];
    uint64_t amount = e->kind == HOOK_EVENT_PHASE ? e->bytes : e->bytes / MIB;
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%s %d", i ? ", " : "",
                             names[e->kind], (int)amount);
    if (e->device) used += (size_t)snprintf(text + used, sizeof text - used, "@%u", e->device);
  }
  return lost ? "lost" : text;
}

static const hook_allocation_properties on_device = {
    .type = 1, .handle_types = 1, .location_type = 1, .is_rdma_capable = 1};

// ---- every function of the list -----------------------------------------------------------------

static const struct {
  const char *symbol, *base;
  int version;
  uint64_t flags;
} hooked[] = {
    {"cuGetProcAddress", "cuGetProcAddress", 11030, 0},
    {"cuGetProcAddress_v2", "cuGetProcAddress", 12000, 0},
    {"cuMemAlloc_v2", "cuMemAlloc", 3020, 0},
    {"cuMemAllocPitch_v2", "cuMemAllocPitch", 3020, 0},
    {"cuMemAllocManaged", "cuMemAllocManaged", 6000, 0},
    {"cuMemFree_v2", "cuMemFree", 3020, 0},
    {"cuMemAllocAsync", "cuMemAllocAsync", 11020, 0},
    {"cuMemAllocAsync", "cuMemAllocAsync", 12000, 1},
    {"cuMemAllocAsync_ptsz", "cuMemAllocAsync", 11020, 2},
    {"cuMemAllocFromPoolAsync", "cuMemAllocFromPoolAsync", 11020, 0},
    {"cuMemAllocFromPoolAsync_ptsz", "cuMemAllocFromPoolAsync", 11020, 2},
    {"cuMemFreeAsync", "cuMemFreeAsync", 11020, 0},
    {"cuMemFreeAsync_ptsz", "cuMemFreeAsync", 11020, 2},
    {"cuMemPoolCreate", "cuMemPoolCreate", 11020, 0},
    {"cuMemPoolDestroy", "cuMemPoolDestroy", 11020, 0},
    {"cuMemCreate", "cuMemCreate", 10020, 2},
    {"cuMemRelease", "cuMemRelease", 10020, 0},
    {"cuMemMap", "cuMemMap", 10020, 0},
    {"cuMemUnmap", "cuMemUnmap", 10020, 0},
    {"cuMemSetAccess", "cuMemSetAccess", 10020, 0},
    {"cuMemRetainAllocationHandle", "cuMemRetainAllocationHandle", 11000, 0},
    {"cuArrayCreate_v2", "cuArrayCreate", 3020, 0},
    {"cuArray3DCreate_v2", "cuArray3DCreate", 3020, 0},
    {"cuArrayDestroy", "cuArrayDestroy", 2000, 0},
    {"cuMipmappedArrayCreate", "cuMipmappedArrayCreate", 5000, 0},
    {"cuMipmappedArrayDestroy", "cuMipmappedArrayDestroy", 5000, 0},
    {"cuGraphAddMemAllocNode", "cuGraphAddMemAllocNode", 11040, 0},
    {"cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxReset", 7000, 0},
    {"cuDevicePrimaryCtxReset_v2", "cuDevicePrimaryCtxReset", 11000, 0},
    {"cuMemGetInfo_v2", "cuMemGetInfo", 3020, 0},
    {"cuDeviceTotalMem_v2", "cuDeviceTotalMem", 3020, 0},
    {"cuPointerGetAttribute", "cuPointerGetAttribute", 4000, 0},
    {"cuPointerGetAttributes", "cuPointerGetAttributes", 7000, 0},
    {"cuMemGetAddressRange_v2", "cuMemGetAddressRange", 3020, 0},
};

TEST(dlsym_and_cuGetProcAddress_answer_with_every_function_of_the_list) {
  begin(NULL, NULL);
  hook_type_cuGetProcAddress_v2 *look_up = CALL(cuGetProcAddress_v2);
  hook_type_cuGetProcAddress *look_up_old = CALL(cuGetProcAddress);
  for (size_t i = 0; i < sizeof hooked / sizeof *hooked; i++) {
    void *ours = find(driver, hooked[i].symbol), *by_base = NULL, *by_base_old = NULL;
    int status = 9;
    CHECK(look_up(hooked[i].base, &by_base, hooked[i].version, hooked[i].flags, &status) == 0 &&
              look_up_old(hooked[i].base, &by_base_old, hooked[i].version, hooked[i].flags) == 0,
          "%s", hooked[i].symbol);
    CHECK(ours == by_base && ours == by_base_old && status == 0, "%s: %p %p %p, status %d",
          hooked[i].symbol, ours, by_base, by_base_old, status);
    hook_start(NULL, NULL, NULL); // now dlsym gives the driver's own
    void *theirs = find(driver, hooked[i].symbol);
    CHECK(theirs && theirs != ours, "%s is not hooked", hooked[i].symbol);
    hook_start(folder_path("hook"), NULL, NULL);
  }
  CHECK(HOOK_HOOKED == 35, "%d: the tests know 35", HOOK_HOOKED);
  end();
}

TEST(what_is_not_in_the_list_is_the_drivers) {
  begin(NULL, NULL);
  hook_type_cuGetProcAddress_v2 *look_up = CALL(cuGetProcAddress_v2);
  void *out = NULL, *old = find(driver, "cuMemAlloc"), *newest = find(driver, "cuMemAlloc_v3");
  int status = 9;
  // CUDA 2 means a function with other arguments by the same name, as does a CUDA to come.
  CHECK(look_up("cuMemAlloc", &out, 2000, 0, &status) == 0 && out == old, "%p", out);
  CHECK(look_up("cuMemAlloc", &out, 99000, 0, &status) == 0 && out == newest, "%p", out);
  CHECK(look_up("cuMemFree", &out, 99000, 0, &status) == 0, "status %d", status);
  CHECK(out == find(driver, "cuMemFree_v2"), "no newer cuMemFree: ours");
  CHECK(look_up("cuNothing", &out, 12000, 0, &status) == 0 && !out && status == 1, "%d", status);
  CHECK(look_up("cuMemCreate", &out, 10000, 0, &status) == 0 && !out && status == 2, "%d", status);
  CHECK(!find(driver, "cuMemCreate_v9"), "no such symbol");
  CHECK(find(nvml, "cuMemAlloc_v2") == NULL, "a library without it must not seem to have it");
  CHECK(dlerror(), "dlerror says so");
  CHECK(find(driver, "cuMemAlloc_v2") && !dlerror(), "a success leaves no error");
  end();
}

// ---- recording ----------------------------------------------------------------------------------

TEST(memory_with_an_address_is_counted_and_recorded) {
  begin(NULL, NULL);
  uint64_t a = 0, b = 0, c = 0;
  size_t pitch = 0;
  CHECK(CALL(cuMemAlloc_v2)(&a, 5 * MIB) == 0 && a, "cuMemAlloc");
  CHECK(CALL(cuMemAllocPitch_v2)(&b, &pitch, 1000, 4096, 4) == 0, "cuMemAllocPitch");
  CHECK(CALL(cuMemAllocManaged)(&c, 3 * MIB, 1) == 0, "cuMemAllocManaged");
  CHECK_U64(held(0)->current_bytes, 5 * MIB + 1024 * 4096);
  CHECK_U64(held(0)->managed_bytes, 3 * MIB);
  CHECK(CALL(cuMemFree_v2)(b) == 0 && CALL(cuMemFree_v2)(c) == 0, "free");
  CHECK(CALL(cuMemFree_v2)(b) == 1, "freed twice: the driver's answer");
  CHECK(CALL(cuMemFree_v2)(0x99) == 1, "not an address");
  CHECK_U64(held(0)->current_bytes, 5 * MIB);
  CHECK_U64(held(0)->peak_bytes, 9 * MIB);
  CHECK_U64(held(0)->managed_bytes, 0);
  CHECK(CALL(cuMemFree_v2)(a) == 0, "free");
  CHECK_STR(story(), "alloc 5, alloc 4, managed 3, free 4, managed-free 3, free 5");
  CHECK(CALL(cuMemAlloc_v2)(&a, 0) == 1, "no bytes: the driver's answer");
  CHECK_U64(held(0)->current_bytes, 0);
  end();
}

TEST(asynchronous_memory_and_pools_belong_to_their_device) {
  begin(NULL, NULL);
  uint64_t a[5];
  void *pool, *host_pool;
  hook_pool_properties on_1 = {.type = 1, .location_type = 1, .location = 1},
                       on_host = {.type = 1, .location_type = 2};
  CHECK(CALL(cuMemAllocAsync)(&a[0], 1 * MIB, NULL) == 0, "async");
  CHECK(CALL(cuMemAllocAsync_ptsz)(&a[1], 2 * MIB, NULL) == 0, "ptsz");
  CHECK(strstr(FAKE(fake_log), "cuMemAllocAsync cuMemAllocAsync_ptsz "), "%s", FAKE(fake_log));
  CHECK(CALL(cuMemPoolCreate)(&pool, &on_1) == 0, "pool");
  CHECK(CALL(cuMemPoolCreate)(&host_pool, &on_host) == 0, "pool");
  CHECK(CALL(cuMemAllocFromPoolAsync)(&a[2], 4 * MIB, pool, NULL) == 0, "from pool");
  CHECK(CALL(cuMemAllocFromPoolAsync_ptsz)(&a[3], 8 * MIB, pool, NULL) == 0, "from pool, ptsz");
  CHECK(strstr(FAKE(fake_log), "cuMemAllocFromPoolAsync_ptsz"), "%s", FAKE(fake_log));
  CHECK(CALL(cuMemAllocFromPoolAsync)(&a[4], 16 * MIB, host_pool, NULL) == 0, "from pool");
  CHECK_U64(held(0)->current_bytes, 3 * MIB);
  CHECK_U64(held(1)->current_bytes, 12 * MIB);
  for (int i = 0; i < 5; i++)
    CHECK((i % 2 ? CALL(cuMemFreeAsync_ptsz) : CALL(cuMemFreeAsync))(a[i], NULL) == 0, "%d", i);
  CHECK_U64(held(0)->current_bytes + held(1)->current_bytes, 0);
  CHECK_STR(story(), "alloc 1, alloc 2, alloc 4@1, alloc 8@1, free 1, free 2, free 4@1, free 8@1");
  CHECK(CALL(cuMemPoolDestroy)(pool) == 0 && CALL(cuMemPoolDestroy)(host_pool) == 0, "destroy");
  // A pool that is gone says nothing about a new one with the same handle, nor about the driver's own.
  hook_lock();
  CHECK(!hook_table_find(HOOK_SPACE_POOL, (uint64_t)pool), "forgotten");
  hook_unlock();
  end();
}

TEST(memory_of_handles_lives_while_a_handle_or_a_mapping_does) {
  begin(NULL, NULL);
  uint64_t handle, again, range;
  hook_allocation_properties on_1 = on_device, on_host = {.type = 1, .location_type = 2};
  on_1.location = 1;
  ((int (*)(uint64_t *, size_t, size_t, uint64_t, uint64_t))find(driver, "cuMemAddressReserve"))(
      &range, 64 * MIB, 0, 0, 0);
  // As NCCL does: created, mapped, released, and unmapped at the end.
  CHECK(CALL(cuMemCreate)(&handle, 4 * MIB, &on_1, 0) == 0, "create");
  CHECK_U64(held(1)->current_bytes + held(0)->current_bytes, 4 * MIB);
  CHECK(CALL(cuMemMap)(range, 4 * MIB, 0, handle, 0) == 0, "map");
  CHECK(CALL(cuMemRelease)(handle) == 0, "release");
  CHECK(CALL(cuMemRelease)(handle) == 1, "released twice");
  CHECK_STR(story(), "alloc 4");
  CHECK(CALL(cuMemRetainAllocationHandle)(&again, (void *)(range + MIB)) == 0, "retain");
  CHECK(CALL(cuMemRetainAllocationHandle)(&again, (void *)range) == 0, "retain again");
  CHECK(CALL(cuMemRelease)(again) == 0, "release");
  CHECK(CALL(cuMemUnmap)(range, 4 * MIB) == 0, "unmap");
  CHECK_STR(story(), "alloc 4");
  CHECK(CALL(cuMemRelease)(again) == 0, "release");
  CHECK_STR(story(), "alloc 4, free 4");
  // As PyTorch does: unmapped, then released; one call may unmap several pages.
  uint64_t pages[3];
  for (int i = 0; i < 3; i++) {
    CHECK(CALL(cuMemCreate)(&pages[i], 2 * MIB, &on_1, 0) == 0, "create");
    CHECK(CALL(cuMemMap)(range + (uint64_t)i * 2 * MIB, 2 * MIB, 0, pages[i], 0) == 0, "map");
  }
  CHECK(CALL(cuMemUnmap)(range, 6 * MIB) == 0, "unmap");
  CHECK(CALL(cuMemUnmap)(range, 6 * MIB) == 1, "unmapped twice");
  for (int i = 0; i < 3; i++) CHECK(CALL(cuMemRelease)(pages[i]) == 0, "release");
  CHECK(CALL(cuMemCreate)(&handle, 2 * MIB, &on_host, 0) == 0, "the host's memory");
  CHECK(CALL(cuMemRelease)(handle) == 0, "release");
  CHECK_STR(story(), "alloc 4, free 4, alloc 2, alloc 2, alloc 2, free 2, free 2, free 2");
  end();
}

TEST(what_the_driver_does_not_free_is_still_there) {
  begin(NULL, NULL);
  uint64_t a, handle;
  CHECK(CALL(cuMemAlloc_v2)(&a, 5 * MIB) == 0, "alloc");
  CHECK(CALL(cuMemCreate)(&handle, 4 * MIB, &on_device, 0) == 0, "create");
  setenv("FAKE_BROKEN", "1", 1);
  CHECK(CALL(cuMemFree_v2)(a) == 700 && CALL(cuMemRelease)(handle) == 700, "broken");
  unsetenv("FAKE_BROKEN");
  CHECK_U64(held(0)->current_bytes, 9 * MIB);
  CHECK(CALL(cuMemFree_v2)(a) == 0 && CALL(cuMemRelease)(handle) == 0, "freed");
  CHECK_U64(held(0)->current_bytes, 0);
  CHECK_STR(story(), "alloc 5, alloc 4, free 5, free 4");
  end();
}

TEST(a_mapping_behind_a_foreign_one_is_seen_to_end) {
  begin(NULL, NULL);
  uint64_t foreign, ours, range;
  ((int (*)(uint64_t *, size_t, size_t, uint64_t, uint64_t))find(driver, "cuMemAddressReserve"))(
      &range, 64 * MIB, 0, 0, 0);
  hook_start(NULL, NULL, NULL);
  CALL(cuMemCreate)(&foreign, 2 * MIB, &on_device, 0);
  hook_start(folder_path("hook"), NULL, NULL);
  CALL(cuMemMap)(range, 2 * MIB, 0, foreign, 0);
  CALL(cuMemCreate)(&ours, 2 * MIB, &on_device, 0);
  CALL(cuMemMap)(range + 2 * MIB, 2 * MIB, 0, ours, 0);
  CALL(cuMemRelease)(ours);
  CALL(cuMemUnmap)(range, 4 * MIB);
  CALL(cuMemRelease)(foreign);
  CHECK_STR(story(), "alloc 2, free 2");
  end();
}

TEST(arrays_and_graph_nodes_are_recorded) {
  begin(NULL, NULL);
  void *array[3], *node;
  hook_array_description flat = {1024, 1024, 0x20, 2};
  hook_array_3d_description cube = {256, 256, 16, 0x10, 1, 0}, line = {1024, 1024, 1, 0x01, 4, 0};
  hook_graph_allocation graph = {.pool = {.location_type = 1, .location = 1}, .bytes = 7 * MIB};
  CHECK(CALL(cuArrayCreate_v2)(&array[0], &flat) == 0, "array");
  CHECK(CALL(cuArray3DCreate_v2)(&array[1], &cube) == 0, "array");
  CHECK(CALL(cuMipmappedArrayCreate)(&array[2], &line, 3) == 0, "array");
  CHECK_U64(held(0)->current_bytes, 8 * MIB + 2 * MIB + (4 * MIB + MIB + MIB / 4));
  CHECK(CALL(cuGraphAddMemAllocNode)(&node, NULL, NULL, 0, &graph) == 0, "node");
  CHECK_U64(graph.address, 0x1234000);
  CHECK(CALL(cuArrayDestroy)(array[0]) == 0 && CALL(cuArrayDestroy)(array[1]) == 0, "destroy");
  CHECK(CALL(cuMipmappedArrayDestroy)(array[2]) == 0, "destroy");
  CHECK(CALL(cuArrayDestroy)(array[0]) == 1, "destroyed twice");
  CHECK_U64(held(0)->current_bytes, 0);
  CHECK_STR(story(), "alloc 8, alloc 2, alloc 5, graph 7@1, free 8, free 2, free 5");
  end();
}

TEST(a_reset_context_has_nothing) {
  begin(NULL, NULL);
  uint64_t a;
  CHECK(CALL(cuMemAlloc_v2)(&a, 5 * MIB) == 0, "alloc");
  CHECK(CALL(cuDevicePrimaryCtxReset_v2)(0) == 0, "reset");
  CHECK_U64(held(0)->current_bytes, 0);
  CHECK(CALL(cuMemAlloc_v2)(&a, 6 * MIB) == 0, "alloc");
  CHECK(CALL(cuDevicePrimaryCtxReset)(0) == 0, "reset");
  CHECK_U64(held(0)->current_bytes, 0);
  CHECK_STR(story(), "alloc 5, free 5, alloc 6, free 6");
  end();
}

TEST(a_thread_without_a_context_gets_the_drivers_error) {
  begin("104857600", NULL);
  uint64_t a;
  size_t left, total;
  set_device(-1);
  CHECK(CALL(cuMemAlloc_v2)(&a, MIB) == 201, "no context");
  CHECK(CALL(cuMemAllocAsync)(&a, MIB, NULL) == 201, "no context");
  CHECK(CALL(cuMemGetInfo_v2)(&left, &total) == 201, "no context");
  // Memory by handle needs none.
  CHECK(CALL(cuMemCreate)(&a, 2 * MIB, &on_device, 0) == 0 && CALL(cuMemRelease)(a) == 0, "handle");
  CHECK_STR(story(), "alloc 2, free 2");
  end();
}

TEST(what_the_driver_refuses_is_no_peak) {
  begin(NULL, NULL);
  uint64_t a, b;
  CHECK(CALL(cuMemAlloc_v2)(&a, 60 * MIB) == 0, "fits");
  CHECK(CALL(cuMemAlloc_v2)(&b, 2048 * MIB) == 2, "more than the card has");
  CHECK(CALL(cuMemAlloc_v2)(&b, UINT64_MAX) == 2, "much more");
  CHECK(CALL(cuMemCreate)(&b, 2048 * MIB, &on_device, 0) == 2, "pages");
  CHECK_U64(held(0)->peak_bytes, 60 * MIB);
  CHECK_U64(held(0)->current_bytes, 60 * MIB);
  CHECK(CALL(cuMemFree_v2)(a) == 0, "free");
  end();
}

// ---- the cap ------------------------------------------------------------------------------------

TEST(beyond_the_cap_the_driver_is_not_asked) {
  begin("104857600", NULL); // 100 MiB
  uint64_t a, b;
  void *array;
  hook_array_description large = {8192, 8192, 0x20, 1};
  hook_array_3d_description larger = {8192, 8192, 1, 0x20, 1, 0};
  size_t pitch;
  CHECK(CALL(cuMemAlloc_v2)(&a, 60 * MIB) == 0, "fits");
  FAKE(fake_clear_log);
  CHECK(CALL(cuMemAlloc_v2)(&b, 41 * MIB) == 2, "does not fit");
  CHECK(CALL(cuMemAlloc_v2)(&b, UINT64_MAX) == 2, "does not fit");
  CHECK(CALL(cuMemAllocAsync)(&b, 41 * MIB, NULL) == 2, "does not fit");
  CHECK(CALL(cuMemAllocAsync_ptsz)(&b, 41 * MIB, NULL) == 2, "does not fit");
  CHECK(CALL(cuMemAllocFromPoolAsync)(&b, 41 * MIB, NULL, NULL) == 2, "does not fit");
  CHECK(CALL(cuMemAllocPitch_v2)(&b, &pitch, 1 << 20, 41, 4) == 2, "does not fit");
  CHECK(CALL(cuMemCreate)(&b, 42 * MIB, &on_device, 0) == 2, "does not fit");
  CHECK(CALL(cuArrayCreate_v2)(&array, &large) == 2, "does not fit");
  CHECK(CALL(cuArray3DCreate_v2)(&array, &larger) == 2, "does not fit");
  CHECK(CALL(cuMipmappedArrayCreate)(&array, &larger, 2) == 2, "does not fit");
  CHECK_STR(FAKE(fake_log), "");
  CHECK_U64(held(0)->refusals, 10);
  CHECK_U64(held(0)->largest_refused_bytes, UINT64_MAX);
  CHECK(CALL(cuMemAlloc_v2)(&b, 40 * MIB) == 0, "fits to the byte");
  CHECK(CALL(cuMemFree_v2)(a) == 0 && CALL(cuMemFree_v2)(b) == 0, "free");
  set_device(1); // another device has a cap of its own
  CHECK(CALL(cuMemAlloc_v2)(&a, 60 * MIB) == 0 && CALL(cuMemFree_v2)(a) == 0, "the other device");
  end();
}

TEST(the_program_sees_a_card_of_the_caps_size) {
  begin("104857600", NULL);
  uint64_t a;
  size_t left, total;
  hook_nvml_memory memory;
  hook_nvml_memory_v2 memory_2 = {.version = 2};
  CHECK(CALL(cuMemAlloc_v2)(&a, 60 * MIB) == 0, "alloc");
  CHECK(CALL(cuMemGetInfo_v2)(&left, &total) == 0, "info");
  CHECK_U64(left, 40 * MIB);
  CHECK_U64(total, 100 * MIB);
  CHECK(CALL(cuDeviceTotalMem_v2)(&total, 1) == 0 && total == 100 * MIB, "%zu", total);
  CHECK(CALL(cuDeviceTotalMem_v2)(&total, 7) == 101, "no such device");
  hook_type_nvmlDeviceGetMemoryInfo *info =
      (hook_type_nvmlDeviceGetMemoryInfo *)find(nvml, "nvmlDeviceGetMemoryInfo");
  hook_type_nvmlDeviceGetMemoryInfo_v2 *info_2 =
      (hook_type_nvmlDeviceGetMemoryInfo_v2 *)find(nvml, "nvmlDeviceGetMemoryInfo_v2");
  CHECK(info(NULL, &memory) == 2 && info(&memory, &memory) == 0, "NVML");
  CHECK(info_2(&memory, &memory_2) == 0, "NVML");
  CHECK_U64(memory.total, 100 * MIB);
  CHECK_U64(memory.used, 100 * MIB); // 300 MiB are
  CHECK_U64(memory.left, 0);
  CHECK_U64(memory_2.total, 100 * MIB);
  CALL(cuMemFree_v2)(a);
  end();
}

TEST(the_program_never_sees_more_than_there_is) {
  begin("4294967296", NULL); // 4 GiB, of 1
  uint64_t a;
  size_t left, total;
  hook_nvml_memory memory;
  CHECK(CALL(cuMemAlloc_v2)(&a, 60 * MIB) == 0, "alloc");
  CHECK(CALL(cuMemGetInfo_v2)(&left, &total) == 0, "info");
  CHECK_U64(left, 964 * MIB);
  CHECK_U64(total, 1024 * MIB);
  CHECK(CALL(cuDeviceTotalMem_v2)(&total, 0) == 0 && total == 1024 * MIB, "%zu", total);
  CHECK(((hook_type_nvmlDeviceGetMemoryInfo *)find(nvml, "nvmlDeviceGetMemoryInfo"))(&memory,
                                                                                     &memory) == 0,
        "NVML");
  CHECK_U64(memory.left, 724 * MIB);
  CHECK_U64(memory.total, 1024 * MIB);
  CALL(cuMemFree_v2)(a);
  uint64_t b;
  CHECK(CALL(cuMemAlloc_v2)(&b, 2048 * MIB) == 2, "the driver refuses");
  CHECK_STR(story(), "alloc 60, free 60, refused 2048");
  CHECK_U64(held(0)->current_bytes, 0);
  end();
}

// ---- spilling -----------------------------------------------------------------------------------

TEST(the_second_try_is_served_from_the_host) {
  begin("104857600", "1073741824");
  uint64_t a, b, start;
  size_t bytes;
  CHECK(CALL(cuMemAlloc_v2)(&a, 80 * MIB) == 0, "fits");
  CHECK(CALL(cuMemAlloc_v2)(&b, 30 * MIB) == 2, "the first try fails");
  CHECK_U64(FAKE(fake_used, -1), 0);
  CHECK(CALL(cuMemAlloc_v2)(&b, 31 * MIB) == 2, "another size is another request");
  CHECK(CALL(cuMemAlloc_v2)(&b, 31 * MIB) == 0, "the second try");
  CHECK_U64(FAKE(fake_used, -1), 31 * MIB);
  CHECK_U64(held(0)->spilled_bytes, 31 * MIB);
  CHECK_U64(held(0)->current_bytes, 80 * MIB);
  CHECK(CALL(cuMemGetAddressRange_v2)(&start, &bytes, b + MIB) == 0, "range");
  CHECK(start == b && bytes == 31 * MIB, "%zu", bytes);
  CHECK(CALL(cuMemAlloc_v2)(&start, 31 * MIB) == 2, "a new request fails first again");
  FAKE(fake_clear_log);
  CHECK(CALL(cuMemFree_v2)(b) == 0, "free");
  CHECK_STR(FAKE(fake_log), "cuCtxSynchronize cuMemFreeHost ");
  CHECK_U64(FAKE(fake_used, -1), 0);
  CHECK_U64(held(0)->spilled_bytes, 0);
  CHECK_U64(held(0)->peak_spilled_bytes, 31 * MIB);
  CHECK_U64(held(0)->spills, 1);
  CALL(cuMemFree_v2)(a);
  CHECK_STR(story(), "alloc 80, refused 30, refused 31, spill 31, refused 31, unspill 31, free 80");
  end();
}

TEST(a_second_try_that_fits_on_the_card_is_not_spilled) {
  begin("104857600", "1073741824");
  uint64_t a, b, c;
  CHECK(CALL(cuMemAlloc_v2)(&a, 80 * MIB) == 0, "fits");
  CHECK(CALL(cuMemAlloc_v2)(&b, 30 * MIB) == 2, "the first try fails");
  CHECK(CALL(cuMemFree_v2)(a) == 0, "PyTorch releases its cache");
  CHECK(CALL(cuMemAlloc_v2)(&b, 30 * MIB) == 0, "fits");
  CHECK(CALL(cuMemAlloc_v2)(&a, 60 * MIB) == 0, "fits");
  CHECK(CALL(cuMemAlloc_v2)(&c, 30 * MIB) == 2, "a failure of its own");
  CHECK_U64(held(0)->spills, 0);
  CALL(cuMemFree_v2)(a);
  CALL(cuMemFree_v2)(b);
  end();
}

TEST(what_the_driver_refuses_is_spilled_too) {
  begin(NULL, "4294967296");
  uint64_t a;
  CHECK(CALL(cuMemAllocAsync)(&a, 2048 * MIB, NULL) == 2, "the first try fails");
  CHECK(CALL(cuMemAllocAsync)(&a, 2048 * MIB, NULL) == 0, "the second try");
  FAKE(fake_clear_log);
  CHECK(CALL(cuMemFreeAsync)(a, &a) == 0, "free");
  CHECK_STR(FAKE(fake_log), "cuStreamSynchronize cuMemFreeHost ");
  CHECK(CALL(cuMemAllocAsync_ptsz)(&a, 2048 * MIB, NULL) == 2, "the first try fails");
  CHECK(CALL(cuMemAllocAsync_ptsz)(&a, 2048 * MIB, NULL) == 0, "the second try");
  FAKE(fake_clear_log);
  CHECK(CALL(cuMemFreeAsync_ptsz)(a, NULL) == 0, "free");
  CHECK_STR(FAKE(fake_log), "cuStreamSynchronize_ptsz cuMemFreeHost ");
  end();
}

TEST(spilled_memory_passes_for_the_devices) {
  begin("104857600", "1073741824");
  uint64_t b;
  unsigned type = 0;
  int device = 9;
  void *host = &b;
  void *out[] = {&type, &device, &host};
  const int attributes[] = {2, 9, 4};
  set_device(1);
  CALL(cuMemAlloc_v2)(&b, 200 * MIB);
  CHECK(CALL(cuMemAlloc_v2)(&b, 200 * MIB) == 0, "spilled");
  CHECK(CALL(cuPointerGetAttributes)(3, attributes, out, b + 5) == 0, "attributes");
  CHECK(type == 2 && device == 1 && !host, "type %u, device %d, host %p", type, device, host);
  type = device = 9;
  CHECK(CALL(cuPointerGetAttribute)(&type, 2, b) == 0 && type == 2, "type %u", type);
  CHECK(CALL(cuPointerGetAttribute)(&device, 9, b) == 0 && device == 1, "device %d", device);
  CHECK(CALL(cuPointerGetAttribute)(&host, 4, b) == 1, "it has no pointer of the host");
  CHECK(CALL(cuPointerGetAttribute)(&type, 2, 77) == 1, "not a pointer");
  CALL(cuMemFree_v2)(b);
  CHECK(CALL(cuPointerGetAttribute)(&type, 2, b) == 1, "gone");
  end();
}

static int create_pages(uint64_t *pages, int count) {
  for (int i = 0; i < count; i++) {
    int result = CALL(cuMemCreate)(&pages[i], 20 * MIB, &on_device, 0);
    if (result == 0) continue;
    while (i-- > 0) CALL(cuMemRelease)(pages[i]);
    return result;
  }
  return 0;
}

// PyTorch makes the memory of an expandable segment page by page, takes all of it back when one fails, and begins again.
TEST(the_pages_of_a_second_try_are_spilled_together) {
  begin("104857600", "1073741824");
  uint64_t pages[8], range;
  ((int (*)(uint64_t *, size_t, size_t, uint64_t, uint64_t))find(driver, "cuMemAddressReserve"))(
      &range, 512 * MIB, 0, 0, 0);
  CHECK(create_pages(pages, 7) == 2, "the first try fails");
  CHECK_U64(held(0)->current_bytes, 0);
  CHECK(create_pages(pages, 7) == 0, "the second try");
  CHECK_U64(held(0)->current_bytes, 100 * MIB);
  CHECK_U64(held(0)->spilled_bytes, 40 * MIB);
  const fake_properties *asked = FAKE(fake_last_properties);
  CHECK(asked->location_type == 2 && !asked->handle_types && !asked->is_rdma_capable, "%d %d %d",
        asked->location_type, asked->handle_types, asked->is_rdma_capable);
  unsigned type = 9;
  for (uint64_t i = 0; i < 7; i++)
    CHECK(CALL(cuMemMap)(range + i * 20 * MIB, 20 * MIB, 0, pages[i], 0) == 0, "map");
  CHECK(CALL(cuMemSetAccess)(range, 140 * MIB, NULL, 1) == 0, "access");
  CHECK(CALL(cuPointerGetAttribute)(&type, 2, range + 130 * MIB) == 0 && type == 2, "%u", type);
  CHECK(CALL(cuMemCreate)(&pages[7], 20 * MIB, &on_device, 0) == 2, "a new tensor fails first");
  for (uint64_t i = 0; i < 7; i++) {
    CHECK(CALL(cuMemUnmap)(range + i * 20 * MIB, 20 * MIB) == 0, "unmap");
    CHECK(CALL(cuMemRelease)(pages[i]) == 0, "release");
  }
  CHECK_U64(held(0)->spilled_bytes + held(0)->current_bytes, 0);
  CHECK_U64(FAKE(fake_used, -1), 0);
  end();
}

TEST(an_old_driver_spills_to_a_part_of_the_host) {
  begin("104857600", "1073741824");
  setenv("FAKE_OLD_DRIVER", "1", 1);
  uint64_t page;
  CHECK(CALL(cuMemCreate)(&page, 120 * MIB, &on_device, 0) == 2, "first");
  CHECK(CALL(cuMemCreate)(&page, 120 * MIB, &on_device, 0) == 0, "second");
  CHECK(FAKE(fake_last_properties)->location_type == 3, "on a node");
  CHECK(CALL(cuMemRelease)(page) == 0, "release");
  unsetenv("FAKE_OLD_DRIVER");
  end();
}

TEST(what_is_cold_is_spilled_at_once) {
  begin("104857600", "1073741824");
  uint64_t a, b, page;
  CHECK(CALL(cuMemAlloc_v2)(&a, 80 * MIB) == 0, "fits");
  plimsoll_hook_phase(HOOK_PHASE_COLD, 0);
  CHECK(CALL(cuMemAlloc_v2)(&b, 30 * MIB) == 0, "at once");
  CHECK(CALL(cuMemCreate)(&page, 22 * MIB, &on_device, 0) == 0, "at once");
  CHECK_U64(held(0)->spilled_bytes, 52 * MIB);
  CHECK(CALL(cuMemRelease)(page) == 0, "release");
  plimsoll_hook_phase(HOOK_PHASE_OTHER, 0);
  CHECK(CALL(cuMemAlloc_v2)(&page, 30 * MIB) == 2, "not any more");
  CALL(cuMemFree_v2)(a);
  CALL(cuMemFree_v2)(b);
  CHECK_STR(story(), "alloc 80, phase 1, spill 30, spill 22, unspill 22, phase 0, refused 30, "
                     "free 80, unspill 30");
  end();
}

TEST(what_is_cold_leaves_memory_free) {
  begin("104857600", "104857600");
  uint64_t a, b, c;
  plimsoll_hook_phase(HOOK_PHASE_COLD, 30 * MIB);
  CHECK(CALL(cuMemAlloc_v2)(&a, 60 * MIB) == 0, "leaves 40");
  CHECK(CALL(cuMemAlloc_v2)(&b, 11 * MIB) == 0, "would leave 29");
  CHECK(CALL(cuMemAlloc_v2)(&c, 10 * MIB) == 0, "leaves 30");
  CHECK_STR(story(), "phase 1, alloc 60, spill 11, alloc 10");
  for (int i = 0; i < 3; i++) CALL(cuMemFree_v2)(i == 0 ? a : i == 1 ? b : c);
  // What may not be spilled takes the card's memory after all.
  CHECK(CALL(cuMemAlloc_v2)(&a, 99 * MIB) == 0, "spilled");
  CHECK(CALL(cuMemAlloc_v2)(&b, 90 * MIB) == 0, "on the card");
  CHECK_U64(held(0)->current_bytes, 90 * MIB);
  CALL(cuMemFree_v2)(a);
  CALL(cuMemFree_v2)(b);
  plimsoll_hook_phase(HOOK_PHASE_OTHER, 30 * MIB);
  CHECK(CALL(cuMemAlloc_v2)(&a, 100 * MIB) == 0 && CALL(cuMemFree_v2)(a) == 0, "not cold");
  end();
}

TEST(what_is_cold_leaves_the_drivers_memory_free_too) {
  begin(NULL, "1073741824");
  uint64_t a, b, c;
  CHECK(CALL(cuMemAlloc_v2)(&a, 900 * MIB) == 0, "of 1 GiB");
  plimsoll_hook_phase(HOOK_PHASE_COLD, 100 * MIB);
  CHECK(CALL(cuMemAlloc_v2)(&b, 25 * MIB) == 0, "would leave 99 MiB");
  CHECK_U64(held(0)->spilled_bytes, 25 * MIB);
  CHECK(CALL(cuMemAlloc_v2)(&c, UINT64_MAX) == 2, "a number that would wrap around");
  setenv("FAKE_NO_HOST", "1", 1);
  CHECK(CALL(cuMemAlloc_v2)(&c, 25 * MIB) == 2, "the host has none");
  CHECK(CALL(cuMemAlloc_v2)(&c, 25 * MIB) == 0, "the second try is the card's");
  CHECK_U64(held(0)->current_bytes, 925 * MIB);
  unsetenv("FAKE_NO_HOST");
  CALL(cuMemFree_v2)(a);
  CALL(cuMemFree_v2)(b);
  CALL(cuMemFree_v2)(c);
  end();
}

TEST(no_more_is_spilled_than_allowed) {
  begin("104857600", "52428800"); // 50 MiB
  uint64_t a, b;
  CALL(cuMemAlloc_v2)(&a, 101 * MIB);
  CHECK(CALL(cuMemAlloc_v2)(&a, 101 * MIB) == 2, "more than may be spilled");
  plimsoll_hook_phase(HOOK_PHASE_COLD, 0);
  CHECK(CALL(cuMemAlloc_v2)(&a, 101 * MIB) == 2, "also of what is cold");
  CHECK_U64(held(0)->spills, 0);
  setenv("FAKE_NO_HOST", "1", 1);
  set_device(1);
  CHECK(CALL(cuMemAlloc_v2)(&a, 99 * MIB) == 0, "fits");
  CHECK(CALL(cuMemAlloc_v2)(&b, 30 * MIB) == 2, "the host has none either");
  CHECK(CALL(cuMemCreate)(&b, 102 * MIB, &on_device, 0) == 2, "nor for handles");
  unsetenv("FAKE_NO_HOST");
  CHECK_U64(held(1)->spilled_bytes, 0);
  CHECK(CALL(cuMemFree_v2)(a) == 0, "free");
  end();
}

TEST(without_leave_nothing_is_spilled) {
  begin("104857600", NULL);
  uint64_t a;
  for (int i = 0; i < 3; i++) CHECK(CALL(cuMemAlloc_v2)(&a, 101 * MIB) == 2, "refused");
  plimsoll_hook_phase(HOOK_PHASE_COLD, 0);
  CHECK(CALL(cuMemAlloc_v2)(&a, 101 * MIB) == 2, "refused");
  CHECK_U64(FAKE(fake_used, -1), 0);
  end();
}

// ---- threads, processes, mistakes ---------------------------------------------------------------

static void *allocate_often(void *failures) {
  uint64_t a[4];
  set_device(0);
  for (int i = 0; i < 500; i++) {
    for (int k = 0; k < 4; k++)
      if (CALL(cuMemAlloc_v2)(&a[k], MIB) != 0) __atomic_add_fetch((int *)failures, 1, 5);
    for (int k = 0; k < 4; k++)
      if (CALL(cuMemFree_v2)(a[k]) != 0) __atomic_add_fetch((int *)failures, 1, 5);
  }
  return NULL;
}

TEST(threads_do_not_disturb_each_other) {
  begin("104857600", NULL);
  enum { THREADS = 4 };
  pthread_t threads[THREADS];
  int failures = 0;
  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, allocate_often, &failures)) abort();
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  CHECK(failures == 0, "%d", failures);
  CHECK_U64(held(0)->current_bytes, 0);
  CHECK_U64(record->events, THREADS * 500 * 8);
  static hook_event events[THREADS * 500 * 8];
  uint64_t next = 0, lost = 0, first_thread = 0;
  CHECK_U64(hook_record_read(record, &next, &lost, events, THREADS * 500 * 8), THREADS * 500 * 8);
  CHECK_U64(lost, 0);
  for (int i = 0; i < THREADS * 500 * 8; i++) first_thread += events[i].thread == events[0].thread;
  CHECK_U64(first_thread, 500 * 8);
  end();
}

TEST(a_forked_process_has_a_slot_of_its_own) {
  begin("104857600", NULL);
  uint64_t a, b;
  CHECK(CALL(cuMemAlloc_v2)(&a, 60 * MIB) == 0, "alloc");
  pid_t child = fork();
  if (child == 0) {
    bool is_met = CALL(cuMemAlloc_v2)(&b, 41 * MIB) == 2; // what its parent has counts
    is_met = is_met && CALL(cuMemAlloc_v2)(&b, 30 * MIB) == 0;
    is_met = is_met && record->processes[1].pid == getpid() &&
             record->processes[1].devices[0].current_bytes == 30 * MIB;
    _exit(is_met ? 0 : 1);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0, "status %d", status);
  CHECK_U64(hook_record_processes(record), 2);
  CHECK_U64(held(0)->current_bytes, 60 * MIB);
  CHECK_U64(hook_record_used(record, 0), 60 * MIB); // the child is gone
  CHECK(CALL(cuMemAlloc_v2)(&b, 40 * MIB) == 0, "and so is what it had");
  CALL(cuMemFree_v2)(a);
  CALL(cuMemFree_v2)(b);
  end();
}

TEST(processes_that_find_no_room_still_run_under_the_cap) {
  begin("104857600", NULL);
  uint64_t a, b;
  record->process_count = HOOK_MAX_PROCESSES;
  CHECK(CALL(cuMemAlloc_v2)(&a, 60 * MIB) == 0, "alloc");
  CHECK(CALL(cuMemAlloc_v2)(&b, 60 * MIB) == 2, "the cap");
  CALL(cuMemFree_v2)(a);
  CHECK(CALL(cuMemAlloc_v2)(&b, 60 * MIB) == 0 && CALL(cuMemFree_v2)(b) == 0, "free again");
  end();
}

TEST(many_pieces_are_found_again) {
  begin(NULL, NULL);
  enum { MANY = 3000 };
  static uint64_t a[MANY];
  for (int i = 0; i < MANY; i++) CHECK(CALL(cuMemAlloc_v2)(&a[i], 512) == 0, "%d", i);
  for (int i = 0; i < MANY; i += 2) CHECK(CALL(cuMemFree_v2)(a[i]) == 0, "%d", i);
  CHECK_U64(held(0)->current_bytes, MANY / 2 * 512);
  for (int i = 1; i < MANY; i += 2) CHECK(CALL(cuMemFree_v2)(a[i]) == 0, "%d", i);
  CHECK_U64(held(0)->current_bytes, 0);
  end();
}

// As after a context was destroyed: what had the address before is not held any more.
TEST(an_address_that_comes_again_was_freed_unseen) {
  begin(NULL, NULL);
  uint64_t a;
  CHECK(CALL(cuMemAlloc_v2)(&a, 60 * MIB) == 0, "alloc");
  hook_count(0, 10 * MIB);
  hook_remember(&(hook_piece){.space = HOOK_SPACE_ADDRESS, .key = a, .bytes = 10 * MIB});
  CHECK_U64(held(0)->current_bytes, 10 * MIB);
  CHECK(CALL(cuMemFree_v2)(a) == 0, "free");
  CHECK_U64(held(0)->current_bytes, 0);
  end();
}

TEST(values_that_are_not_numbers_are_no_limits) {
  begin("24GiB", "yes");
  uint64_t a;
  CHECK(hook_cap() == 0, "no cap");
  CHECK(CALL(cuMemAlloc_v2)(&a, 500 * MIB) == 0 && CALL(cuMemFree_v2)(a) == 0, "no cap");
  end();
  CHECK(!hook_start("/nonexistent/record", "1", NULL), "no record");
  CHECK(hook_cap() == 0 && !hook_is_on(), "nothing is done");
}

TEST_MAIN
