#include "base/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"

static void print_help(const cv_command *command) {
  printf("usage: %s\n\n%s\n", command->usage, command->text);
  printf("\noptions:\n");
  for (const cv_option *o = command->options; o && o->name; o++) {
    char left[64];
    snprintf(left, sizeof left, "%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
    printf("  %-26s %s\n", left, o->help);
  }
  printf("  %-26s %s\n  %-26s %s\n", "--help", "this text", "--version", "the version");
}

static void append(cv_texts *texts, const char *text) {
  texts->data = cv_realloc_or_die(texts->data, texts->len + 1, sizeof *texts->data);
  texts->data[texts->len++] = text;
}

static const cv_option *find(const cv_command *command, const char *name, size_t length) {
  for (const cv_option *o = command->options; o && o->name; o++)
    if (strlen(o->name) == length && memcmp(o->name, name, length) == 0) return o;
  return NULL;
}

static bool is_option(const char *word) {
  return word[0] == '-' && word[1] && !(word[1] >= '0' && word[1] <= '9');
}

static cv_status take_int(const cv_option *o, const char *value) {
  int64_t number;
  if (!cv_parse_i64(value, &number))
    return cv_error(CV_INVALID, "%s %s: give a whole number", o->name, value);
  if ((o->lo || o->hi) && (number < o->lo || number > o->hi))
    return cv_error(CV_INVALID, "%s %s: give a number from %lld to %lld", o->name, value,
                    (long long)o->lo, (long long)o->hi);
  *(int64_t *)o->target = number;
  return CV_OK;
}

/* One option at argv[*i]; moves *i to its last word. */
static cv_status take(const cv_command *command, int argc, char **argv, int *i) {
  const char *word = argv[*i], *equals = strchr(word, '=');
  size_t length = equals ? (size_t)(equals - word) : strlen(word);
  const cv_option *o = find(command, word, length);
  if (!o) return cv_error(CV_INVALID, "unknown option %s: see --help", word);
  if (o->kind == CV_OPTION_FLAG) {
    if (equals) return cv_error(CV_INVALID, "%s takes no value", o->name);
    *(bool *)o->target = true;
    return CV_OK;
  }
  const char *value = equals ? equals + 1 : *i + 1 < argc ? argv[++*i] : NULL;
  if (!value) return cv_error(CV_INVALID, "%s needs a value: %s %s", o->name, o->name, o->value);
  switch (o->kind) {
    case CV_OPTION_TEXT: *(const char **)o->target = value; return CV_OK;
    case CV_OPTION_INT: return take_int(o, value);
    case CV_OPTION_WORDS:
      append(o->target, value);
      while (!equals && *i + 1 < argc && !is_option(argv[*i + 1])) append(o->target, argv[++*i]);
      return CV_OK;
    default: append(o->target, value); return CV_OK;
  }
}

cv_status cv_options_parse(const cv_command *command, int argc, char **argv, cv_texts *out_words) {
  *out_words = (cv_texts){0};
  bool only_words = false;
  for (int i = 1; i < argc; i++) {
    if (!only_words && strcmp(argv[i], "--help") == 0) {
      print_help(command);
      exit(0);
    }
    if (!only_words && strcmp(argv[i], "--version") == 0) {
      printf("cuvil %s\n", CUVIL_VERSION);
      exit(0);
    }
    if (!only_words && strcmp(argv[i], "--") == 0) {
      only_words = true;
    } else if (!only_words && is_option(argv[i])) {
      cv_status status = take(command, argc, argv, &i);
      if (status != CV_OK) return status;
    } else {
      append(out_words, argv[i]);
    }
  }
  if ((int)out_words->len < command->min_words)
    return cv_error(CV_INVALID, "a word is missing: usage: %s", command->usage);
  if (command->max_words >= 0 && (int)out_words->len > command->max_words)
    return cv_error(CV_INVALID, "'%s' is one word too many: usage: %s",
                    out_words->data[command->max_words], command->usage);
  return CV_OK;
}

static void release(cv_texts *texts) {
  cv_free(texts->data);
  *texts = (cv_texts){0};
}

void cv_options_release(const cv_command *command, cv_texts *words) {
  for (const cv_option *o = command->options; o && o->name; o++)
    if (o->kind == CV_OPTION_LIST || o->kind == CV_OPTION_WORDS) release(o->target);
  release(words);
}

bool cv_split_assignment(cv_arena *arena, const char *text, const char **out_name,
                         const char **out_value) {
  const char *equals = strchr(text, '=');
  if (!equals || equals == text || !equals[1]) return false;
  *out_name = cv_arena_strndup(arena, text, (size_t)(equals - text));
  *out_value = equals + 1;
  return true;
}
