#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "compiler/graph.h"

typedef struct {
  cv_graph *graph;
  cv_expr n, m, three, one;
  cv_val x; /* f32[n,3] */
} fixture;

static cv_expr constant(cv_graph *graph, int64_t value) {
  return cv_expr_const(graph->exprs, value);
}

static cv_val input(cv_graph *graph, const char *name, cv_dtype dtype, int rank,
                    const cv_expr *dims) {
  cv_type type = {.dtype = dtype, .rank = (uint8_t)rank};
  for (int i = 0; i < rank; i++) type.dims[i] = dims[i];
  return cv_graph_param(graph, graph->body, name, &type);
}

static fixture begin(void) {
  fixture f = {.graph = cv_graph_create(NULL)};
  f.n = cv_expr_symbol(f.graph->exprs, cv_exprs_symbol(f.graph->exprs, "n", 1, 100));
  f.m = cv_expr_symbol(f.graph->exprs, cv_exprs_symbol(f.graph->exprs, "m", 4, 200));
  f.three = constant(f.graph, 3);
  f.one = constant(f.graph, 1);
  f.x = input(f.graph, "x", CV_F32, 2, (cv_expr[]){f.n, f.three});
  return f;
}

static void assert_type(const fixture *f, cv_val v, const char *text) {
  if (v == CV_POISON) fail_msg("%s", f->graph->error);
  assert_string_equal(cv_type_text(f->graph, cv_type_of(f->graph, v)), text);
}

static void end(fixture *f) {
  if (f->graph->status == CV_OK) assert_int_equal(cv_graph_verify(f->graph, "test"), CV_OK);
  cv_graph_destroy(f->graph);
}

static void assert_error(const fixture *f, cv_val v, const char *text) {
  assert_int_equal(v, CV_POISON);
  assert_true(cv_graph_status(f->graph) != CV_OK);
  if (strstr(cv_error_text(), text) == NULL)
    fail_msg("\"%s\" not in \"%s\"", text, cv_error_text());
}

static void test_broadcasting(void **state) {
  (void)state;
  fixture f = begin();
  cv_graph *g = f.graph;
  cv_val row = input(g, "row", CV_F32, 1, &f.three);
  cv_val column = input(g, "column", CV_F32, 2, (cv_expr[]){f.n, f.one});
  cv_val y = cv_binary_bc(g, CV_OP_add, f.x, row);
  assert_type(&f, y, "f32[n,3]");
  assert_type(&f, cv_binary_bc(g, CV_OP_mul, row, column), "f32[n,3]");
  assert_type(&f, cv_binary_bc(g, CV_OP_lt, y, cv_graph_scalar(g, CV_F32, 0)), "bool[n,3]");
  cv_val c = cv_binary_bc(g, CV_OP_lt, column, cv_graph_scalar(g, CV_F32, 0));
  assert_type(&f, cv_select(g, c, row, cv_graph_scalar(g, CV_F32, 1)), "f32[n,3]");
  assert_int_equal(g->equalities.len, 0);
  end(&f);
}

/* Two symbolic dims: assumed equal, once; the first (or the constant) wins. */
static void test_assumed_equal(void **state) {
  (void)state;
  fixture f = begin();
  cv_graph *g = f.graph;
  g->source = "fc";
  cv_val other = input(g, "other", CV_F32, 2, (cv_expr[]){f.m, f.three});
  cv_val fixed = input(g, "fixed", CV_F32, 2, (cv_expr[]){constant(g, 8), f.one});
  assert_type(&f, cv_binary_bc(g, CV_OP_add, f.x, other), "f32[n,3]");
  assert_int_equal(g->equalities.len, 1);
  assert_string_equal(g->equalities.data[0].source, "fc");
  assert_type(&f, cv_binary_bc(g, CV_OP_add, other, f.x), "f32[m,3]");
  assert_int_equal(g->equalities.len, 1);
  assert_type(&f, cv_binary_bc(g, CV_OP_add, f.x, fixed), "f32[8,3]");
  assert_int_equal(g->equalities.len, 2);
  cv_graph_unify(g, 0, 1);
  assert_type(&f, other, "f32[n,3]");
  assert_int_equal(g->equalities.len, 1);
  int64_t lo, hi;
  cv_symbol_bounds(g->exprs, 0, &lo, &hi);
  assert_true(lo == 4 && hi == 100);
  end(&f);
}

static void test_never_equal(void **state) {
  (void)state;
  fixture f = begin();
  cv_val two = input(f.graph, "two", CV_F32, 2, (cv_expr[]){f.n, constant(f.graph, 2)});
  assert_error(&f, cv_binary_bc(f.graph, CV_OP_add, f.x, two), "dims 3 and 2 cannot be equal");
  end(&f);
  f = begin();
  cv_val many = input(f.graph, "many", CV_F32, 1, (cv_expr[]){constant(f.graph, 500)});
  cv_val some = input(f.graph, "some", CV_F32, 1, &f.n);
  assert_error(&f, cv_binary_bc(f.graph, CV_OP_add, some, many), "dims n and 500 cannot be equal");
  end(&f);
}

