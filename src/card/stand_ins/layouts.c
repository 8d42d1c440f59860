#include "layouts.h"

#include "card.h"

size_t card_properties_bytes(int cuda_major) {
  return cuda_major >= 13 ? 1008 : cuda_major == 12 ? 1032 : 728;
}

const card_property card_properties[] = {
    {"name", 0, CARD_NAME, 0, 0},
    {"uuid", 0, CARD_UUID, 256, 256},
    {"totalGlobalMem", 0, CARD_TOTAL, 288, 288},
    {"sharedMemPerBlock", 8, CARD_INT64, 296, 296},
    {"regsPerBlock", 12, CARD_INT32, 304, 304},
    {"warpSize", 10, CARD_INT32, 308, 308},
    {"memPitch", 11, CARD_INT64, 312, 312},
    {"maxThreadsPerBlock", 1, CARD_INT32, 320, 320},
    {"maxThreadsDim[0]", 2, CARD_INT32, 324, 324},
    {"maxThreadsDim[1]", 3, CARD_INT32, 328, 328},
    {"maxThreadsDim[2]", 4, CARD_INT32, 332, 332},
    {"maxGridSize[0]", 5, CARD_INT32, 336, 336},
    {"maxGridSize[1]", 6, CARD_INT32, 340, 340},
    {"maxGridSize[2]", 7, CARD_INT32, 344, 344},
    {"totalConstMem", 9, CARD_INT64, 352, 352},
    {"major", 75, CARD_INT32, 360, 360},
    {"minor", 76, CARD_INT32, 364, 364},
    {"textureAlignment", 14, CARD_INT64, 368, 368},
    {"texturePitchAlignment", 51, CARD_INT64, 376, 376},
    {"multiProcessorCount", 16, CARD_INT32, 388, 384},
    {"canMapHostMemory", 19, CARD_INT32, 400, 392},
    {"concurrentKernels", 31, CARD_INT32, 576, 560},
    {"pciBusID", CARD_ATTRIBUTE_BUS, CARD_BUS, 584, 568},
    {"asyncEngineCount", 40, CARD_INT32, 600, 584},
    {"unifiedAddressing", 41, CARD_INT32, 604, 588},
    {"memoryBusWidth", 37, CARD_INT32, 612, 592},
    {"l2CacheSize", 38, CARD_INT32, 616, 596},
    {"maxThreadsPerMultiProcessor", 39, CARD_INT32, 624, 604},
    {"streamPrioritiesSupported", 78, CARD_INT32, 628, 608},
    {"globalL1CacheSupported", 79, CARD_INT32, 632, 612},
    {"localL1CacheSupported", 80, CARD_INT32, 636, 616},
    {"sharedMemPerMultiprocessor", 81, CARD_INT64, 640, 624},
    {"regsPerMultiprocessor", 82, CARD_INT32, 648, 632},
    {"managedMemory", 83, CARD_INT32, 652, 636},
    {"pageableMemoryAccess", 88, CARD_INT32, 672, 652},
    {"concurrentManagedAccess", 89, CARD_INT32, 676, 656},
    {"computePreemptionSupported", 90, CARD_INT32, 680, 660},
    {"cooperativeLaunch", 95, CARD_INT32, 688, 668},
    {"sharedMemPerBlockOptin", 97, CARD_INT64, 696, 672},
    {"maxBlocksPerMultiProcessor", 106, CARD_INT32, 712, 688},
    {"reservedSharedMemPerBlock", 111, CARD_INT64, 720, 696},
};
const size_t card_property_count = sizeof card_properties / sizeof *card_properties;

int64_t card_attribute(int attribute) {
  const card_description *c = card();
  switch (attribute) {
  case 1:
  case 2:
  case 3: return 1024; // threads of a block: in all, in x, in y
  case 4: return 64;
  case 5: return 2147483647; // blocks of a grid
  case 6:
  case 7: return 65535;
  case 8: return 48 << 10; // shared memory of a block
  case 9: return 64 << 10; // constant memory
  case 10: return 32;      // threads of a warp
  case 11: return 2147483647;
  case 12:
  case 82: return 65536; // registers
  case 14: return 512;
  case 16: return c->multiprocessors;
  case 37: return c->bus_bits;
  case 38: return c->l2_bytes;
  case 39: return c->threads_per_multiprocessor;
  case 40: return 2; // engines that copy
  case 51: return 32;
  case 75: return c->major;
  case 76: return c->minor;
  case 81: return c->shared_per_multiprocessor;
  case 97: return c->shared_per_block_optin;
  case 106: return c->blocks_per_multiprocessor;
  case 111: return c->major >= 8 ? 1024 : 0;
  // Supported by every card since Pascal:
  case 19:
  case 31:
  case 41:
  case 78:
  case 79:
  case 80:
  case 83:
  case 89:
  case 90:
  case 95:
  case 91:
  case 99:
  case 115:                       // host registration, memory pools
  case 102: return 1;             // virtual memory management: expandable segments
  case 103: return 1;             // handles as file descriptors
  case 120: return c->major >= 9; // clusters
  default: return 0;
  }
}
