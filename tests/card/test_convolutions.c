// Convolutions on the simulated card: planned by a real cuDNN where there is one, by a rule otherwise.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "card.h"
#include "convolution.h"
#include "cudnn_library.h"
#include "folder.h"
#include "test.h"

size_t cudnnGetVersion(void);
int cudnnGetProperty(int, int *);
int cudnnBackendCreateDescriptor(int, void **);
int cudnnBackendSetAttribute(void *, int, int, int64_t, const void *);
int cudnnBackendFinalize(void *);
int cudnnBackendGetAttribute(void *, int, int, int64_t, int64_t *, void *);
int cudnnBackendDestroyDescriptor(void *);
int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(void *, int, int, void *, void *,
                                                             void *, void *, void *, size_t *);
int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void *, int, int, void *, void *,
                                                         size_t *);

// A card, with the cuDNN in that file; NULL: without one.
static bool open_card(const char *gpu, const char *cudnn) {
  static int number;
  char name[32];
  plim_error error = {0};
  snprintf(name, sizeof name, "record%d", number++);
  cudnn_library_close();
  if (cudnn) setenv("PLIMSOLL_CUDNN", cudnn, 1);
  else unsetenv("PLIMSOLL_CUDNN");
  if (card_record_create(folder_path(name), gpu, 1, 1ull << 32, 0, &error))
    return printf("%s\n", error.message), false;
  return card_open(folder_path(name));
}

// ---- a convolution as PyTorch describes it ------------------------------------------------------------------

enum { FORWARD = 10, WEIGHTS = 11, DATA = 12 };
enum { FLOAT = 0, HALF = 2 };

typedef struct {
  int type, data_type;
  bool is_channels_last;
  int64_t batch, channels, size, outputs, kernel, stride, padding, groups;
} shape;

typedef struct {
  void *at[16];
  size_t count;
} parts;

static void *part(parts *all, int type) {
  void *d = NULL;
  cudnnBackendCreateDescriptor(type, &d);
  return all->at[all->count++] = d;
}

static void *tensor(parts *all, const shape *s, int64_t a, int64_t b, int64_t size) {
  void *t = part(all, 17);
  int64_t last[] = {b * size * size, 1, size * b, b};
  int64_t contiguous[] = {b * size * size, size * size, size, 1};
  cudnnBackendSetAttribute(t, 901, 1, 1, &s->data_type);
  cudnnBackendSetAttribute(t, 902, 3, 4, (int64_t[]){a, b, size, size});
  cudnnBackendSetAttribute(t, 903, 3, 4, s->is_channels_last ? last : contiguous);
  cudnnBackendFinalize(t);
  return t;
}

static void *graph_of(parts *all, const shape *s) {
  int64_t out = (s->size + 2 * s->padding - s->kernel) / s->stride + 1;
  int first = s->type == FORWARD ? 702 : s->type == DATA ? 708 : 714;
  void *how = part(all, 1), *handle = all, *refers[4] = {how};
  refers[1] = tensor(all, s, s->outputs, s->channels / s->groups, s->kernel);
  refers[2] = tensor(all, s, s->batch, s->channels, s->size);
  refers[3] = tensor(all, s, s->batch, s->outputs, out);
  cudnnBackendSetAttribute(how, 102, 3, 2, (int64_t[]){1, 1});
  cudnnBackendSetAttribute(how, 103, 3, 2, (int64_t[]){s->stride, s->stride});
  cudnnBackendSetAttribute(how, 105, 3, 2, (int64_t[]){s->padding, s->padding});
  void *operation = part(all, s->type), *graph = part(all, 15);
  for (int i = 0; i < 4; i++) cudnnBackendSetAttribute(operation, first + i, 15, 1, &refers[i]);
  cudnnBackendSetAttribute(graph, 800, 0, 1, &handle);
  cudnnBackendSetAttribute(graph, 801, 15, 1, &operation);
  return graph;
}

// The workspace of the first configuration that can be planned; -1: none can.
static int64_t workspace(shape s) {
  parts all = {0};
  int64_t bytes = -1, count = 0;
  if (!s.groups) s.groups = 1;
  void *graph = graph_of(&all, &s), *heuristic = part(&all, 4), *configurations[4] = {0};
  cudnnBackendSetAttribute(heuristic, 201, 15, 1, &graph);
  if (cudnnBackendFinalize(heuristic)) return -2;
  cudnnBackendGetAttribute(heuristic, 202, 15, 0, &count, NULL);
  for (int64_t i = 0; i < count; i++) configurations[i] = part(&all, 3);
  cudnnBackendGetAttribute(heuristic, 202, 15, count, &count, configurations);
  for (int64_t i = 0; i < count && bytes < 0; i++) {
    void *plan = part(&all, 5);
    cudnnBackendSetAttribute(plan, 401, 15, 1, &configurations[i]);
    if (!cudnnBackendFinalize(plan)) cudnnBackendGetAttribute(plan, 402, 3, 1, &count, &bytes);
  }
  for (size_t i = 0; i < all.count; i++) cudnnBackendDestroyDescriptor(all.at[i]);
  return bytes;
}

