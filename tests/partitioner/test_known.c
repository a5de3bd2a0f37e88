/* Workloads with known optima, in ../shared/partition beside the repository; skipped without it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>
#include <cmocka.h>

#include "base/status.h"
#include "partitioner/partitioner.h"

#define SHARED TEST_DATA "/../../../shared/partition"

enum { MOST_STEPS = 1024, MOST_READERS = 8192, MOST_DEVICES = 16, MOST_KINDS = 2 };

/* A planning problem with room for any of them. */
typedef struct {
  cv_plan_input in;
  int size, n_readers, step[MOST_STEPS], readers[MOST_READERS];
  double us[MOST_KINDS][MOST_STEPS];
  cv_plan_value values[MOST_STEPS + 1];
  cv_plan_weight weights[MOST_STEPS];
  cv_plan_kind kinds[MOST_KINDS];
  cv_plan_device devices[MOST_DEVICES];
  cv_plan_link links[(MOST_DEVICES + 1) * (MOST_DEVICES + 1)];
} problem;

static problem *p; /* too large for the stack */

static void begin_problem(void) {
  memset(p, 0, sizeof *p);
  p->size = 1;
  p->in = (cv_plan_input){.n_sizes = 1,
                          .sizes = &p->size,
                          .values = p->values,
                          .weights = p->weights,
                          .kinds = p->kinds,
                          .devices = p->devices,
                          .links = p->links,
                          .micro_batch = 1,
                          .threads = 1};
  for (int i = 0; i < MOST_STEPS; i++) p->step[i] = i;
}

static json_t *load(const char *path) {
  json_t *root = json_load_file(path, 0, NULL);
  if (!root) {
    print_message("skipped: no ../shared\n");
    skip();
  }
  return root;
}

static double number(const json_t *array, size_t i) {
  return json_number_value(json_array_get(array, i));
}

static void add_board(const json_t *board, const char *name, int kind) {
  p->devices[p->in.n_devices++] =
      (cv_plan_device){name,
                       NULL,
                       kind,
                       1,
                       (uint64_t)json_number_value(json_object_get(board, "mem_MB")) * 1048576 - 1,
                       0,
                       0,
                       0};
}

/* Boards send over the slower of the two ports; what the gateway sends and gets costs nothing. */
static void link_boards(const double *bytes_per_us) {
  int n = p->in.n_devices;
  for (int i = 0; i <= n; i++)
    for (int j = 0; j <= n; j++)
      p->links[i * (n + 1) + j] = (cv_plan_link){
          i == n || j == n
              ? INFINITY
              : fmin(bytes_per_us[p->devices[i].kind], bytes_per_us[p->devices[j].kind]),
          0, 0, 0};
}

/* "minnowboard=4,rcc=4" */
static void chain_problem(const json_t *root, const char *counts) {
  static const char *const names[MOST_KINDS] = {"minnowboard", "rcc"};
  begin_problem();
  int n = (int)json_integer_value(json_object_get(root, "layers"));
  double batch = json_number_value(json_object_get(root, "microbatch"));
  double bytes_per_us[MOST_KINDS];
  p->in.n_steps = p->in.n_weights = n;
  p->in.n_values = n + 1;
  p->in.n_kinds = MOST_KINDS;
  p->in.out_buffers = 3;
  for (int i = 0; i <= n; i++) {
    const json_t *elements =
        i ? json_array_get(json_object_get(root, "parameters_out"), (size_t)i - 1)
          : json_object_get(root, "parameters_in");
    p->readers[i] = i;
    p->values[i] = (cv_plan_value){i - 1, 1, &p->readers[i],
                                   (uint64_t)(4 * batch * json_number_value(elements)), 0};
  }
  for (int i = 0; i < n; i++)
    p->weights[i] = (cv_plan_weight){
        (uint64_t)(number(json_object_get(root, "mem_MB"), (size_t)i) * 1048576), 1, &p->step[i]};
  for (int k = 0; k < MOST_KINDS; k++) {
    const json_t *board = json_object_get(json_object_get(root, "device_types"), names[k]);
    for (int i = 0; i < n; i++)
      p->us[k][i] = number(json_object_get(board, "time_s"), (size_t)i) * 1e6;
    p->kinds[k] = (cv_plan_kind){names[k], p->us[k], NULL, NULL, NULL};
    bytes_per_us[k] = json_number_value(json_object_get(board, "bw_Mbps")) * 1048576 / 8 / 1e6;
    const char *at = strstr(counts, names[k]);
    for (int i = at ? atoi(at + strlen(names[k]) + 1) : 0; i > 0; i--)
      add_board(board, names[k], k);
  }
  link_boards(bytes_per_us);
}

