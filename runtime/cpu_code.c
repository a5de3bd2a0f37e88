/* Code of a target: from the artifact's bytes to a table of kernels. */
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "runtime/cpu_internal.h"

static void unload(cpu_code *code) {
  if (code->handle) dlclose(code->handle);
  if (code->fd >= 0) close(code->fd);
  cv_free(code);
}

#ifndef MFD_EXEC
#define MFD_EXEC 0x10u /* Linux 6.3 */
#endif

/* Memory that may hold code; older kernels do not know the flag, and need none. */
static int make_file(void) {
  int fd = memfd_create("cuvil-kernels", MFD_CLOEXEC | MFD_EXEC);
  return fd < 0 && errno == EINVAL ? memfd_create("cuvil-kernels", MFD_CLOEXEC) : fd;
}

static cv_status fill(int fd, const void *data, uint64_t bytes) {
  const char *at = data;
  while (bytes) {
    ssize_t done = cv_fault() ? (errno = ENOSPC, -1) : write(fd, at, (size_t)bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return cv_error(CV_FAILED, "cannot unpack the code: %s", strerror(errno));
    at += done;
    bytes -= (uint64_t)done;
  }
  return CV_OK;
}

static cv_status find_table(cpu_code *code) {
  const cv_target_code *target = code->target;
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", code->fd);
  code->handle = cv_fault() ? NULL : dlopen(path, RTLD_NOW | RTLD_LOCAL);
  const char *why = dlerror();
  if (!code->handle)
    return cv_error(CV_CORRUPT, "the code of target %s cannot be loaded: %s", target->name,
                    why ? why : "no reason given");
  code->table = dlsym(code->handle, "cv_kernels");
  if (!code->table)
    return cv_error(CV_CORRUPT, "the code of target %s has no table of kernels", target->name);
  if (code->table->abi != CV_KERNEL_ABI)
    return cv_error(CV_VERSION,
                    "the code of target %s has kernel ABI %" PRId32
                    ", this program runs ABI %d: build the target again",
                    target->name, code->table->abi, CV_KERNEL_ABI);
  return CV_OK;
}

static cv_status load(const cv_artifact *artifact, uint32_t t, cpu_code **out_code) {
  cpu_code *code = cv_alloc(1, sizeof *code);
  if (!code) return cv_error_nomem(sizeof *code);
  *code = (cpu_code){.target = &cv_artifact_program(artifact)->targets[t], .refs = 1, .fd = -1};
  cv_status status = cv_artifact_check_code(artifact, t);
  if (status == CV_OK) {
    code->fd = cv_fault() ? (errno = EMFILE, -1) : make_file();
    if (code->fd < 0)
      status = cv_error(CV_FAILED, "cannot make memory for code: %s", strerror(errno));
  }
  if (status == CV_OK) status = fill(code->fd, code->target->code, code->target->code_bytes);
  if (status == CV_OK) status = find_table(code);
  if (status == CV_OK)
    *out_code = code;
  else
    unload(code);
  return status;
}

cv_status cpu_code_acquire(cpu_device *device, const cv_artifact *artifact, uint32_t target,
                           cpu_code **out_code) {
  *out_code = NULL;
  const cv_target_code *wanted = &cv_artifact_program(artifact)->targets[target];
  cv_status status = CV_OK;
  pthread_mutex_lock(&device->lock);
  for (size_t i = 0; i < device->codes.len; i++)
    if (device->codes.data[i]->target == wanted) *out_code = device->codes.data[i];
  if (*out_code) {
    (*out_code)->refs++;
  } else if (!cv_vec_reserve(&device->codes, 1)) {
    status = cv_error_nomem(sizeof(cpu_code *));
  } else {
    status = load(artifact, target, out_code);
    if (status == CV_OK) device->codes.data[device->codes.len++] = *out_code;
  }
  pthread_mutex_unlock(&device->lock);
  return cv_error_context(status, "%s", cv_artifact_path(artifact));
}

void cpu_code_release(cpu_device *device, cpu_code *code) {
  if (!code) return;
  pthread_mutex_lock(&device->lock);
  bool last = --code->refs == 0;
  for (size_t i = 0; last && i < device->codes.len; i++) {
    if (device->codes.data[i] != code) continue;
    device->codes.data[i] = device->codes.data[--device->codes.len];
    break;
  }
  pthread_mutex_unlock(&device->lock);
  if (last) unload(code);
}
