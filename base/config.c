#include "base/config.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/str.h"

enum { MAX_BYTES = 16 << 20, MAX_DEPTH = 32, MAX_NODES = 1 << 16 };

struct cv_config_node {
  cv_config_kind kind;
  int line;
  bool quoted;      /* a scalar in quotes is text, whatever it looks like */
  const char *key;  /* in its map, else NULL */
  const char *text; /* of a scalar */
  const char *file;
  cv_config_node *first, *last, *next; /* children, siblings */
  size_t count;
};

struct cv_config {
  cv_arena arena;
  const char *file;
  cv_config_node *root;
  int nodes;
};

typedef struct {
  cv_config *config;
  yaml_parser_t parser;
  yaml_event_t event; /* the current one; deleted before the next is read */
} reader;

static int event_line(const reader *r) { return (int)r->event.start_mark.line + 1; }

static cv_status next_event(reader *r) {
  yaml_event_delete(&r->event);
  if (cv_fault()) return cv_error_nomem(sizeof r->event);
  if (yaml_parser_parse(&r->parser, &r->event)) return CV_OK;
  if (r->parser.error == YAML_MEMORY_ERROR) return cv_error_nomem(sizeof r->event);
  return cv_error(CV_INVALID, "%s:%zu: not YAML: %s", r->config->file,
                  r->parser.problem_mark.line + 1,
                  r->parser.problem ? r->parser.problem : "unknown problem");
}

static cv_status new_node(reader *r, cv_config_kind kind, cv_config_node **out_node) {
  cv_config *config = r->config;
  *out_node = NULL;
  if (++config->nodes > MAX_NODES)
    return cv_error(CV_INVALID, "%s:%d: more than %d entries", config->file, event_line(r),
                    MAX_NODES);
  cv_config_node *node = cv_arena_new(&config->arena, cv_config_node);
  if (!node) return cv_error_nomem(sizeof *node);
  node->kind = kind;
  node->line = event_line(r);
  node->file = config->file;
  *out_node = node;
  return CV_OK;
}

static void append(cv_config_node *parent, cv_config_node *child) {
  if (parent->last)
    parent->last->next = child;
  else
    parent->first = child;
  parent->last = child;
  parent->count++;
}

/* The key of the next map entry, which is the current event. */
static cv_status read_key(reader *r, const cv_config_node *map, const char **out_key) {
  *out_key = NULL;
  if (r->event.type != YAML_SCALAR_EVENT)
    return cv_error(CV_INVALID, "%s:%d: a key must be a plain word", r->config->file,
                    event_line(r));
  const char *key = (const char *)r->event.data.scalar.value;
  const cv_config_node *same = cv_config_get(map, key);
  if (same)
    return cv_error(CV_INVALID, "%s:%d: key %s: given twice, first in line %d; remove one",
                    r->config->file, event_line(r), key, same->line);
  *out_key = cv_arena_strdup(&r->config->arena, key);
  return *out_key ? CV_OK : cv_error_nomem(strlen(key) + 1);
}

static cv_status read_node(reader *r, int depth, cv_config_node **out_node);

/* Items until the end of the list or map whose beginning is the current event. */
static cv_status read_children(reader *r, int depth, cv_config_node *parent) {
  yaml_event_type_t end =
      parent->kind == CV_CONFIG_MAP ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT;
  for (;;) {
    cv_status status = next_event(r);
    if (status != CV_OK || r->event.type == end) return status;
    const char *key = NULL;
    int line = event_line(r);
    if (parent->kind == CV_CONFIG_MAP) {
      status = read_key(r, parent, &key);
      if (status == CV_OK) status = next_event(r);
      if (status != CV_OK) return status;
    }
    cv_config_node *child;
    status = read_node(r, depth + 1, &child);
    if (status != CV_OK) return status;
    child->key = key;
    child->line = line; /* of the key, which is where one looks */
    append(parent, child);
  }
}

static cv_status read_scalar(reader *r, cv_config_node **out_node) {
  cv_status status = new_node(r, CV_CONFIG_SCALAR, out_node);
  if (status != CV_OK) return status;
  const char *text = (const char *)r->event.data.scalar.value;
  size_t length = r->event.data.scalar.length;
  if (memchr(text, 0, length))
    return cv_error(CV_INVALID, "%s:%d: a zero byte in a text", r->config->file, event_line(r));
  (*out_node)->quoted = r->event.data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
  (*out_node)->text = cv_arena_strdup(&r->config->arena, text);
  return (*out_node)->text ? CV_OK : cv_error_nomem(length + 1);
}

