/* One case or more for every core op, as graph text with its inputs as constants, and what the
 * interpreter must give. The tests of the text form, the verifier and the interpreter walk this
 * table; a new op without a case fails them. */
#ifndef CV_TESTS_OP_CASES_H
#define CV_TESTS_OP_CASES_H

#include "base/alloc.h"

typedef struct {
  const char *body;     /* lines of the graph's block */
  const char *results;  /* names of its results */
  const char *expected; /* "f32[2]: 1 2; ..." */
} op_case;

#define F2(a, b) "%a: f32[2] = const {" a "}\n%b: f32[2] = const {" b "}\n"
#define UNARY(op, in, out) \
  { "%x: f32[3] = const {" in "}\n%y: f32[3] = " op "(%x)\n", "%y", "f32[3]: " out }
#define UNARY_INT(op, in, out) \
  { "%x: i8[3] = const {" in "}\n%y: i8[3] = " op "(%x)\n", "%y", "i8[3]: " out }
#define BINARY(op, a, b, out)                                                                      \
  {                                                                                                \
    "%a: f32[3] = const {" a "}\n%b: f32[3] = const {" b "}\n%y: f32[3] = " op "(%a, %b)\n", "%y", \
        "f32[3]: " out                                                                             \
  }
#define BINARY_INT(t, op, a, b, out)                                                               \
  {                                                                                                \
    "%a: " t "[3] = const {" a "}\n%b: " t "[3] = const {" b "}\n%y: " t "[3] = " op "(%a, %b)\n", \
        "%y", t "[3]: " out                                                                        \
  }
#define COMPARE(t, op, a, b, out)                                                                 \
  {                                                                                               \
    "%a: " t "[3] = const {" a "}\n%b: " t "[3] = const {" b "}\n%y: bool[3] = " op "(%a, %b)\n", \
        "%y", "bool[3]: " out                                                                     \
  }
#define CAST(from, in, to, out)                                                       \
  {                                                                                   \
    "%x: " from "[3] = const {" in "}\n%y: " to "[3] = cast(%x) {to=" to "}\n", "%y", \
        to "[3]: " out                                                                \
  }
#define X23 "%x: f32[2,3] = const {1, 2, 3, 4, 5, 6}\n"
#define I23 "%x: i32[2,3] = const {3, -1, 4, 1, -5, 9}\n"

static const op_case op_cases[] = {
#include "tests/compiler/op_cases.def"
};
enum { OP_CASES = sizeof op_cases / sizeof *op_cases };

/* The case as a whole text: freed with cv_free. */
static inline char *op_case_text(const op_case *c) {
  return cv_format("graph \"case\" () {\n%s} -> (%s)\n", c->body, c->results);
}

#endif
