/* ctest: timeout=600
 * Lowered programs compute what their graphs do: cases by hand with the steps they must give,
 * graphs made at random, and the models of the environment's folder (CUVIL_MODELS), if there is
 * one. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "tests/compiler/run_program.h"

/* The steps as text: "contraction row alias loop(map)". */
static void describe(const cv_program *p, cv_str *out) {
  for (uint32_t s = 0; s < p->n_steps; s++) {
    const cv_step *step = &p->steps[s];
    cv_str_puts(out, s ? " " : "");
    if (step->kind == CV_STEP_KERNEL) cv_str_puts(out, step->pattern);
    if (step->kind == CV_STEP_ALIAS) cv_str_puts(out, "alias");
    if (step->kind != CV_STEP_LOOP) continue;
    cv_str_puts(out, "loop(");
    describe(step->loop->body, out);
    cv_str_puts(out, ")");
  }
}

static cv_graph *parse(const char *text) {
  cv_graph *graph = NULL;
  if (cv_graph_parse(text, NULL, NULL, NULL, &graph) != CV_OK) fail_msg("%s", cv_error_text());
  return graph;
}

static cv_program *compile(cv_graph *graph) {
  const cv_pass_options options = {0};
  cv_program *program = NULL;
  cv_status status = cv_passes_run(graph, &options);
  if (status == CV_OK) status = cv_lower(graph, &options, &program);
  if (status != CV_OK) fail_msg("%s", cv_error_text());
  return program;
}

enum { MOST_PORTS = 32 };

static void make_inputs(const cv_program *p, int64_t dim, uint64_t seed, cv_tensor *ins) {
  int64_t *symbols = calloc(cv_exprs_symbols(p->exprs) + 1, sizeof *symbols);
  for (cv_sym s = 0; s < cv_exprs_symbols(p->exprs); s++) symbols[s] = dim;
  for (uint32_t i = 0; i < p->n_inputs; i++) {
    const cv_value *value = &p->values[p->inputs[i].value];
    int64_t dims[CV_MAX_RANK];
    for (int d = 0; d < value->rank; d++) dims[d] = eval(p, value->dims[d], symbols);
    assert_int_equal(cv_tensor_create(value->dtype, value->rank, dims, &ins[i]), CV_OK);
    fill_tensor(&ins[i], &seed, 2);
  }
  free(symbols);
}

/* Same results from the graph as it was and from the program. */
static void expect_same(const char *what, cv_graph *before, const cv_program *p, int64_t dim,
                        uint64_t seed) {
  cv_tensor ins[MOST_PORTS] = {0}, want[MOST_PORTS] = {0}, have[MOST_PORTS] = {0};
  assert_true(p->n_inputs <= MOST_PORTS && p->n_outputs <= MOST_PORTS);
  make_inputs(p, dim, seed, ins);
  if (run_graph(before, ins, want) != CV_OK) fail_msg("%s: graph: %s", what, cv_error_text());
  if (run_program(p, ins, have) != CV_OK) fail_msg("%s: program: %s", what, cv_error_text());
  for (uint32_t i = 0; i < p->n_outputs; i++)
    if (!(difference(&have[i], &want[i]) < 1e-4))
      fail_msg("%s: output %u differs: %g", what, i, difference(&have[i], &want[i]));
  for (int i = 0; i < MOST_PORTS; i++) {
    cv_tensor_deinit(&ins[i]);
    cv_tensor_deinit(&want[i]);
    cv_tensor_deinit(&have[i]);
  }
}

typedef struct {
  const char *name, *text, *steps;
} lower_case;

#define CONV \
  "{strides=[1,1], dilations=[1,1], lo=[1,1], hi=[1,1], groups=1, lhs_dilation=[1,1], to=f32}"
#define SOFTMAX(x, y)                                                                             \
  "%m1: f32[n] = reduce(" x                                                                       \
  ") {kind=\"max\", axes=[1]}\n%m2: f32[n,1] = reshape(%m1) "                                     \
  "{dims=[n,1]}\n%m3: f32[n,4] = broadcast(%m2) {dims=[n,4]}\n%m4: f32[n,4] = sub(" x             \
  ", %m3)\n"                                                                                      \
  "%m5: f32[n,4] = exp(%m4)\n%m6: f32[n,4] = neg(%m5)\n%m7: f32[n] = reduce(%m5) {kind=\"sum\", " \
  "axes=[1]}\n%m8: f32[n,1] = reshape(%m7) {dims=[n,1]}\n%m9: f32[n,4] = broadcast(%m8) "         \
  "{dims=[n,4]}\n" y ": f32[n,4] = div(%m5, %m9)\n"

