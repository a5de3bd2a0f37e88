#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <xxhash.h>

#include "runtime/artifact_internal.h"
#include "tests/runtime/sample.h"

static const char path[] = "/tmp/cuvil-test-artifact.cuv";
static sample_code code;

static int setup(void **state) {
  (void)state;
  code = sample_compile(TEST_DATA, CV_KERNEL_ABI);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  sample_code_free(&code);
  unlink(path);
  return 0;
}

static void assert_same_exprs(const cv_program *a, const cv_program *b, cv_expr x, cv_expr y) {
  cv_str s = {0}, t = {0};
  cv_expr_print(a->exprs, x, &s);
  cv_expr_print(b->exprs, y, &t);
  assert_string_equal(cv_str_text(&s), cv_str_text(&t));
  cv_str_deinit(&s);
  cv_str_deinit(&t);
}

static void test_round_trip(void **state) {
  (void)state;
  cv_program *made = sample_pick(&code);
  cv_artifact *artifact;
  assert_int_equal(sample_open(made, path, &artifact), CV_OK);
  const cv_program *read = cv_artifact_program(artifact);
  assert_int_equal(strlen(read->hash), 32);
  assert_int_equal(read->n_values, made->n_values);
  assert_int_equal(read->n_steps, made->n_steps);
  assert_int_equal(cv_exprs_symbols(read->exprs), 2);
  for (uint32_t v = 0; v < made->n_values; v++) {
    assert_string_equal(read->values[v].name, made->values[v].name);
    assert_int_equal(read->values[v].dtype, made->values[v].dtype);
    assert_int_equal(read->values[v].rank, made->values[v].rank);
    for (int d = 0; d < made->values[v].rank; d++)
      assert_same_exprs(read, made, read->values[v].dims[d], made->values[v].dims[d]);
    assert_same_exprs(read, made, read->values[v].guard, made->values[v].guard);
  }
  assert_int_equal(read->steps[2].n_binds, 1);
  assert_int_equal(read->steps[2].binds[0].sym, 1);
  assert_int_equal(read->targets[0].code_bytes, code.bytes);
  assert_memory_equal(read->targets[0].code, code.data, code.bytes);
  assert_memory_equal(read->consts[0].data, sample_w, sizeof sample_w);
  assert_int_equal((uintptr_t)read->consts[1].data % 64, 0);
  assert_false(read->targets[0].renderings[0].reads_raw[1]);
  assert_int_equal(cv_artifact_check_const(artifact, 0), CV_OK);
  assert_int_equal(cv_artifact_check_code(artifact, 0), CV_OK);
  cv_artifact_close(artifact);
  cv_program_destroy(made);
}

/* The same program gives the same bytes; another target changes neither hash nor plan. */
static void test_deterministic_and_add_target(void **state) {
  (void)state;
  static const char second[] = "/tmp/cuvil-test-artifact-2.cuv";
  cv_program *made = sample_pick(&code);
  cv_artifact *artifact, *again;
  assert_int_equal(sample_open(made, path, &artifact), CV_OK);
  assert_int_equal(sample_open(cv_artifact_program(artifact), second, &again), CV_OK);
  void *a, *b;
  size_t a_bytes, b_bytes;
  assert_int_equal(cv_file_read(path, &a, &a_bytes), CV_OK);
  assert_int_equal(cv_file_read(second, &b, &b_bytes), CV_OK);
  assert_int_equal(a_bytes, b_bytes);
  assert_memory_equal(a, b, a_bytes);
  cv_free(a);
  cv_free(b);
  cv_artifact_close(again);

  cv_program *edit = cv_artifact_program_edit(artifact);
  cv_target_code *targets = cv_arena_array(&edit->arena, cv_target_code, 2);
  targets[0] = edit->targets[0];
  edit->targets = targets;
  sample_pick_target(edit, &code, "second");
  assert_int_equal(sample_open(edit, second, &again), CV_OK);
  assert_int_equal(cv_artifact_program(again)->n_targets, 2);
  assert_string_equal(cv_artifact_program(again)->hash, edit->hash);
  uint32_t target;
  assert_int_equal(cv_artifact_pick_target(again, "second", &target), CV_OK);
  assert_int_equal(target, 1);
  assert_int_equal(cv_artifact_pick_target(again, "third", &target), CV_INVALID);
  assert_non_null(strstr(cv_error_text(), "native, second"));
  cv_artifact_close(again);
  cv_artifact_close(artifact);
  cv_program_destroy(made);
  unlink(second);
}

