/* From model bytes to a graph that runs: inputs and their symbols, what the user fixes, functions,
 * control flow, opset differences, errors. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "compiler/onnx/onnx.h"
#include "compiler/onnx/table.h"
#include "tests/compiler/onnx_bytes.h"

enum { F = 1, I64 = 7, B = 9 };

/* A graph of inputs "name:type:dims;..", nodes, and outputs by name. */
typedef struct {
  pb graph;
} builder;

static void add_input(builder *b, const char *name, int type, const char *dims) {
  pb v = pb_value(name, type, dims);
  pb_message(&b->graph, 11, &v);
}

static void add_output(builder *b, const char *name) {
  pb v = pb_value(name, F, NULL);
  pb_message(&b->graph, 12, &v);
}

static void add_node(builder *b, const pb *node) { pb_message(&b->graph, 1, node); }

static void add_op(builder *b, const char *op, const char *ins, const char *outs) {
  pb n = pb_node(op, outs, ins, outs);
  add_node(b, &n);
}

static void add_ints(builder *b, const char *name, int n, const int64_t *values) {
  pb t = pb_tensor(name, I64, 1, &(int64_t){n}, values, (size_t)n * 8);
  pb_message(&b->graph, 5, &t);
}

static cv_status import(const pb *model, const cv_import_options *options, cv_graph **out) {
  cv_status status = cv_onnx_import_memory("m.onnx", model->data, model->len, options, out);
  return status == CV_OK ? cv_graph_verify(*out, "import") : status;
}

static cv_graph *imported(const builder *b, int64_t opset, const cv_import_options *options) {
  static pb model;
  cv_graph *graph;
  model = pb_model(&b->graph, opset);
  if (import(&model, options, &graph) != CV_OK) fail_msg("%s", cv_error_text());
  return graph;
}

static void refused(const builder *b, int64_t opset, const cv_import_options *options,
                    const char *text) {
  static pb model;
  cv_graph *graph;
  model = pb_model(&b->graph, opset);
  assert_int_not_equal(import(&model, options, &graph), CV_OK);
  assert_null(graph);
  if (!strstr(cv_error_text(), text)) fail_msg("\"%s\" is not in: %s", text, cv_error_text());
  assert_true(cv_starts_with(cv_error_text(), "m.onnx: "));
}

/* Runs a graph on tensors; symbols come from the inputs' dims. One result, owned by the caller. */
static cv_tensor run(cv_graph *graph, const cv_tensor *ins) {
  int64_t symbols[64];
  cv_tensor outs[8] = {0};
  for (int i = 0; i < 64; i++) symbols[i] = CV_UNBOUND;
  for (size_t i = 0; i < graph->body->params.len; i++) {
    const cv_type *type = cv_type_of(graph, graph->body->params.data[i]);
    for (int k = 0; k < type->rank; k++) {
      cv_sym sym;
      if (cv_expr_is_symbol(graph->exprs, type->dims[k], &sym)) symbols[sym] = ins[i].dims[k];
    }
  }
  if (cv_graph_interpret(graph, ins, symbols, outs) != CV_OK) fail_msg("%s", cv_error_text());
  for (size_t i = 1; i < graph->body->results.len; i++) cv_tensor_deinit(&outs[i]);
  return outs[0];
}

static cv_tensor floats(float *data, int rank, int64_t a, int64_t b) {
  return (cv_tensor){.dtype = CV_F32,
                     .rank = (uint8_t)rank,
                     .dims = {a, b},
                     .data = data,
                     .bytes = (uint64_t)(rank > 1 ? a * b
                                         : rank   ? a
                                                  : 1) *
                              4};
}

static void expect(cv_graph *graph, const cv_tensor *ins, int n, const float *want) {
  cv_tensor y = run(graph, ins);
  assert_int_equal(y.bytes, (uint64_t)n * 4);
  for (int i = 0; i < n; i++) {
    float got = ((const float *)y.data)[i];
    if (got < want[i] - 1e-5f || got > want[i] + 1e-5f) {
      fail_msg("element %d is %g, not %g", i, (double)got, (double)want[i]);
    }
  }
  cv_tensor_deinit(&y);
  cv_graph_destroy(graph);
}

