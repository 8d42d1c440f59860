// The CUDA runtime: devices and what they report.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "card.h"
#include "layouts.h"

STAND_IN int cudaGetDeviceCount(int *count) {
  *count = card_device_count();
  return card_result(*count ? CARD_OK : 100); // cudaErrorNoDevice
}

STAND_IN int cudaGetDevice(int *device) {
  *device = card_device();
  return CARD_OK;
}

STAND_IN int cudaSetDevice(int device) {
  return card_result(card_set_device(device) ? CARD_OK : CARD_INVALID_DEVICE);
}

STAND_IN int cudaInitDevice(int device, unsigned flags, unsigned is_set) {
  (void)flags, (void)is_set;
  if (device < 0 || device >= card_device_count()) return card_result(CARD_INVALID_DEVICE);
  card_use(device);
  return CARD_OK;
}

int cuCtxSetLimit(unsigned limit, size_t value);
int cuCtxGetLimit(size_t *value, unsigned limit);

STAND_IN int cudaDeviceSetLimit(unsigned limit, size_t value) {
  return card_result(cuCtxSetLimit(limit, value));
}

STAND_IN int cudaDeviceGetLimit(size_t *value, unsigned limit) {
  return card_result(cuCtxGetLimit(value, limit));
}

STAND_IN int cudaDriverGetVersion(int *version) {
  *version = CARD_DRIVER_VERSION;
  return CARD_OK;
}

STAND_IN int cudaRuntimeGetVersion(int *version) {
  *version = card_cuda_version();
  return CARD_OK;
}

STAND_IN int cudaDeviceGetPCIBusId(char *out, int size, int device) {
  snprintf(out, (size_t)size, "0000:%02X:00.0", card_physical(device) + 1);
  return CARD_OK;
}

STAND_IN int cudaDeviceGetByPCIBusId(int *device, const char *bus_id) {
  unsigned domain, bus;
  if (sscanf(bus_id, "%x:%x", &domain, &bus) != 2) return CARD_INVALID_VALUE;
  for (int i = 0; i < card_device_count(); i++)
    if (card_physical(i) + 1 == (int)bus) return *device = i, CARD_OK;
  return CARD_INVALID_VALUE;
}

STAND_IN int cudaDeviceCanAccessPeer(int *can, int device, int peer) {
  *can = device != peer;
  return CARD_OK;
}

STAND_IN int cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return CARD_OK;
}

// ---- properties -----------------------------------------------------------------------------------------

static int properties(void *out, int device) {
  const card_description *c = card();
  if (device < 0 || device >= card_device_count()) return card_result(CARD_INVALID_DEVICE);
  int major = card_cuda_version() / 1000;
  memset(out, 0, card_properties_bytes(major));
  for (size_t i = 0; i < card_property_count; i++) {
    const card_property *p = &card_properties[i];
    char *at = (char *)out + (major >= 13 ? p->at_13 : p->at_12);
    int64_t value = card_attribute(p->attribute);
    switch (p->kind) {
    case CARD_INT32: memcpy(at, &(int32_t){(int32_t)value}, 4); break;
    case CARD_INT64: memcpy(at, &value, 8); break;
    case CARD_NAME: snprintf(at, 256, "%s", c->name); break;
    case CARD_UUID: memset(at, 0, 16), at[15] = (char)card_physical(device); break;
    case CARD_TOTAL: cuDeviceTotalMem_v2((size_t *)at, device); break;
    case CARD_BUS: memcpy(at, &(int32_t){card_physical(device) + 1}, 4); break;
    }
  }
  return CARD_OK;
}

STAND_IN int cudaGetDeviceProperties(void *out, int device) { return properties(out, device); }
STAND_IN int cudaGetDeviceProperties_v2(void *out, int device) { return properties(out, device); }

STAND_IN int cudaDeviceGetAttribute(int *value, int attribute, int device) {
  if (device < 0 || device >= card_device_count()) return card_result(CARD_INVALID_DEVICE);
  *value =
      attribute == CARD_ATTRIBUTE_BUS ? card_physical(device) + 1 : (int)card_attribute(attribute);
  return CARD_OK;
}

// ---- errors ---------------------------------------------------------------------------------------------

static const struct {
  int code;
  const char *name, *text;
} errors[] = {
    {CARD_OK, "cudaSuccess", "no error"},
    {CARD_INVALID_VALUE, "cudaErrorInvalidValue", "invalid argument"},
    {CARD_OUT_OF_MEMORY, "cudaErrorMemoryAllocation", "out of memory"},
    {100, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {CARD_INVALID_DEVICE, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {98, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {CARD_NO_IMAGE, "cudaErrorNoKernelImageForDevice",
     "no kernel image is available for execution on the device"},
    {CARD_NOT_SUPPORTED, "cudaErrorNotSupported", "operation not supported"},
};

const char *card_error_text(int code, bool is_name) {
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
    if (errors[i].code == code) return is_name ? errors[i].name : errors[i].text;
  return is_name ? "cudaErrorUnknown" : "unknown error";
}

STAND_IN const char *cudaGetErrorName(int code) { return card_error_text(code, true); }
STAND_IN const char *cudaGetErrorString(int code) { return card_error_text(code, false); }
