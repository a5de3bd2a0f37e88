/* Einsum: operands are brought to one order of labels and multiplied two at a time as matrix
 * products over batch, free and summed labels. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "compiler/onnx/build.h"
#include "compiler/onnx/table.h"

typedef struct {
  cv_val v;
  char labels[CV_MAX_RANK + 1]; /* one a dim */
} operand;

/* One term of the equation, "bi...j", its ellipsis written out for a tensor of `rank` dims (or of
 * `dots` dims where rank is -1). */
static bool read_term(const char *text, size_t length, int rank, int *dots, char *out) {
  int letters = 0, n = 0;
  for (size_t i = 0; i < length; i++) letters += isalpha((unsigned char)text[i]) != 0;
  int more = rank < 0 ? *dots : rank - letters;
  if (more < 0 || (rank < 0 ? letters + more : rank) > CV_MAX_RANK) return false;
  bool seen = false;
  for (size_t i = 0; i < length; i++) {
    if (isalpha((unsigned char)text[i])) {
      if (n == CV_MAX_RANK) return false;
      out[n++] = text[i];
    } else if (text[i] == '.' && !seen) {
      seen = true;
      if (n + more > CV_MAX_RANK) return false;
      for (int k = 0; k < more; k++) out[n++] = (char)('0' + (9 - more + k)); /* aligned right */
      if (more > *dots) *dots = more;
    }
  }
  out[n] = '\0';
  return rank < 0 || n == rank;
}

/* A label that an operand has twice: its diagonal. */
static void take_diagonals(cv_graph *g, operand *o) {
  for (int i = 0; o->labels[i]; i++) {
    char *again = strchr(o->labels + i + 1, o->labels[i]);
    if (!again) continue;
    int j = (int)(again - o->labels), rank = cv_rank(g, o->v);
    cv_val a = cv_index_along(g, cv_dim(g, o->v, i), i, rank);
    cv_val b = cv_index_along(g, cv_dim(g, o->v, j), j, rank);
    o->v = cv_select(g, cv_eq(g, a, b), o->v, cv_num(g, o->v, 0));
    o->v = cv_reduce(g, o->v, "sum", 1u << j, false);
    memmove(again, again + 1, strlen(again));
    i--;
  }
}

/* Sums labels of one operand that nobody else wants. */
static void sum_unwanted(cv_graph *g, operand *o, const char *wanted) {
  uint32_t axes = 0;
  int kept = 0;
  for (int i = 0; o->labels[i]; i++) {
    if (!strchr(wanted, o->labels[i])) axes |= 1u << i;
  }
  if (axes) o->v = cv_reduce(g, o->v, "sum", axes, false);
  for (int i = 0; o->labels[i]; i++) {
    if (!(axes >> i & 1)) o->labels[kept++] = o->labels[i];
  }
  o->labels[kept] = '\0';
}

static cv_val ordered(cv_graph *g, const operand *o, const char *order) {
  int64_t perm[CV_MAX_RANK];
  for (int i = 0; order[i]; i++) perm[i] = strchr(o->labels, order[i]) - o->labels;
  return cv_transpose(g, o->v, perm);
}

/* Dims of an operand's labels, appended. */
static int add_dims(cv_graph *g, const operand *o, const char *labels, cv_expr *dims, int n) {
  for (int i = 0; labels[i]; i++)
    dims[n++] = cv_dim(g, o->v, (int)(strchr(o->labels, labels[i]) - o->labels));
  return n;
}

static cv_expr product(cv_graph *g, const operand *o, const char *labels) {
  cv_expr all = e_const(g, 1);
  for (int i = 0; labels[i]; i++) {
    all = e_mul(g, all, cv_dim(g, o->v, (int)(strchr(o->labels, labels[i]) - o->labels)));
  }
  return all;
}

/* A dim of 1 under an ellipsis' label is broadcast to the other operand's. */
static void match_dims(cv_graph *g, operand *a, const operand *b) {
  cv_expr dims[CV_MAX_RANK];
  int rank = cv_rank(g, a->v);
  for (int i = 0; i < rank; i++) {
    const char *at = strchr(b->labels, a->labels[i]);
    dims[i] = cv_dim(g, a->v, i);
    if (at && e_is(g, dims[i], 1)) dims[i] = cv_dim(g, b->v, (int)(at - b->labels));
  }
  a->v = cv_broadcast_to(g, a->v, dims, rank);
}