static void dim_params_are_symbols_and_can_be_fixed(void **state) {
  (void)state;
  static builder b;
  add_input(&b, "x", F, "batch,3");
  add_op(&b, "Relu", "x", "y");
  add_output(&b, "y");
  cv_graph *g = imported(&b, 17, NULL);
  assert_string_equal(cv_type_text(g, cv_type_of(g, g->body->results.data[0])), "f32[batch,3]");
  assert_string_equal(cv_value_of(g, g->body->params.data[0])->name, "x");
  assert_string_equal(g->result_names.data[0], "y");
  expect(g, (cv_tensor[]){floats((float[]){-1, 2, 3}, 2, 1, 3)}, 3, (float[]){0, 2, 3});
  g = imported(&b, 17, &(cv_import_options){.batch = 4});
  assert_string_equal(cv_type_text(g, cv_type_of(g, g->body->results.data[0])), "f32[4,3]");
  cv_graph_destroy(g);
  const cv_fix_dim dim = {"batch", 2}, wrong = {"seq", 2};
  g = imported(&b, 17, &(cv_import_options){.dims = &dim, .n_dims = 1});
  assert_string_equal(cv_type_text(g, cv_type_of(g, g->body->results.data[0])), "f32[2,3]");
  cv_graph_destroy(g);
  refused(&b, 17, &(cv_import_options){.dims = &wrong, .n_dims = 1}, "--dim seq");
}

static cv_status know_x(void *context, uint32_t index, const char *input, const cv_tensor **out) {
  (void)index;
  *out = strcmp(input, "x") == 0 ? context : NULL;
  return CV_OK;
}

static void a_squeeze_of_dims_that_are_not_known_assumes(void **state) {
  (void)state;
  static builder b, needs_one;
  add_input(&b, "x", F, "n,1,3");
  add_op(&b, "Squeeze", "x", "y");
  add_output(&b, "y");
  cv_graph *g = imported(&b, 11, NULL);
  assert_string_equal(cv_type_text(g, cv_type_of(g, g->body->results.data[0])), "f32[n,3]");
  assert_int_equal(g->equalities.len, 1);
  cv_graph_destroy(g);
  g = imported(&b, 11, &(cv_import_options){.batch = 1});
  assert_string_equal(cv_type_text(g, cv_type_of(g, g->body->results.data[0])), "f32[3]");
  cv_graph_destroy(g);
  cv_tensor given = floats((float[]){1, 2, 3}, 3, 1, 1);
  given.dims[2] = 3;
  g = imported(&b, 11, &(cv_import_options){.value_of = know_x, .context = &given});
  assert_string_equal(cv_type_text(g, cv_type_of(g, g->body->results.data[0])), "f32[3]");
  assert_int_equal(g->equalities.len, 1); /* n = 1 */
  cv_graph_destroy(g);
  pb concat = pb_node("Concat", "c", "x,z", "v"); /* needs n to be 1 */
  pb_attr_int(&concat, "axis", 1);
  add_input(&needs_one, "x", F, "n,1,3");
  add_input(&needs_one, "z", F, "1,1,3");
  add_node(&needs_one, &concat);
  add_op(&needs_one, "Squeeze", "x", "y");
  add_output(&needs_one, "y");
  add_output(&needs_one, "v");
  g = imported(&needs_one, 11, NULL);
  assert_string_equal(cv_type_text(g, cv_type_of(g, g->body->results.data[0])), "f32[3]");
  cv_graph_destroy(g);
}

static void a_conv_knows_its_channels_by_the_weights(void **state) {
  (void)state;
  static builder plain, transposed;
  add_input(&plain, "w", F, "2,3,1,1");
  add_op(&plain, "Conv", "x,w", "y");
  add_input(&transposed, "w", F, "3,2,1,1");
  add_op(&transposed, "ConvTranspose", "x,w", "y");
  for (int i = 0; i < 2; i++) {
    builder *b = i ? &transposed : &plain;
    add_input(b, "x", F, "1,c,4,4");
    add_output(b, "y");
    cv_graph *g = imported(b, 11, NULL);
    assert_string_equal(cv_type_text(g, cv_type_of(g, g->body->results.data[0])), "f32[1,2,4,4]");
    cv_graph_destroy(g);
  }
}

/* What is known of one operand's inner dim holds for the other's: a weight stays as it is. */
static void a_product_knows_its_inner_dim_by_the_weights(void **state) {
  (void)state;
  static builder b;
  pb slice = pb_node("Slice", "s", "x,one,two,one", "part");
  pb weight = pb_tensor("w", F, 2, (int64_t[]){2, 1}, (float[]){10, 1}, 8);
  pb_message(&b.graph, 5, &weight);
  add_ints(&b, "one", 1, (int64_t[]){1});
  add_ints(&b, "two", 1, (int64_t[]){INT32_MAX});
  add_input(&b, "x", F, "1,n");
  add_node(&b, &slice);
  add_op(&b, "MatMul", "part,w", "y");
  add_output(&b, "y");
  cv_graph *g = imported(&b, 17, NULL);
  for (size_t i = 0; i < g->body->nodes.len; i++) {
    const cv_node *node = g->body->nodes.data[i];
    if (node->op == CV_OP_matmul) assert_true(cv_value_of(g, node->ins[1])->is_const);
  }
  expect(g, (cv_tensor[]){floats((float[]){1, 2, 3}, 2, 1, 3)}, 1, (float[]){23});
}