static const lower_case cases[] = {
    {"bias, residual and relu follow a product",
     "graph \"g\" (%x: f32[n,3], %r: f32[n,4], %w: f32[3,4]) {\n"
     "%b: f32[1,4] = const {1, 2, 3, 4}\n%z: f32[n,4] = splat 0\n"
     "%a: f32[n,4] = matmul(%x, %w) {to=f32}\n%c: f32[n,4] = broadcast(%b) {dims=[n,4]}\n"
     "%d: f32[n,4] = add(%a, %c)\n%e: f32[n,4] = add(%r, %d)\n%y: f32[n,4] = max(%e, %z)\n"
     "} -> (%y \"y\")\n",
     "contraction"},
    {"silu reads the result twice",
     "graph \"g\" (%x: f32[n,2,4,4], %w: f32[2,2,3,3]) {\n%o: f32[n,2,4,4] = splat 1\n"
     "%a: f32[n,2,4,4] = conv(%x, %w) " CONV "\n%b: f32[n,2,4,4] = neg(%a)\n"
     "%c: f32[n,2,4,4] = exp(%b)\n%d: f32[n,2,4,4] = add(%c, %o)\n%e: f32[n,2,4,4] = div(%o, %d)\n"
     "%y: f32[n,2,4,4] = mul(%a, %e)\n} -> (%y \"y\")\n",
     "contraction"},
    {"a sum that is wanted elsewhere is a second result",
     "graph \"g\" (%x: f32[n,4], %w: f32[4,4]) {\n%z: f32[n,4] = splat 0\n"
     "%a: f32[n,4] = matmul(%x, %w) {to=f32}\n%b: f32[n,4] = add(%a, %x)\n"
     "%c: f32[n,4] = max(%b, %z)\n} -> (%b \"b\", %c \"c\")\n",
     "contraction"},
    {"a product with merged dims and what follows it",
     "graph \"g\" (%x: f32[n,5,3], %w: f32[3,4], %b: f32[4], %r: f32[n,5,4]) {\n"
     "%a: f32[5*n,3] = reshape(%x) {dims=[5*n,3]}\n%c: f32[5*n,4] = matmul(%a, %w) {to=f32}\n"
     "%d: f32[n,5,4] = reshape(%c) {dims=[n,5,4]}\n%e: f32[1,1,4] = reshape(%b) {dims=[1,1,4]}\n"
     "%f: f32[n,5,4] = broadcast(%e) {dims=[n,5,4]}\n%h: f32[n,5,4] = add(%d, %f)\n"
     "%y: f32[n,5,4] = add(%h, %r)\n} -> (%y \"y\")\n",
     "contraction"},
    {"heads are split in the store",
     "graph \"g\" (%x: f32[n,5,4], %w: f32[4,4]) {\n"
     "%a: f32[5*n,4] = reshape(%x) {dims=[5*n,4]}\n%c: f32[5*n,4] = matmul(%a, %w) {to=f32}\n"
     "%d: f32[n,5,2,2] = reshape(%c) {dims=[n,5,2,2]}\n"
     "%e: f32[n,2,5,2] = transpose(%d) {perm=[0,2,1,3]}\n"
     "%f: f32[n,2,2,5] = transpose(%e) {perm=[0,1,3,2]}\n"
     "%y: f32[n,2,5,5] = matmul(%e, %f) {to=f32}\n} -> (%y \"y\")\n",
     "contraction contraction"},
    {"softmax is one row", "graph \"g\" (%x: f32[n,4]) {\n" SOFTMAX("%x", "%y") "} -> (%y \"y\")\n",
     "row"},
    {"what stands before a softmax comes along",
     "graph \"g\" (%a: f32[n,4], %b: f32[n,4]) {\n%x: f32[n,4] = add(%a, %b)\n" SOFTMAX(
         "%x", "%y") "} -> (%y \"y\", %x \"x\")\n",
     "row"},
    {"a product and its softmax stay two",
     "graph \"g\" (%a: f32[n,3], %w: f32[3,4]) {\n%x: f32[n,4] = matmul(%a, %w) {to=f32}\n" SOFTMAX(
         "%x", "%y") "} -> (%y \"y\")\n",
     "contraction row"},
    {"group norm after a convolution",
     "graph \"g\" (%x: f32[n,4,2,2], %w: f32[4,4,3,3], %s: f32[1,4,1,1]) {\n"
     "%a: f32[n,4,2,2] = conv(%x, %w) " CONV "\n%b: f32[n,2,8] = reshape(%a) {dims=[n,2,8]}\n"
     "%c: f32[n,2] = reduce(%b) {kind=\"sum\", axes=[2]}\n%d: f32[n,2,1] = reshape(%c) "
     "{dims=[n,2,1]}\n%e: f32[n,2,8] = broadcast(%d) {dims=[n,2,8]}\n%f: f32[n,2,8] = sub(%b, %e)\n"
     "%h: f32[n,4,2,2] = reshape(%f) {dims=[n,4,2,2]}\n"
     "%i: f32[n,4,2,2] = broadcast(%s) {dims=[n,4,2,2]}\n%y: f32[n,4,2,2] = mul(%h, %i)\n"
     "} -> (%y \"y\")\n",
     "contraction row"},
    {"a mean over places",
     "graph \"g\" (%x: f32[n,2,3,3]) {\n%q: f32[n,2] = splat 0.125\n%e: f32[n,2,3,3] = exp(%x)\n"
     "%a: f32[n,2] = reduce(%e) {kind=\"sum\", axes=[2,3]}\n%y: f32[n,2] = mul(%a, %q)\n"
     "} -> (%y \"y\")\n",
     "reduce"},
    {"elementwise through movement",
     "graph \"g\" (%x: f32[n,4], %c: f32[n,4]) {\n"
     "%a: f32[n,2] = slice(%x) {starts=[0,0], dims=[n,2], steps=[1,1]}\n"
     "%b: f32[n,2] = slice(%x) {starts=[0,2], dims=[n,2], steps=[1,1]}\n%d: f32[n,2] = neg(%b)\n"
     "%e: f32[n,4] = concat(%d, %a) {axis=1}\n%y: f32[n,4] = mul(%e, %c)\n} -> (%y \"y\")\n",
     "map"},
    {"a joined operand is written out first",
     "graph \"g\" (%x: f32[n,2,4,4], %z: f32[n,2,4,4], %w: f32[2,4,3,3]) {\n"
     "%a: f32[n,4,4,4] = concat(%x, %z) {axis=1}\n%y: f32[n,2,4,4] = conv(%a, %w) " CONV "\n"
     "} -> (%y \"y\")\n",
     "map contraction"},
    {"results that no step makes",
     "graph \"g\" (%x: f32[n,3]) {\n%c: f32[2] = const {1, 2}\n%s: f32[n,2] = splat 3\n"
     "%r: f32[3*n] = reshape(%x) {dims=[3*n]}\n"
     "} -> (%x \"same\", %c \"c\", %s \"s\", %r \"r\", %r \"again\")\n",
     "alias map alias alias alias"},
    {"a taken branch",
     "graph \"g\" (%x: f32[n,3], %c: bool[]) {\n"
     "%y: f32[n,3] = if(%c) [block () {\n%a: f32[n,3] = neg(%x)\n%b: f32[n,3] = exp(%a)\n"
     "} -> (%b)\nblock () {\n} -> (%x)]\n%z: f32[n,3] = add(%y, %x)\n} -> (%z \"z\")\n",
     "map alias alias map"},
    {"branches of other dims, nested",
     "graph \"g\" (%x: f32[n,2], %c: bool[], %d: bool[]) {\n"
     "bind(%c) {exprs=[p]}\n%y: f32[select(p, 2*n, 4)] = if(%c) [block () {\n"
     "%a: f32[2*n] = reshape(%x) {dims=[2*n]}\n} -> (%a)\nblock () {\n%k: f32[4] = const "
     "{1,2,3,4}\n"
     "%b: f32[4] = if(%d) [block () {\n%e: f32[4] = neg(%k)\n} -> (%e)\nblock () {\n} -> (%k)]\n"
     "} -> (%b)]\n} -> (%y \"y\")\n",
     NULL},
    {"a size that comes from data",
     "graph \"g\" (%x: f32[n,3]) {\n%c: i64[] = nonzero_count(%x)\nbind(%c) {exprs=[k]}\n"
     "%i: i64[2,k] = nonzero(%x) {k=k}\n%t: i64[k,2] = transpose(%i) {perm=[1,0]}\n"
     "%v: f32[k] = gather_nd(%x, %t) {batch_dims=0}\n%y: f32[k] = exp(%v)\n} -> (%y \"y\")\n",
     "routine routine map"},
    {"a loop that captures, carries and stacks",
     "graph \"g\" (%x: f32[n,2], %t: i64[]) {\n%on: bool[] = const {1}\n%e: f32[n,2] = exp(%x)\n"
     "%o: f32[n,2], %s: f32[trips,n,2] = loop(%t, %on, %x) {symbol=trips, max=9} [\n"
     "block (%i: i64[], %c: bool[], %v: f32[n,2]) {\n%p: f32[n,2] = add(%v, %e)\n"
     "%q: f32[n,2] = neg(%p)\n} -> (%c, %p, %q)]\n%y: f32[trips,n,2] = abs(%s)\n"
     "} -> (%o \"o\", %y \"y\")\n",
     "map loop(map alias) map"},
    {"a short loop is unrolled",
     "graph \"g\" (%x: f32[n,2]) {\n%on: bool[] = const {1}\n%t: i64[] = const {3}\n"
     "%o: f32[n,2], %s: f32[trips,n,2] = loop(%t, %on, %x) {symbol=trips, max=9} [\n"
     "block (%i: i64[], %c: bool[], %v: f32[n,2]) {\n%f: f32[] = cast(%i) {to=f32}\n"
     "%g: f32[1,1] = reshape(%f) {dims=[1,1]}\n%h: f32[n,2] = broadcast(%g) {dims=[n,2]}\n"
     "%p: f32[n,2] = add(%v, %h)\n} -> (%c, %p, %p)]\n} -> (%o \"o\", %s \"s\")\n",
     NULL},
};

