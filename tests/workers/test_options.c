#include "workers/options.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/alloc.h"

/* The words, joined by spaces. */
static char *join(const cv_words *words) {
  cv_str out = {0};
  for (size_t i = 0; i < words->len && words->data[i]; i++)
    cv_str_add(&out, "%s%s", i ? " " : "", words->data[i]);
  return out.data;
}

static void expect(const cv_worker_options *o, cv_child_kind kind, const char *program,
                   const char *text) {
  cv_words words = {0};
  assert_int_equal(cv_worker_options_forward(o, kind, program, &words), CV_OK);
  assert_null(words.data[words.len - 1]);
  char *got = join(&words);
  assert_string_equal(got, text);
  cv_free(got);
  cv_words_deinit(&words);
}

static void forget(cv_worker_options *o) {
  cv_free(o->request.inputs.data);
  cv_free(o->request.each.data);
}

static cv_status parse(cv_worker_options *o, const char *const *words) {
  int count = 0;
  while (words[count]) count++;
  return cv_worker_options_parse(count, (char **)(uintptr_t)words, o);
}

/* Each child gets the artifact and its own part of the command line. */
static void test_parts_of_the_children(void **state) {
  (void)state;
  const char *const words[] = {"cuvil-worker",
                               "m.cuv",
                               "--input",
                               "a.npy",
                               "s=b.npy",
                               "--each",
                               "x=c.npy",
                               "--each",
                               "y=d.npy",
                               "--plan",
                               "p.json",
                               "--micro-batch",
                               "4",
                               "--trace",
                               "t.json",
                               "--output-dir",
                               "out",
                               "--repeat",
                               "3",
                               "--report",
                               "r.json",
                               NULL};
  cv_worker_options o;
  assert_int_equal(parse(&o, words), CV_OK);
  o.control = "1.2.3.4:5";
  o.rank = 0; /* rank 0 is said too */
  o.workers = 2;
  o.transport = "shm";
  expect(&o, CV_CHILD_COORDINATOR, "co",
         "co m.cuv --plan p.json --micro-batch 4 --report r.json --transport shm --trace t.json "
         "--workers 2");
  expect(&o, CV_CHILD_GATEWAY, "ga",
         "ga m.cuv --input a.npy s=b.npy --each x=c.npy --each y=d.npy --repeat 3 --output-dir out "
         "--transport shm --trace t.json --control 1.2.3.4:5 --rank 0 --workers 2");
  expect(&o, CV_CHILD_WORKER, "wo",
         "wo m.cuv --transport shm --trace t.json --control 1.2.3.4:5 --rank 0 --workers 2");
  forget(&o);
}

/* What a child is given is what it parses. */
static void test_a_worker_reads_it_again(void **state) {
  (void)state;
  const char *const words[] = {"cuvil-worker", "m.cuv", "--input", "a.npy", NULL};
  cv_worker_options o, again;
  assert_int_equal(parse(&o, words), CV_OK);
  assert_null(o.control);
  o.control = "1.2.3.4:5";
  o.rank = 3;
  o.workers = 4;
  cv_words given = {0};
  assert_int_equal(cv_worker_options_forward(&o, CV_CHILD_WORKER, "wo", &given), CV_OK);
  assert_int_equal(parse(&again, (const char *const *)given.data), CV_OK);
  assert_string_equal(again.artifact, "m.cuv");
  assert_string_equal(again.control, "1.2.3.4:5");
  assert_int_equal(again.rank, 3);
  assert_int_equal(again.workers, 4);
  cv_words_deinit(&given);
  forget(&o);
  forget(&again);
}

static void test_wrong_words(void **state) {
  (void)state;
  cv_worker_options o;
  const char *const none[] = {"w", NULL};
  const char *const two[] = {"w", "m.cuv", "n.cuv", NULL};
  const char *const both[] = {"w", "m.cuv",        "--plan", "p", "--plans",
                              "q", "--output-dir", "o",      NULL};
  const char *const nowhere[] = {"w", "m.cuv", "--plans", "q", NULL};
  const char *const zero[] = {"w", "m.cuv", "--stages", "0", NULL};
  const char *const unknown[] = {"w", "m.cuv", "--frobnicate", NULL};
  const char *const *const all[] = {none, two, both, nowhere, zero, unknown};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    assert_int_equal(parse(&o, all[i]), CV_INVALID);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_parts_of_the_children),
      cmocka_unit_test(test_a_worker_reads_it_again),
      cmocka_unit_test(test_wrong_words),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