static void a_batch_without_a_name_can_be_fixed(void **state) {
  (void)state;
  static builder b;
  add_input(&b, "x", F, "?,3");
  add_op(&b, "Relu", "x", "y");
  add_output(&b, "y");
  cv_graph *g = imported(&b, 17, &(cv_import_options){.batch = 4});
  assert_string_equal(cv_type_text(g, cv_type_of(g, g->body->results.data[0])), "f32[4,3]");
  cv_graph_destroy(g);
  static builder minus;
  add_input(&minus, "x", F, "-1,3");
  add_op(&minus, "Relu", "x", "y");
  add_output(&minus, "y");
  g = imported(&minus, 17, NULL);
  assert_string_equal(cv_type_text(g, cv_type_of(g, g->body->results.data[0])), "f32[x.0,3]");
  cv_graph_destroy(g);
  static builder fixed;
  add_input(&fixed, "x", F, "1,3");
  add_op(&fixed, "Relu", "x", "y");
  add_output(&fixed, "y");
  refused(&fixed, 17, &(cv_import_options){.batch = 4}, "--batch 4: the model fixes");
}

static void a_bound_input_becomes_a_constant(void **state) {
  (void)state;
  static builder b;
  add_input(&b, "x", F, "n");
  add_input(&b, "k", F, "n");
  add_op(&b, "Mul", "x,k", "y");
  add_output(&b, "y");
  const cv_fix_input bind = {"k", "2,3"}, unknown = {"q", "1"}, bad = {"k", "2,x"};
  cv_graph *g = imported(&b, 17, &(cv_import_options){.binds = &bind, .n_binds = 1});
  assert_int_equal(g->body->params.len, 1);
  expect(g, (cv_tensor[]){floats((float[]){5, 7}, 1, 2, 0)}, 2, (float[]){10, 21});
  refused(&b, 17, &(cv_import_options){.binds = &unknown, .n_binds = 1}, "--bind q");
  refused(&b, 17, &(cv_import_options){.binds = &bad, .n_binds = 1}, "--bind k=2,x");
}

static void states_pair_inputs_and_outputs(void **state) {
  (void)state;
  static builder b;
  add_input(&b, "s", F, "2");
  add_op(&b, "Abs", "s", "t");
  add_output(&b, "t");
  const char *good = "s=t", *bad = "s=u";
  cv_graph *g = imported(&b, 17, &(cv_import_options){.states = &good, .n_states = 1});
  assert_true(g->states.len == 1 && g->states.data[0].input == 0 && g->states.data[0].output == 0);
  cv_graph_destroy(g);
  refused(&b, 17, &(cv_import_options){.states = &bad, .n_states = 1}, "no output \"u\"");
}

static void unknown_ops_are_listed_together(void **state) {
  (void)state;
  static builder b;
  add_input(&b, "x", F, "2");
  add_op(&b, "Frobnicate", "x", "p");
  add_op(&b, "Frobnicate", "p", "q");
  add_op(&b, "Zap", "q", "y");
  add_output(&b, "y");
  refused(&b, 17, NULL, "Frobnicate (opset 17, 2 nodes: p, q); Zap (opset 17, 1 node: y)");
}

static void what_is_wrong_is_named(void **state) {
  (void)state;
  static builder missing, broadcast, rankless, none;
  add_input(&missing, "x", F, "2");
  add_op(&missing, "Relu", "nowhere", "y");
  add_output(&missing, "y");
  refused(&missing, 17, NULL, "node \"y\" (Relu): reads \"nowhere\"");
  add_input(&broadcast, "x", F, "2");
  add_input(&broadcast, "z", F, "3");
  add_op(&broadcast, "Add", "x,z", "y");
  add_output(&broadcast, "y");
  refused(&broadcast, 17, NULL, "\"y\"");
  refused(&broadcast, 99, NULL, "opset 99 is newer");
  add_input(&rankless, "x", F, NULL);
  add_output(&rankless, "x");
  refused(&rankless, 17, NULL, "has no shape");
  add_input(&none, "x", F, "2");
  add_output(&none, "y");
  refused(&none, 17, NULL, "no node makes the output \"y\"");
}