static void test_cases(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    cv_graph *before = parse(cases[i].text), *after = parse(cases[i].text);
    cv_program *program = compile(after);
    cv_str steps = {0};
    describe(program, &steps);
    if (cases[i].steps && strcmp(cv_str_text(&steps), cases[i].steps) != 0)
      fail_msg("%s: steps '%s', not '%s'", cases[i].name, cv_str_text(&steps), cases[i].steps);
    for (uint64_t seed = 1; seed <= 4; seed++)
      expect_same(cases[i].name, before, program, 2 + (int64_t)seed % 2, seed);
    cv_str_deinit(&steps);
    cv_program_destroy(program);
    cv_graph_destroy(before);
    cv_graph_destroy(after);
  }
}

/* ---- graphs at random ---- */

static uint64_t next(uint64_t *seed) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return *seed >> 33;
}

/* One node over the values made so far, all f32[2,4] or f32[2] (one a row). */
static void random_node(cv_graph *g, uint64_t *seed, cv_val *wide, uint32_t *n_wide, cv_val *rows,
                        uint32_t *n_rows) {
  static const cv_op unary[] = {CV_OP_neg, CV_OP_abs, CV_OP_sin, CV_OP_tanh};
  static const cv_op binary[] = {CV_OP_add, CV_OP_sub, CV_OP_mul, CV_OP_max};
  cv_expr dims[] = {cv_expr_const(g->exprs, 2), cv_expr_const(g->exprs, 4)};
  cv_val a = wide[next(seed) % *n_wide], b = wide[next(seed) % *n_wide];
  cv_val r = rows[next(seed) % *n_rows];
  switch (next(seed) % 9) {
    case 0: wide[(*n_wide)++] = cv_unary(g, unary[next(seed) % 4], a); break;
    case 1:
    case 2: wide[(*n_wide)++] = cv_binary(g, binary[next(seed) % 4], a, b); break;
    case 3: rows[(*n_rows)++] = cv_reduce(g, a, next(seed) % 2 ? "sum" : "max", 2, false); break;
    case 4: {
      cv_expr column[] = {dims[0], cv_expr_const(g->exprs, 1)};
      cv_val up = cv_broadcast_to(g, cv_reshape(g, r, column, 2), dims, 2);
      wide[(*n_wide)++] = cv_binary(g, binary[next(seed) % 4], a, up);
      break;
    }
    case 5: { /* 2x4 times 4x4 made of b twice */
      cv_val square = cv_concat(g, (cv_val[]){b, b}, 2, 0);
      wide[(*n_wide)++] = cv_matmul(g, a, square, CV_F32);
      break;
    }
    case 6: { /* transposed, merged and back */
      cv_expr flat[] = {cv_expr_const(g->exprs, 8)}, turned[] = {dims[1], dims[0]};
      cv_val t = cv_transpose(g, a, (int64_t[]){1, 0});
      t = cv_reshape(g, cv_reshape(g, t, flat, 1), turned, 2);
      wide[(*n_wide)++] =
          next(seed) % 2 ? cv_reshape(g, t, dims, 2) : cv_transpose(g, t, (int64_t[]){1, 0});
      break;
    }
    case 7: { /* halves swapped */
      cv_expr two = cv_expr_const(g->exprs, 2), zero = cv_expr_const(g->exprs, 0);
      cv_val low = cv_slice_axis(g, a, 1, zero, two, 1), high = cv_slice_axis(g, b, 1, two, two, 1);
      wide[(*n_wide)++] = cv_concat(g, (cv_val[]){high, low}, 2, 1);
      break;
    }
    default:
      a = rows[next(seed) % *n_rows];
      rows[(*n_rows)++] = cv_binary(g, binary[next(seed) % 4], r, a);
  }
}

