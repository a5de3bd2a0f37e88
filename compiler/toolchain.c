#include "compiler/toolchain.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/log.h"
#include "base/str.h"
#include "runtime/cpu_features.h"

extern char **environ;

/* Never -ffast-math or -fassociative-math, and no contraction: where a multiply-add is meant, the
 * prelude's is used, so that every copy of a computation rounds alike. */
static const char common_flags[] =
    "-std=gnu11 -O2 -fPIC -pipe -w -fwrapv -ffp-contract=off -fno-math-errno -fno-trapping-math "
    "-fno-stack-protector -fno-asynchronous-unwind-tables -fno-ident -fvisibility=hidden";
static const char link_flags[] = "-shared -nostdlib -Wl,--build-id=none -Wl,-z,noexecstack";

enum { MAX_WORDS = 64 };
typedef struct {
  char *words[MAX_WORDS]; /* NULL-terminated, in the arena */
  int n;
} command;

static void add_words(cv_arena *arena, command *c, const char *text) {
  while (*text != '\0') {
    size_t n = strcspn(text, " ");
    if (n > 0 && c->n + 1 < MAX_WORDS) c->words[c->n++] = cv_arena_strndup(arena, text, n);
    text += n + (text[n] == ' ');
  }
}

static void add_word(cv_arena *arena, command *c, const char *text) {
  if (c->n + 1 < MAX_WORDS) c->words[c->n++] = cv_arena_strdup(arena, text);
}

/* Starts a command with stdout and stderr into a file; the process id, or -1. */
static pid_t start(const command *c, const char *output) {
  posix_spawn_file_actions_t actions;
  pid_t pid = -1;
  if (posix_spawn_file_actions_init(&actions) != 0) return -1;
  bool ok = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0) == 0 &&
            posix_spawn_file_actions_addopen(&actions, 1, output, O_WRONLY | O_CREAT | O_TRUNC,
                                             0600) == 0 &&
            posix_spawn_file_actions_adddup2(&actions, 1, 2) == 0;
  if (!ok || posix_spawnp(&pid, c->words[0], &actions, NULL, c->words, environ) != 0) pid = -1;
  posix_spawn_file_actions_destroy(&actions);
  return pid;
}

/* True if it ended with status 0. */
static bool finish(pid_t pid) {
  int state = 0;
  if (pid < 0) return false;
  while (waitpid(pid, &state, 0) < 0) {
    if (errno != EINTR) return false;
  }
  return WIFEXITED(state) && WEXITSTATUS(state) == 0;
}

/* ---- files ---- */

static cv_status read_file(cv_arena *arena, const char *path, char **out_data, size_t *out_bytes) {
  cv_status status = CV_OK;
  struct stat info;
  FILE *file = fopen(path, "rb");
  *out_data = NULL;
  *out_bytes = 0;
  if (file == NULL) return cv_error(CV_IO, "%s cannot be read: %s", path, strerror(errno));
  if (fstat(fileno(file), &info) != 0 || info.st_size < 0) {
    status = cv_error(CV_IO, "%s cannot be read: %s", path, strerror(errno));
    goto out;
  }
  *out_bytes = (size_t)info.st_size;
  *out_data = cv_arena_array(arena, char, *out_bytes + 1);
  if (fread(*out_data, 1, *out_bytes, file) != *out_bytes) {
    status = cv_error(CV_IO, "%s cannot be read: it changed or is damaged", path);
  }
out:
  (void)fclose(file);
  return status;
}

static cv_status write_file(const char *path, const void *data, size_t bytes) {
  FILE *file = fopen(path, "wb");
  if (file == NULL) return cv_error(CV_IO, "%s cannot be written: %s", path, strerror(errno));
  bool ok = fwrite(data, 1, bytes, file) == bytes;
  if (fclose(file) != 0) ok = false;
  if (!ok) return cv_error(CV_IO, "%s cannot be written: %s", path, strerror(errno));
  return CV_OK;
}

/* Removes a folder of plain files. */
static void remove_folder(const char *path) {
  DIR *folder = opendir(path);
  if (folder == NULL) return;
  for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
    (void)unlinkat(dirfd(folder), entry->d_name, 0);
  }
  (void)closedir(folder);
  (void)rmdir(path);
}

static void make_folders(cv_arena *arena, const char *path) {
  char *copy = cv_arena_strdup(arena, path);
  for (char *at = copy + 1; *at != '\0'; at++) {
    if (*at != '/') continue;
    *at = '\0';
    (void)mkdir(copy, 0777);
    *at = '/';
  }
  (void)mkdir(copy, 0777);
}

/* ---- the compiler ---- */

typedef struct {
  const cv_target *target;
  cv_arena *arena;
  const char *folder; /* for temporary files */
  const char *compiler, *version, *flags;
  cv_render_options options;
} toolchain;