/* Softmax of [1, 2, 2] over axis 1: before opset 13 over all elements of the matrix [1, 4]. */
static void softmax_changed_with_opset_13(void **state) {
  (void)state;
  static builder b;
  pb node = pb_node("Softmax", "s", "x", "y");
  pb_attr_int(&node, "axis", 1);
  add_input(&b, "x", F, "1,2,2");
  add_node(&b, &node);
  add_output(&b, "y");
  float data[4] = {0, 0, 0, 0};
  cv_tensor x = floats(data, 2, 2, 2);
  x.rank = 3;
  x.dims[0] = 1;
  x.dims[1] = x.dims[2] = 2;
  expect(imported(&b, 12, NULL), &x, 4, (float[]){0.25f, 0.25f, 0.25f, 0.25f});
  expect(imported(&b, 13, NULL), &x, 4, (float[]){0.5f, 0.5f, 0.5f, 0.5f});
}

static void clip_takes_bounds_from_attributes_then_inputs(void **state) {
  (void)state;
  static builder old, new;
  pb node = pb_node("Clip", "c", "x", "y"), attr = {.len = 0};
  pb_text(&attr, 1, "max");
  pb_float(&attr, 2, 2.5f);
  pb_message(&node, 5, &attr);
  add_input(&old, "x", F, "2");
  add_node(&old, &node);
  add_output(&old, "y");
  cv_tensor x = floats((float[]){-9, 9}, 1, 2, 0);
  expect(imported(&old, 6, NULL), &x, 2, (float[]){-9, 2.5f});
  float hi = 3;
  pb t = pb_tensor("hi", F, 0, NULL, &hi, 4);
  add_input(&new, "x", F, "2");
  pb_message(&new.graph, 5, &t);
  pb clip = pb_node("Clip", "c", "x", "y");
  clip.len = 0;
  pb_text(&clip, 1, "x");
  pb_text(&clip, 1, "");
  pb_text(&clip, 1, "hi");
  pb_text(&clip, 2, "y");
  pb_text(&clip, 4, "Clip");
  add_node(&new, &clip);
  add_output(&new, "y");
  expect(imported(&new, 13, NULL), &x, 2, (float[]){-9, 3});
}

/* y = LeakyRelu(x) in a local function, its slope the call's attribute. */
static void functions_are_inlined_with_their_attributes(void **state) {
  (void)state;
  static builder b;
  pb call = pb_node("Bent", "call", "x", "y"), attr = {.len = 0}, function = {.len = 0};
  pb inner = pb_node("LeakyRelu", "leaky", "p", "q"), ref = {.len = 0}, set = {.len = 0};
  pb_text(&call, 7, "local");
  pb_text(&attr, 1, "slope");
  pb_float(&attr, 2, 0.5f);
  pb_message(&call, 5, &attr);
  pb_text(&ref, 1, "alpha");
  pb_text(&ref, 21, "slope");
  pb_message(&inner, 5, &ref);
  pb_text(&function, 1, "Bent");
  pb_text(&function, 4, "p");
  pb_text(&function, 5, "q");
  pb_message(&function, 7, &inner);
  pb_text(&set, 1, "");
  pb_int(&set, 2, 16);
  pb_message(&function, 9, &set);
  pb_text(&function, 10, "local");
  add_input(&b, "x", F, "2");
  add_node(&b, &call);
  add_output(&b, "y");
  pb model = pb_model(&b.graph, 17);
  pb_message(&model, 25, &function);
  cv_graph *g;
  assert_int_equal(import(&model, NULL, &g), CV_OK);
  expect(g, (cv_tensor[]){floats((float[]){-4, 4}, 1, 2, 0)}, 2, (float[]){-2, 4});
  /* A function that calls itself ends in a sentence. */
  pb endless = {.len = 0}, self = pb_node("Bent", "self", "p", "q");
  pb_text(&self, 7, "local");
  pb_text(&endless, 1, "Bent");
  pb_text(&endless, 4, "p");
  pb_text(&endless, 5, "q");
  pb_message(&endless, 7, &self);
  pb_text(&endless, 10, "local");
  model = pb_model(&b.graph, 17);
  pb_message(&model, 25, &endless);
  assert_int_equal(import(&model, NULL, &g), CV_INVALID);
  assert_non_null(strstr(cv_error_text(), "call each other"));
}

static pb branch(const char *op, const char *ins, const char *out) {
  pb graph = {.len = 0}, node = pb_node(op, out, ins, out), value = pb_value(out, F, NULL);
  pb_message(&graph, 1, &node);
  pb_message(&graph, 12, &value);
  return graph;
}

