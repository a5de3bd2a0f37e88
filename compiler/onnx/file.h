/* A model's file: mapped, parsed, and what is mapped besides it. It lives as long as the graph that
 * borrows its weights. */
#ifndef CV_COMPILER_ONNX_FILE_H
#define CV_COMPILER_ONNX_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/vec.h"
#include "compiler/onnx/messages.h"

typedef struct {
  char *name; /* as the model says it */
  void *data;
  size_t size;
} cv_onnx_external;

typedef struct {
  char *path;   /* for messages */
  char *folder; /* external data lies below it; NULL: a model in memory has none */
  const uint8_t *data;
  size_t size;
  void *map; /* what is to be unmapped; NULL for a model in memory */
  Onnx__ModelProto *model;
  cv_vec(cv_onnx_external) externals;
} cv_onnx_file;

/* Maps and parses a model. CV_IO, CV_INVALID name the file. */
CV_NODISCARD cv_status cv_onnx_file_open(const char *path, cv_onnx_file **out_file);
/* The same for bytes in memory, which must outlive the file; `name` is for messages. */
CV_NODISCARD cv_status cv_onnx_file_from_memory(const char *name, const void *data, size_t size,
                                                cv_onnx_file **out_file);
void cv_onnx_file_close(cv_onnx_file *file); /* accepts NULL */

/* The bytes [offset, offset + length) of a file below the model's folder, mapped for the life of
 * `file`. CV_INVALID for a path that is absolute, has "..", leads out over a link, or a place
 * outside of the file; CV_IO if it cannot be opened. length SIZE_MAX: to the end. */
CV_NODISCARD cv_status cv_onnx_file_external(cv_onnx_file *file, const char *name, uint64_t offset,
                                             uint64_t length, const uint8_t **out_data,
                                             size_t *out_size);
/* Tells the system that these bytes of the model's mapping were copied and need no memory now. */
void cv_onnx_file_release(const cv_onnx_file *file, const void *data, size_t size);

#endif
