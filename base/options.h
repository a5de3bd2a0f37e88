/* Command line options: one table a command makes parsing and --help. */
#ifndef CV_BASE_OPTIONS_H
#define CV_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

typedef enum {
  CV_OPTION_FLAG,  /* bool */
  CV_OPTION_TEXT,  /* const char * */
  CV_OPTION_INT,   /* int64_t, within [lo, hi] */
  CV_OPTION_LIST,  /* cv_texts; each use adds one */
  CV_OPTION_WORDS, /* cv_texts; takes all words up to the next option */
} cv_option_kind;

/* A list of texts borrowed from argv; cv_options_release frees the list. */
typedef struct {
  const char **data;
  uint32_t len;
} cv_texts;

typedef struct {
  const char *name; /* "--target"; NULL ends the table */
  cv_option_kind kind;
  void *target;
  const char *value; /* its name in the help: "NAME"; NULL for flags */
  const char *help;
  int64_t lo, hi; /* INT; 0, 0: any */
} cv_option;

typedef struct {
  const char *usage; /* "cuvil build MODEL.onnx -o FILE [OPTION...]" */
  const char *text;  /* what it does, some lines */
  const cv_option *options;
  int min_words, max_words; /* positional words; max -1: any number */
} cv_command;

/* Parses argv[1..]. `--help` and `--version` print and end the process with 0. Words that are no
 * options go to `out_words`. CV_INVALID names the word and the remedy. One-letter names (-o) are
 * rows of their own. */
CV_NODISCARD cv_status cv_options_parse(const cv_command *command, int argc, char **argv,
                                        cv_texts *out_words);
/* Frees the lists that a parse made: those of the command's options, and the words. */
void cv_options_release(const cv_command *command, cv_texts *words);

/* Splits "NAME=VALUE" at the first '='; false if there is none or a side is empty. *out_name is in
 * the arena, which may die; *out_value is the end of `text`. */
bool cv_split_assignment(cv_arena *arena, const char *text, const char **out_name,
                         const char **out_value);

#endif
