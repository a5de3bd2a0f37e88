/* The tables behind ops.def and attrs.def. */
#include <string.h>

#include "compiler/graph.h"

/* The words of ops.def's attribute column. */
enum {
  NONE = 0,
  BLOCKS = 1 << 30,
#define X(key, kind, text) key = 1 << CV_ATTR_##key,
#include "compiler/attrs.def"
#undef X
};
_Static_assert(CV_ATTR_COUNT <= 30, "attributes fit the mask");

/* A variadic column is stored as -1 - minimum. */
#define V(min) (-1 - (min))
#define ARITY(n) ((n) < 0 ? -1 - (n) : (n))

static const cv_op_info ops[CV_OP_COUNT] = {
#define X(op, class, ins, outs, attributes, text)         \
  {.name = #op,                                           \
   .class_ = CV_CLASS_##class,                            \
   .min_ins = ARITY(ins),                                 \
   .n_outs = (outs) < 0 ? -1 : (outs),                    \
   .variadic = (ins) < 0,                                 \
   .attrs = (uint64_t)((attributes) & ~(unsigned)BLOCKS), \
   .blocks = ((attributes)&BLOCKS) != 0},
#include "compiler/ops.def"
#undef X
};

static const struct {
  const char *name;
  cv_attr_kind kind;
} attrs[CV_ATTR_COUNT] = {
#define X(key, attr_kind, text) {text, CV_KIND_##attr_kind},
#include "compiler/attrs.def"
#undef X
};

const cv_op_info *cv_op_get(cv_op op) { return &ops[op]; }

bool cv_op_find(const char *name, cv_op *out_op) {
  for (int i = 0; i < CV_OP_COUNT; i++) {
    if (strcmp(ops[i].name, name) == 0) {
      *out_op = (cv_op)i;
      return true;
    }
  }
  return false;
}

const char *cv_attr_name(cv_attr_key key) { return attrs[key].name; }
cv_attr_kind cv_attr_kind_of(cv_attr_key key) { return attrs[key].kind; }

bool cv_attr_find(const char *name, cv_attr_key *out_key) {
  for (int i = 0; i < CV_ATTR_COUNT; i++) {
    if (strcmp(attrs[i].name, name) == 0) {
      *out_key = (cv_attr_key)i;
      return true;
    }
  }
  return false;
}