/* a * b summed over the labels that neither the result nor a later operand has. */
static operand contract(cv_graph *g, operand a, operand b, const char *wanted) {
  char batch[CV_MAX_RANK + 1] = "", left[CV_MAX_RANK + 1] = "", right[CV_MAX_RANK + 1] = "";
  char sum[CV_MAX_RANK + 1] = "", order[3 * CV_MAX_RANK + 1];
  operand out = {.v = CV_POISON};
  match_dims(g, &a, &b);
  match_dims(g, &b, &a);
  for (int i = 0; a.labels[i]; i++) {
    bool other = strchr(b.labels, a.labels[i]) != NULL, kept = strchr(wanted, a.labels[i]) != NULL;
    strncat(!other ? left : kept ? batch : sum, &a.labels[i], 1);
  }
  for (int i = 0; b.labels[i]; i++) {
    if (!strchr(a.labels, b.labels[i])) strncat(right, &b.labels[i], 1);
  }
  cv_expr flat[3], dims[3 * CV_MAX_RANK];
  int n = add_dims(g, &a, batch, dims, 0);
  n = add_dims(g, &a, left, dims, n);
  n = add_dims(g, &b, right, dims, n);
  if (n > CV_MAX_RANK) {
    cv_graph_fail(g, CV_UNSUPPORTED, "a product of more than %d dims", CV_MAX_RANK);
    return out;
  }
  flat[0] = product(g, &a, batch);
  flat[1] = product(g, &a, left);
  flat[2] = product(g, &a, sum);
  cv_expr right_flat[3] = {flat[0], flat[2], product(g, &b, right)};
  snprintf(order, sizeof order, "%s%s%s", batch, left, sum);
  cv_val x = cv_reshape(g, ordered(g, &a, order), flat, 3);
  snprintf(order, sizeof order, "%s%s%s", batch, sum, right);
  cv_val y = cv_reshape(g, ordered(g, &b, order), right_flat, 3);
  out.v = cv_reshape(g, cv_matmul(g, x, y, cv_dt(g, x)), dims, n);
  snprintf(order, sizeof order, "%s%s%s", batch, left, right);
  memcpy(out.labels, order, (size_t)n + 1); /* a label a dim: n is their number */
  return out;
}

/* Without "->": the ellipsis, then the labels that occur once, by name. */
static void default_result(const char *equation, int dots, char *out) {
  int n = 0;
  for (int k = 0; k < dots; k++) out[n++] = (char)('0' + (9 - dots + k));
  for (int c = 'A'; c <= 'z'; c++) {
    const char *at = isalpha(c) ? strchr(equation, c) : NULL;
    if (at && !strchr(at + 1, c) && n < CV_MAX_RANK) out[n++] = (char)c;
  }
  out[n] = '\0';
}

void cv_import_einsum(cv_on *n) {
  cv_graph *g = n->g;
  char *equation = cv_arena_strdup(&g->arena, cv_on_text(n, "equation", "")), *w = equation;
  for (char *c = equation; *c; c++) {
    if (*c != ' ') *w++ = *c;
  }
  *w = '\0';
  char *arrow = strstr(equation, "->"), result[CV_MAX_RANK + 1], *term = equation;
  operand *ops = cv_arena_array(&g->arena, operand, n->n_in + 1);
  int dots = 0;
  if (arrow) *arrow = '\0';
  for (uint32_t i = 0; i < n->n_in; i++) {
    size_t length = term ? strcspn(term, ",") : 0;
    ops[i].v = n->in[i];
    if (!term || !read_term(term, length, cv_rank(g, n->in[i]), &dots, ops[i].labels)) {
      cv_on_fail(n, CV_INVALID, "equation \"%s\" does not fit operand %u", equation, i);
      return;
    }
    take_diagonals(g, &ops[i]);
    term = term[length] ? term + length + 1 : NULL;
  }
  if (!arrow) {
    default_result(equation, dots, result);
  } else if (!read_term(arrow + 2, strlen(arrow + 2), -1, &dots, result)) {
    cv_on_fail(n, CV_INVALID, "the result of equation \"%s\" has too many dims", arrow + 2);
    return;
  }
  char *wanted = cv_arena_alloc(&g->arena, (size_t)(n->n_in + 1) * CV_MAX_RANK + 1, 1);
  for (uint32_t i = 0; i < n->n_in && cv_ok(g); i++) {
    strcpy(wanted, result);
    for (uint32_t k = i + 1; k < n->n_in; k++) strcat(wanted, ops[k].labels);
    if (i == 0) {
      sum_unwanted(g, &ops[0], wanted);
    } else {
      char *mine = cv_arena_format(&g->arena, "%s%s", wanted, ops[0].labels);
      sum_unwanted(g, &ops[i], mine);
      ops[0] = contract(g, ops[0], ops[i], wanted);
    }
  }
  if (!cv_ok(g)) return;
  if (strlen(result) != strlen(ops[0].labels)) {
    cv_on_fail(n, CV_INVALID, "the result has a label that no operand has");
    return;
  }
  cv_on_set(n, 0, ordered(g, &ops[0], result));
}
