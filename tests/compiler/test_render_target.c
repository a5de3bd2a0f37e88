/* Targets, the toolchain and its cache, the text of the ABI. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <ctype.h>
#include <dirent.h>
#include <sys/stat.h>

#include "runtime/cpu_features.h"
#include "tests/compiler/kernel_set.h"

static const char body[] = "graph \"t\" (%x: f32[4]) { %y: f32[4] = exp(%x) } -> (%y)";

static cv_arena arena = {.may_die = true};

static void targets(void **state) {
  (void)state;
  const cv_target *target;
  assert_int_equal(cv_target_find("aarch64", &target), CV_OK);
  assert_string_equal(target->arch, "aarch64");
  assert_int_equal(cv_target_find("native", &target), CV_OK);
  assert_string_equal(target->arch, cv_cpu_arch());
  assert_int_equal(cv_cpu_check("this", target->arch, target->features), CV_OK);
  assert_int_equal(cv_target_find("pdp11", &target), CV_INVALID);
  assert_non_null(strstr(cv_error_text(), "x86-64-v3"));
  assert_null(target);
  for (size_t i = 0; cv_target_table()[i] != NULL; i++) {
    const cv_target *t = cv_target_table()[i];
    assert_true(t->tile_rows * t->tile_vectors + t->tile_vectors + 1 <= t->registers);
  }
}

static void features(void **state) {
  (void)state;
  assert_false(cv_cpu_has("no such thing"));
  assert_int_equal(cv_cpu_check("target t", "vax", ""), CV_CPU);
  assert_non_null(strstr(cv_error_text(), "vax"));
  assert_int_equal(cv_cpu_check("target t", cv_cpu_arch(), "no such thing,,"), CV_CPU);
  assert_non_null(strstr(cv_error_text(), "no such thing"));
  assert_int_equal(cv_cpu_check("target t", cv_cpu_arch(), ""), CV_OK);
}

/* Without comments, blanks, and what only the header has. */
static void squeeze(const char *text, cv_str *out) {
  while (*text != '\0') {
    if (strncmp(text, "/*", 2) == 0) {
      text = strstr(text, "*/") + 2;
    } else if (*text == '#') {
      text += strcspn(text, "\n");
    } else {
      if (!isspace((unsigned char)*text)) cv_str_append(out, text, 1);
      text++;
    }
  }
}

static void abi_text_is_the_header(void **state) {
  (void)state;
  char text[8192] = {0};
  cv_str a = {.may_die = true}, b = {.may_die = true};
  FILE *file = fopen(TEST_DATA "/../../runtime/kernel_abi.h", "r");
  assert_non_null(file);
  assert_true(fread(text, 1, sizeof text - 1, file) > 0);
  (void)fclose(file);
  squeeze(text, &a);
  squeeze(cv_abi_text, &b);
  assert_string_equal(cv_str_text(&a), cv_str_text(&b));
  cv_str_deinit(&a);
  cv_str_deinit(&b);
}

static const char *source_of(const cv_target *target, const char *text) {
  cv_graph *graph = NULL;
  cv_rendered rendered;
  cv_str code = {.may_die = true}, all = {.may_die = true};
  assert_int_equal(cv_graph_parse(text, NULL, NULL, NULL, &graph), CV_OK);
  assert_int_equal(cv_render_step(target, graph, "k", &arena, &code, &rendered), CV_OK);
  cv_unit_source(target, cv_str_text(&code), &all);
  const char *copy = cv_arena_strdup(&arena, cv_str_text(&all));
  cv_str_deinit(&code);
  cv_str_deinit(&all);
  cv_graph_destroy(graph);
  return copy;
}

static void same_body_same_text(void **state) {
  (void)state;
  const cv_target *target;
  assert_int_equal(cv_target_find("aarch64", &target), CV_OK);
  assert_string_equal(source_of(target, body), source_of(target, body));
}

static int files_in(const char *folder) {
  DIR *dir = opendir(folder);
  int n = 0;
  if (dir == NULL) return 0;
  for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) n += e->d_name[0] != '.';
  (void)closedir(dir);
  return n;
}