static void test_map_needs_equal_dims(void **state) {
  (void)state;
  fixture f = begin();
  f.graph->source = "add_1";
  cv_val other = input(f.graph, "other", CV_F32, 2, (cv_expr[]){f.m, f.three});
  assert_error(&f, cv_binary(f.graph, CV_OP_add, f.x, other),
               "add of node \"add_1\": dim 0 of operands f32[n,3] and f32[m,3]: n and m are not "
               "known to be equal");
  /* The first error stays, and poison passes on. */
  assert_int_equal(cv_unary(f.graph, CV_OP_neg, CV_POISON), CV_POISON);
  assert_int_equal(cv_unary(f.graph, CV_OP_not, f.x), CV_POISON);
  assert_non_null(strstr(f.graph->error, "add_1"));
  end(&f);
}

static void test_trivial_builders_give_their_operand(void **state) {
  (void)state;
  fixture f = begin();
  cv_graph *g = f.graph;
  cv_expr dims[2] = {f.n, f.three}, zero[2] = {constant(g, 0), constant(g, 0)};
  assert_int_equal(cv_cast(g, f.x, CV_F32), f.x);
  assert_int_equal(cv_reshape(g, f.x, dims, 2), f.x);
  assert_int_equal(cv_assume_dims(g, f.x, dims, 2), f.x);
  assert_int_equal(cv_transpose(g, f.x, (int64_t[]){0, 1}), f.x);
  assert_int_equal(cv_broadcast_to(g, f.x, dims, 2), f.x);
  assert_int_equal(cv_slice_axis(g, f.x, 0, zero[0], f.n, 1), f.x);
  assert_int_equal(cv_pad(g, f.x, cv_graph_scalar(g, CV_F32, 0), zero, zero), f.x);
  assert_int_equal(cv_concat(g, &f.x, 1, 0), f.x);
  assert_int_equal(cv_reduce(g, f.x, "sum", 0, false), f.x);
  assert_int_equal(g->body->nodes.len, 0);
  end(&f);
}

static void test_short_builders(void **state) {
  (void)state;
  fixture f = begin();
  cv_graph *g = f.graph;
  cv_expr image_dims[4] = {f.n, f.three, constant(g, 8), f.m};
  cv_val image = input(g, "image", CV_F32, 4, image_dims);
  cv_expr weight_dims[4] = {constant(g, 5), f.three, f.three, f.three};
  cv_val weight = input(g, "weight", CV_F32, 4, weight_dims);
  cv_window_attrs w = {.spatial = 2,
                       .strides = {2, 2},
                       .dilations = {1, 1},
                       .lhs_dilation = {1, 1},
                       .kernel = {2, 2},
                       .lo = {f.one, f.one},
                       .hi = {f.one, f.one},
                       .groups = 1};
  assert_type(&f, cv_conv(g, image, weight, &w, CV_F32), "f32[n,5,4,floordiv(m + 1, 2)]");
  assert_type(&f, cv_window(g, image, "max", &w), "f32[n,3,5,floordiv(m, 2) + 1]");
  assert_type(&f, cv_reduce(g, image, "max", 0xc, true), "f32[n,3,1,1]");
  assert_type(&f, cv_reduce(g, image, "max", 0xc, false), "f32[n,3]");
  cv_expr flat[2] = {f.n, cv_expr_mul(g->exprs, constant(g, 24), f.m)};
  assert_type(&f, cv_reshape(g, image, flat, 2), "f32[n,24*m]");
  assert_type(&f, cv_slice_axis(g, image, 3, f.one, f.three, 1), "f32[n,3,8,3]");
  assert_type(&f, cv_transpose(g, f.x, (int64_t[]){1, 0}), "f32[3,n]");
  assert_type(&f, cv_concat(g, (cv_val[]){f.x, f.x}, 2, 0), "f32[2*n,3]");
  cv_val t = cv_transpose(g, f.x, (int64_t[]){1, 0});
  assert_type(&f, cv_matmul(g, f.x, t, CV_F32), "f32[n,n]");
  cv_val idx = cv_iota(g, CV_I64, &f.three, 1, 0);
  assert_type(&f, cv_gather(g, f.x, idx, 1), "f32[n,3]");
  cv_val idx2 = cv_reshape(g, idx, (cv_expr[]){f.three, f.one}, 2);
  assert_type(&f, cv_gather_nd(g, f.x, idx2, 0), "f32[3,3]");
  assert_type(&f, cv_extents(g, image_dims, 4), "i64[4]");
  assert_type(&f, cv_pad(g, f.x, cv_graph_scalar(g, CV_F32, 1), w.lo, w.hi), "f32[n + 2,5]");
  end(&f);
}

