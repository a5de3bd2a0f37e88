/* Requests from files, results to files. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "runtime/tensor_file.h"

static const char *input_name(const cv_program *program, uint32_t i) {
  return program->values[program->inputs[i].value].name;
}

/* The number of the input whose name is text[0..length), or n_inputs. */
static uint32_t find_input(const cv_program *program, const char *text, size_t length) {
  uint32_t i = 0;
  while (i < program->n_inputs && (strlen(input_name(program, i)) != length ||
                                   memcmp(input_name(program, i), text, length) != 0))
    i++;
  return i;
}

static cv_str input_names(const cv_program *program) {
  cv_str names = {0};
  for (uint32_t i = 0; i < program->n_inputs; i++)
    cv_str_add(&names, "%s%s", i ? ", " : "", input_name(program, i));
  return names;
}

typedef struct {
  const cv_program *program;
  cv_tensor *inputs;
  bool *given;
  uint32_t next; /* for files without a name */
} request;

/* Moves a tensor into input `i`. */
static cv_status give(request *r, uint32_t i, cv_tensor *tensor, const char *path) {
  if (r->given[i])
    return cv_error(CV_INVALID, "%s: input '%s' is given twice", path, input_name(r->program, i));
  r->inputs[i] = *tensor;
  r->given[i] = true;
  *tensor = (cv_tensor){0};
  return CV_OK;
}

static cv_status give_archive(request *r, cv_tensor_list *list, const char *path) {
  for (size_t k = 0; k < list->len; k++) {
    const char *name = list->data[k].name;
    uint32_t i = find_input(r->program, name, strlen(name));
    if (i == r->program->n_inputs) {
      cv_str names = input_names(r->program);
      cv_status status = cv_error(CV_INVALID, "%s: '%s' is no input of the model (there are %s)",
                                  path, name, cv_str_text(&names));
      cv_str_deinit(&names);
      return status;
    }
    cv_status status = give(r, i, &list->data[k].tensor, path);
    if (status != CV_OK) return status;
  }
  return CV_OK;
}

/* The path in `file` and the input it is for; n_inputs: the next one. */
static uint32_t split_name(const request *r, const char *file, const char **out_path) {
  const char *equals = strchr(file, '=');
  uint32_t none = r->program->n_inputs, i = none;
  while (equals && i == none) { /* names may hold '=' */
    i = find_input(r->program, file, (size_t)(equals - file));
    *out_path = equals + 1;
    equals = strchr(equals + 1, '=');
  }
  if (i == none) *out_path = file;
  return i;
}

static cv_status give_file(request *r, const char *file) {
  cv_tensor_list list = {0};
  const char *path;
  uint32_t i = split_name(r, file, &path);
  bool named = i < r->program->n_inputs;
  cv_status status = cv_tensor_file_read(path, &list);
  if (status != CV_OK) goto out;
  if (!named && (list.len != 1 || cv_ends_with(path, ".npz"))) {
    status = give_archive(r, &list, path);
    goto out;
  }
  if (list.len != 1)
    CV_TRY(cv_error(CV_INVALID, "%s: holds %zu arrays, wanted one for input '%s'", path, list.len,
                    input_name(r->program, i)));
  while (!named && r->next < r->program->n_inputs && r->given[r->next]) r->next++;
  if (!named) i = r->next;
  if (i >= r->program->n_inputs)
    CV_TRY(cv_error(CV_INVALID, "%s: the model has %" PRIu32 " inputs, more files are given", path,
                    r->program->n_inputs));
  status = give(r, i, &list.data[0].tensor, path);
out:
  cv_tensor_list_deinit(&list);
  return status;
}

static cv_status check_complete(const request *r) {
  for (uint32_t i = 0; i < r->program->n_inputs; i++)
    if (!r->given[i])
      return cv_error(CV_INVALID, "input '%s' (number %" PRIu32 " of %" PRIu32 ") is not given",
                      input_name(r->program, i), i, r->program->n_inputs);
  return CV_OK;
}

static cv_status begin(const cv_program *program, cv_tensor *inputs, request *out) {
  *out = (request){.program = program, .inputs = inputs};
  memset(inputs, 0, program->n_inputs * sizeof *inputs);
  out->given = cv_alloc(program->n_inputs + 1u, sizeof *out->given);
  return out->given ? CV_OK : cv_error_nomem(program->n_inputs);
}

