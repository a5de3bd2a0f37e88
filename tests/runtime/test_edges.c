#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "runtime/edges.h"
#include "tests/each_fault.h"
#include "tests/gateway/fake.h"
#include "tests/runtime/sample.h"

static sample_code code;

static uint32_t value(const cv_program *p, const char *name) {
  for (uint32_t v = 0; v < p->n_values; v++)
    if (strcmp(p->values[v].name, name) == 0) return v;
  return CV_NONE;
}

static void derive(const cv_program *p, const uint32_t *cuts, int n, const int64_t *symbols,
                   cv_edges *edges) {
  cv_span spans[16];
  assert_int_equal(cv_spans_from_cuts(p, cuts, n, spans), CV_OK);
  assert_int_equal(cv_edges_derive(p, spans, n + 1, symbols, edges), CV_OK);
}

static void check_edge(const cv_edges *edges, int from, int to, int n, const uint32_t *values,
                       uint32_t slots) {
  const cv_edge *edge = cv_edges_find(edges, from, to);
  assert_non_null(edge);
  assert_int_equal(edge->n_values, n);
  for (int i = 0; i < n; i++) assert_int_equal(edge->values[i], values[i]);
  assert_int_equal(edge->slots, slots);
}

static void test_chain(void **state) {
  (void)state;
  cv_program *p = chain_program(false);
  cv_edges edges;
  int64_t batch = 3;
  derive(p, (uint32_t[]){2, 4, 6}, 3, &batch, &edges);
  assert_int_equal(edges.n_edges, 8);
  uint32_t x = value(p, "x"), y = value(p, "y"), h0 = value(p, "h0"), h1 = value(p, "h1");
  check_edge(&edges, CV_EDGE_GATEWAY, 0, 1, &x, 3);
  check_edge(&edges, CV_EDGE_GATEWAY, 3, 1, &y, 9); /* a late input */
  check_edge(&edges, 0, 1, 1, &h1, 3);
  check_edge(&edges, 0, 3, 1, &h0, 7);                               /* a skip edge */
  check_edge(&edges, 0, CV_EDGE_GATEWAY, 2, (uint32_t[]){x, h1}, 9); /* early outputs */
  check_edge(&edges, 3, CV_EDGE_GATEWAY, 1, (uint32_t[]){value(p, "h7")}, 3);
  assert_null(cv_edges_find(&edges, 0, 2));
  /* by consumer, the gateway last, then by producer, the gateway first */
  for (uint32_t i = 1; i < edges.n_edges; i++) {
    const cv_edge *a = &edges.edges[i - 1], *b = &edges.edges[i];
    unsigned to_a = (unsigned)a->to, to_b = (unsigned)b->to;
    assert_true(to_a < to_b || (to_a == to_b && a->from < b->from));
  }
  const cv_edge *edge = cv_edges_find(&edges, 0, CV_EDGE_GATEWAY);
  assert_int_equal(edge->slot_bytes, 128); /* two of 48 bytes, aligned */
  assert_int_equal(edge->max_slot_bytes, 2 * 16000);
  assert_int_equal(edge->n_symbols, 0); /* the gateway knows them */
  assert_int_equal(cv_edges_find(&edges, 0, 1)->n_symbols, 1);
  cv_edges_deinit(&edges);
  derive(p, NULL, 0, NULL, &edges);
  assert_int_equal(edges.n_edges, 2);
  assert_int_equal(cv_edges_find(&edges, CV_EDGE_GATEWAY, 0)->slot_bytes,
                   64); /* y alone is known */
  cv_edges_deinit(&edges);
  cv_program_destroy(p);
}

/* A symbol that a step binds goes to each later stage that needs it, though its value does not. */
static void test_symbols(void **state) {
  (void)state;
  cv_program *p = sample_pick(&code);
  cv_edges edges;
  derive(p, (uint32_t[]){2, 3, 4, 6}, 4, NULL, &edges);
  cv_sym n;
  assert_true(cv_exprs_find(p->exprs, "n", &n));
  for (int stage = 2; stage < 5; stage++) {
    int carriers = 0;
    for (uint32_t e = 0; e < edges.n_edges; e++)
      for (uint32_t i = 0; i < edges.edges[e].n_symbols; i++)
        carriers += edges.edges[e].to == stage && edges.edges[e].symbols[i] == n;
    assert_true(carriers >= 1);
  }
  const cv_edge *own = cv_edges_find(&edges, 1, 2); /* counter -> picker: no value, a symbol */
  assert_non_null(own);
  assert_int_equal(own->n_values, 0);
  assert_int_equal(own->slot_bytes, 0);
  cv_edges_deinit(&edges);
  cv_program_destroy(p);
}

static void test_refusals(void **state) {
  (void)state;
  cv_program *p = chain_program(false);
  cv_span spans[3];
  cv_edges edges;
  assert_int_equal(cv_spans_from_cuts(p, (uint32_t[]){0}, 1, spans), CV_INVALID);
  assert_int_equal(cv_spans_from_cuts(p, (uint32_t[]){8}, 1, spans), CV_INVALID);
  assert_int_equal(cv_spans_from_cuts(p, (uint32_t[]){5, 3}, 2, spans), CV_INVALID);
  assert_non_null(strstr(cv_error_text(), "cut 3"));
  static const cv_span bad[][2] = {
      {{0, 3}, {5, 7}}, {{0, 3}, {3, 7}}, {{0, 3}, {4, 6}}, {{0, 3}, {4, 8}}, {{1, 3}, {4, 7}}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_int_equal(cv_edges_derive(p, bad[i], 2, NULL, &edges), CV_INVALID);
  assert_int_equal(cv_edges_derive(p, bad[0], 0, NULL, &edges), CV_INVALID);
  p->values[value(p, "h3")].fixed_width = false;
  assert_int_equal(cv_spans_from_cuts(p, (uint32_t[]){4}, 1, spans), CV_INVALID);
  assert_non_null(strstr(cv_error_text(), "cannot be cut"));
  cv_program_destroy(p);
}

static cv_status derive_once(void *arg) {
  cv_edges edges;
  cv_span spans[2] = {{0, 3}, {4, 7}};
  cv_status status = cv_edges_derive(arg, spans, 2, NULL, &edges);
  cv_edges_deinit(&edges);
  return status;
}

static void test_each_fault(void **state) {
  (void)state;
  cv_program *p = chain_program(false);
  assert_true(each_fault(derive_once, p) > 0);
  cv_program_destroy(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_chain), cmocka_unit_test(test_symbols),
                                     cmocka_unit_test(test_refusals),
                                     cmocka_unit_test(test_each_fault)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
