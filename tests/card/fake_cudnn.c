// A cuDNN for test_convolutions to load. It plans without a card: every heuristic has two configurations, the first of
// which cannot be planned, and the second needs as many bytes as the input has elements.
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIGURATION = 3, HEURISTIC = 4, PLAN = 5, TENSOR = 17, DEVICE = 38 };

typedef struct fake fake;
struct fake {
  int type;
  bool is_final, has_device, cannot_be_planned;
  int64_t elements; // of the input that is described, or referred to
};

static int living;
static char device_text[1024];

// What the test asks about.
int fake_cudnn_living(void);
const char *fake_cudnn_device(void);
int fake_cudnn_living(void) { return living; }
const char *fake_cudnn_device(void) { return device_text; }

size_t cudnnGetVersion(void);
int cudnnBackendCreateDescriptor(int type, fake **out);
int cudnnBackendDestroyDescriptor(fake *d);
int cudnnBackendSetAttribute(fake *d, int name, int type, int64_t count, const void *values);
int cudnnBackendFinalize(fake *d);
int cudnnBackendGetAttribute(fake *d, int name, int type, int64_t wanted, int64_t *count,
                             void *values);

size_t cudnnGetVersion(void) { return 92345; }

int cudnnBackendCreateDescriptor(int type, fake **out) {
#ifdef FAKE_OLD
  if (type == DEVICE) return 2000; // before 9.8 there is no such descriptor
#endif
  *out = calloc(1, sizeof **out);
  if (!*out) return 1002;
  (*out)->type = type;
  living++;
  return 0;
}

int cudnnBackendDestroyDescriptor(fake *d) {
  living--;
  free(d);
  return 0;
}

static int set_tensor(fake *d, int name, int64_t count, const int64_t *values) {
  if (name != 902) return 0;
  d->elements = 1;
  for (int64_t i = 0; i < count; i++) d->elements *= values[i];
  return 0;
}

static int set_parts(fake *d, int name, int64_t count, fake *const *parts) {
  bool is_input = name == 704 || name == 710 || name == 716; // among weights, input and output
  bool is_operation = d->type >= 10 && d->type <= 12;
  for (int64_t i = 0; i < count; i++) {
    if (!parts[i]->is_final) return 2000;
    if (parts[i]->type == DEVICE) d->has_device = true;
    else if (!is_operation || is_input) d->elements = parts[i]->elements;
    if (parts[i]->cannot_be_planned) d->cannot_be_planned = true;
  }
  return 0;
}

int cudnnBackendSetAttribute(fake *d, int name, int type, int64_t count, const void *values) {
  if (type == 0) return 2000; // a handle, of which this library has none
  if (type == 15) return set_parts(d, name, count, values);
  if (d->type == TENSOR && type == 3) return set_tensor(d, name, count, values);
  if (name == 2702) memcpy(device_text, values, (size_t)count), device_text[count] = 0;
  return 0;
}

int cudnnBackendFinalize(fake *d) {
  if (d->type == HEURISTIC && !d->has_device) return 2000;
  if (d->type == PLAN && d->cannot_be_planned) return 3001;
  d->is_final = true;
  return 0;
}

int cudnnBackendGetAttribute(fake *d, int name, int type, int64_t wanted, int64_t *count,
                             void *values) {
  (void)type;
  if (!d->is_final) return 2000;
  if (name == 402) *(int64_t *)values = d->elements;
  if (name != 202) return 0;
  fake **configurations = values;
  *count = 2;
  for (int64_t i = 0; i < wanted && i < 2 && values; i++) {
    if (configurations[i]->type != CONFIGURATION) return 2000;
    configurations[i]->is_final = true;
    configurations[i]->cannot_be_planned = i == 0;
    configurations[i]->elements = d->elements;
  }
  return 0;
}