/* The node that begins with the current event. */
static cv_status read_node(reader *r, int depth, cv_config_node **out_node) {
  *out_node = NULL;
  const char *file = r->config->file;
  if (depth > MAX_DEPTH)
    return cv_error(CV_INVALID, "%s:%d: nested deeper than %d", file, event_line(r), MAX_DEPTH);
  const yaml_char_t *anchor = NULL, *tag = NULL;
  cv_config_kind kind = CV_CONFIG_SCALAR;
  switch (r->event.type) {
    case YAML_SCALAR_EVENT:
      anchor = r->event.data.scalar.anchor;
      tag = r->event.data.scalar.tag;
      break;
    case YAML_SEQUENCE_START_EVENT:
      anchor = r->event.data.sequence_start.anchor;
      tag = r->event.data.sequence_start.tag;
      kind = CV_CONFIG_LIST;
      break;
    case YAML_MAPPING_START_EVENT:
      anchor = r->event.data.mapping_start.anchor;
      tag = r->event.data.mapping_start.tag;
      kind = CV_CONFIG_MAP;
      break;
    default:
      return cv_error(CV_INVALID, "%s:%d: an alias (*name) is not read here; write it out", file,
                      event_line(r));
  }
  if (anchor || tag)
    return cv_error(CV_INVALID, "%s:%d: anchors (&name) and tags (!name) are not read here", file,
                    event_line(r));
  if (kind == CV_CONFIG_SCALAR) return read_scalar(r, out_node);
  cv_status status = new_node(r, kind, out_node);
  return status == CV_OK ? read_children(r, depth, *out_node) : status;
}

static cv_status read_document(reader *r) {
  cv_config *config = r->config;
  cv_status status = next_event(r); /* the stream's start */
  if (status == CV_OK) status = next_event(r);
  if (status != CV_OK) return status;
  if (r->event.type == YAML_STREAM_END_EVENT) return new_node(r, CV_CONFIG_MAP, &config->root);
  status = next_event(r);
  if (status == CV_OK) status = read_node(r, 0, &config->root);
  if (status == CV_OK) status = next_event(r); /* the document's end */
  if (status == CV_OK) status = next_event(r);
  if (status == CV_OK && r->event.type != YAML_STREAM_END_EVENT)
    status = cv_error(CV_INVALID, "%s:%d: a second document begins; only one is read", config->file,
                      event_line(r));
  return status;
}

cv_status cv_config_parse(const char *name, const char *text, size_t size, cv_config **out_config) {
  *out_config = NULL;
  if (size > MAX_BYTES)
    return cv_error(CV_INVALID, "%s: %zu bytes; at most %d are read", name, size, MAX_BYTES);
  cv_config *config = cv_alloc(1, sizeof *config);
  if (!config) return cv_error_nomem(sizeof *config);
  cv_status status = CV_OK;
  reader r = {.config = config};
  bool has_parser = !cv_fault() && yaml_parser_initialize(&r.parser);
  config->file = cv_arena_strdup(&config->arena, name);
  if (!has_parser || !config->file) {
    status = cv_error_nomem(sizeof r.parser);
    goto out;
  }
  yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, size);
  CV_TRY(read_document(&r));
  *out_config = config;
  config = NULL;
out:
  yaml_event_delete(&r.event);
  if (has_parser) yaml_parser_delete(&r.parser);
  cv_config_destroy(config);
  return status;
}

static cv_status read_file(const char *path, FILE *file, char **out_text, size_t *out_size) {
  char *text = cv_alloc(MAX_BYTES + 1, 1);
  if (!text) return cv_error_nomem(MAX_BYTES);
  *out_text = text;
  *out_size = fread(text, 1, MAX_BYTES + 1, file);
  if (cv_fault() || ferror(file))
    return cv_error(CV_IO, "%s: cannot be read: %s", path, strerror(errno));
  return CV_OK;
}

cv_status cv_config_load(const char *path, cv_config **out_config) {
  *out_config = NULL;
  FILE *file = cv_fault() ? NULL : fopen(path, "re");
  if (!file) return cv_error(CV_IO, "%s: cannot be opened: %s", path, strerror(errno));
  char *text = NULL;
  size_t size = 0;
  cv_status status = CV_OK;
  CV_TRY(read_file(path, file, &text, &size));
  CV_TRY(cv_config_parse(path, text, size, out_config));
out:
  cv_free(text);
  fclose(file);
  return status;
}

void cv_config_destroy(cv_config *config) {
  if (!config) return;
  cv_arena_deinit(&config->arena);
  cv_free(config);
}

const cv_config_node *cv_config_root(const cv_config *config) { return config->root; }

cv_config_kind cv_config_node_kind(const cv_config_node *node) { return node->kind; }

int cv_config_line(const cv_config_node *node) { return node->line; }

size_t cv_config_count(const cv_config_node *node) { return node->count; }

const cv_config_node *cv_config_item(const cv_config_node *node, size_t i) {
  const cv_config_node *child = node->first;
  while (child && i--) child = child->next;
  return child;
}

const char *cv_config_key(const cv_config_node *node, size_t i) {
  const cv_config_node *child = cv_config_item(node, i);
  return child ? child->key : NULL;
}

const cv_config_node *cv_config_get(const cv_config_node *map, const char *key) {
  if (map->kind != CV_CONFIG_MAP) return NULL;
  for (const cv_config_node *child = map->first; child; child = child->next)
    if (strcmp(child->key, key) == 0) return child;
  return NULL;
}

cv_status cv_config_error_at(const cv_config_node *node, const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (!node->key) return cv_error(CV_INVALID, "%s:%d: %s", node->file, node->line, text);
  return cv_error(CV_INVALID, "%s:%d: key %s: %s", node->file, node->line, node->key, text);
}

