#include "compiler/onnx/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/onnx/prune.h"
#include "onnx.pb-c.h"

/* Maps a regular file read-only. An empty one gives size 0 and no mapping. */
static cv_status map_file(const char *path, int flags, void **out_data, size_t *out_size) {
  cv_status status = CV_OK;
  struct stat info;
  *out_data = NULL;
  *out_size = 0;
  int fd = open(path, O_RDONLY | O_CLOEXEC | flags);
  if (fd < 0) return cv_error(CV_IO, "%s: cannot be opened: %s", path, strerror(errno));
  if (fstat(fd, &info) < 0 || !S_ISREG(info.st_mode)) {
    status = cv_error(CV_IO, "%s: is no regular file", path);
    goto out;
  }
  if (info.st_size == 0) goto out;
  void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) {
    status = cv_error(CV_IO, "%s: cannot be mapped: %s", path, strerror(errno));
    goto out;
  }
  *out_data = data;
  *out_size = (size_t)info.st_size;
out:
  close(fd);
  return status;
}

static cv_status parse(cv_onnx_file *file) {
  cv_str pruned = {.may_die = true};
  cv_status status = CV_OK;
  CV_TRY(cv_onnx_prune(file->data, file->size, &pruned));
  file->model = onnx__model_proto__unpack(NULL, pruned.len, (const uint8_t *)cv_str_text(&pruned));
  if (!file->model || !file->model->graph) {
    status = cv_error(CV_INVALID, "this is no ONNX model (%s)",
                      file->model ? "it has no graph" : "a field has the wrong wire type");
  }
out:
  cv_str_deinit(&pruned);
  return cv_error_context(status, "%s", file->path);
}

static char *folder_of(const char *path) {
  const char *slash = strrchr(path, '/');
  char *folder = !slash          ? cv_strdup(".")
                 : slash == path ? cv_strdup("/")
                                 : cv_strndup(path, (size_t)(slash - path));
  return folder;
}

cv_status cv_onnx_file_open(const char *path, cv_onnx_file **out_file) {
  cv_status status;
  *out_file = NULL;
  cv_onnx_file *file = cv_alloc_or_die(1, sizeof *file);
  file->path = cv_strdup(path);
  file->folder = folder_of(path);
  if (!file->path || !file->folder) {
    status = cv_error_nomem(strlen(path));
    goto out;
  }
  CV_TRY(map_file(path, 0, &file->map, &file->size));
  file->data = file->map;
  CV_TRY(parse(file));
  *out_file = file;
  return CV_OK;
out:
  cv_onnx_file_close(file);
  return status;
}

cv_status cv_onnx_file_from_memory(const char *name, const void *data, size_t size,
                                   cv_onnx_file **out_file) {
  cv_status status;
  *out_file = NULL;
  cv_onnx_file *file = cv_alloc_or_die(1, sizeof *file);
  file->path = cv_strdup(name);
  if (!file->path) {
    status = cv_error_nomem(strlen(name));
    goto out;
  }
  file->data = data;
  file->size = size;
  CV_TRY(parse(file));
  *out_file = file;
  return CV_OK;
out:
  cv_onnx_file_close(file);
  return status;
}

void cv_onnx_file_close(cv_onnx_file *file) {
  if (!file) return;
  if (file->model) onnx__model_proto__free_unpacked(file->model, NULL);
  for (size_t i = 0; i < file->externals.len; i++) {
    cv_onnx_external *external = &file->externals.data[i];
    if (external->data) munmap(external->data, external->size);
    cv_free(external->name);
  }
  cv_vec_deinit(&file->externals);
  if (file->map) munmap(file->map, file->size);
  cv_free(file->path);
  cv_free(file->folder);
  cv_free(file);
}

/* True if one of the path's components is "..". */
static bool climbs(const char *name) {
  for (const char *part = name; part; part = strchr(part, '/')) {
    if (*part == '/') part++;
    size_t length = strcspn(part, "/");
    if (length == 2 && part[0] == '.' && part[1] == '.') return true;
  }
  return false;
}

/* Opens a file of the model's folder into the list: the resolved path must lie below the resolved
 * folder, so that no link leads out. */
static cv_status open_external(cv_onnx_file *file, const char *name, cv_onnx_external *out) {
  char folder[PATH_MAX], path[PATH_MAX];
  cv_status status = CV_OK;
  *out = (cv_onnx_external){0};
  char *joined = cv_format("%s/%s", file->folder, name);
  if (!joined) return cv_error_nomem(strlen(name));
  if (!realpath(file->folder, folder) || !realpath(joined, path)) {
    status = cv_error(CV_IO, "%s: external data \"%s\" cannot be opened: %s", file->path, name,
                      strerror(errno));
    goto out;
  }
  size_t length = strcmp(folder, "/") == 0 ? 0 : strlen(folder);
  if (strncmp(path, folder, length) != 0 || path[length] != '/') {
    status = cv_error(CV_INVALID, "%s: external data \"%s\" leads out of the model's folder",
                      file->path, name);
    goto out;
  }
  CV_TRY(map_file(path, O_NOFOLLOW, &out->data, &out->size));
  out->name = cv_strdup(name);
  if (!out->name || !cv_vec_push(&file->externals, *out)) {
    status = cv_error_nomem(strlen(name));
    if (out->data) munmap(out->data, out->size);
    cv_free(out->name);
  }
out:
  cv_free(joined);
  return status;
}

cv_status cv_onnx_file_external(cv_onnx_file *file, const char *name, uint64_t offset,
                                uint64_t length, const uint8_t **out_data, size_t *out_size) {
  cv_onnx_external external = {0};
  *out_data = NULL;
  *out_size = 0;
  if (!file->folder) {
    return cv_error(CV_INVALID, "%s: a model in memory cannot have external data", file->path);
  }
  if (name[0] == '/' || name[0] == '\0' || climbs(name)) {
    return cv_error(
        CV_INVALID,
        "%s: external data \"%s\" must be a path below the model's folder, without \"..\"",
        file->path, name);
  }
  for (size_t i = 0; i < file->externals.len && !external.name; i++) {
    if (strcmp(file->externals.data[i].name, name) == 0) external = file->externals.data[i];
  }
  if (!external.name) {
    cv_status status = open_external(file, name, &external);
    if (status != CV_OK) return status;
  }
  if (offset > external.size || (length != SIZE_MAX && length > external.size - offset)) {
    return cv_error(
        CV_INVALID,
        "%s: external data \"%s\" has %zu bytes, but the model wants %llu from byte %llu: "
        "the file is truncated or of another model",
        file->path, name, external.size, (unsigned long long)length, (unsigned long long)offset);
  }
  *out_data = (const uint8_t *)external.data + offset;
  *out_size = length == SIZE_MAX ? external.size - (size_t)offset : (size_t)length;
  return CV_OK;
}

void cv_onnx_file_release(const cv_onnx_file *file, const void *data, size_t size) {
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t from = ((uintptr_t)data + page - 1) / page * page;
  uintptr_t to = ((uintptr_t)data + size) / page * page;
  const uint8_t *at = data;
  if (!file->map || at < file->data || at >= file->data + file->size || to <= from) return;
  (void)madvise((void *)from, to - from, MADV_DONTNEED); /* a hint: failure costs memory only */
}