static uint64_t calls_of(const char *name) {
  const card_process *process = card_process_here();
  for (uint32_t i = 0; i < process->unmodelled_count; i++)
    if (strstr(process->unmodelled[i].name, name)) return process->unmodelled[i].calls;
  return 0;
}

static const shape resnet = {FORWARD, HALF, false, 8, 64, 56, 64, 3, 1, 1, 1};

// ---- a real library -----------------------------------------------------------------------------------------

TEST(a_real_library_plans) {
  int major = 0, minor = 0, patch = 0;
  CHECK(open_card("H200", FAKE_CUDNN) && cudnn_library_is_usable(), "a card and a library");
  CHECK(cudnnGetVersion() == 92345, "%zu", cudnnGetVersion());
  CHECK(!cudnnGetProperty(0, &major) && !cudnnGetProperty(1, &minor) &&
            !cudnnGetProperty(2, &patch) && major == 9 && minor == 23 && patch == 45,
        "%d.%d.%d", major, minor, patch);
  int64_t bytes = workspace(resnet);
  CHECK(bytes == 8 * 64 * 56 * 56, "the second configuration's: %" PRId64, bytes);
  shape backward = resnet;
  backward.type = WEIGHTS, backward.batch = 2;
  bytes = workspace(backward);
  CHECK(bytes == 2 * 64 * 56 * 56, "%" PRId64, bytes);
  CHECK(calls_of("convolution workspaces; more") == 0, "not by the rule");
  CHECK(calls_of("on Hopper and later") == 2, "a card with clusters would know better");
  CHECK(open_card("RTX 4090", FAKE_CUDNN) && workspace(resnet) > 0, "a card without clusters");
  CHECK(card_process_here()->unmodelled_count == 0, "nothing is approximate");
}

TEST(a_real_library_plans_for_the_simulated_card) {
  CHECK(open_card("H200", FAKE_CUDNN) && cudnn_library_is_usable(), "a card and a library");
  void *file = dlopen(FAKE_CUDNN, RTLD_NOW | RTLD_LOCAL);
  const char *(*device)(void) = file ? dlsym(file, "fake_cudnn_device") : NULL;
  int (*living)(void) = file ? dlsym(file, "fake_cudnn_living") : NULL;
  CHECK(device && living, "the library");
  if (!device || !living) return;
  CHECK(strstr(device(), "\"multiProcessorCount\":132,") &&
            strstr(device(), "\"deviceVer\":900,") &&
            strstr(device(), "\"maxSharedMemoryPerBlockOptin\":232448,") &&
            strstr(device(), "\"smClockRateKHz\":1980000,") &&
            strstr(device(), "\"deviceName\":\"NVIDIA H200\""),
        "as cuDNN writes it on an H200: %s", device());
  int before = living();
  workspace(resnet);
  CHECK(living() == before, "descriptors are given back: %d and %d", before, living());
  CHECK(open_card("RTX 4090", FAKE_CUDNN) && cudnn_library_is_usable(), "another card");
  CHECK(strstr(device(), "\"multiProcessorCount\":128,") && strstr(device(), "\"deviceVer\":890,"),
        "%s", device());
  dlclose(file);
}

TEST(without_a_usable_library_the_rule_answers) {
  folder_write_text("broken.so", "not a library");
  const char *files[] = {folder_path("missing.so"), folder_path("broken.so"), FAKE_OLD_CUDNN};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    CHECK(open_card("H200", files[i]) && !cudnn_library_is_usable(), "%s", files[i]);
    CHECK(cudnnGetVersion() == 91900, "%zu", cudnnGetVersion());
    shape s = resnet;
    s.batch = 7;
    CHECK(workspace(s) > 0 && calls_of("convolution workspaces; more") == 1, "%s", files[i]);
  }
}

TEST(a_library_that_is_the_simulated_card_is_no_library) {
  CHECK(open_card("H200", NULL) && !cudnn_library_is_usable(), "PyTorch is not there");
  CHECK(open_card("H200", "") && !cudnn_library_is_usable(), "the program itself");
}