static void an_if_is_built_whole_or_decided(void **state) {
  (void)state;
  static builder b;
  pb node = pb_node("If", "choice", "c", "y"), yes = branch("Neg", "x", "t");
  pb no = branch("Abs", "x", "e");
  pb_attr_message(&node, "then_branch", 6, 5, &yes);
  pb_attr_message(&node, "else_branch", 6, 5, &no);
  add_input(&b, "x", F, "2");
  add_input(&b, "c", B, "");
  add_node(&b, &node);
  add_output(&b, "y");
  uint8_t truth[2] = {0, 1};
  for (int i = 0; i < 2; i++) {
    cv_tensor ins[2] = {floats((float[]){3, 5}, 1, 2, 0),
                        {.dtype = CV_BOOL, .data = &truth[i], .bytes = 1}};
    expect(imported(&b, 17, NULL), ins, 2, i ? (float[]){-3, -5} : (float[]){3, 5});
  }
  const cv_fix_input bind = {"c", "1"};
  cv_graph *g = imported(&b, 17, &(cv_import_options){.binds = &bind, .n_binds = 1});
  for (size_t i = 0; i < g->body->nodes.len; i++) {
    assert_int_not_equal(g->body->nodes.data[i]->op, CV_OP_if);
  }
  expect(g, (cv_tensor[]){floats((float[]){3, 5}, 1, 2, 0)}, 2, (float[]){-3, -5});
}

/* Branches of unlike rank: the one with which the rest of the graph fits is taken, and checked. */
static void an_if_of_unlike_ranks_is_decided(void **state) {
  (void)state;
  static builder b;
  pb node = pb_node("If", "choice", "c", "m"), no = branch("Identity", "x", "e");
  pb yes = branch("Size", "x", "t");
  pb_attr_message(&node, "then_branch", 6, 5, &yes);
  pb_attr_message(&node, "else_branch", 6, 5, &no);
  add_input(&b, "x", F, "n,2");
  add_input(&b, "c", B, "");
  add_node(&b, &node);
  add_op(&b, "Relu", "m", "r");
  add_op(&b, "MatMul", "r,x", "y");
  add_output(&b, "y");
  uint8_t no_byte = 0;
  cv_tensor ins[2] = {floats((float[]){1, 2, 3, 4}, 2, 2, 2),
                      {.dtype = CV_BOOL, .data = &no_byte, .bytes = 1}};
  expect(imported(&b, 17, NULL), ins, 4, (float[]){7, 10, 15, 22});
}

static cv_status know_axes(void *context, uint32_t index, const char *input,
                           const cv_tensor **out) {
  *out = strcmp(input, "axes") == 0 && index == 1 ? context : NULL;
  return CV_OK;
}

static cv_status cannot_read(void *context, uint32_t index, const char *input,
                             const cv_tensor **out) {
  (void)context, (void)index, (void)out;
  return cv_error(CV_IO, "%s.npy: cannot be read", input);
}

static void values_that_shape_the_graph_are_asked_for(void **state) {
  (void)state;
  static builder b;
  add_input(&b, "x", F, "2,2");
  add_input(&b, "axes", I64, "1");
  add_op(&b, "ReduceSum", "x,axes", "y");
  add_output(&b, "y");
  refused(&b, 17, NULL, "give --bind axes=VALUE");
  int64_t axis = 0;
  cv_tensor axes = {.dtype = CV_I64, .rank = 1, .dims = {1}, .data = &axis, .bytes = 8};
  const cv_import_options options = {.value_of = know_axes, .context = &axes};
  const cv_import_options carried = {.value_of = know_axes,
                                     .context = &axes,
                                     .states = (const char *const[]){"axes=y"},
                                     .n_states = 1};
  refused(&b, 17, &carried, "give --bind axes=VALUE");
  refused(&b, 17, &(cv_import_options){.value_of = cannot_read}, "axes.npy: cannot be read");
  cv_tensor wrong = {.dtype = CV_F32, .rank = 1, .dims = {1}, .data = (float[]){0}, .bytes = 4};
  refused(&b, 17, &(cv_import_options){.value_of = know_axes, .context = &wrong},
          "the value given for it f32[1]");
  cv_tensor ins[2] = {floats((float[]){1, 2, 3, 4}, 2, 2, 2), axes};
  expect(imported(&b, 17, &options), ins, 2, (float[]){4, 6});
}