/* Equal weights are stored once. */
static void test_weights_once(void **state) {
  (void)state;
  cv_program *made = sample_pick(&code);
  made->consts[2] = made->consts[0];
  made->n_consts = 3;
  cv_artifact *artifact;
  assert_int_equal(sample_open(made, path, &artifact), CV_OK);
  const cv_program *read = cv_artifact_program(artifact);
  assert_ptr_equal(read->consts[0].data, read->consts[2].data);
  cv_artifact_close(artifact);
  cv_program_destroy(made);
}

static void test_wrong_cpu(void **state) {
  (void)state;
  cv_program *made = sample_pick(&code);
  made->targets[0].features = "no-such-feature";
  cv_artifact *artifact;
  uint32_t target;
  assert_int_equal(sample_open(made, path, &artifact), CV_OK);
  assert_int_equal(cv_artifact_pick_target(artifact, NULL, &target), CV_CPU);
  assert_non_null(strstr(cv_error_text(), "no-such-feature"));
  assert_int_equal(cv_artifact_pick_target(artifact, "native", &target), CV_CPU);
  cv_artifact_close(artifact);
  cv_program_destroy(made);
}

typedef struct {
  char *data; /* 64-byte aligned */
  size_t bytes;
} image;

static image read_image(const cv_program *program) {
  image i;
  void *data;
  assert_int_equal(cv_artifact_write(program, path), CV_OK);
  assert_int_equal(cv_file_read(path, &data, &i.bytes), CV_OK);
  i.data = data;
  return i;
}

static cv_status open_image(const image *i, size_t bytes) {
  cv_artifact *artifact;
  cv_status status = cv_artifact_open_memory("image", i->data, bytes, &artifact);
  if (status == CV_OK) {
    const cv_program *p = cv_artifact_program(artifact);
    uint32_t *ids = cv_alloc(p->n_values + 1u, sizeof *ids);
    for (uint32_t c = 0; c <= p->n_steps; c++) (void)cv_program_live(p, c, ids);
    cv_free(ids);
  }
  cv_artifact_close(artifact);
  return status;
}

/* Checksums made good again, so that what lies behind them is tried. */
static void seal(const image *i) {
  cv_artifact_header header;
  memcpy(&header, i->data, sizeof header);
  if (header.manifest > i->bytes - 64) return;
  header.manifest_hash = XXH3_64bits(i->data + 64, header.manifest);
  header.header_hash = XXH3_64bits(&header, 56);
  memcpy(i->data, &header, sizeof header);
}

static void test_versions(void **state) {
  (void)state;
  cv_program *made = sample_pick(&code);
  image i = read_image(made);
  i.data[8] = 77;
  seal(&i);
  assert_int_equal(open_image(&i, i.bytes), CV_VERSION);
  assert_non_null(strstr(cv_error_text(), "77"));
  assert_non_null(strstr(cv_error_text(), "version 2"));
  assert_int_equal(cv_artifact_open("/no/such/file.cuv", &(cv_artifact *){0}), CV_IO);
  assert_int_equal(cv_artifact_open("/tmp", &(cv_artifact *){0}), CV_IO);
  cv_free(i.data);
  cv_program_destroy(made);
}