static void test_constants(void **state) {
  (void)state;
  fixture f = begin();
  cv_graph *g = f.graph;
  uint64_t n;
  float data[2] = {1.5f, -2};
  cv_val a = cv_graph_const(g, CV_F32, 1, (int64_t[]){2}, data);
  data[0] = 9;
  assert_true(cv_graph_doubles(g, a, &n)[0] == 1.5 && n == 2);
  assert_int_equal(cv_graph_ints(g, a, &n)[1], -2);
  cv_val b = cv_graph_const_borrowed(g, CV_F32, 1, (int64_t[]){2}, data);
  data[1] = 7;
  assert_true(cv_graph_doubles(g, b, &n)[1] == 7);
  cv_type type = {.dtype = CV_I8, .rank = 1, .dims = {f.three}};
  int8_t element = -3;
  cv_val splat = cv_graph_splat(g, &type, &element);
  assert_int_equal(cv_graph_ints(g, splat, &n)[2], -3);
  assert_true(cv_graph_doubles(g, cv_graph_scalar(g, CV_F16, 0.1), &n)[0] == 0x1.998p-4);
  assert_int_equal(cv_graph_ints(g, cv_graph_i64(g, INT64_MIN), &n)[0], INT64_MIN);
  assert_null(cv_graph_doubles(g, f.x, &n));
  assert_error(&f, cv_graph_const(g, CV_F32, 1, (int64_t[]){-1}, data), "negative");
  end(&f);
}

/* What the type rules refuse, as text, with a part of the sentence. */
static const struct {
  const char *line, *error;
} refused[] = {
    {"%y: f32[3,2] = not(%x)", "must be bool or an integer"},
    {"%y: i32[2] = exp(%i)", "must be a float"},
    {"%y: f32[3,2] = shl(%x, %x)", "must be an integer"},
    {"%y: f32[3,2] = add(%x, %i)", "operand 1 is i32, must be f32"},
    {"%y: f32[3,2] = add(%x)", "1 operands given, 2 wanted"},
    {"%y: f32[3,2] = select(%x, %x, %x)", "operand 0 is f32, must be bool"},
    {"%y: f32[3,2] = cast(%x)", "attribute to is missing"},
    {"%y: f32[3,2] = cast(%x) {to=f32, to=f32}", "given twice"},
    {"%y: f32[7] = reshape(%x) {dims=[7]}", "differ in their number of elements"},
    {"%y: f32[3,2] = transpose(%x) {perm=[0,0]}", "no permutation"},
    {"%y: f32[3,2] = transpose(%x) {perm=[0]}", "has 1 entries, 2 wanted"},
    {"%y: f32[3,4] = broadcast(%x) {dims=[3,4]}", "dims 2 and 4 are not known to be equal"},
    {"%y: f32[3,2] = slice(%x) {dims=[3,2], starts=[1,0], steps=[1,1]}", "leaves the extent 3"},
    {"%y: f32[3,2] = slice(%x) {dims=[3,2], starts=[-1,0], steps=[1,1]}", "leaves the extent 3"},
    {"%y: f32[3,2] = slice(%x) {dims=[-1,2], starts=[0,0], steps=[1,1]}", "which is negative"},
    {"%y: f32[3,2] = pad(%x, %x) {lo=[0,0], hi=[0,0]}", "must be a scalar of f32"},
    {"%y: i32[2] = pad(%i, %s) {lo=[-1], hi=[0]}", "which is negative"},
    {"%y: f32[3,2] = concat(%x, %i) {axis=0}", "operand 1 is i32[2]"},
    {"%y: f32[3,2] = concat(%x) {axis=2}", "must be in [0, 1]"},
    {"%y: f32[3,2] = gather(%x, %x) {axis=0}", "indices must be i64 or i32"},
    {"%y: f32[3,2] = gather_nd(%x, %i) {batch_dims=1}", "must be in [0, 0]"},
    {"%y: f32[3,2] = gather_nd(%i, %i) {batch_dims=0}", "must be a constant up to 1"},
    {"%y: bool[3] = iota() {dims=[3], axis=0, to=bool}", "cannot be bool"},
    {"%y: i64[] = iota() {dims=[], axis=0, to=i64}", "must be 1 to 8"},
    {"%y: f32[3] = reduce(%x) {axes=[1,1], kind=\"sum\"}", "axes must rise"},
    {"%y: f32[3] = reduce(%x) {axes=[2], kind=\"sum\"}", "axes must rise"},
    {"%y: f32[3] = reduce(%x) {axes=[1], kind=\"any\"}", "must be one of: sum prod max min"},
    {"%y: f32[3] = reduce(%x) {axes=[1], kind=\"\"}", "must be one of"},
    {"%y: f32[3,3] = matmul(%x, %x) {to=f32}", "inner dims"},
    {"%y: f32[3,3] = matmul(%x, %i) {to=f32}", "operands of f32 and i32"},
    {"%y: f32[3,3] = matmul(%x, %x) {to=i32}", "cannot be accumulated to i32"},
    {"%y: i32[2,2] = matmul(%i, %i) {to=i32}", "equal ranks of 2 and more"},
    {"%y: f32[1] = window(%x) {kernel=[], strides=[], dilations=[], lo=[], hi=[], kind=\"max\"}",
     "rank 3 and more"},
    {"%y: f32[1] = window(%p) {kernel=[3], strides=[0], dilations=[1], lo=[0], hi=[0], "
     "kind=\"max\"}",
     "must be at least 1"},
    {"%y: f32[1] = window(%p) {kernel=[9], strides=[1], dilations=[1], lo=[0], hi=[0], "
     "kind=\"max\"}",
     "the window 9 does not fit the padded extent 4"},
    {"%y: f32[1] = conv(%p, %p) {to=f32, lo=[0], hi=[0], strides=[1], dilations=[1],"
     " lhs_dilation=[1], groups=2}",
     "channels: dims 2 and 4"},
    {"%y: i64[2] = arg(%x) {axis=2, kind=\"max\", last=0}", "must be in [0, 1]"},
    {"%y: i32[2] = scatter_nd(%i, %i, %i) {kind=\"set\"}", "indices, i64 or i32"},
    {"%y: f32[3,4], %z: i64[3,4] = topk(%x) {axis=1, k=4, largest=1}", "k is 4, more than the 2"},
    {"%y: i64[6], %z: i64[6], %w: i64[6], %v: i64[] = unique(%x) {sorted=0}", "a flat tensor"},
    {"%y: i64[3,3], %n: i64[] = nms(%x, %x, %s, %s, %s) {center=0}", "f32[n,b,4] wanted"},
    {"%y: i32[2] = random() {dims=[2], kind=\"normal\", seed=1, to=i32}", "must be a float"},
    {"bind(%x) {exprs=[a,b,c,d,e,f]}", "must be i64, i32 or bool"},
    {"bind(%i) {exprs=[a]}", "1 symbols for the elements of i32[2]"},
    {"bind(%i) {exprs=[a,2]}", "2 is no symbol"},
    {"%y: f32[3,2] = join(%x, %i) {guard=g}", "the branches give f32[3,2] and i32[2]"},
    {"%y: f32[3,2] = if(%x) []", "0 blocks, must be 2"},
};