/* Also what is computed of them, be it bound as a symbol. */
static void values_computed_of_the_request_shape_the_graph(void **state) {
  (void)state;
  static builder b, chosen;
  add_ints(&b, "two", 1, (int64_t[]){2});
  add_input(&b, "x", F, "2,2");
  add_input(&b, "axes", I64, "1");
  add_op(&b, "Mod", "axes,two", "odd");
  add_op(&b, "ReduceSum", "x,odd", "y");
  add_output(&b, "y");
  int64_t axis = 3;
  cv_tensor axes = {.dtype = CV_I64, .rank = 1, .dims = {1}, .data = &axis, .bytes = 8};
  const cv_import_options options = {.value_of = know_axes, .context = &axes};
  cv_tensor ins[2] = {floats((float[]){1, 2, 3, 4}, 2, 2, 2), axes};
  refused(&b, 17, NULL, "must be known when the model is compiled");
  expect(imported(&b, 17, &options), ins, 2, (float[]){3, 7});

  pb node = pb_node("If", "choice", "c", "m"), yes = branch("Size", "x", "t");
  pb no = branch("Shape", "x", "e");
  pb_attr_message(&node, "then_branch", 6, 5, &yes);
  pb_attr_message(&node, "else_branch", 6, 5, &no);
  add_ints(&chosen, "two", 1, (int64_t[]){2});
  add_input(&chosen, "x", F, "2,2");
  add_input(&chosen, "axes", I64, "1");
  add_op(&chosen, "Equal", "axes,two", "c");
  add_node(&chosen, &node);
  add_output(&chosen, "m");
  for (axis = 2; axis < 4; axis++) {
    cv_graph *g = imported(&chosen, 17, &options);
    const cv_type *type = cv_type_of(g, g->body->results.data[0]);
    assert_string_equal(cv_type_text(g, type), axis == 2 ? "i64[]" : "i64[2]");
    assert_int_equal(g->equalities.len, 1); /* another request is refused */
    cv_graph_destroy(g);
  }
}

/* The slice of one element is of a length that only the body's own symbols tell, yet the sum that
 * is carried keeps its dims: so do the stacked ones, with no iteration too. */
static void stacked_items_have_the_dims_that_are_carried(void **state) {
  (void)state;
  static builder b;
  pb body = {.len = 0}, loop = pb_node("Loop", "loop", "trips,go,x", "last,y");
  const pb nodes[] = {
      pb_node("Identity", "a", "more", "more_out"), pb_node("Add", "b", "i,one", "end"),
      pb_node("Slice", "c", "terms,i,end", "term"), pb_node("Add", "d", "sum,term", "sum_out"),
      pb_node("Identity", "e", "sum_out", "item")};
  const pb ins[] = {pb_value("i", I64, "1"), pb_value("more", B, ""), pb_value("sum", F, "1")};
  const char *outs[] = {"more_out", "sum_out", "item"};
  for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) pb_message(&body, 1, &nodes[i]);
  for (int i = 0; i < 3; i++) {
    pb out = pb_value(outs[i], i ? F : B, NULL);
    pb_message(&body, 11, &ins[i]);
    pb_message(&body, 12, &out);
  }
  pb_attr_message(&loop, "body", 6, 5, &body);
  pb terms = pb_tensor("terms", F, 1, (int64_t[]){3}, (float[]){1, 2, 3}, 12);
  pb_message(&b.graph, 5, &terms);
  add_ints(&b, "one", 1, (int64_t[]){1});
  add_input(&b, "x", F, "1");
  add_input(&b, "trips", I64, "");
  add_input(&b, "go", B, "");
  add_node(&b, &loop);
  add_output(&b, "y");
  int64_t trips = 3;
  bool go = true;
  cv_tensor given[3] = {floats((float[]){-2}, 1, 1, 0),
                        {.dtype = CV_I64, .data = &trips, .bytes = 8},
                        {.dtype = CV_BOOL, .data = &go, .bytes = 1}};
  expect(imported(&b, 17, NULL), given, 3, (float[]){-1, 1, 4});
  trips = 0;
  cv_graph *g = imported(&b, 17, NULL);
  cv_tensor y = run(g, given);
  assert_true(y.rank == 2 && y.dims[0] == 0 && y.dims[1] == 1);
  cv_tensor_deinit(&y);
  trips = 4; /* the last slice is empty */
  int64_t symbols[64];
  for (int i = 0; i < 64; i++) symbols[i] = CV_UNBOUND;
  assert_int_equal(cv_graph_interpret(g, given, symbols, &y), CV_INVALID);
  cv_graph_destroy(g);
}