static void test_truncated(void **state) {
  (void)state;
  cv_program *made = sample_sum(&code);
  image i = read_image(made);
  for (size_t n = 0; n < i.bytes; n += n < 4096 ? 1 : 97)
    assert_int_equal(open_image(&i, n), CV_CORRUPT);
  assert_int_equal(open_image(&i, i.bytes), CV_OK);
  cv_free(i.data);
  cv_program_destroy(made);
}

/* Every byte of header and manifest changed in several ways, with checksums made good: refused, or
 * a program that the verifier takes; never a crash. */
static void test_mutations(void **state) {
  (void)state;
  cv_program *programs[] = {sample_pick(&code), sample_sum(&code)};
  static const unsigned char marks[] = {0, 1, 0x7f, 0x80, 0x90, 0xc0, 0xdd, 0xff};
  for (int k = 0; k < 2; k++) {
    image i = read_image(programs[k]);
    uint64_t manifest;
    memcpy(&manifest, i.data + 16, sizeof manifest);
    for (size_t at = 0; at < 64 + manifest; at++) {
      char kept = i.data[at];
      i.data[at] = (char)(kept ^ 4);
      assert_int_not_equal(open_image(&i, i.bytes), CV_OK); /* the checksum sees it */
      for (size_t m = 0; m < sizeof marks; m++) {
        i.data[at] = (char)(marks[m] ^ (m % 2 ? kept : 0));
        seal(&i);
        cv_status status = open_image(&i, i.bytes);
        assert_true(status == CV_OK || status == CV_CORRUPT || status == CV_VERSION);
      }
      i.data[at] = kept;
      seal(&i);
    }
    assert_int_equal(open_image(&i, i.bytes), CV_OK);
    cv_free(i.data);
    cv_program_destroy(programs[k]);
  }
}

static void test_damaged_blobs(void **state) {
  (void)state;
  cv_program *made = sample_pick(&code);
  image i = read_image(made);
  cv_artifact *artifact;
  assert_int_equal(cv_artifact_open_memory("image", i.data, i.bytes, &artifact), CV_OK);
  const cv_program *p = cv_artifact_program(artifact);
  ((char *)(uintptr_t)p->consts[1].data)[3] ^= 1;
  ((char *)(uintptr_t)p->targets[0].code)[100] ^= 1;
  assert_int_equal(cv_artifact_check_const(artifact, 0), CV_OK);
  assert_int_equal(cv_artifact_check_const(artifact, 1), CV_CORRUPT);
  assert_int_equal(cv_artifact_check_code(artifact, 0), CV_CORRUPT);
  cv_artifact_close(artifact);
  cv_free(i.data);
  cv_program_destroy(made);
}

static cv_status write_and_open(void *arg) {
  cv_artifact *artifact = NULL;
  cv_status status = sample_open(arg, path, &artifact);
  cv_artifact_close(artifact);
  return status;
}

static void test_each_fault(void **state) {
  (void)state;
  cv_program *pick = sample_pick(&code), *sum = sample_sum(&code);
  assert_true(sample_each_fault(write_and_open, pick) > 50);
  assert_true(sample_each_fault(write_and_open, sum) > 50);
  cv_program_destroy(pick);
  cv_program_destroy(sum);
}

static void test_unwritable(void **state) {
  (void)state;
  cv_program *made = sample_pick(&code);
  assert_int_equal(cv_artifact_write(made, "/no/such/folder/m.cuv"), CV_IO);
  assert_non_null(strstr(cv_error_text(), "/no/such/folder/m.cuv"));
  made->consts[0].data = NULL;
  assert_int_equal(cv_artifact_write(made, path), CV_INVALID);
  cv_program_destroy(made);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),   cmocka_unit_test(test_deterministic_and_add_target),
      cmocka_unit_test(test_weights_once), cmocka_unit_test(test_wrong_cpu),
      cmocka_unit_test(test_versions),     cmocka_unit_test(test_truncated),
      cmocka_unit_test(test_mutations),    cmocka_unit_test(test_damaged_blobs),
      cmocka_unit_test(test_each_fault),   cmocka_unit_test(test_unwritable),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