static void test_refused(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    cv_str text = {0};
    cv_graph *graph = NULL;
    cv_str_add(&text,
               "graph \"\" (%%x: f32[3,2], %%i: i32[2], %%s: i32[], %%p: f32[1,2,4]) {\n%s\n"
               "} -> ()\n",
               refused[i].line);
    assert_int_equal(cv_graph_parse(cv_str_text(&text), NULL, NULL, NULL, &graph), CV_INVALID);
    if (strstr(cv_error_text(), refused[i].error) == NULL) {
      fail_msg("%s says \"%s\", not \"%s\"", refused[i].line, cv_error_text(), refused[i].error);
    }
    cv_str_deinit(&text);
  }
}

static void test_tables(void **state) {
  (void)state;
  for (int i = 0; i < CV_OP_COUNT; i++) {
    cv_op op;
    assert_true(cv_op_find(cv_op_get((cv_op)i)->name, &op) && op == (cv_op)i);
  }
  for (int i = 0; i < CV_ATTR_COUNT; i++) {
    cv_attr_key key;
    assert_true(cv_attr_find(cv_attr_name((cv_attr_key)i), &key) && key == (cv_attr_key)i);
  }
  const cv_op_info *conv = cv_op_get(CV_OP_conv), *loop = cv_op_get(CV_OP_loop);
  assert_true(conv->min_ins == 2 && conv->n_outs == 1 && !conv->variadic && !conv->blocks);
  assert_true(loop->min_ins == 2 && loop->n_outs == -1 && loop->variadic && loop->blocks);
  assert_true((conv->attrs >> CV_ATTR_GROUPS & 1) == 1 && (conv->attrs >> CV_ATTR_AXIS & 1) == 0);
  cv_op op;
  cv_attr_key key;
  assert_false(cv_op_find("nope", &op));
  assert_false(cv_attr_find("nope", &key));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_broadcasting),
      cmocka_unit_test(test_assumed_equal),
      cmocka_unit_test(test_never_equal),
      cmocka_unit_test(test_map_needs_equal_dims),
      cmocka_unit_test(test_trivial_builders_give_their_operand),
      cmocka_unit_test(test_short_builders),
      cmocka_unit_test(test_constants),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_tables),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
