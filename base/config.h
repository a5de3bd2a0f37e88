/* Reader of configuration files (YAML): a small tree of maps, lists and scalars that know their
 * lines. Every message reads "FILE:LINE: key ...: what is wrong and what to do". Anchors, aliases,
 * tags, several documents and duplicate keys are refused. One thread at a time. */
#ifndef CV_BASE_CONFIG_H
#define CV_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef enum { CV_CONFIG_SCALAR, CV_CONFIG_LIST, CV_CONFIG_MAP } cv_config_kind;

typedef struct cv_config cv_config;
typedef struct cv_config_node cv_config_node;

/* Reads a file (at most 16 MiB). CV_IO when it cannot be read, CV_INVALID when it is not YAML of
 * this form. Blocks. */
CV_NODISCARD cv_status cv_config_load(const char *path, cv_config **out_config);
/* The same from memory; `name` stands for the file in messages. Nothing is borrowed. */
CV_NODISCARD cv_status cv_config_parse(const char *name, const char *text, size_t size,
                                       cv_config **out_config);
/* Accepts NULL. All nodes and strings are the config's. */
void cv_config_destroy(cv_config *config);

/* The document; never NULL (an empty file is an empty map). */
const cv_config_node *cv_config_root(const cv_config *config);
cv_config_kind cv_config_node_kind(const cv_config_node *node);
/* From 1. */
int cv_config_line(const cv_config_node *node);
/* Entries of a map, items of a list, 0 for a scalar. */
size_t cv_config_count(const cv_config_node *node);
/* The i-th item of a list, or value of a map; NULL beyond the end. */
const cv_config_node *cv_config_item(const cv_config_node *node, size_t i);
/* The i-th key of a map; NULL beyond the end. */
const char *cv_config_key(const cv_config_node *node, size_t i);
/* The value of a key; NULL when the node is no map or has no such key. */
const cv_config_node *cv_config_get(const cv_config_node *map, const char *key);

/* Sets the sentence "FILE:LINE: key NAME: text" for this node and returns CV_INVALID; for checks of
 * the caller's own. */
#define cv_config_error(node, ...) cv_config_error_at(node, __VA_ARGS__)
cv_status cv_config_error_at(const cv_config_node *node, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Typed reading of map[key]. When the key is absent: CV_INVALID if `required`, else CV_OK and the
 * output is left as it was (so the caller puts the default there first). A value of another type
 * or outside [min, max] is CV_INVALID. */
CV_NODISCARD cv_status cv_config_read_string(const cv_config_node *map, const char *key,
                                             bool required, const char **out_text);
CV_NODISCARD cv_status cv_config_read_bool(const cv_config_node *map, const char *key,
                                           bool required, bool *out_value);
typedef struct {
  int64_t min, max;
} cv_config_range;
CV_NODISCARD cv_status cv_config_read_i64(const cv_config_node *map, const char *key, bool required,
                                          cv_config_range range, int64_t *out_value);
/* A finite number >= min. */
CV_NODISCARD cv_status cv_config_read_double(const cv_config_node *map, const char *key,
                                             bool required, double min, double *out_value);
/* "512MiB", "2GB", 100 (bytes). */
CV_NODISCARD cv_status cv_config_read_bytes(const cv_config_node *map, const char *key,
                                            bool required, uint64_t *out_bytes);
/* One of `names`; gives its index. */
CV_NODISCARD cv_status cv_config_read_choice(const cv_config_node *map, const char *key,
                                             bool required, const char *const *names, int *out_i);
/* A list; with `required` also not empty. */
CV_NODISCARD cv_status cv_config_read_list(const cv_config_node *map, const char *key,
                                           bool required, const cv_config_node **out_list);
/* CV_INVALID unless the node is a map whose keys are all in `names` (NULL-terminated). */
CV_NODISCARD cv_status cv_config_only(const cv_config_node *map, const char *const *names);

#endif