static cv_graph *random_graph(uint64_t seed, uint32_t n_nodes) {
  cv_graph *g = cv_graph_create(NULL);
  cv_type type = {.dtype = CV_F32, .rank = 2};
  type.dims[0] = cv_expr_const(g->exprs, 2);
  type.dims[1] = cv_expr_const(g->exprs, 4);
  cv_val wide[128], rows[128];
  uint32_t n_wide = 2, n_rows = 1;
  wide[0] = cv_graph_param(g, g->body, "a", &type);
  wide[1] = cv_graph_param(g, g->body, "b", &type);
  type.rank = 1;
  rows[0] = cv_graph_param(g, g->body, "r", &type);
  for (uint32_t i = 0; i < n_nodes; i++) random_node(g, &seed, wide, &n_wide, rows, &n_rows);
  static const char *const names[] = {"o0", "o1", "o2"};
  cv_val results[] = {wide[n_wide - 1], wide[next(&seed) % n_wide], rows[n_rows - 1]};
  for (int i = 0; i < 3; i++) {
    if (!cv_vec_push(&g->body->results, results[i]) || !cv_vec_push(&g->result_names, names[i]))
      fail();
  }
  if (cv_graph_status(g) != CV_OK) fail_msg("%s", cv_error_text());
  return g;
}

