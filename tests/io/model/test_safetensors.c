// The weights of a checkpoint are counted from its headers alone; invalid headers are refused.
#include <stdlib.h>

#include "folder.h"
#include "safetensors.h"
#include "test.h"

static plim_safetensors found;
static plim_error error;

static plim_err add(const char *header, uint64_t data_bytes) {
  found = (plim_safetensors){0};
  error = (plim_error){0};
  return plim_safetensors_add_header(header, strlen(header), data_bytes, &found, &error);
}

static void write_file(const char *name, const char *header, size_t data_bytes) {
  size_t length = strlen(header), size = 8 + length + data_bytes;
  uint8_t *file = calloc(1, size);
  for (int i = 0; i < 8; i++) file[i] = (uint8_t)((uint64_t)length >> (8 * i));
  memcpy(file + 8, header, length);
  folder_write(name, file, size);
  free(file);
}

static const char two[] =
    "{\"__metadata__\": {\"format\": \"pt\"},"
    " \"model.norm.weight\": {\"dtype\": \"F32\", \"shape\": [4], \"data_offsets\": [0, 16]},"
    " \"lm_head.weight\": {\"dtype\": \"BF16\", \"shape\": [2, 3], \"data_offsets\": [16, 28]}}";

TEST(safetensors_header_is_counted) {
  CHECK(!add(two, 28), "%s", error.message);
  CHECK_U64(found.tensors, 2u);
  CHECK_U64(found.elements, 10u);
  CHECK_U64(found.bytes, 28u);
  CHECK_U64(found.elements_of[PLIM_SAFE_FP32], 4u);
  CHECK_U64(found.elements_of[PLIM_SAFE_BF16], 6u);
}

TEST(safetensors_hold_the_parameters_with_or_without_a_tied_head) {
  CHECK(!add(two, 28), "%s", error.message);
  CHECK(plim_safetensors_holds(&found, 10) && plim_safetensors_holds(&found, 4), "refused");
  CHECK(!plim_safetensors_holds(&found, 9) && !plim_safetensors_holds(&found, 0), "accepted");
}

TEST(safetensors_buffers_are_not_parameters) {
  CHECK(!add("{\"h.0.attn.bias\": {\"dtype\": \"F32\", \"shape\": [1, 1, 2, 2], \"data_offsets\": "
             "[0, 16]},"
             " \"h.0.attn.c_attn.bias\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": "
             "[16, 24]}}",
             24),
        "%s", error.message);
  CHECK(plim_safetensors_holds(&found, 2), "%" PRIu64 " buffers", found.buffer_elements);
}

TEST(safetensors_scalars_and_empty_tensors_are_fine) {
  CHECK(!add("{\"a\": {\"dtype\": \"F64\", \"shape\": [], \"data_offsets\": [0, 8]},"
             " \"b\": {\"dtype\": \"I8\", \"shape\": [0, 7], \"data_offsets\": [8, 8]}}",
             8),
        "%s", error.message);
  CHECK_U64(found.elements, 1u);
}

#define TENSOR(dtype, shape, offsets)                                                              \
  "{\"a\": {\"dtype\": \"" dtype "\", \"shape\": " shape ", \"data_offsets\": " offsets "}}"

static const struct {
  const char *header, *message;
} refused[] = {
    {"", "this is not a JSON object: '[' or '{' expected near end of file"},
    {"[]", "this is not a JSON object: it is another kind of JSON value"},
    {"{\"a\": 1}", "tensor \"a\" has the unknown dtype \"\""},
    {TENSOR("F4", "[2]", "[0, 1]"), "tensor \"a\" has the unknown dtype \"F4\""},
    {TENSOR("F32", "[-1]", "[0, 4]"), "tensor \"a\" has an invalid shape"},
    {TENSOR("F32", "[1.5]", "[0, 4]"), "tensor \"a\" has an invalid shape"},
    {TENSOR("F32", "4", "[0, 4]"), "tensor \"a\" has an invalid shape"},
    {TENSOR("F32", "[9223372036854775807, 3]", "[0, 4]"), "tensor \"a\" has an invalid shape"},
    {TENSOR("F32", "[4611686018427387905]", "[0, 4]"),
     "tensor \"a\" has a different size than its shape and dtype require"},
    {TENSOR("F32", "[1]", "[0, 8]"),
     "tensor \"a\" has a different size than its shape and dtype require"},
    {TENSOR("F32", "[1]", "[100, 104]"),
     "tensor \"a\" has data_offsets that are not within the file"},
    {TENSOR("F32", "[1]", "[4, 0]"), "tensor \"a\" has data_offsets that are not within the file"},
    {TENSOR("F32", "[1]", "[-4, 0]"), "tensor \"a\" has data_offsets that are not within the file"},
    {TENSOR("F32", "[1]", "[0]"), "tensor \"a\" has data_offsets that are not within the file"},
    {"{\"a\": {\"dtype\": \"F32\", \"shape\": [4], \"data_offsets\": [0, 16]},"
     " \"b\": {\"dtype\": \"F32\", \"shape\": [4], \"data_offsets\": [0, 16]}}",
     "tensor \"b\" overlaps another tensor"},
};

