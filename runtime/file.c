#include "runtime/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

static cv_status read_all(int fd, const char *path, char *data, size_t bytes) {
  size_t have = 0;
  while (have < bytes) {
    ssize_t got = cv_fault() ? (errno = EIO, -1) : read(fd, data + have, bytes - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return cv_error(CV_IO, "%s: cannot read: %s", path, strerror(errno));
    if (got == 0) return cv_error(CV_IO, "%s: became shorter while it was read", path);
    have += (size_t)got;
  }
  return CV_OK;
}

cv_status cv_file_read(const char *path, void **out_data, size_t *out_bytes) {
  cv_status status = CV_OK;
  struct stat about;
  char *data = NULL;
  *out_data = NULL;
  *out_bytes = 0;
  int fd = cv_fault() ? (errno = EACCES, -1) : open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return cv_error(CV_IO, "%s: cannot open: %s", path, strerror(errno));
  if ((cv_fault() ? (errno = EIO, -1) : fstat(fd, &about)) < 0)
    CV_TRY(cv_error(CV_IO, "%s: cannot look at it: %s", path, strerror(errno)));
  if (!S_ISREG(about.st_mode)) CV_TRY(cv_error(CV_IO, "%s: this is no file", path));
  size_t bytes = (size_t)about.st_size;
  data = cv_alloc_aligned(64, bytes + 1);
  if (!data) CV_TRY(cv_error_nomem(bytes));
  CV_TRY(read_all(fd, path, data, bytes));
  *out_data = data;
  *out_bytes = bytes;
out:
  if (status != CV_OK) cv_free(data);
  close(fd);
  return status;
}

cv_status cv_file_write(const char *path, const void *data, size_t bytes) {
  cv_status status = CV_OK;
  const char *at = data;
  int fd = -1;
  char *temporary = cv_format("%s.%ld.tmp", path, (long)getpid());
  if (!temporary) return cv_error_nomem(strlen(path));
  fd = cv_fault() ? (errno = EACCES, -1)
                  : open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) CV_TRY(cv_error(CV_IO, "%s: cannot create: %s", path, strerror(errno)));
  while (bytes) {
    ssize_t done = cv_fault() ? (errno = ENOSPC, -1) : write(fd, at, bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) CV_TRY(cv_error(CV_IO, "%s: cannot write: %s", path, strerror(errno)));
    at += done;
    bytes -= (size_t)done;
  }
  if ((cv_fault() ? (errno = EACCES, -1) : rename(temporary, path)) < 0)
    CV_TRY(cv_error(CV_IO, "%s: cannot put it in place: %s", path, strerror(errno)));
out:
  if (fd >= 0) close(fd);
  if (fd >= 0 && status != CV_OK) unlink(temporary);
  cv_free(temporary);
  return status;
}