static void bits_are_cast_between_dtypes_of_one_width(void **state) {
  (void)state;
  static builder b;
  pb node = pb_node("BitCast", "cast", "x", "i"), back = pb_node("BitCast", "back", "j", "y");
  pb_attr_int(&node, "to", 6); /* i32 */
  pb_attr_int(&back, "to", F);
  pb sign = pb_tensor("sign", 6, 0, NULL, (int32_t[]){INT32_MIN}, 4);
  pb_message(&b.graph, 5, &sign);
  add_input(&b, "x", F, "2");
  add_node(&b, &node);
  add_op(&b, "BitwiseXor", "i,sign", "j"); /* -x */
  add_node(&b, &back);
  add_output(&b, "y");
  expect(imported(&b, 26, NULL), (cv_tensor[]){floats((float[]){3, -5}, 1, 2, 0)}, 2,
         (float[]){-3, 5});
  static builder wide;
  node = pb_node("BitCast", "cast", "x", "y");
  pb_attr_int(&node, "to", I64);
  add_input(&wide, "x", F, "2");
  add_node(&wide, &node);
  add_output(&wide, "y");
  refused(&wide, 26, NULL, "the bits of f32 are no i64");
}

/* Blocks of 2 of a row of 3, a place of padding before it; what falls there is dropped. */
static void blocks_of_an_image_are_added_up(void **state) {
  (void)state;
  static builder b, uneven;
  pb node = pb_node("Col2Im", "image", "x,shape,block", "y"), pads = {.len = 0};
  pb_text(&pads, 1, "pads");
  pb_int(&pads, 8, 1);
  pb_int(&pads, 8, 0);
  pb_int(&pads, 20, 7);
  pb_message(&node, 5, &pads);
  add_ints(&b, "shape", 1, (int64_t[]){3});
  add_ints(&b, "block", 1, (int64_t[]){2});
  add_input(&b, "x", F, "1,2,3");
  add_node(&b, &node);
  add_output(&b, "y");
  cv_tensor x = floats((float[]){1, 2, 3, 10, 20, 30}, 3, 1, 2);
  x.dims[2] = 3;
  expect(imported(&b, 18, NULL), &x, 3, (float[]){12, 23, 30});
  add_ints(&uneven, "shape", 2, (int64_t[]){3, 3});
  add_ints(&uneven, "block", 1, (int64_t[]){2});
  add_input(&uneven, "x", F, "1,2,3");
  add_node(&uneven, &node);
  add_output(&uneven, "y");
  refused(&uneven, 18, NULL, "an image of 2 dims and blocks of 1");
}

/* The first column's pivot is in its last row; the second matrix is singular. */
static void a_determinant_is_by_elimination(void **state) {
  (void)state;
  static builder b, flat;
  add_input(&b, "x", F, "n,3,3");
  add_op(&b, "Det", "x", "y");
  add_output(&b, "y");
  cv_tensor x = floats((float[]){0, 2, 1, 1, 1, 1, 4, 0, 2, 1, 2, 3, 2, 4, 6, 0, 0, 1}, 3, 2, 3);
  x.dims[2] = 3;
  x.bytes = 18 * sizeof(float);
  expect(imported(&b, 22, NULL), &x, 2, (float[]){0, 0});
  ((float *)x.data)[8] = 5;
  expect(imported(&b, 22, NULL), &x, 2, (float[]){-6, 0});
  add_input(&flat, "x", F, "2,3");
  add_op(&flat, "Det", "x", "y");
  add_output(&flat, "y");
  refused(&flat, 22, NULL, "square matrices");
}

static void mel_bins_lie_inside_the_spectrum(void **state) {
  (void)state;
  static builder b, beyond;
  for (int i = 0; i < 2; i++) {
    builder *at = i == 0 ? &b : &beyond;
    float low = 0, high = i == 0 ? 4000 : 40000;
    pb edges[2] = {pb_tensor("low", F, 0, NULL, &low, 4), pb_tensor("high", F, 0, NULL, &high, 4)};
    add_ints(at, "bins", 1, (int64_t[]){2});
    add_ints(at, "points", 1, (int64_t[]){8});
    add_ints(at, "rate", 1, (int64_t[]){8000});
    pb_message(&at->graph, 5, &edges[0]);
    pb_message(&at->graph, 5, &edges[1]);
    add_op(at, "MelWeightMatrix", "bins,points,rate,low,high", "y");
    add_output(at, "y");
  }
  /* edges at 0, 0, 1 and 2 bins */
  expect(imported(&b, 17, NULL), NULL, 10, (float[]){1, 0, 0, 1, 0, 0, 0, 0, 0, 0});
  refused(&beyond, 17, NULL, "beyond the 5 bins of the spectrum");
}