TEST(invalid_safetensors_headers_are_refused) {
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    CHECK(add(refused[i].header, 28), "%s is accepted", refused[i].header);
    CHECK_STR(error.message, refused[i].message);
  }
}

TEST(safetensors_single_file_is_read) {
  folder_make();
  write_file("m/model.safetensors", two, 28);
  plim_err by_folder = plim_safetensors_read(folder_path("m"), &found, &error);
  CHECK(!by_folder && found.files == 1 && found.elements == 10, "%s", error.message);
  plim_err by_file = plim_safetensors_read(folder_path("m/model.safetensors"), &found, &error);
  CHECK(!by_file && found.elements == 10, "%s", error.message);
  folder_remove();
}

static const char index_of_two[] =
    "{\"metadata\": {\"total_size\": 56}, \"weight_map\": {\"x\": "
    "\"model-00001-of-00002.safetensors\","
    " \"y\": \"model-00002-of-00002.safetensors\", \"z\": \"model-00001-of-00002.safetensors\"}}";

TEST(safetensors_shards_are_added_up) {
  folder_make();
  folder_write_text("m/model.safetensors.index.json", index_of_two);
  write_file("m/model-00001-of-00002.safetensors", two, 28);
  write_file("m/model-00002-of-00002.safetensors", TENSOR("U8", "[5]", "[0, 5]"), 5);
  plim_err err = plim_safetensors_read(folder_path("m"), &found, &error);
  folder_remove();
  CHECK(!err, "%s", error.message);
  CHECK(found.files == 2 && found.elements == 15, "%" PRIu64 " elements", found.elements);
  CHECK_U64(found.elements_of[PLIM_SAFE_INTEGER], 5u);
}

TEST(safetensors_missing_shard_is_named) {
  folder_make();
  folder_write_text("m/model.safetensors.index.json", index_of_two);
  write_file("m/model-00001-of-00002.safetensors", two, 28);
  plim_err err = plim_safetensors_read(folder_path("m"), &found, &error);
  CHECK(err == PLIM_ERR_IO, "%s", error.message);
  CHECK_STR(error.file, folder_path("m/model-00002-of-00002.safetensors"));
  folder_remove();
}

TEST(safetensors_index_stays_in_its_folder) {
  static const char *const indices[] = {"{}", "{\"weight_map\": {\"a\": \"../x.safetensors\"}}",
                                        "{\"weight_map\": {\"a\": 5}}", "{\"weight_map\": []}",
                                        "x"};
  folder_make();
  write_file("x.safetensors", two, 28);
  for (size_t i = 0; i < sizeof indices / sizeof *indices; i++) {
    folder_write_text("m/model.safetensors.index.json", indices[i]);
    plim_err err = plim_safetensors_read(folder_path("m"), &found, &error);
    CHECK(err == PLIM_ERR_PARSE, "%s is accepted", indices[i]);
    CHECK_STR(error.file, folder_path("m/model.safetensors.index.json"));
  }
  folder_remove();
}

TEST(files_that_are_not_safetensors_are_refused) {
  static const char huge[] = "\xff\xff\xff\xff\xff\xff\xff\xff{}";
  folder_make();
  folder_write("short.safetensors", "abc", 3);
  folder_write("huge.safetensors", huge, sizeof huge - 1);
  CHECK(plim_safetensors_read(folder_path("short.safetensors"), &found, &error) == PLIM_ERR_PARSE,
        "accepted");
  CHECK_STR(error.message, "the file ends before its header");
  CHECK(plim_safetensors_read(folder_path("huge.safetensors"), &found, &error) == PLIM_ERR_PARSE,
        "accepted");
  enum { LARGE = 40 << 20 };
  char *large = calloc(1, LARGE);
  memcpy(large, "\0\0\x40\2\0\0\0\0{", 9); // a header of 36 MiB
  folder_write("large.safetensors", large, LARGE);
  free(large);
  CHECK(plim_safetensors_read(folder_path("large.safetensors"), &found, &error) ==
            PLIM_ERR_UNSUPPORTED,
        "%s", error.message);
  CHECK(plim_safetensors_read(folder_path("none"), &found, &error) == PLIM_ERR_IO, "accepted");
  CHECK(plim_safetensors_read(folder_path(""), &found, &error) == PLIM_ERR_IO, "accepted");
  CHECK_STR(error.message,
            "the folder contains neither model.safetensors nor model.safetensors.index.json");
  folder_remove();
}

TEST_MAIN
