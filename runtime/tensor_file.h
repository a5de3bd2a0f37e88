/* Tensors in files, and requests made of files: the forms of docs/commands.md. */
#ifndef CV_RUNTIME_TENSOR_FILE_H
#define CV_RUNTIME_TENSOR_FILE_H

#include <stddef.h>

#include "runtime/npy.h"
#include "runtime/program.h"

typedef enum { CV_FORMAT_NPY, CV_FORMAT_PB, CV_FORMAT_JSON } cv_tensor_format;

/* "npy", "pb", "json"; false when there is no such form. */
bool cv_tensor_format_find(const char *name, cv_tensor_format *out_format);
const char *cv_tensor_format_name(cv_tensor_format format); /* as a file's ending, without dot */

/* Appends the tensors of a file to the list: .npy and .npz are known by their first bytes, anything
 * else is a TensorProto. CV_IO, CV_INVALID, CV_UNSUPPORTED, CV_NOMEM, with the path. */
CV_NODISCARD cv_status cv_tensor_file_read(const char *path, cv_tensor_list *list);
/* Writes one tensor. `name` may be NULL. JSON: {"name", "dtype", "dims", "data": flat list}, where
 * NaN and infinities are the texts "nan", "inf", "-inf", and so are integers from 2^63. */
CV_NODISCARD cv_status cv_tensor_file_write(const char *path, cv_tensor_format format,
                                            const char *name, const cv_tensor *tensor);

/* One request: `files` are FILE in graph-input order or NAME=FILE; a .npz gives its arrays to the
 * inputs of their names. Fills `inputs` (program inputs' order, owned by the caller; all zeroed on
 * failure). CV_INVALID names the input that is missing, or the file that fits none. */
CV_NODISCARD cv_status cv_request_read(const cv_program *program, const char *const *files,
                                       size_t n_files, cv_tensor *inputs);
/* The same from DIR/input_K.pb or DIR/input_K.npy; other files are ignored. `out_format`: the form
 * of the first input (of a program without inputs pb, the form that is looked for first). */
CV_NODISCARD cv_status cv_request_read_dir(const cv_program *program, const char *dir,
                                           cv_tensor *inputs, cv_tensor_format *out_format);
/* Appends what DIR/input_K.pb or, where there is none, DIR/input_K.npy holds to the list, if there
 * is such a file. Fails as cv_tensor_file_read. */
CV_NODISCARD cv_status cv_request_read_dir_input(const char *dir, uint32_t k, cv_tensor_list *list,
                                                 cv_tensor_format *out_format);
/* Writes results (program outputs' order; absent ones are left out) to DIR/output_K.FORM; makes the
 * folder and those above it. CV_IO. */
CV_NODISCARD cv_status cv_results_write_dir(const cv_program *program, const char *dir,
                                            cv_tensor_format format, const cv_tensor *outputs);

#endif