static void test_random(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 300; seed++) {
    char what[64];
    snprintf(what, sizeof what, "random graph %llu", (unsigned long long)seed);
    uint32_t n = 5 + (uint32_t)(seed % 40);
    cv_graph *before = random_graph(seed, n), *after = random_graph(seed, n);
    cv_program *program = compile(after);
    expect_same(what, before, program, 1, seed);
    cv_program_destroy(program);
    cv_graph_destroy(before);
    cv_graph_destroy(after);
  }
}

/* ---- options and errors ---- */

static void test_max_fusion(void **state) {
  (void)state;
  const cv_pass_options options = {.max_fusion = 1};
  cv_graph *before = parse(cases[0].text), *graph = parse(cases[0].text);
  cv_program *program = NULL;
  assert_int_equal(cv_passes_run(graph, &options), CV_OK);
  assert_int_equal(cv_lower(graph, &options, &program), CV_OK);
  assert_int_equal(program->n_steps, 4); /* product, two adds, relu */
  expect_same("no fusion", before, program, 3, 1);
  cv_program_destroy(program);
  cv_graph_destroy(graph);
  cv_graph_destroy(before);
}

static void test_dump_name(void **state) {
  (void)state;
  const cv_pass_options options = {.dump_after = "nonsense"};
  cv_graph *graph = parse(cases[0].text);
  assert_int_equal(cv_passes_run(graph, &options), CV_INVALID);
  assert_non_null(strstr(cv_error_text(), "simplify"));
  cv_graph_destroy(graph);
}

/* Equal weights are one constant, whoever reads them; names are unique. */
/* What the graph assumes of its dims is in the program, in the bodies it matters to, and refuses
 * inputs for which it is not so. */
