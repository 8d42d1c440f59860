// target_modules as a regular expression of Python, which peft compares with whole paths of modules.
#ifndef PLIM_CORE_LORA_PATTERN_H
#define PLIM_CORE_LORA_PATTERN_H

#include <stdbool.h>

// Whether a text is an expression and not a list of names, which consist of letters, digits, dots and commas.
bool plim_lora_is_pattern(const char *targets);
// Whether the expression is understood: groups, alternatives, sets, repetition, \d, \w and escaped characters are.
bool plim_lora_pattern_is_valid(const char *pattern);
// Whether the whole path fits. False if the expression is not understood.
bool plim_lora_pattern_fits(const char *pattern, const char *path);
// Whether a part of the path fits, as Python's re.search.
bool plim_lora_pattern_occurs(const char *pattern, const char *path);

// Frees what this thread keeps of the last expression. A thread that ends without it leaks that.
void plim_lora_pattern_forget(void);

#endif