static void test_edge_boards(void **state) {
  (void)state;
  json_t *chain = load(SHARED "/chains/vit-base.json"), *known = load(SHARED "/known.json");
  json_t *optima = json_object_get(json_object_get(known, "chains (seconds per microbatch of 8)"),
                                   "vit-base"),
         *value;
  const char *counts;
  int tried = 0;
  json_object_foreach(optima, counts, value) {
    chain_problem(chain, counts);
    cv_plan plan;
    if (cv_partition(&p->in, &plan) != CV_OK) fail_msg("%s: %s", counts, cv_error_text());
    double wanted = json_number_value(value), found = plan.bottleneck_us / 1e6;
    if (!plan.exact || fabs(found - wanted) > 1e-6)
      fail_msg("%s: %.7f s, the optimum is %.7f s", counts, found, wanted);
    cv_plan_deinit(&plan);
    tried++;
  }
  assert_int_equal(tried, 8);
  json_decref(chain);
  json_decref(known);
}

/* "activation_size=123.0" or "activation_size=[1.0; 2.0]": the sum. */
static double sum_field(const char *line, const char *field) {
  const char *at = strstr(line, field);
  double sum = 0;
  if (!at) return 0;
  at += strlen(field);
  bool list = *at == '[';
  for (at += list; *at && *at != ']' && (list || *at != ',');) {
    char *end;
    sum += strtod(at, &end);
    at = end > at ? end : at + 1;
  }
  return sum;
}

/* Reads a layer profile; the numbers of its nodes are the order, and legal by its edges. */
static void profile_problem(const char *path, int devices) {
  static uint8_t reads[MOST_STEPS][MOST_STEPS];
  begin_problem();
  memset(reads, 0, sizeof reads);
  FILE *file = fopen(path, "r");
  if (!file) {
    print_message("skipped: no ../shared\n");
    skip();
  }
  char line[4096];
  int n = 0, from, to;
  while (fgets(line, sizeof line, file)) {
    if (sscanf(line, "\tnode%d -- node%d", &from, &to) == 2) {
      assert_true(from >= 0 && from < to && to < MOST_STEPS);
      reads[from][to] = 1;
    } else if (sscanf(line, "node%d", &from) == 1) {
      assert_true(from >= 0 && from < MOST_STEPS);
      bool input = strstr(line, " -- Input") != NULL;
      p->us[0][from] = input ? 0 : sum_field(line, "forward_compute_time=") * 1000;
      p->values[from].bytes_fixed = (uint64_t)sum_field(line, "activation_size=");
      if (from >= n) n = from + 1;
    }
  }
  fclose(file);
  for (int v = 0; v < n; v++) {
    p->values[v].producer = v;
    p->values[v].readers = &p->readers[p->n_readers];
    for (int r = 0; r < n; r++)
      if (reads[v][r]) p->readers[p->n_readers++] = r, p->values[v].n_readers++;
  }
  p->in.n_steps = p->in.n_values = n;
  p->in.n_kinds = 1;
  p->kinds[0] = (cv_plan_kind){"gpu", p->us[0], NULL, NULL, NULL};
  p->in.n_devices = devices;
  for (int d = 0; d < devices; d++) p->devices[d] = (cv_plan_device){"gpu", NULL, 0, 1, 0, 0, 0, 0};
  /* moving and computing do not overlap there: a copy at each end, at 10 GB/s, and no wire */
  for (int i = 0; i < (devices + 1) * (devices + 1); i++)
    p->links[i] = (cv_plan_link){INFINITY, 0, 1e-4, 1e-4};
}

/* The optima are over all orders, and there a maker pays once for all who read; one order with
 * every reader paid for can only be slower. In these four it is as fast. */
static void test_layer_profiles(void **state) {
  (void)state;
  static const char *const names[] = {"alexnet", "vgg16", "resnet50", "squeezenet1_0"};
  json_t *known = load(SHARED "/known.json");
  json_t *optima = json_object_get(known, "profiles (10 GB/s, 0 cpus)");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    for (int k = 4; k <= 16; k *= 2) {
      char path[512], key[32];
      snprintf(path, sizeof path, SHARED "/profiles/%s.txt", names[i]);
      snprintf(key, sizeof key, "k%d_optimum", k);
      profile_problem(path, k);
      cv_plan plan;
      if (cv_partition(&p->in, &plan) != CV_OK) fail_msg("%s: %s", names[i], cv_error_text());
      double found = plan.bottleneck_us / 1000;
      double wanted = json_number_value(json_object_get(json_object_get(optima, names[i]), key));
      print_message("%s, %d devices: %.6f ms in the order of the file, optimum %.6f ms\n", names[i],
                    k, found, wanted);
      assert_true(plan.exact && found > wanted * (1 - 1e-6));
      assert_true(found < wanted * (1 + 1e-6));
      cv_plan_deinit(&plan);
    }
  }
  json_decref(known);
}

static int set_up(void **state) {
  (void)state;
  p = calloc(1, sizeof *p);
  return p ? 0 : -1;
}

static int tear_down(void **state) {
  (void)state;
  free(p);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_edge_boards),
      cmocka_unit_test(test_layer_profiles),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