// ---- what was recorded --------------------------------------------------------------------------------------

// Measured on an H200 with cuDNN 9.19. The rule misses each of them.
static const struct {
  const char *name;
  shape shape;
  int64_t bytes;
} measured[] = {
    {"1x1, forward", {FORWARD, HALF, false, 1, 64, 56, 256, 1, 1, 0, 1}, 272},
    {"3x3, weights", {WEIGHTS, HALF, false, 1, 64, 56, 64, 3, 1, 1, 1}, 4202496},
    {"3x3, weights, 128 images", {WEIGHTS, HALF, false, 128, 512, 7, 512, 3, 1, 1, 1}, 25428719},
    {"first layer, weights", {WEIGHTS, HALF, false, 32, 3, 224, 64, 7, 2, 3, 1}, 64451471},
    {"3x3, float, data", {DATA, FLOAT, false, 64, 512, 14, 512, 3, 2, 1, 1}, 41549971},
};

TEST(recorded_convolutions_are_looked_up) {
  CHECK(open_card("H200", NULL), "a card");
  for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
    int64_t bytes = workspace(measured[i].shape);
    CHECK(bytes == measured[i].bytes, "%s: %" PRId64 ", measured %" PRId64, measured[i].name, bytes,
          measured[i].bytes);
  }
  CHECK(card_process_here()->unmodelled_count == 0, "nothing is approximate");
  CHECK(open_card("H100", NULL) && workspace(measured[0].shape) != measured[0].bytes,
        "another card's plans are other plans");
}

TEST(recordings_are_of_one_version_of_the_library) {
  parts all = {0};
  shape s = measured[1].shape;
  void *graph = graph_of(&all, &s), *operation = all.at[4];
  CHECK(open_card("H200", FAKE_CUDNN) && convolution_planned(operation, 7) == 7, "9.23 planned");
  CHECK(open_card("H200", NULL) && convolution_planned(operation, 7) == measured[1].bytes, "9.19");
  for (size_t i = 0; i < all.count; i++) cudnnBackendDestroyDescriptor(all.at[i]);
  (void)graph;
}

// ---- the rule -----------------------------------------------------------------------------------------------

// Recorded on an H200 with cuDNN 9.19. The rule is the same for an H100, which has as many multiprocessors.
static const struct {
  const char *name;
  shape shape;
  int64_t bytes;
} recorded[] = {
    {"3x3, forward", {FORWARD, HALF, false, 1, 64, 56, 64, 3, 1, 1, 1}, 876560},
    {"3x3, data", {DATA, HALF, false, 1, 64, 56, 64, 3, 1, 1, 1}, 876560},
    {"3x3, stride 2, float", {FORWARD, FLOAT, false, 3, 256, 28, 256, 3, 2, 1, 1}, 5369872},
    {"channels_last", {FORWARD, HALF, true, 3, 128, 28, 128, 3, 1, 1, 1}, 0},
    {"1x1, forward", {FORWARD, HALF, false, 2, 256, 56, 128, 1, 1, 0, 1}, 0},
    {"1x1, data", {DATA, HALF, false, 2, 256, 56, 128, 1, 1, 0, 1}, 0},
    {"1x1, weights", {WEIGHTS, HALF, false, 2, 256, 56, 128, 1, 1, 0, 1}, 262144},
    {"depthwise, forward", {FORWARD, HALF, false, 32, 128, 56, 128, 7, 1, 3, 128}, 0},
    {"depthwise, weights", {WEIGHTS, HALF, false, 32, 128, 56, 128, 7, 1, 3, 128}, 0},
    {"patches, forward", {FORWARD, HALF, false, 32, 3, 224, 768, 16, 16, 0, 1}, 38469648},
    {"patches, data", {DATA, HALF, false, 32, 3, 224, 768, 16, 16, 0, 1}, 0},
    {"first layer, one image", {FORWARD, HALF, false, 1, 3, 224, 64, 7, 2, 3, 1}, 0},
    {"first layer, a batch", {FORWARD, HALF, false, 32, 3, 224, 64, 7, 2, 3, 1}, 64250384},
    {"1x1, small images", {FORWARD, HALF, false, 32, 512, 7, 2048, 1, 1, 0, 1}, 8028176},
    {"few pixels, weights", {WEIGHTS, HALF, false, 2, 256, 14, 256, 3, 1, 1, 1}, 1581072},
};

