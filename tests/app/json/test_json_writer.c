#include "json_writer.h"
#include "plimsoll.h"
#include "test.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>

static char text[4096];

// Opens a stream into `text`.
static FILE *open_text(void) {
  memset(text, 0, sizeof text);
  return fmemopen(text, sizeof text, "w");
}

static const char *string_as_json(const char *value) {
  FILE *out = open_text();
  json_writer j = jsonw_begin(out);
  jsonw_string(&j, NULL, value);
  jsonw_finish(&j);
  fclose(out);
  return text;
}

static const char *number_as_json(double value) {
  FILE *out = open_text();
  json_writer j = jsonw_begin(out);
  jsonw_number(&j, NULL, value);
  jsonw_finish(&j);
  fclose(out);
  return text;
}

TEST(documents_are_indented_by_two_blanks) {
  FILE *out = open_text();
  json_writer j = jsonw_begin(out);
  jsonw_object(&j, NULL);
  jsonw_u64(&j, "format_version", 1);
  jsonw_array(&j, "list");
  jsonw_i64(&j, NULL, -5);
  jsonw_object(&j, NULL);
  jsonw_bool(&j, "yes", true);
  jsonw_end(&j);
  jsonw_end(&j);
  jsonw_array(&j, "empty_array");
  jsonw_end(&j);
  jsonw_object(&j, "empty_object");
  jsonw_end(&j);
  jsonw_null(&j, "nothing");
  jsonw_end(&j);
  jsonw_finish(&j);
  fclose(out);
  CHECK_STR(text,
            "{\n  \"format_version\": 1,\n  \"list\": [\n    -5,\n    {\n      \"yes\": true\n"
            "    }\n  ],\n  \"empty_array\": [],\n  \"empty_object\": {},\n"
            "  \"nothing\": null\n}\n");
}

TEST(strings_are_escaped) {
  CHECK_STR(string_as_json("a\"b\\c/d"), "\"a\\\"b\\\\c/d\"\n");
  CHECK_STR(string_as_json("\b\f\n\r\t"), "\"\\b\\f\\n\\r\\t\"\n");
  CHECK_STR(string_as_json("\x01\x1f\x7f"), "\"\\u0001\\u001f\\u007f\"\n");
}

TEST(valid_utf8_stays) {
  CHECK_STR(string_as_json("\u00e9\u20ac\U0001F600"), "\"\u00e9\u20ac\U0001F600\"\n");
  CHECK_STR(string_as_json("\xED\x9F\xBF\xEE\x80\x80"), "\"\xED\x9F\xBF\xEE\x80\x80\"\n");
  CHECK_STR(string_as_json("\xF4\x8F\xBF\xBF"), "\"\xF4\x8F\xBF\xBF\"\n");
}

#define BAD "\xEF\xBF\xBD"

TEST(invalid_utf8_is_replaced) {
  CHECK_STR(string_as_json("a\xFFz"), "\"a" BAD "z\"\n");
  CHECK_STR(string_as_json("\xC0\x80"), "\"" BAD BAD "\"\n");                 // overlong NUL
  CHECK_STR(string_as_json("\xED\xA0\x80"), "\"" BAD BAD BAD "\"\n");         // surrogate
  CHECK_STR(string_as_json("\xF4\x90\x80\x80"), "\"" BAD BAD BAD BAD "\"\n"); // above U+10FFFF
  CHECK_STR(string_as_json("\xE2\x82"), "\"" BAD BAD "\"\n");                 // cut short
  CHECK_STR(string_as_json("\xE2\x82\"x"), "\"" BAD BAD "\\\"x\"\n"); // the quote is not swallowed
}

TEST(a_document_fits_on_one_line) {
  FILE *out = open_text();
  json_writer j = jsonw_begin_line(out);
  jsonw_object(&j, NULL);
  jsonw_array(&j, "a");
  jsonw_u64(&j, NULL, 1);
  jsonw_string(&j, NULL, "x\ny");
  jsonw_end(&j);
  jsonw_object(&j, "b");
  jsonw_end(&j);
  jsonw_end(&j);
  jsonw_finish(&j);
  fclose(out);
  CHECK_STR(text, "{\"a\": [1, \"x\\ny\"], \"b\": {}}\n");
}

TEST(unknown_is_null_and_zero_is_zero) {
  FILE *out = open_text();
  json_writer j = jsonw_begin(out);
  jsonw_array(&j, NULL);
  jsonw_bytes(&j, NULL, PLIM_UNKNOWN);
  jsonw_bytes(&j, NULL, 0);
  jsonw_u64(&j, NULL, UINT64_MAX);
  jsonw_i64(&j, NULL, INT64_MIN);
  jsonw_string(&j, NULL, NULL);
  jsonw_string(&j, NULL, "");
  jsonw_string_or_null(&j, NULL, "");
  jsonw_end(&j);
  jsonw_finish(&j);
  fclose(out);
  CHECK_STR(text, "[\n  null,\n  0,\n  18446744073709551615,\n  -9223372036854775808,\n  null,\n"
                  "  \"\",\n  null\n]\n");
}

TEST(numbers_read_back_the_same) {
  static const double values[] = {0.1, 1.0 / 3, 1e300, 5e-324, 123456789.125, -0.7, 3, 2.5e-8};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    double back = strtod(number_as_json(values[i]), NULL);
    CHECK(back == values[i], "%s is not %.17g", text, values[i]);
  }
  CHECK_STR(number_as_json(0.1), "0.1\n");
  CHECK_STR(number_as_json(3), "3\n");
}

TEST(values_that_json_does_not_have_are_null) {
  CHECK_STR(number_as_json((double)NAN), "null\n");
  CHECK_STR(number_as_json((double)INFINITY), "null\n");
}

// Other libraries that use jansson's functions must not get ours.
TEST(function_names_do_not_clash_with_jansson) {
  void (*own)(json_writer *, const char *) = jsonw_object;
  void *found = dlsym(RTLD_DEFAULT, "json_object");
  CHECK(memcmp(&found, &own, sizeof found) != 0, "json_object is exported");
}

TEST_MAIN
