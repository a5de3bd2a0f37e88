#include "cli/compile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "base/str.h"
#include "compiler/render.h"

/* ---- progress ---- */

static void show_progress(void *context, uint32_t done, uint32_t total) {
  enum { WIDTH = 30 };
  const char *what = context;
  char bar[WIDTH + 1] = {0};
  uint32_t filled = total ? done * WIDTH / total : WIDTH;
  memset(bar, '#', filled);
  memset(bar + filled, '.', WIDTH - filled);
  fprintf(stderr, "\r%s [%s] %u/%u%s", what, bar, done, total, done >= total ? "\r\033[K" : "");
}

/* ---- the cache's place ---- */

static bool make_folders(char *path) {
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    bool made = mkdir(path, 0777) == 0 || errno == EEXIST;
    *slash = '/';
    if (!made) return false;
  }
  return (mkdir(path, 0777) == 0 || errno == EEXIST) && access(path, W_OK) == 0;
}

char *cv_cache_folder(const char *subfolder) {
  const char *own = getenv("CUVIL_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  cv_str path = {.may_die = true};
  if (own && *own)
    cv_str_add(&path, "%s/%s", own, subfolder);
  else if (xdg && *xdg)
    cv_str_add(&path, "%s/cuvil/%s", xdg, subfolder);
  else if (home && *home)
    cv_str_add(&path, "%s/.cache/cuvil/%s", home, subfolder);
  if (path.len && make_folders(path.data)) return path.data;
  cv_str_deinit(&path);
  return NULL;
}

/* ---- compiling ---- */

static cv_status read_fixes(cv_arena *arena, const cv_compile_options *options,
                            cv_import_options *import) {
  cv_fix_dim *dims = cv_arena_array(arena, cv_fix_dim, options->dims.len);
  cv_fix_input *binds = cv_arena_array(arena, cv_fix_input, options->binds.len);
  *import = (cv_import_options){.batch = options->batch,
                                .dims = dims,
                                .n_dims = options->dims.len,
                                .binds = binds,
                                .n_binds = options->binds.len,
                                .states = options->states.data,
                                .n_states = options->states.len};
  for (uint32_t i = 0; i < options->dims.len; i++) {
    const char *value;
    if (!cv_split_assignment(arena, options->dims.data[i], &dims[i].name, &value) ||
        !cv_parse_i64(value, &dims[i].value))
      return cv_error(CV_INVALID, "--dim %s: give NAME=NUMBER", options->dims.data[i]);
  }
  for (uint32_t i = 0; i < options->binds.len; i++)
    if (!cv_split_assignment(arena, options->binds.data[i], &binds[i].name, &binds[i].value))
      return cv_error(CV_INVALID, "--bind %s: give INPUT=VALUE", options->binds.data[i]);
  return CV_OK;
}

static cv_status render_targets(cv_program *program, const cv_texts *targets,
                                const cv_compile_options *options) {
  static const char *const native[] = {"native"};
  const char *const *names = targets->len ? targets->data : native;
  uint32_t count = targets->len ? targets->len : 1;
  char *cache = options->no_cache ? NULL : cv_cache_folder("kernels");
  cv_status status = CV_OK;
  for (uint32_t i = 0; i < count && status == CV_OK; i++) {
    const cv_target *target;
    status = cv_target_find(names[i], &target);
    if (status != CV_OK) break;
    cv_render_options render = {.cache_dir = cache,
                                .jobs = options->jobs ? (int)options->jobs : 2,
                                .keep_dir = options->keep};
    char what[64];
    snprintf(what, sizeof what, "compiling for %s", target->name);
    if (isatty(STDERR_FILENO)) {
      render.progress = show_progress;
      render.context = what;
    }
    status = cv_render_target(program, target, &render);
  }
  cv_free(cache);
  return status;
}

/* The request's values, for those inputs that the graph's structure hangs on. */
typedef struct {
  const cv_request_options *request; /* NULL: none are known */
  bool asked;                        /* the structure hangs on the request, known or not */
  cv_tensor_list read;               /* what was asked for, each input once; the importer holds
                                        pointers no longer than a call */
  cv_vec(uint32_t) indices;          /* of the inputs that were read */
} known_inputs;

static cv_status value_of(void *context, uint32_t index, const char *input,
                          const cv_tensor **out_tensor) {
  known_inputs *known = context;
  size_t at = 0;
  *out_tensor = NULL;
  known->asked = true;
  if (!known->request) return CV_OK;
  while (at < known->indices.len && known->indices.data[at] != index) at++;
  if (at == known->indices.len) {
    cv_status status = cv_request_find_input(known->request, index, input, &known->read);
    if (status != CV_OK || known->read.len == at) return status;
    if (!cv_vec_push(&known->indices, index)) return cv_error_nomem(sizeof index);
  }
  *out_tensor = &known->read.data[at].tensor;
  return CV_OK;
}

static cv_status compile(const char *model_path, const cv_compile_options *options,
                         known_inputs *known, const char *artifact_path) {
  cv_arena arena = {.may_die = true};
  cv_import_options import;
  cv_pass_options passes = {.exact = options->exact,
                            .fast_math = options->fast_math,
                            .dump_after = options->dump_after,
                            .max_fusion = (int)options->max_fusion};
  cv_graph *graph = NULL;
  cv_program *program = NULL;
  cv_status status;
  CV_TRY(read_fixes(&arena, options, &import));
  import.value_of = value_of;
  import.context = known;
  CV_TRY(cv_onnx_import(model_path, &import, &graph));
  CV_TRY(cv_passes_run(graph, &passes));
  CV_TRY(cv_lower(graph, &passes, &program));
  CV_TRY(render_targets(program, &options->targets, options));
  status = cv_artifact_write(program, artifact_path);
out:
  cv_program_destroy(program);
  cv_graph_destroy(graph);
  cv_arena_deinit(&arena);
  return status;
}

cv_status cv_compile_model(const char *model_path, const cv_compile_options *options,
                           const char *artifact_path) {
  known_inputs none = {0};
  return compile(model_path, options, &none, artifact_path);
}

cv_status cv_compile_add_targets(const char *artifact_path, const cv_texts *targets,
                                 const cv_compile_options *options, const char *out_path) {
  cv_artifact *artifact = NULL;
  cv_status status = cv_artifact_open(artifact_path, &artifact);
  if (status != CV_OK) return status;
  /* the program is this process's own; only its bytes are mapped */
  cv_program *program = (cv_program *)(uintptr_t)cv_artifact_program(artifact);
  CV_TRY(render_targets(program, targets, options));
  status = cv_artifact_write(program, out_path);
out:
  cv_artifact_close(artifact);
  return status;
}

/* ---- cached compilation ---- */

static void hash_text(XXH3_state_t *state, const char *text) {
  XXH3_128bits_update(state, text, strlen(text) + 1);
}

static void hash_texts(XXH3_state_t *state, const cv_texts *texts) {
  for (uint32_t i = 0; i < texts->len; i++) hash_text(state, texts->data[i]);
  hash_text(state, "|");
}

/* This very build of the compiler: another one may compile otherwise. */
static void hash_build(XXH3_state_t *state) {
  struct stat info = {0};
  if (stat("/proc/self/exe", &info) != 0) return;
  int64_t facts[3] = {info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
  XXH3_128bits_update(state, facts, sizeof facts);
}

/* Sizes and times of the files beside the model: external data may be in any of them. */
static void hash_neighbours(XXH3_state_t *state, const char *model_path) {
  char folder[4096];
  snprintf(folder, sizeof folder, "%s", model_path);
  char *slash = strrchr(folder, '/');
  if (slash)
    *slash = 0;
  else
    snprintf(folder, sizeof folder, ".");
  DIR *dir = opendir(folder);
  uint64_t sum = 0; /* order does not matter */
  for (struct dirent *entry; dir && (entry = readdir(dir));) {
    struct stat info;
    if (fstatat(dirfd(dir), entry->d_name, &info, 0) != 0 || !S_ISREG(info.st_mode)) continue;
    int64_t facts[3] = {info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
    sum += XXH3_64bits_withSeed(facts, sizeof facts,
                                XXH3_64bits(entry->d_name, strlen(entry->d_name)));
  }
  if (dir) closedir(dir);
  XXH3_128bits_update(state, &sum, sizeof sum);
}

/* The name of the cached artifact: by the model's bytes, the options and our version. */
static cv_status cache_name(const char *path, const cv_compile_options *options, const char *folder,
                            char *out, size_t size) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  struct stat info;
  if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0) {
    cv_status status =
        cv_error(CV_IO, "%s: %s", path, fd < 0 ? strerror(errno) : "not a file with content");
    if (fd >= 0) close(fd);
    return status;
  }
  void *bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (bytes == MAP_FAILED) return cv_error(CV_IO, "%s: cannot map: %s", path, strerror(errno));
  XXH3_state_t *state = XXH3_createState();
  if (!state) {
    munmap(bytes, (size_t)info.st_size);
    return cv_error_nomem(sizeof(void *));
  }
  XXH3_128bits_reset(state);
  XXH3_128bits_update(state, bytes, (size_t)info.st_size);
  hash_text(state, CUVIL_VERSION);
  hash_build(state);
  int64_t numbers[] = {options->batch, options->max_fusion, options->exact, options->fast_math};
  XXH3_128bits_update(state, numbers, sizeof numbers);
  hash_texts(state, &options->dims);
  hash_texts(state, &options->binds);
  hash_texts(state, &options->states);
  hash_texts(state, &options->targets);
  if (memmem(bytes, (size_t)info.st_size, "location", 8)) hash_neighbours(state, path);
  munmap(bytes, (size_t)info.st_size);
  XXH128_hash_t hash = XXH3_128bits_digest(state);
  XXH3_freeState(state);
  snprintf(out, size, "%s/%016llx%016llx.cuv", folder, (unsigned long long)hash.high64,
           (unsigned long long)hash.low64);
  return CV_OK;
}

/* Compiles to a file that is gone once it is mapped, or is renamed to `keep_as` unless another
 * request would be compiled otherwise. `pattern`: of mkstemp, overwritten. */
static cv_status compile_and_open(const char *path, const cv_compile_options *options,
                                  known_inputs *known, char *pattern, const char *keep_as,
                                  cv_artifact **out_artifact) {
  int fd = mkstemp(pattern);
  if (fd < 0)
    return cv_error(CV_IO, "%s: cannot make a temporary file: %s", pattern, strerror(errno));
  close(fd);
  cv_status status = compile(path, options, known, pattern);
  if (status == CV_OK) status = cv_artifact_open(pattern, out_artifact);
  bool keep = status == CV_OK && keep_as && !known->asked;
  if (!keep || rename(pattern, keep_as) != 0) unlink(pattern);
  return status;
}

static cv_status open_compiled(const char *path, const cv_compile_options *options,
                               known_inputs *known, cv_artifact **out_artifact) {
  char *folder =
      options->no_cache || options->dump_after || options->keep ? NULL : cv_cache_folder("models");
  char name[4096] = "", pattern[4096 + 8];
  if (folder) {
    cv_status status = cache_name(path, options, folder, name, sizeof name);
    cv_free(folder);
    if (status != CV_OK) return status;
    if (access(name, R_OK) == 0 && cv_artifact_open(name, out_artifact) == CV_OK) return CV_OK;
    snprintf(pattern, sizeof pattern, "%s-XXXXXX", name);
  } else {
    const char *tmp = getenv("TMPDIR");
    snprintf(pattern, sizeof pattern, "%s/cuvil-XXXXXX", tmp && *tmp ? tmp : "/tmp");
  }
  return compile_and_open(path, options, known, pattern, name[0] ? name : NULL, out_artifact);
}

cv_status cv_compile_open(const char *path, const cv_compile_options *options,
                          const cv_request_options *request, cv_artifact **out_artifact) {
  *out_artifact = NULL;
  if (!cv_ends_with(path, ".onnx")) return cv_artifact_open(path, out_artifact);
  known_inputs known = {.request = request};
  cv_status status = open_compiled(path, options, &known, out_artifact);
  cv_tensor_list_deinit(&known.read);
  cv_vec_deinit(&known.indices);
  return status;
}