static void shape_arithmetic_folds_into_dims(void **state) {
  (void)state;
  static builder b;
  add_input(&b, "x", F, "batch,2,3");
  add_ints(&b, "zero", 1, (int64_t[]){0});
  add_ints(&b, "minus", 1, (int64_t[]){-1});
  pb concat = pb_node("Concat", "cat", "n,minus", "dims");
  pb_attr_int(&concat, "axis", 0);
  add_op(&b, "Shape", "x", "shape");
  add_op(&b, "Gather", "shape,zero", "n");
  add_node(&b, &concat);
  add_op(&b, "Reshape", "x,dims", "y");
  add_output(&b, "y");
  cv_graph *g = imported(&b, 17, NULL);
  assert_string_equal(cv_type_text(g, cv_type_of(g, g->body->results.data[0])), "f32[batch,6]");
  cv_graph_destroy(g);
}

static void composites_keep_a_named_region(void **state) {
  (void)state;
  static builder b;
  pb node = pb_node("Gelu", "act", "x", "y");
  add_input(&b, "x", F, "4");
  add_node(&b, &node);
  add_output(&b, "y");
  cv_graph *g = imported(&b, 20, NULL);
  assert_int_equal(g->regions.len, 1);
  assert_string_equal(g->regions.data[0].op, "Gelu");
  assert_string_equal(g->regions.data[0].name, "act");
  for (size_t i = 0; i < g->body->nodes.len; i++) {
    assert_int_equal(g->body->nodes.data[i]->region, 0);
    assert_string_equal(g->body->nodes.data[i]->source, "act");
  }
  cv_graph_destroy(g);
}

static void rows_of_an_op_do_not_overlap(void **state) {
  (void)state;
  uint32_t n;
  const cv_onnx_row *rows = cv_onnx_rows(&n);
  assert_true(n > 150);
  for (uint32_t i = 0; i < n; i++) {
    assert_ptr_equal(cv_onnx_find(rows[i].op, rows[i].domain, rows[i].first), &rows[i]);
    assert_true(rows[i].first >= 1 && (rows[i].last == 0 || rows[i].last >= rows[i].first));
  }
  assert_null(cv_onnx_find("Relu", "com.example", 1));
  assert_null(cv_onnx_find("Upsample", "", 10));
}

/* docs/onnx.md holds the table as it is: the text after the heading "## Operators". */
static void the_documented_list_is_the_table(void **state) {
  (void)state;
  static char text[1 << 16];
  cv_str table = {0};
  FILE *file = fopen(TEST_DATA "/../../docs/onnx.md", "rb");
  assert_non_null(file);
  size_t size = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  assert_true(size > 0 && size < sizeof text - 1);
  cv_onnx_print_ops(&table);
  if (!strstr(text, cv_str_text(&table))) {
    fwrite(table.data, 1, table.len, stdout);
    fail_msg("the list in docs/onnx.md is not the table above");
  }
  cv_str_deinit(&table);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(dim_params_are_symbols_and_can_be_fixed),
      cmocka_unit_test(a_batch_without_a_name_can_be_fixed),
      cmocka_unit_test(a_squeeze_of_dims_that_are_not_known_assumes),
      cmocka_unit_test(a_conv_knows_its_channels_by_the_weights),
      cmocka_unit_test(a_product_knows_its_inner_dim_by_the_weights),
      cmocka_unit_test(a_bound_input_becomes_a_constant),
      cmocka_unit_test(states_pair_inputs_and_outputs),
      cmocka_unit_test(unknown_ops_are_listed_together),
      cmocka_unit_test(what_is_wrong_is_named),
      cmocka_unit_test(softmax_changed_with_opset_13),
      cmocka_unit_test(clip_takes_bounds_from_attributes_then_inputs),
      cmocka_unit_test(functions_are_inlined_with_their_attributes),
      cmocka_unit_test(an_if_is_built_whole_or_decided),
      cmocka_unit_test(an_if_of_unlike_ranks_is_decided),
      cmocka_unit_test(values_that_shape_the_graph_are_asked_for),
      cmocka_unit_test(values_computed_of_the_request_shape_the_graph),
      cmocka_unit_test(stacked_items_have_the_dims_that_are_carried),
      cmocka_unit_test(bits_are_cast_between_dtypes_of_one_width),
      cmocka_unit_test(blocks_of_an_image_are_added_up),
      cmocka_unit_test(a_determinant_is_by_elimination),
      cmocka_unit_test(mel_bins_lie_inside_the_spectrum),
      cmocka_unit_test(shape_arithmetic_folds_into_dims),
      cmocka_unit_test(composites_keep_a_named_region),
      cmocka_unit_test(rows_of_an_op_do_not_overlap),
      cmocka_unit_test(the_documented_list_is_the_table),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