static bool try_compiler(toolchain *t, const char *compiler) {
  command c = {0};
  char *text;
  size_t bytes;
  const char *output = cv_arena_format(t->arena, "%s/version", t->folder);
  add_words(t->arena, &c, compiler);
  add_word(t->arena, &c, "--version");
  if (c.n < 2 || !finish(start(&c, output))) return false;
  if (read_file(t->arena, output, &text, &bytes) != CV_OK) return false;
  t->compiler = compiler;
  t->version = cv_arena_strndup(t->arena, text, strcspn(text, "\n"));
  return true;
}

static cv_status find_compiler(toolchain *t) {
  const char *chosen = getenv("CC"), *arch = t->target->arch;
  bool x86 = strcmp(arch, "x86-64") == 0;
  if (strcmp(arch, cv_cpu_arch()) != 0) {
    const char *cross = cv_arena_format(t->arena, "%s-linux-gnu-gcc", x86 ? "x86_64" : arch);
    if (try_compiler(t, cross)) return CV_OK;
    return cv_error(CV_UNSUPPORTED, "there is no compiler for target %s: install %s",
                    t->target->name, cross);
  }
  if (chosen != NULL && chosen[0] != '\0') {
    if (try_compiler(t, chosen)) return CV_OK;
    return cv_error(CV_UNSUPPORTED, "the C compiler '%s' named by CC cannot be run", chosen);
  }
  if (try_compiler(t, "gcc") || try_compiler(t, "clang")) return CV_OK;
  return cv_error(CV_UNSUPPORTED, "there is no C compiler: install gcc, or name one by CC");
}

static void choose_flags(toolchain *t) {
  bool clang = strstr(t->version, "clang") != NULL, x86 = strcmp(t->target->arch, "x86-64") == 0;
  t->flags = cv_arena_format(t->arena, "%s %s%s%s", common_flags, t->target->march,
                             x86 ? " -fcf-protection=none" : "",
                             clang ? "" : " -fno-schedule-insns -fvect-cost-model=dynamic");
}

/* The first line that names an error, else the first line. */
static const char *first_error(toolchain *t, const char *output) {
  char *text, *line;
  size_t bytes;
  if (read_file(t->arena, output, &text, &bytes) != CV_OK || bytes == 0) return "it said nothing";
  line = strstr(text, "error:");
  while (line != NULL && line > text && line[-1] != '\n') line--;
  if (line == NULL) line = text;
  return cv_arena_strndup(t->arena, line, strcspn(line, "\n"));
}

static const char *unit_path(const toolchain *t, uint32_t i, const char *end) {
  return cv_arena_format(t->arena, "%s/unit%u%s", t->folder, i, end);
}

/* Compiles source i into an object; with one source, into the shared object at once. */
static pid_t start_unit(toolchain *t, uint32_t i, bool whole) {
  command c = {0};
  add_words(t->arena, &c, t->compiler);
  add_words(t->arena, &c, t->flags);
  if (whole)
    add_words(t->arena, &c, link_flags);
  else
    add_word(t->arena, &c, "-c");
  add_word(t->arena, &c, unit_path(t, i, ".c"));
  add_word(t->arena, &c, "-o");
  add_word(t->arena, &c,
           whole ? cv_arena_format(t->arena, "%s/code.so", t->folder) : unit_path(t, i, ".o"));
  return start(&c, unit_path(t, i, ".txt"));
}

static cv_status failed(toolchain *t, const char *what, const char *output) {
  return cv_error(CV_FAILED, "%s does not %s the generated code for target %s: %s", t->compiler,
                  what, t->target->name, first_error(t, output));
}

static cv_status compile_units(toolchain *t, uint32_t n) {
  cv_status status = CV_OK;
  uint32_t jobs = t->options.jobs > 0 ? (uint32_t)t->options.jobs : 2;
  pid_t *pids = cv_arena_array(t->arena, pid_t, n);
  for (uint32_t next = 0, done = 0; done < n; done++) {
    for (; next < n && next < done + jobs; next++) pids[next] = start_unit(t, next, n == 1);
    if (!finish(pids[done]) && status == CV_OK) {
      status = failed(t, "compile", unit_path(t, done, ".txt"));
    }
  }
  return status;
}

static cv_status link_units(toolchain *t, uint32_t n) {
  command c = {0};
  const char *output = cv_arena_format(t->arena, "%s/link.txt", t->folder);
  add_words(t->arena, &c, t->compiler);
  add_words(t->arena, &c, link_flags);
  for (uint32_t i = 0; i < n; i++) add_word(t->arena, &c, unit_path(t, i, ".o"));
  add_word(t->arena, &c, "-o");
  add_word(t->arena, &c, cv_arena_format(t->arena, "%s/code.so", t->folder));
  if (!finish(start(&c, output))) return failed(t, "link", output);
  return CV_OK;
}