static void test_checks(void **state) {
  (void)state;
  cv_graph *graph = parse(
      "graph \"t\" (%a: f32[floordiv(h + 7, 8)], %b: f32[floordiv(h + 15, 16)], %x: f32[h]) {\n"
      "%c: f32[2*floordiv(h + 15, 16)] = concat(%b, %b) {axis=0}\n"
      "%r: f32[floordiv(h + 7, 8)] = reshape(%c) {dims=[floordiv(h + 7, 8)]}\n"
      "%y: f32[floordiv(h + 7, 8)] = add(%a, %r)\n"
      "%z: f32[h] = neg(%x) } -> (%y, %z)\n"
      "equal floordiv(h + 7, 8), 2*floordiv(h + 15, 16) @\"plus\"\n");
  cv_program *p = compile(graph);
  assert_int_equal(p->n_checks, 1);
  uint32_t told = 0;
  for (uint32_t s = 0; s < p->n_steps; s++)
    if (p->steps[s].body) told += strstr(p->steps[s].body, "equal floordiv(h + 7, 8)") != NULL;
  assert_int_equal(told, 1);
  cv_tensor ins[3];
  int64_t symbols[8];
  assert_true(cv_exprs_symbols(p->exprs) <= 8);
  for (int64_t h = 24; h <= 32; h += 8) {
    make_inputs(p, h, 1, ins);
    assert_int_equal(cv_program_bind_inputs(p, ins, symbols), h == 32 ? CV_OK : CV_INVALID);
    if (h != 32) {
      assert_non_null(strstr(cv_error_text(),
                             "node 'plus' was compiled for inputs where floordiv(h + 7, 8) = "));
      assert_non_null(strstr(cv_error_text(), "3 and 4"));
    }
    for (int i = 0; i < 3; i++) cv_tensor_deinit(&ins[i]);
  }
  cv_program_destroy(p);
  cv_graph_destroy(graph);
}

/* A symbol that a step binds is not there before it: it is written for no other dim. */
static void test_bound_symbols_stand_for_nothing(void **state) {
  (void)state;
  cv_graph *graph = parse(
      "symbol k [0, 100]\n"
      "graph \"t\" (%x: f32[floordiv(h + 7, 8)], %w: f32[h], %i: i64[1]) {\n"
      "%e: f32[floordiv(h + 7, 8)] = scan(%x) {kind=\"sum\", axis=0, exclusive=0, reverse=0}\n"
      "%j: i64[1] = add(%i, %i)\n"
      "bind(%j) {exprs=[k]}\n"
      "%r: f32[k] = reshape(%e) {dims=[k]}\n"
      "%z: f32[k] = neg(%r)\n"
      "%v: f32[h] = neg(%w) } -> (%z, %v)\n"
      "equal floordiv(h + 7, 8), k\n");
  cv_program *p = compile(graph);
  assert_int_equal(p->n_checks, 1); /* once k is there */
  for (uint32_t s = 0; s < p->n_steps; s++)
    assert_true(!p->steps[s].body || !strstr(p->steps[s].body, "equal"));
  cv_program_destroy(p);
  cv_graph_destroy(graph);
}

static void test_shared_weight(void **state) {
  (void)state;
  cv_graph *graph = parse(
      "graph \"g\" (%x: f32[n,2]) {\n%a: f32[2,2] = const {1, 2, 3, 4}\n"
      "%b: f32[2,2] = const {1, 2, 3, 4}\n%p: f32[n,2] = matmul(%x, %a) {to=f32} @\"same\"\n"
      "%q: f32[n,2] = matmul(%p, %b) {to=f32} @\"same\"\n} -> (%q \"q\")\n");
  cv_program *program = compile(graph);
  assert_int_equal(program->n_consts, 1);
  assert_int_equal(program->n_steps, 2);
  assert_string_equal(program->steps[0].name, "same");
  assert_string_equal(program->steps[1].name, "same_2");
  assert_string_equal(program->steps[0].body, program->steps[1].body);
  assert_string_equal(program->values[program->outputs[0].value].name, "q");
  int64_t symbols[4] = {5}, flops;
  assert_int_equal(cv_expr_eval(program->exprs, program->steps[0].flops, symbols, &flops), CV_OK);
  assert_int_equal(flops, 2 * 5 * 2 * 2);
  cv_program_destroy(program);
  cv_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cases),
      cmocka_unit_test(test_random),
      cmocka_unit_test(test_max_fusion),
      cmocka_unit_test(test_dump_name),
      cmocka_unit_test(test_shared_weight),
      cmocka_unit_test(test_checks),
      cmocka_unit_test(test_bound_symbols_stand_for_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