static cv_status end(request *r, cv_status status) {
  if (status == CV_OK) status = check_complete(r);
  for (uint32_t i = 0; status != CV_OK && i < r->program->n_inputs; i++)
    cv_tensor_deinit(&r->inputs[i]);
  cv_free(r->given);
  return status;
}

cv_status cv_request_read(const cv_program *program, const char *const *files, size_t n_files,
                          cv_tensor *inputs) {
  request r;
  cv_status status = begin(program, inputs, &r);
  for (size_t i = 0; i < n_files && status == CV_OK; i++) status = give_file(&r, files[i]);
  return end(&r, status);
}

cv_status cv_request_read_dir_input(const char *dir, uint32_t k, cv_tensor_list *list,
                                    cv_tensor_format *out_format) {
  static const cv_tensor_format formats[] = {CV_FORMAT_PB, CV_FORMAT_NPY};
  for (int f = 0; f < 2; f++) {
    char *path = cv_format("%s/input_%" PRIu32 ".%s", dir, k, cv_tensor_format_name(formats[f]));
    if (!path) return cv_error_nomem(strlen(dir));
    bool found = access(path, F_OK) == 0;
    cv_status status = found ? cv_tensor_file_read(path, list) : CV_OK;
    cv_free(path);
    *out_format = formats[f];
    if (found) return status;
  }
  return CV_OK;
}

/* Input number `i` from the folder, if there is a file for it. */
static cv_status give_from_dir(request *r, const char *dir, uint32_t i, bool *out_found,
                               cv_tensor_format *out_format) {
  cv_tensor_list list = {0};
  char where[32];
  snprintf(where, sizeof where, "input_%" PRIu32, i);
  cv_status status = cv_request_read_dir_input(dir, i, &list, out_format);
  *out_found = list.len > 0;
  if (*out_found && status == CV_OK && i >= r->program->n_inputs)
    status =
        cv_error(CV_INVALID, "%s: the model has %" PRIu32 " inputs", where, r->program->n_inputs);
  if (*out_found && status == CV_OK) status = give(r, i, &list.data[0].tensor, where);
  cv_tensor_list_deinit(&list);
  return status;
}

cv_status cv_request_read_dir(const cv_program *program, const char *dir, cv_tensor *inputs,
                              cv_tensor_format *out_format) {
  request r;
  struct stat about;
  *out_format = CV_FORMAT_PB;
  memset(inputs, 0, program->n_inputs * sizeof *inputs);
  if (stat(dir, &about) < 0 || !S_ISDIR(about.st_mode))
    return cv_error(CV_IO, "%s: there is no such folder", dir);
  cv_status status = begin(program, inputs, &r);
  for (uint32_t i = 0; i <= program->n_inputs && status == CV_OK; i++) {
    cv_tensor_format format;
    bool found;
    status = give_from_dir(&r, dir, i, &found, &format);
    if (found && i == 0) *out_format = format;
  }
  status = end(&r, status);
  return cv_error_context(status, "%s", dir);
}

/* Makes the folder and those above it. */
static cv_status make_folders(const char *dir) {
  char *path = cv_strdup(dir);
  if (!path) return cv_error_nomem(strlen(dir));
  cv_status status = CV_OK;
  for (char *at = path; status == CV_OK; at++) {
    if (*at && (*at != '/' || at == path)) continue;
    char kept = *at;
    *at = 0;
    if ((cv_fault() ? (errno = EACCES, -1) : mkdir(path, 0777)) < 0 && errno != EEXIST)
      status = cv_error(CV_IO, "%s: cannot make the folder: %s", path, strerror(errno));
    *at = kept;
    if (!kept) break;
  }
  cv_free(path);
  return status;
}

cv_status cv_results_write_dir(const cv_program *program, const char *dir, cv_tensor_format format,
                               const cv_tensor *outputs) {
  cv_status status = make_folders(dir);
  for (uint32_t i = 0; i < program->n_outputs && status == CV_OK; i++) {
    if (outputs[i].absent) continue;
    char *path = cv_format("%s/output_%" PRIu32 ".%s", dir, i, cv_tensor_format_name(format));
    if (!path) return cv_error_nomem(strlen(dir));
    status = cv_tensor_file_write(path, format, program->values[program->outputs[i].value].name,
                                  &outputs[i]);
    cv_free(path);
  }
  return status;
}