/* ---- cache: the shared object and behind it the hash of its bytes ---- */

static const char *cache_path(toolchain *t, const char *const *sources, uint32_t n) {
  XXH128_hash_t hash = XXH3_128bits(t->flags, strlen(t->flags));
  cv_str key = {.may_die = true};
  cv_str_add(&key, "%016" PRIx64 "%016" PRIx64 " %s %s %s", hash.high64, hash.low64, t->compiler,
             t->version, link_flags);
  for (uint32_t i = 0; i < n; i++) {
    hash = XXH3_128bits(sources[i], strlen(sources[i]));
    cv_str_add(&key, " %016" PRIx64 "%016" PRIx64, hash.high64, hash.low64);
  }
  hash = XXH3_128bits(key.data, key.len);
  cv_str_deinit(&key);
  return cv_arena_format(t->arena, "%s/%016" PRIx64 "%016" PRIx64 ".so", t->options.cache_dir,
                         hash.high64, hash.low64);
}

static bool read_cache(toolchain *t, const char *path, cv_toolchain_result *out_result) {
  char *data;
  size_t bytes;
  uint64_t stored;
  if (access(path, R_OK) != 0 || read_file(t->arena, path, &data, &bytes) != CV_OK) return false;
  if (bytes <= sizeof stored) return false;
  bytes -= sizeof stored;
  memcpy(&stored, data + bytes, sizeof stored);
  if (stored != XXH3_64bits(data, bytes)) return false;
  out_result->code = data;
  out_result->bytes = bytes;
  return true;
}

/* A cache that cannot be written costs time, not the result. */
static void write_cache(toolchain *t, const char *path, const cv_toolchain_result *result) {
  uint64_t hash = XXH3_64bits(result->code, result->bytes);
  char *data = cv_arena_array(t->arena, char, result->bytes + sizeof hash);
  const char *temporary = cv_arena_format(t->arena, "%s.%ld", path, (long)getpid());
  memcpy(data, result->code, result->bytes);
  memcpy(data + result->bytes, &hash, sizeof hash);
  make_folders(t->arena, t->options.cache_dir);
  if (write_file(temporary, data, result->bytes + sizeof hash) != CV_OK ||
      rename(temporary, path) != 0) {
    cv_log_warn("the kernel cache cannot be written: %s", cv_error_text());
    (void)unlink(temporary);
  }
}

/* ---- all ---- */

static cv_status write_sources(toolchain *t, const char *const *sources, uint32_t n) {
  cv_status status = CV_OK;
  for (uint32_t i = 0; i < n && status == CV_OK; i++) {
    status = write_file(unit_path(t, i, ".c"), sources[i], strlen(sources[i]));
  }
  if (t->options.keep_dir == NULL) return status;
  make_folders(t->arena, t->options.keep_dir);
  for (uint32_t i = 0; i < n && status == CV_OK; i++) {
    const char *path =
        cv_arena_format(t->arena, "%s/%s-%u.c", t->options.keep_dir, t->target->name, i);
    status = write_file(path, sources[i], strlen(sources[i]));
  }
  return status;
}

cv_status cv_toolchain_compile(const cv_target *target, const char *const *sources, uint32_t n,
                               const cv_render_options *options, cv_arena *arena,
                               cv_toolchain_result *out_result) {
  toolchain t = {.target = target, .arena = arena};
  cv_status status = CV_OK;
  const char *root = getenv("TMPDIR"), *cached = NULL;
  char *data, *folder;
  *out_result = (cv_toolchain_result){0};
  if (options != NULL) t.options = *options;
  folder = cv_arena_format(arena, "%s/cuvil-XXXXXX", root != NULL && root[0] ? root : "/tmp");
  if (mkdtemp(folder) == NULL) {
    return cv_error(CV_IO, "a temporary folder %s cannot be made: %s; set TMPDIR", folder,
                    strerror(errno));
  }
  t.folder = folder;
  CV_TRY(find_compiler(&t));
  choose_flags(&t);
  out_result->toolchain = cv_arena_format(arena, "%s, %s", t.version, t.flags);
  if (t.options.cache_dir != NULL) cached = cache_path(&t, sources, n);
  if (cached != NULL && t.options.keep_dir == NULL && read_cache(&t, cached, out_result)) goto out;
  CV_TRY(write_sources(&t, sources, n));
  CV_TRY(compile_units(&t, n));
  if (n > 1) CV_TRY(link_units(&t, n));
  CV_TRY(read_file(arena, cv_arena_format(arena, "%s/code.so", folder), &data, &out_result->bytes));
  out_result->code = data;
  if (cached != NULL) write_cache(&t, cached, out_result);
out:
  remove_folder(folder);
  return status;
}