/* The scalar map[key], or NULL when it is absent; CV_INVALID when it is required or no scalar. */
static cv_status find_scalar(const cv_config_node *map, const char *key, bool required,
                             const cv_config_node **out_node) {
  *out_node = NULL;
  if (map->kind != CV_CONFIG_MAP)
    return cv_config_error(map, "must be a map (key: value) that holds %s", key);
  const cv_config_node *node = cv_config_get(map, key);
  if (!node && required) return cv_config_error(map, "%s is missing; add it", key);
  if (node && node->kind != CV_CONFIG_SCALAR)
    return cv_config_error(node, "must be a single value, not a list or map");
  *out_node = node;
  return CV_OK;
}

cv_status cv_config_read_string(const cv_config_node *map, const char *key, bool required,
                                const char **out_text) {
  const cv_config_node *node;
  cv_status status = find_scalar(map, key, required, &node);
  if (status != CV_OK || !node) return status;
  if (!*node->text && !node->quoted) return cv_config_error(node, "has no value; give it a text");
  *out_text = node->text;
  return CV_OK;
}

cv_status cv_config_read_bool(const cv_config_node *map, const char *key, bool required,
                              bool *out_value) {
  const cv_config_node *node;
  cv_status status = find_scalar(map, key, required, &node);
  if (status != CV_OK || !node) return status;
  bool is_true = strcmp(node->text, "true") == 0;
  if (node->quoted || (!is_true && strcmp(node->text, "false") != 0))
    return cv_config_error(node, "\"%s\" is neither true nor false", node->text);
  *out_value = is_true;
  return CV_OK;
}

cv_status cv_config_read_i64(const cv_config_node *map, const char *key, bool required,
                             cv_config_range range, int64_t *out_value) {
  const cv_config_node *node;
  cv_status status = find_scalar(map, key, required, &node);
  if (status != CV_OK || !node) return status;
  int64_t value;
  if (node->quoted || !cv_parse_i64(node->text, &value) || value < range.min || value > range.max)
    return cv_config_error(node, "\"%s\" is not a whole number from %lld to %lld", node->text,
                           (long long)range.min, (long long)range.max);
  *out_value = value;
  return CV_OK;
}

cv_status cv_config_read_double(const cv_config_node *map, const char *key, bool required,
                                double min, double *out_value) {
  const cv_config_node *node;
  cv_status status = find_scalar(map, key, required, &node);
  if (status != CV_OK || !node) return status;
  char *end;
  double value = strtod(node->text, &end);
  if (node->quoted || end == node->text || *end || !isfinite(value) || value < min)
    return cv_config_error(node, "\"%s\" is not a number of at least %g", node->text, min);
  *out_value = value;
  return CV_OK;
}

cv_status cv_config_read_bytes(const cv_config_node *map, const char *key, bool required,
                               uint64_t *out_bytes) {
  const cv_config_node *node;
  cv_status status = find_scalar(map, key, required, &node);
  if (status != CV_OK || !node) return status;
  uint64_t value;
  if (!cv_parse_bytes(node->text, &value))
    return cv_config_error(node, "\"%s\" is not a size; write for example 512MiB, 2GB or 4096",
                           node->text);
  *out_bytes = value;
  return CV_OK;
}

cv_status cv_config_read_choice(const cv_config_node *map, const char *key, bool required,
                                const char *const *names, int *out_i) {
  const cv_config_node *node;
  cv_status status = find_scalar(map, key, required, &node);
  if (status != CV_OK || !node) return status;
  char list[256] = "";
  for (int i = 0; names[i]; i++) {
    if (strcmp(node->text, names[i]) == 0) {
      *out_i = i;
      return CV_OK;
    }
    size_t used = strlen(list);
    snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
  }
  return cv_config_error(node, "\"%s\" is not known; choose one of: %s", node->text, list);
}

cv_status cv_config_read_list(const cv_config_node *map, const char *key, bool required,
                              const cv_config_node **out_list) {
  if (map->kind != CV_CONFIG_MAP)
    return cv_config_error(map, "must be a map (key: value) that holds %s", key);
  const cv_config_node *node = cv_config_get(map, key);
  if (!node) return required ? cv_config_error(map, "%s is missing; add the list", key) : CV_OK;
  if (node->kind != CV_CONFIG_LIST)
    return cv_config_error(node, "must be a list (lines that begin with \"- \")");
  if (required && node->count == 0) return cv_config_error(node, "the list is empty");
  *out_list = node;
  return CV_OK;
}

cv_status cv_config_only(const cv_config_node *map, const char *const *names) {
  if (map->kind != CV_CONFIG_MAP) return cv_config_error(map, "must be a map (key: value)");
  for (const cv_config_node *child = map->first; child; child = child->next) {
    char list[256] = "";
    bool known = false;
    for (int i = 0; names[i] && !known; i++) {
      known = strcmp(child->key, names[i]) == 0;
      size_t used = strlen(list);
      snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
    }
    if (!known) return cv_config_error(child, "is not known here; known are: %s", list);
  }
  return CV_OK;
}