static void remove_files(const char *folder) {
  DIR *dir = opendir(folder);
  if (dir == NULL) return;
  for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
    (void)unlinkat(dirfd(dir), e->d_name, 0);
  }
  (void)closedir(dir);
  (void)rmdir(folder);
}

static void cache(void **state) {
  (void)state;
  char folder[] = "/tmp/cuvil-cache-XXXXXX", temporary[] = "/tmp/cuvil-tmp-XXXXXX";
  const cv_target *target;
  cv_toolchain_result first, second;
  assert_non_null(mkdtemp(folder));
  assert_non_null(mkdtemp(temporary));
  assert_int_equal(cv_target_find("native", &target), CV_OK);
  const char *sources[2] = {source_of(target, body),
                            "int other(void);\nint other(void) { return 7; }\n"};
  cv_render_options options = {.cache_dir = folder};
  assert_int_equal(setenv("TMPDIR", temporary, 1), 0);
  assert_int_equal(cv_toolchain_compile(target, sources, 2, &options, &arena, &first), CV_OK);
  assert_int_equal(files_in(folder), 1);
  assert_int_equal(files_in(temporary), 0);
  assert_non_null(strstr(first.toolchain, "-O2"));
  /* From the cache, no compiler's output needed: the bytes are the same. */
  assert_int_equal(cv_toolchain_compile(target, sources, 2, &options, &arena, &second), CV_OK);
  assert_int_equal(first.bytes, second.bytes);
  assert_memory_equal(first.code, second.code, first.bytes);
  /* Damaged entries are made anew. */
  DIR *dir = opendir(folder);
  assert_non_null(dir);
  for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
    char path[512];
    if (e->d_name[0] == '.') continue;
    (void)snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    assert_int_equal(truncate(path, 100), 0);
  }
  (void)closedir(dir);
  assert_int_equal(cv_toolchain_compile(target, sources, 2, &options, &arena, &second), CV_OK);
  assert_int_equal(first.bytes, second.bytes);
  /* A cache that cannot be written costs nothing but time. */
  options.cache_dir = "/proc/nothing/here";
  assert_int_equal(cv_toolchain_compile(target, sources, 1, &options, &arena, &second), CV_OK);
  assert_int_equal(unsetenv("TMPDIR"), 0);
  remove_files(folder);
  remove_files(temporary);
}

static void bad_code_and_no_compiler(void **state) {
  (void)state;
  const cv_target *target;
  const char *source = "int f(void) {\n  return nonsense;\n}\n";
  const char *old = getenv("CC");
  cv_toolchain_result result;
  assert_int_equal(cv_target_find("native", &target), CV_OK);
  assert_int_equal(cv_toolchain_compile(target, &source, 1, NULL, &arena, &result), CV_FAILED);
  assert_non_null(strstr(cv_error_text(), "nonsense"));
  assert_null(strchr(cv_error_text(), '\n'));
  char *kept = old != NULL ? cv_strdup(old) : NULL;
  assert_int_equal(setenv("CC", "/no/such/compiler", 1), 0);
  assert_int_equal(cv_toolchain_compile(target, &source, 1, NULL, &arena, &result), CV_UNSUPPORTED);
  assert_non_null(strstr(cv_error_text(), "/no/such/compiler"));
  assert_int_equal(kept != NULL ? setenv("CC", kept, 1) : unsetenv("CC"), 0);
  cv_free(kept);
  assert_int_equal(setenv("TMPDIR", "/no/such/folder", 1), 0);
  assert_int_equal(cv_toolchain_compile(target, &source, 1, NULL, &arena, &result), CV_IO);
  assert_int_equal(unsetenv("TMPDIR"), 0);
}

static int free_arena(void **state) {
  (void)state;
  cv_arena_deinit(&arena);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(targets),
      cmocka_unit_test(features),
      cmocka_unit_test(abi_text_is_the_header),
      cmocka_unit_test(same_body_same_text),
      cmocka_unit_test(cache),
      cmocka_unit_test(bad_code_and_no_compiler),
  };
  return cmocka_run_group_tests(tests, NULL, free_arena);
}