TEST(the_rule_has_the_workspaces_that_were_recorded) {
  CHECK(open_card("H100", NULL), "a card");
  for (size_t i = 0; i < sizeof recorded / sizeof *recorded; i++) {
    int64_t bytes = workspace(recorded[i].shape);
    CHECK(bytes == recorded[i].bytes, "%s: %" PRId64 ", recorded %" PRId64, recorded[i].name, bytes,
          recorded[i].bytes);
  }
  CHECK(calls_of("convolution workspaces; more") == sizeof recorded / sizeof *recorded,
        "said to be approximate");
}

// The exact number of parts is the library's secret; these are within a tenth of what was recorded.
TEST(gradients_of_many_pixels_are_summed_in_parts) {
  static const struct {
    shape shape;
    int64_t bytes;
  } parted[] = {
      {{WEIGHTS, HALF, false, 128, 256, 14, 256, 3, 1, 1, 1}, 33948255},
      {{WEIGHTS, HALF, false, 128, 512, 7, 512, 3, 1, 1, 1}, 25428719},
      {{WEIGHTS, HALF, false, 32, 128, 28, 128, 3, 1, 1, 1}, 16679519},
  };
  CHECK(open_card("H100", NULL), "a card");
  for (size_t i = 0; i < sizeof parted / sizeof *parted; i++) {
    int64_t bytes = workspace(parted[i].shape), off = bytes - parted[i].bytes;
    CHECK(off * 10 < parted[i].bytes && off * 10 > -parted[i].bytes, "%" PRId64 ", not %" PRId64,
          bytes, parted[i].bytes);
  }
}

TEST(parts_that_a_plan_without_a_card_lacks_are_added) {
  shape s = {WEIGHTS, HALF, false, 128, 256, 14, 256, 3, 1, 1, 1};
  parts all = {0};
  CHECK(open_card("H200", FAKE_CUDNN), "a card");
  void *graph = graph_of(&all, &s), *operation = all.at[4];
  int64_t copies = 26869776, bytes = convolution_planned(operation, copies + 131);
  CHECK(bytes == copies + 3 * 36 * 65536, "%" PRId64, bytes);
  CHECK(convolution_planned(operation, 2 * copies) == 2 * copies, "a plan that has them");
  CHECK(convolution_planned(operation, 0) == 0, "a plan of another kind");
  CHECK(open_card("RTX 4090", FAKE_CUDNN), "a card without clusters");
  CHECK(convolution_planned(operation, copies + 131) == copies + 131, "knows all");
  for (size_t i = 0; i < all.count; i++) cudnnBackendDestroyDescriptor(all.at[i]);
  (void)graph;
}

TEST(an_incomplete_convolution_needs_nothing) {
  int64_t bytes = -1, count = 0;
  void *operation = NULL, *plan = NULL;
  CHECK(open_card("H200", NULL), "a card");
  CHECK(!cudnnBackendCreateDescriptor(FORWARD, &operation) &&
            !cudnnBackendCreateDescriptor(5, &plan) &&
            !cudnnBackendSetAttribute(plan, 401, 15, 1, &operation) &&
            !cudnnBackendGetAttribute(plan, 402, 3, 1, &count, &bytes) && bytes == 0,
        "%" PRId64, bytes);
  cudnnBackendDestroyDescriptor(operation), cudnnBackendDestroyDescriptor(plan);
  const shape empty = {WEIGHTS, HALF, false, 8, 64, 56, 64, 0, 1, 1, 1};
  bytes = workspace(empty);
  CHECK(bytes == 0, "a kernel without pixels: %" PRId64, bytes);
}

// ---- batch normalization --------------------------------------------------------------------------------------

TEST(batch_normalization_reports_its_sizes) {
  size_t bytes = SIZE_MAX, reserved = SIZE_MAX;
  CHECK(open_card("H200", NULL), "a card");
  cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(NULL, 1, 0, NULL, NULL, NULL, NULL, NULL,
                                                           &bytes);
  cudnnGetBatchNormalizationTrainingExReserveSpaceSize(NULL, 1, 0, NULL, NULL, &reserved);
  CHECK(bytes == 0 && reserved == 0 && card_process_here()->unmodelled_count == 0, "%zu %zu", bytes,
        reserved);
  cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(NULL, 2, 0, NULL, NULL, NULL, NULL, NULL,
                                                           &bytes);
  CHECK(card_process_here()->unmodelled_count == 1, "channels_last is said to be approximate");
}

int main(int argc, char **argv) {
  folder_make();
  int result = test_main(argc, argv);
  folder_remove();
  return result;
}
